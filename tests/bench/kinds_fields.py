"""More experts, diffusion, implicit functions, point clouds, flow and stereo, heads of detection: (module, arguments) by name."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from kinds_nets import Fn, R, mlp, net


# mixtures of experts
@net
def moe_index_add(t=64, d=256, n=4, c=32):
    def f(m, x):
        s = m.r(x).softmax(-1)
        out = torch.zeros_like(x)
        for e in range(n):
            w, i = s[:, e].topk(c)
            y = F.linear(F.silu(F.linear(x[i], m.a[e])) * F.linear(x[i], m.b[e]), m.c[e])
            out = out.index_add(0, i, y * w[:, None])
        return out
    return Fn(f, r=nn.Linear(d, n), a=nn.Parameter(R(n, 512, d)), b=nn.Parameter(R(n, 512, d)), c=nn.Parameter(R(n, d, 512))), (R(t, d),)


@net
def soft_moe(t=128, d=128, n=4, s=16):
    def f(m, x):
        l = torch.einsum("btd,nsd->btns", x, m.phi)
        disp, comb = l.softmax(1), l.flatten(2).softmax(-1).view_as(l)
        z = torch.einsum("btns,btd->bnsd", disp, x)
        z = torch.einsum("bnsf,nfd->bnsd", F.gelu(torch.einsum("bnsd,ndf->bnsf", z, m.a)), m.b)
        return torch.einsum("btns,bnsd->btd", comb, z)
    return Fn(f, phi=nn.Parameter(R(n, s, d)), a=nn.Parameter(R(n, d, 256)), b=nn.Parameter(R(n, 256, d))), (R(2, t, d),)


# diffusion
@net
def dit_block(b=1, t=256, d=384):
    def f(m, x, c):
        s1, h1, g1, s2, h2, g2 = m.ada(F.silu(c))[:, None].chunk(6, -1)
        ln = lambda y: F.layer_norm(y, (d,), eps=1e-6)
        q, k, v = m.qkv(ln(x) * (1 + h1) + s1).view(b, t, 3, 6, d // 6).permute(2, 0, 3, 1, 4)
        x = x + g1 * m.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + g2 * m.m(ln(x) * (1 + h2) + s2)
    return Fn(f, ada=nn.Linear(d, 6 * d), qkv=nn.Linear(d, 3 * d), o=nn.Linear(d, d), m=nn.Sequential(nn.Linear(d, 4 * d), nn.GELU("tanh"), nn.Linear(4 * d, d))), (R(b, t, d), R(b, d))


@net
def unet_time_block(c=64, s=32):
    def f(m, x, t):
        e = t[:, None] * torch.exp(-torch.arange(32.) * math.log(10000) / 32)
        e = m.t(torch.cat([e.sin(), e.cos()], -1))
        h = m.c1(F.silu(m.n1(x)))
        a, b = m.e(F.silu(e))[:, :, None, None].chunk(2, 1)
        x = m.sk(x) + m.c2(F.silu(m.n2(h) * (1 + a) + b))
        y = m.n3(x).flatten(2).transpose(1, 2)
        q, k, v = m.qkv(y).view(1, s * s, 3, 4, c // 2).permute(2, 0, 3, 1, 4)
        y = m.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, s * s, 2 * c))
        return m.d(x + y.transpose(1, 2).reshape(1, 2 * c, s, s))
    return Fn(f, t=mlp(64, 256, 256, act=nn.SiLU), n1=nn.GroupNorm(32, c), c1=nn.Conv2d(c, 2 * c, 3, padding=1), e=nn.Linear(256, 4 * c), n2=nn.GroupNorm(32, 2 * c), c2=nn.Conv2d(2 * c, 2 * c, 3, padding=1), sk=nn.Conv2d(c, 2 * c, 1), n3=nn.GroupNorm(32, 2 * c), qkv=nn.Linear(2 * c, 6 * c), o=nn.Linear(2 * c, 2 * c), d=nn.Conv2d(2 * c, 2 * c, 3, 2, 1)), (R(1, c, s, s), torch.rand(1) * 1000)


# splines, implicit functions
@net
def kan_layer(b=256, i=64, o=64, g=8):
    def f(m, x):
        y = x
        for w, base in zip(m.w, m.b):
            z = y[..., None]
            bs = ((z >= m.k[:-1]) & (z < m.k[1:])).to(x.dtype)
            for p in range(1, 4):
                bs = (z - m.k[:-p - 1]) / (m.k[p:-1] - m.k[:-p - 1]) * bs[..., :-1] + (m.k[p + 1:] - z) / (m.k[p + 1:] - m.k[1:-p]) * bs[..., 1:]
            y = F.linear(F.silu(y), base) + F.linear(bs.flatten(1), w.flatten(1))
        return y
    knots = torch.arange(-3., g + 4) * (2 / g) - 1
    return Fn(f, w=nn.ParameterList([nn.Parameter(R(o, i, g + 3) * 0.1), nn.Parameter(R(o, o, g + 3) * 0.1)]), b=nn.ParameterList([nn.Parameter(R(o, i) * 0.1), nn.Parameter(R(o, o) * 0.1)]), k=knots), (torch.rand(b, i) * 2 - 1,)


@net
def fast_kan(b=256, i=64, o=64, g=8):
    def f(m, x):
        for n, l in zip(m.n, m.l):
            x = l(torch.exp(-((n(x)[..., None] - m.g) / (4 / (g - 1))) ** 2).flatten(1))
        return x
    return Fn(f, n=nn.ModuleList([nn.LayerNorm(i), nn.LayerNorm(o)]), l=nn.ModuleList([nn.Linear(i * g, o), nn.Linear(o * g, o)]), g=torch.linspace(-2, 2, g)), (R(b, i),)


@net
def siren(n=4096, h=128):
    def f(m, x):
        for l in m.l:
            x = torch.sin(30 * l(x))
        return m.o(x)
    return Fn(f, l=nn.ModuleList([nn.Linear(2, h), nn.Linear(h, h), nn.Linear(h, h)]), o=nn.Linear(h, 3)), (torch.rand(n, 2) * 2 - 1,)


@net
def nerf_rays(n=256, s=64, h=64):
    def f(m, o, d):
        z = torch.linspace(2, 6, s)
        p = o[:, None] + d[:, None] * z[:, None]
        fr = 2.0 ** torch.arange(6.)
        a = (p[..., None, :] * fr[:, None]).flatten(-2)
        r = m.m(torch.cat([p, a.sin(), a.cos()], -1))
        dz = F.pad(z[1:] - z[:-1], (0, 1), value=1e10) * d.norm(dim=-1, keepdim=True)
        al = 1 - torch.exp(-F.relu(r[..., 3]) * dz)
        w = al * torch.cumprod(F.pad(1 - al + 1e-10, (1, 0), value=1.0), -1)[:, :-1]
        return (w[..., None] * r[..., :3].sigmoid()).sum(1), (w * z).sum(1), w.sum(1)
    return Fn(f, m=mlp(39, h, h, h, 4)), (R(n, 3), R(n, 3))


@net
def hash_grid(n=4096, levels=8, size=2 ** 14, d=2):
    def f(m, x):
        out = []
        for l in range(levels):
            p = x * (16 * 1.5 ** l)
            i = p.floor()
            w = p - i
            i = i.long()
            y = 0
            for c in range(8):
                o = torch.tensor([c & 1, c >> 1 & 1, c >> 2])
                j = i + o
                hsh = (j[:, 0] ^ j[:, 1] * 2654435761 ^ j[:, 2] * 805459861) % size
                y = y + m.t[l][hsh] * torch.where(o.bool(), w, 1 - w).prod(-1, keepdim=True)
            out.append(y)
        return m.m(torch.cat(out, -1))
    return Fn(f, t=nn.Parameter(R(levels, size, d)), m=mlp(levels * d, 64, 4)), (torch.rand(n, 3),)


# point clouds
@net
def farthest_points(b=4, n=1024, k=32):
    def f(m, p):
        d, i, out = torch.full((b, n), 1e10), torch.zeros(b, dtype=torch.long), []
        for _ in range(k):
            out.append(i)
            c = p.gather(1, i[:, None, None].expand(-1, -1, 3))
            d = torch.minimum(d, ((p - c) ** 2).sum(-1))
            i = d.argmax(-1)
        return torch.stack(out, 1)
    return Fn(f), (R(b, n, 3),)


@net
def ball_query(b=2, n=1024, q=256, k=16):
    def f(m, p):
        c = p[:, :q]
        d = (c * c).sum(-1)[..., None] + (p * p).sum(-1)[:, None] - 2 * c @ p.transpose(1, 2)
        i = torch.arange(n).expand(b, q, n).masked_fill(d > 0.25, n - 1)
        i = i.sort(-1).values[..., :k]
        g = p[torch.arange(b)[:, None, None], i] - c[:, :, None]
        return m.m(g).amax(2)
    return Fn(f, m=mlp(3, 32, 64, last=True)), (R(b, n, 3),)


@net
def dgcnn_edges(b=2, n=512, k=20):
    def f(m, x):
        for l in m.l:
            s = (x * x).sum(-1)
            i = (2 * x @ x.transpose(1, 2) - s[..., None] - s[:, None]).topk(k).indices
            nb = x[torch.arange(b)[:, None, None], i]
            c = x[:, :, None].expand_as(nb)
            x = F.leaky_relu(l(torch.cat([nb - c, c], -1)), 0.2).amax(2)
        return x
    return Fn(f, l=nn.ModuleList([nn.Linear(6, 64), nn.Linear(128, 64)])), (R(b, n, 3),)


@net
def point_interpolate(b=2, n=1024, s=256, c=64):
    def f(m, p, q, x):
        d, i = torch.cdist(p, q).topk(3, largest=False)
        w = 1 / (d + 1e-8)
        w = w / w.sum(-1, keepdim=True)
        return m.m((x[torch.arange(b)[:, None, None], i] * w[..., None]).sum(2))
    return Fn(f, m=mlp(c, 64, 64)), (R(b, n, 3), R(b, s, 3), R(b, s, c))


# flow, stereo, deformable
@net
def flow_correlation(c=64, s=48, r=4):
    def f(m, a, b):
        p = F.pad(b, (r, r, r, r))
        return torch.stack([(a * p[:, :, y:y + s, x:x + s]).mean(1) for y in range(2 * r + 1) for x in range(2 * r + 1)], 1)
    return Fn(f), (R(1, c, s, s), R(1, c, s, s))


@net
def raft_lookup(h=32, w=32, c=64, r=3):
    def f(m, a, b, co):
        v = (a.flatten(2).transpose(1, 2) @ b.flatten(2) * c ** -0.5).view(h * w, 1, h, w)
        g = torch.stack(torch.meshgrid(torch.arange(-r, r + 1.), torch.arange(-r, r + 1.), indexing="ij"), -1)
        out = []
        for k in range(3):
            p = co.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2) / 2 ** k + g
            p = 2 * p / torch.tensor([v.size(3) - 1.0, v.size(2) - 1.0]) - 1
            out.append(F.grid_sample(v, p, align_corners=True).view(1, h, w, -1))
            v = F.avg_pool2d(v, 2)
        return torch.cat(out, -1).permute(0, 3, 1, 2)
    return Fn(f), (R(1, c, h, w), R(1, c, h, w), torch.rand(1, 2, h, w) * 31)


@net
def stereo_volume(c=32, h=32, w=64, d=24):
    def f(m, a, b):
        v = torch.stack([(a * F.pad(b, (k, 0))[..., :w]).mean(1) for k in range(d)], 1)
        p = m.c(v).softmax(1)
        return (p * torch.arange(float(d))[:, None, None]).sum(1)
    return Fn(f, c=nn.Conv2d(d, d, 3, padding=1)), (R(1, c, h, w), R(1, c, h, w))


@net
def deform_sampling(c=32, s=32):
    def f(m, x):
        o = m.off(x).view(1, 9, 2, s, s)
        y, z = torch.meshgrid(torch.arange(float(s)), torch.arange(float(s)), indexing="ij")
        t = torch.stack(torch.meshgrid(torch.arange(-1., 2), torch.arange(-1., 2), indexing="ij"), -1).view(9, 2)
        py, px = y + t[:, 0, None, None] + o[:, :, 0], z + t[:, 1, None, None] + o[:, :, 1]
        g = torch.stack([px, py], -1) * (2 / (s - 1)) - 1
        v = F.grid_sample(x, g.view(1, 9 * s, s, 2), align_corners=True).view(1, c, 9, s, s)
        return torch.einsum("bckyx,ock->boyx", v, m.w)
    return Fn(f, off=nn.Conv2d(c, 18, 3, padding=1), w=nn.Parameter(R(64, c, 9))), (R(1, c, s, s),)


@net
def spatial_transformer():
    loc = nn.Sequential(nn.Conv2d(1, 8, 7), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(8, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), mlp(10 * 9, 32, 6))
    return Fn(lambda m, x: m.c(F.grid_sample(x, F.affine_grid(m.l(x).view(-1, 2, 3), x.shape, align_corners=False), align_corners=False)), l=loc, c=nn.Conv2d(1, 10, 5)), (R(16, 1, 28, 28),)


# heads
@net
def roi_align_like(n=64, c=64, s=50, o=7):
    def f(m, x, box):
        t = (torch.arange(float(o)) + 0.5) / o
        ys, xs = [(box[:, k, None] + t * (box[:, k + 2] - box[:, k])[:, None]).clamp(0, s - 1.001) for k in (0, 1)]
        y0, x0 = ys.floor().long(), xs.floor().long()
        wy, wx = (ys - y0)[:, None, :, None], (xs - x0)[:, None, None, :]
        at = lambda y, z: x[:, y[:, :, None], z[:, None, :]].transpose(0, 1)
        return (at(y0, x0) * (1 - wx) + at(y0, x0 + 1) * wx) * (1 - wy) + (at(y0 + 1, x0) * (1 - wx) + at(y0 + 1, x0 + 1) * wx) * wy
    return Fn(f), (R(c, s, s), torch.rand(n, 4) * 48)


@net
def ssd_decode(n=8732, c=21):
    def f(m, loc, conf):
        xy = m.p[:, :2] + loc[..., :2] * 0.1 * m.p[:, 2:]
        wh = m.p[:, 2:] * torch.exp(loc[..., 2:] * 0.2)
        b = torch.cat([xy - wh / 2, xy + wh / 2], -1)
        s = conf.softmax(-1)[..., 1:]
        v, i = s.flatten(1).topk(200)
        return torch.gather(b, 1, (i // (c - 1))[..., None].expand(-1, -1, 4)), v, i % (c - 1)
    return Fn(f, p=torch.rand(n, 4)), (R(1, n, 4), R(1, n, c))


@net
def centernet_decode(c=80, s=96, k=100):
    def f(m, heat, wh, off):
        h = heat.sigmoid()
        h = h * (F.max_pool2d(h, 3, 1, 1) == h)
        v, i = h.flatten(1).topk(k)
        p = i % (s * s)
        g = lambda x: x.flatten(2).transpose(1, 2).gather(1, p[..., None].expand(-1, -1, 2))
        ctr = torch.stack([p % s, p // s], -1) + g(off)
        z = g(wh)
        return torch.cat([ctr - z / 2, ctr + z / 2], -1), v, i // (s * s)
    return Fn(f), (R(1, c, s, s), R(1, 2, s, s), R(1, 2, s, s))


@net
def soft_nms(n=200, rounds=30):
    def f(m, b, s):
        lt, rb = torch.maximum(b[:, None, :2], b[None, :, :2]), torch.minimum(b[:, None, 2:], b[None, :, 2:])
        wh = (rb - lt).clamp(min=0)
        inter = wh[..., 0] * wh[..., 1]
        area = (b[:, 2:] - b[:, :2]).prod(-1)
        iou = inter / (area[:, None] + area - inter).clamp(min=1e-6)
        keep = []
        for _ in range(rounds):
            i = s.argmax()
            keep.append(i)
            s = s * torch.exp(-iou.index_select(0, i[None])[0] ** 2 / 0.5)
            s = s.scatter(0, i[None], -1.0)
        return torch.stack(keep), s
    return Fn(f), (torch.rand(n, 2).repeat(1, 2) * 100 + torch.tensor([0, 0, 20, 30.]), torch.rand(n))


@net
def pose_heatmaps(j=17, s=64):
    def f(m, x):
        v, i = x.flatten(2).max(-1)
        p = x.flatten(2).softmax(-1).view_as(x)
        ys, xs = (p.sum(3) * torch.arange(float(s))).sum(-1), (p.sum(2) * torch.arange(float(s))).sum(-1)
        return torch.stack([xs, ys], -1), v, torch.stack([i % s, i // s], -1)
    return Fn(f), (R(4, j, s, s),)
