"""Graphs, heads of detection and segmentation, windows, experts, sampling, volumes, spectra, small linear algebra: (module, arguments) by name."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from kinds_nets import Fn, I, R, mlp, net


# graphs
@net
def gcn(n=2708, e=10556):
    def f(m, x, ei):
        s, d = ei[0], ei[1]
        deg = torch.ones(n).index_add(0, d, torch.ones(e))
        w = (deg[s] * deg[d]).rsqrt()
        for k, l in enumerate(m.l):
            y = l(x)
            x = torch.zeros_like(y).index_add(0, d, y[s] * w[:, None]) + y / deg[:, None]
            x = F.relu(x) if k == 0 else x
        return x.log_softmax(-1)
    return Fn(f, l=nn.ModuleList([nn.Linear(256, 64), nn.Linear(64, 7)])), (R(n, 256), I(n, 2, e))


@net
def gat(n=1000, e=8000, h=4, d=16):
    def f(m, x, ei):
        s, t = ei[0], ei[1]
        y = m.w(x).view(n, h, d)
        a = F.leaky_relu((y * m.a).sum(-1)[s] + (y * m.b).sum(-1)[t], 0.2)
        idx = t[:, None].expand(-1, h)
        mx = torch.full((n, h), float("-inf")).scatter_reduce(0, idx, a, "amax")
        ex = torch.exp(a - mx[t])
        den = torch.zeros(n, h).scatter_add(0, idx, ex)
        return F.elu(torch.zeros(n, h, d).index_add(0, t, y[s] * (ex / den[t])[..., None])).flatten(1)
    return Fn(f, w=nn.Linear(64, h * d), a=nn.Parameter(R(h, d)), b=nn.Parameter(R(h, d))), (R(n, 64), I(n, 2, e))


@net
def sage_mean(n=5000, e=40000, d=64):
    def f(m, x, ei):
        s, t = ei[0], ei[1]
        sm = torch.zeros(n, d).scatter_add(0, t[:, None].expand(-1, d), x[s])
        cnt = torch.zeros(n).scatter_add(0, t, torch.ones(e)).clamp(min=1)
        return F.relu(m.a(x) + m.b(sm / cnt[:, None]))
    return Fn(f, a=nn.Linear(d, d), b=nn.Linear(d, d)), (R(n, d), I(n, 2, e))


@net
def mpnn_edges(n=500, e=6000, d=64):
    def f(m, x, ea, ei):
        s, t = ei[0], ei[1]
        msg = m.e(torch.cat([x[s], x[t], ea], -1))
        agg = torch.zeros(n, d).index_add(0, t, msg)
        mx = torch.zeros(n, d).scatter_reduce(0, t[:, None].expand(-1, d), msg, "amax", include_self=False)
        return m.g(torch.cat([agg, mx], -1), x)
    return Fn(f, e=mlp(2 * d + 16, 128, d, act=nn.SiLU), g=nn.GRUCell(2 * d, d)), (R(n, d), R(e, 16), I(n, 2, e))


@net
def schnet_pairs(n=64, d=64):
    def f(m, pos, z):
        diff = pos[:, None] - pos[None]
        r = (diff * diff).sum(-1).add(1e-6).sqrt()
        g = torch.exp(-10 * (r[..., None] - m.c) ** 2)
        w = m.w(g) * (0.5 * (torch.cos(r * 0.6) + 1))[..., None]
        x = m.emb(z)
        return m.o((x[None] * w).sum(1)).sum()
    return Fn(f, c=torch.linspace(0, 5, 50), w=mlp(50, d, d, act=nn.Softplus), emb=nn.Embedding(100, d), o=mlp(d, 32, 1, act=nn.Softplus)), (R(n, 3), I(100, n))


@net
def point_net(b=4, n=1024):
    def f(m, p):
        d = torch.cdist(p, p)
        idx = d.topk(16, largest=False).indices
        nb = torch.gather(p[:, None].expand(-1, n, -1, -1), 2, idx[..., None].expand(-1, -1, -1, 3))
        y = m.a(torch.cat([nb - p[:, :, None], p[:, :, None].expand(-1, -1, 16, -1)], -1)).amax(2)
        return m.o(m.b(y).amax(1))
    return Fn(f, a=mlp(6, 32, 64, last=True), b=mlp(64, 256), o=nn.Linear(256, 40)), (R(b, n, 3),)


# detection, segmentation
@net
def detection_head(n=8400, c=80):
    def f(m, raw):
        box, cls = raw.split([4, c], -1)
        score, label = cls.sigmoid().max(-1)
        xy = torch.stack(torch.meshgrid(torch.arange(120.), torch.arange(70.), indexing="ij"), -1).view(1, -1, 2)
        b = torch.cat([xy - box[..., :2].exp(), xy + box[..., 2:].exp()], -1) * 8
        s, i = score.topk(300)
        return torch.gather(b, 1, i[..., None].expand(-1, -1, 4)), s, label.gather(1, i)
    return Fn(f), (R(1, n, 4 + c),)


@net
def nms_like(n=300):
    def f(m, b, s):
        o = s.argsort(descending=True)
        b = b[o]
        area = (b[:, 2] - b[:, 0]).clamp(min=0) * (b[:, 3] - b[:, 1]).clamp(min=0)
        lt, rb = torch.maximum(b[:, None, :2], b[None, :, :2]), torch.minimum(b[:, None, 2:], b[None, :, 2:])
        wh = (rb - lt).clamp(min=0)
        inter = wh[..., 0] * wh[..., 1]
        iou = inter / (area[:, None] + area[None] - inter + 1e-6)
        keep = (torch.triu(iou, 1).amax(0) < 0.5)
        return b * keep[:, None], s[o] * keep
    return Fn(f), (torch.rand(n, 4) * 100, torch.rand(n))


@net
def deformable_attention(b=1, q=300, h=8, d=32, p=4):
    shapes = [(64, 64), (32, 32), (16, 16)]
    def f(m, v, loc, w):
        out, s0 = 0, 0
        for k, (y, x) in enumerate(shapes):
            f_ = v[:, s0:s0 + y * x].permute(0, 2, 3, 1).reshape(b * h, d, y, x)
            s0 += y * x
            g = F.grid_sample(f_, loc[:, :, :, k].transpose(1, 2).reshape(b * h, q, p, 2), align_corners=False)
            out = out + (g * w[:, :, :, k].transpose(1, 2).reshape(b * h, 1, q, p)).sum(-1)
        return out.view(b, h * d, q).transpose(1, 2)
    n = sum(y * x for y, x in shapes)
    return Fn(f), (R(b, n, h, d), torch.rand(b, q, h, 3, p, 2) * 2 - 1, torch.rand(b, q, h, 3, p))


@net
def grid_warp():
    def f(m, x, t):
        return F.grid_sample(x, F.affine_grid(t, x.shape, align_corners=False), align_corners=False)
    return Fn(f), (R(2, 16, 128, 128), torch.eye(2, 3)[None].repeat(2, 1, 1) + 0.05 * R(2, 2, 3))


@net
def roi_like(n=100):
    def f(m, x, box):
        ys = box[:, 0, None] + torch.linspace(0, 1, 7) * (box[:, 2] - box[:, 0])[:, None]
        xs = box[:, 1, None] + torch.linspace(0, 1, 7) * (box[:, 3] - box[:, 1])[:, None]
        y0, x0 = ys.floor().long().clamp(0, 48), xs.floor().long().clamp(0, 48)
        v = x[:, y0[:, :, None], x0[:, None, :]]
        return v.permute(1, 0, 2, 3).flatten(1) @ m.w
    return Fn(f, w=nn.Parameter(R(64 * 49, 128))), (R(64, 50, 50), torch.rand(n, 4) * 48)


@net
def seg_head():
    class Net(nn.Module):
        def __init__(s):
            super().__init__()
            s.lat = nn.ModuleList(nn.Conv2d(c, 96, 1) for c in (32, 64, 160, 256))
            s.fuse, s.cls = nn.Conv2d(4 * 96, 96, 1), nn.Conv2d(96, 19, 1)

        def forward(s, *xs):
            ys = [F.interpolate(l(x), size=(64, 64), mode="bilinear") for l, x in zip(s.lat, xs)]
            return F.interpolate(s.cls(F.relu(s.fuse(torch.cat(ys, 1)))), size=(256, 256), mode="bilinear").argmax(1)
    return Net(), (R(1, 32, 64, 64), R(1, 64, 32, 32), R(1, 160, 16, 16), R(1, 256, 8, 8))


@net
def upsample_bilinear():
    return Fn(lambda m, x: F.interpolate(x, scale_factor=4, mode="bilinear")), (R(1, 19, 128, 128),)


@net
def upsample_bicubic():
    return Fn(lambda m, x: F.interpolate(x, size=(224, 224), mode="bicubic")), (R(1, 3, 320, 320),)


@net
def preprocess_antialias():
    return Fn(lambda m, x: (F.interpolate(x.float() / 255, size=(224, 224), mode="bilinear", antialias=True) - 0.45) / 0.22), (I(255, 1, 3, 480, 640).to(torch.uint8),)


@net
def super_resolution():
    return nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(), nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3)), (R(1, 1, 128, 128),)


@net
def space_to_depth():
    return Fn(lambda m, x: F.pixel_shuffle(F.relu(m.c(F.pixel_unshuffle(x, 2))), 2), c=nn.Conv2d(48, 48, 1)), (R(1, 12, 256, 256),)


# vision
@net
def swin_block(s=56, c=96, w=7, h=3):
    rel = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij"), -1).view(-1, 2)
    idx = ((rel[:, None] - rel[None]) + w - 1) @ torch.tensor([2 * w - 1, 1])
    class Block(nn.Module):
        def __init__(b, shift):
            super().__init__()
            b.n1, b.n2, b.qkv, b.o, b.m = nn.LayerNorm(c), nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(c, c), mlp(c, 4 * c, c, act=nn.GELU)
            b.t, b.shift = nn.Parameter(R((2 * w - 1) ** 2, h)), shift
            b.register_buffer("idx", idx)
            b.register_buffer("mask", (torch.rand(64, w * w, w * w) > 0.8).float() * -100)

        def forward(b, x):
            y = b.n1(x)
            if b.shift:
                y = torch.roll(y, (-3, -3), (1, 2))
            y = y.view(1, s // w, w, s // w, w, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)
            q, k, v = b.qkv(y).view(-1, w * w, 3, h, c // h).permute(2, 0, 3, 1, 4)
            a = q @ k.transpose(-2, -1) * (c // h) ** -0.5 + b.t[b.idx.view(-1)].view(w * w, w * w, h).permute(2, 0, 1)
            if b.shift:
                a = a + b.mask[:, None]
            y = b.o((a.softmax(-1) @ v).transpose(1, 2).reshape(-1, w * w, c))
            y = y.view(1, s // w, s // w, w, w, c).permute(0, 1, 3, 2, 4, 5).reshape(1, s, s, c)
            if b.shift:
                y = torch.roll(y, (3, 3), (1, 2))
            x = x + y
            return x + b.m(b.n2(x))
    return nn.Sequential(Block(0), Block(3)), (R(1, s, s, c),)


@net
def vit_small(d=384, n=197):
    layer = nn.TransformerEncoderLayer(d, 6, 4 * d, 0.0, F.gelu, batch_first=True, norm_first=True)
    def f(m, x):
        y = torch.cat([m.cls, m.p(x).flatten(2).transpose(1, 2)], 1) + m.pos
        return m.h(m.e(y)[:, 0])
    return Fn(f, p=nn.Conv2d(3, d, 16, 16), cls=nn.Parameter(R(1, 1, d)), pos=nn.Parameter(R(1, n, d)), e=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), h=nn.Linear(d, 1000)), (R(1, 3, 224, 224),)


@net
def mixer(d=256, n=196):
    class Block(nn.Module):
        def __init__(s):
            super().__init__()
            s.n1, s.n2, s.t, s.c = nn.LayerNorm(d), nn.LayerNorm(d), mlp(n, 128, n, act=nn.GELU), mlp(d, 4 * d, d, act=nn.GELU)

        def forward(s, x):
            x = x + s.t(s.n1(x).transpose(1, 2)).transpose(1, 2)
            return x + s.c(s.n2(x))
    return nn.Sequential(Block(), Block()), (R(1, n, d),)


# language
@net
def moe(t=64, d=256, n=8, k=2):
    def f(m, x):
        p, i = torch.topk(m.r(x).softmax(-1), k)
        p = p / p.sum(-1, keepdim=True)
        g = (F.one_hot(i, n).to(x.dtype) * p[..., None]).sum(1)
        h = F.silu(torch.einsum("td,ndf->ntf", x, m.a)) * torch.einsum("td,ndf->ntf", x, m.b)
        return torch.einsum("ntf,nfd,tn->td", h, m.c, g)
    return Fn(f, r=nn.Linear(d, n), a=nn.Parameter(R(n, d, 512)), b=nn.Parameter(R(n, d, 512)), c=nn.Parameter(R(n, 512, d))), (R(t, d),)


@net
def moe_gathered(t=4, d=256, n=16, k=2):
    def f(m, x):
        p, i = torch.topk(m.r(x).softmax(-1), k)
        a, c = m.a[i], m.c[i]
        h = F.silu(torch.einsum("td,tkdf->tkf", x, a))
        return torch.einsum("tkf,tkfd,tk->td", h, c, p)
    return Fn(f, r=nn.Linear(d, n), a=nn.Parameter(R(n, d, 512)), c=nn.Parameter(R(n, 512, d))), (R(t, d),)


@net
def top_p(v=32000):
    def f(m, x):
        p, i = torch.sort(x.softmax(-1), descending=True)
        c = p.cumsum(-1)
        p = p.masked_fill(c - p > 0.9, 0)
        p = p / p.sum(-1, keepdim=True)
        return torch.zeros_like(x).scatter(-1, i, p)
    return Fn(f), (R(1, v) * 3,)


@net
def top_k_sampling(v=50257):
    def f(m, x, u):
        p, i = torch.topk(x / 0.8, 50)
        c = p.softmax(-1).cumsum(-1)
        return i.gather(-1, (c < u).sum(-1, keepdim=True).clamp(max=49))
    return Fn(f), (R(4, v) * 3, torch.rand(4, 1))


@net
def beam_step(b=4, k=5, v=32000):
    def f(m, lp, score):
        s = (lp.log_softmax(-1) + score[..., None]).view(b, -1)
        top, i = s.topk(2 * k)
        return top, i // v, i % v
    return Fn(f), (R(b, k, v), R(b, k))


@net
def t5_bias_attention(b=1, t=128, h=8, d=64):
    def f(m, x):
        q, k, v = m.qkv(x).view(b, t, 3, h, d).permute(2, 0, 3, 1, 4)
        r = torch.arange(t)[None] - torch.arange(t)[:, None]
        n = (-r).clamp(min=0)
        big = 8 + (torch.log(n.float().clamp(min=1) / 8) / 2.77 * 8).long()
        bucket = torch.where(n < 8, n, big.clamp(max=15)) + (r > 0).long() * 16
        a = q @ k.transpose(-1, -2) + m.t(bucket).permute(2, 0, 1)
        return m.o((a.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))
    return Fn(f, qkv=nn.Linear(512, 1536, bias=False), t=nn.Embedding(32, h), o=nn.Linear(512, 512, bias=False)), (R(b, t, 512),)


@net
def text_cnn(b=16, t=128):
    def f(m, i):
        x = m.e(i).transpose(1, 2)
        return m.o(torch.cat([F.relu(c(x)).amax(-1) for c in m.c], 1))
    return Fn(f, e=nn.Embedding(10000, 128), c=nn.ModuleList(nn.Conv1d(128, 100, k) for k in (3, 4, 5)), o=nn.Linear(300, 4)), (I(10000, b, t),)


@net
def crf_viterbi(b=8, t=40, n=20):
    def f(m, e):
        s = e[:, 0]
        back = []
        for k in range(1, t):
            v, i = (s[:, :, None] + m.t).max(1)
            s = v + e[:, k]
            back.append(i)
        best = s.argmax(-1, keepdim=True)
        path = [best]
        for i in reversed(back):
            path.append(i.gather(1, path[-1]))
        return torch.cat(path[::-1], 1)
    return Fn(f, t=nn.Parameter(R(n, n))), (R(b, t, n),)


# volumes and norms
@net
def conv3d_net():
    return nn.Sequential(nn.Conv3d(1, 16, 3, padding=1), nn.BatchNorm3d(16), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(64, 2)), (R(1, 1, 32, 48, 48),)


@net
def video_r2plus1():
    return nn.Sequential(nn.Conv3d(3, 45, (1, 7, 7), (1, 2, 2), (0, 3, 3)), nn.ReLU(), nn.Conv3d(45, 64, (3, 1, 1), 1, (1, 0, 0)), nn.ReLU(), nn.Conv3d(64, 64, (1, 3, 3), 1, (0, 1, 1)), nn.ReLU(), nn.Conv3d(64, 64, (3, 1, 1), 1, (1, 0, 0))), (R(1, 3, 8, 56, 56),)


@net
def unet3d_up():
    return nn.Sequential(nn.ConvTranspose3d(64, 32, 2, 2), nn.InstanceNorm3d(32, affine=True), nn.LeakyReLU(0.01), nn.Conv3d(32, 16, 3, padding=1), nn.InstanceNorm3d(16, affine=True), nn.LeakyReLU(0.01)), (R(1, 64, 12, 12, 12),)


@net
def group_norm_res():
    class Block(nn.Module):
        def __init__(s, c):
            super().__init__()
            s.n1, s.c1, s.n2, s.c2 = nn.GroupNorm(32, c), nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(32, c), nn.Conv2d(c, c, 3, padding=1)

        def forward(s, x):
            return x + s.c2(F.silu(s.n2(s.c1(F.silu(s.n1(x))))))
    return nn.Sequential(Block(128), Block(128)), (R(1, 128, 32, 32),)


@net
def style_instance_norm():
    return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(32, 64, 3), nn.InstanceNorm2d(64, affine=True), nn.ReLU(), nn.Upsample(scale_factor=2), nn.ReflectionPad2d(1), nn.Conv2d(64, 32, 3), nn.InstanceNorm2d(32, affine=True), nn.ReLU()), (R(1, 32, 64, 64),)


@net
def groupnorm_alone():
    return nn.GroupNorm(8, 64), (R(4, 64, 56, 56),)


@net
def batchnorm_alone():
    return nn.BatchNorm2d(64), (R(4, 64, 56, 56),)


# spectra, linear algebra
@net
def fno_block(c=16, s=64, k=12):
    def f(m, x):
        z = torch.fft.rfft2(x)
        o = torch.zeros(1, c, s, s // 2 + 1, dtype=torch.cfloat)
        o[:, :, :k, :k] = torch.einsum("bixy,ioxy->boxy", z[:, :, :k, :k], torch.view_as_complex(m.a))
        o[:, :, -k:, :k] = torch.einsum("bixy,ioxy->boxy", z[:, :, -k:, :k], torch.view_as_complex(m.b))
        return F.gelu(torch.fft.irfft2(o, s=(s, s)) + m.w(x))
    return Fn(f, a=nn.Parameter(R(c, c, k, k, 2)), b=nn.Parameter(R(c, c, k, k, 2)), w=nn.Conv2d(c, c, 1)), (R(1, c, s, s),)


@net
def fnet(b=2, t=128, d=256):
    return Fn(lambda m, x: torch.fft.fft2(x).real), (R(b, t, d),)


@net
def fft_1d():
    return Fn(lambda m, x: torch.fft.rfft(x).abs()), (R(64, 1024),)


@net
def fft_odd():
    return Fn(lambda m, x: torch.fft.rfft(x).abs()), (R(64, 1000),)


@net
def fft_complex():
    return Fn(lambda m, x: torch.view_as_real(torch.fft.ifft(torch.fft.fft(torch.view_as_complex(x)) * 2))), (R(32, 4096, 2),)


@net
def cholesky_b():
    return Fn(lambda m, x: torch.linalg.cholesky(x @ x.mT + 8 * torch.eye(32))), (R(64, 32, 32),)


@net
def cholesky_256():
    return Fn(lambda m, x: torch.linalg.cholesky(x @ x.mT + 300 * torch.eye(256))), (R(256, 256),)


@net
def solve_b():
    return Fn(lambda m, a, b: torch.linalg.solve(a + 8 * torch.eye(16), b)), (R(128, 16, 16), R(128, 16, 4))


@net
def solve_256():
    return Fn(lambda m, a, b: torch.linalg.solve(a + 30 * torch.eye(256), b)), (R(256, 256), R(256, 8))


@net
def inverse_b():
    return Fn(lambda m, a: torch.linalg.inv(a + 4 * torch.eye(4))), (R(1024, 4, 4),)


@net
def det_b():
    return Fn(lambda m, a: torch.linalg.det(a)), (R(512, 6, 6),)


@net
def gp_posterior(n=128, q=64):
    def f(m, x, y, z):
        k = lambda a, b: torch.exp(-0.5 * torch.cdist(a, b) ** 2)
        L = torch.linalg.cholesky(k(x, x) + 0.1 * torch.eye(n))
        a = torch.cholesky_solve(y[:, None], L)
        v = torch.linalg.solve_triangular(L, k(x, z), upper=False)
        return k(z, x) @ a, 1 - (v * v).sum(0)
    return Fn(f), (R(n, 4), R(n), R(q, 4))


@net
def kalman(t=30, n=6):
    def f(m, z):
        x, P, out = torch.zeros(n, 1), torch.eye(n), []
        for k in range(t):
            x, P = m.F @ x, m.F @ P @ m.F.mT + m.Q
            S = m.H @ P @ m.H.mT + m.R
            K = torch.linalg.solve(S, m.H @ P).mT
            x = x + K @ (z[k, :, None] - m.H @ x)
            P = (torch.eye(n) - K @ m.H) @ P
            out.append(x[:, 0])
        return torch.stack(out)
    return Fn(f, F=nn.Parameter(torch.eye(n) + 0.05 * R(n, n)), Q=nn.Parameter(0.1 * torch.eye(n)), H=nn.Parameter(R(3, n)), R=nn.Parameter(torch.eye(3))), (R(t, 3),)


@net
def quaternion_pose(n=4096):
    def f(m, q, v):
        q = F.normalize(q, dim=-1)
        u, w = q[:, 1:], q[:, :1]
        t = 2 * torch.linalg.cross(u, v)
        return v + w * t + torch.linalg.cross(u, t)
    return Fn(f), (R(n, 4), R(n, 3))


@net
def nerf_mlp(n=2048):
    def f(m, x):
        e = torch.cat([x] + [g(x * 2.0 ** k) for k in range(10) for g in (torch.sin, torch.cos)], -1)
        h = m.a(e)
        return m.b(torch.cat([h, e], -1))
    return Fn(f, a=mlp(63, 128, 128, 128, last=True), b=mlp(128 + 63, 128, 4)), (R(n, 3),)


@net
def volume_render(n=1024, s=64):
    def f(m, sigma, rgb, d):
        a = 1 - torch.exp(-F.relu(sigma) * d)
        t = torch.cumprod(torch.cat([torch.ones(n, 1), 1 - a + 1e-10], -1), -1)[:, :-1]
        w = a * t
        return (w[..., None] * rgb).sum(1), (w * d.cumsum(-1)).sum(-1)
    return Fn(f), (R(n, s), torch.rand(n, s, 3), torch.rand(n, s))


@net
def histogram_ops(n=100000):
    def f(m, x):
        i = (x.clamp(0, 0.999) * 64).long()
        return torch.zeros(64).scatter_add(0, i, x), torch.bucketize(x, m.b).sum()
    return Fn(f, b=torch.linspace(0, 1, 33)), (torch.rand(n),)


@net
def sort_rows():
    return Fn(lambda m, x: tuple(torch.sort(x, -1))), (R(256, 1024),)


@net
def argsort_ints():
    return Fn(lambda m, x: torch.argsort(x, -1)), (I(100000, 16, 4096),)


@net
def topk_rows():
    return Fn(lambda m, x: tuple(torch.topk(x, 10))), (R(256, 1000),)


@net
def median_rows():
    return Fn(lambda m, x: torch.median(x, -1).values), (R(256, 999),)


@net
def tree_forest(n=512, trees=50, depth=6):
    def f(m, x):
        node = torch.zeros(n, trees, dtype=torch.long)
        base = torch.arange(trees) * (2 ** depth)
        for _ in range(depth):
            k = node + base
            go = x.gather(1, m.feat[k]) > m.thr[k]
            node = node * 2 + 1 + go.long()
            node = node.clamp(max=2 ** depth - 1)
        return m.leaf[node + base].sum(1)
    c = trees * 2 ** depth
    return Fn(f, feat=I(30, c), thr=R(c), leaf=R(c)), (R(n, 30),)


@net
def vq_lookup(n=1024, k=1024, d=64):
    def f(m, x):
        dist = (x * x).sum(-1, keepdim=True) - 2 * x @ m.c.t() + (m.c * m.c).sum(-1)
        i = dist.argmin(-1)
        return m.c[i], i
    return Fn(f, c=nn.Parameter(R(k, d))), (R(n, d),)


@net
def autoencoder_f64(b=64):
    m = mlp(128, 256, 64, 256, 128, act=nn.Tanh).double()
    return m, (R(b, 128).double(),)
