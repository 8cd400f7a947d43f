"""Small nets of many families, written by hand. CASES as in families_hf.py."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

CASES = {}
BATCH = {0: (1, 4)}


def case(f):
    CASES[f.__name__] = f
    return f


class Fn(nn.Module):
    """A function of its inputs and modules as a module."""

    def __init__(self, fn, *modules, **buffers):
        super().__init__()
        self.fn, self.modules_ = fn, nn.ModuleList(modules)
        for k, v in buffers.items():
            self.register_buffer(k, v)

    def forward(self, *a):
        return self.fn(self, *a)


def gn(c): return nn.GroupNorm(4, c)


class ResBlock(nn.Module):
    def __init__(self, a, b, t=16):
        super().__init__()
        self.n1, self.c1, self.n2, self.c2, self.t = gn(a), nn.Conv2d(a, b, 3, 1, 1), gn(b), nn.Conv2d(b, b, 3, 1, 1), nn.Linear(t, b)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class SpatialAttention(nn.Module):
    def __init__(self, c, heads=2):
        super().__init__()
        self.n, self.qkv, self.o, self.heads = gn(c), nn.Conv1d(c, 3 * c, 1), nn.Conv1d(c, c, 1), heads

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.n(x).reshape(b, c, h * w)).reshape(b, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        a = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h * w)
        return x + self.o(a).reshape(b, c, h, w)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.d1, self.down, self.d2 = nn.Conv2d(3, 8, 3, 1, 1), ResBlock(8, 8), nn.Conv2d(8, 8, 3, 2, 1), ResBlock(8, 16)
        self.attn, self.mid, self.up, self.u1 = SpatialAttention(16), ResBlock(16, 16), nn.Conv2d(16, 16, 3, 1, 1), ResBlock(24, 8)
        self.out, self.n = nn.Conv2d(8, 3, 3, 1, 1), gn(8)

    def forward(self, x, t):
        f = torch.exp(-math.log(10000) * torch.arange(8, dtype=torch.float32) / 8)
        a = t[:, None].float() * f[None]
        t = torch.cat([a.cos(), a.sin()], -1)
        h1 = self.d1(self.inp(x), t)
        h = self.mid(self.attn(self.d2(self.down(h1), t)), t)
        h = self.up(F.interpolate(h, scale_factor=2.0, mode="nearest"))
        return self.out(F.silu(self.n(self.u1(torch.cat([h, h1], 1), t))))


@case
def unet_diffusion(): return UNet(), (torch.randn(2, 3, 16, 16), torch.tensor([3, 77])), (BATCH, BATCH)


@case
def unet_segmentation():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            def two(a, b): return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
            self.a, self.b, self.c, self.pool = two(3, 8), two(8, 16), two(16, 24), nn.MaxPool2d(2)
            self.u1, self.u2, self.d1, self.d2, self.o = nn.ConvTranspose2d(24, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2), two(32, 16), two(16, 8), nn.Conv2d(8, 2, 1)
        def forward(self, x):
            a = self.a(x); b = self.b(self.pool(a)); c = self.c(self.pool(b))
            y = self.d1(torch.cat([self.u1(c), b], 1))
            return self.o(self.d2(torch.cat([self.u2(y), a], 1)))
    return Net(), (torch.randn(2, 3, 24, 32),), (BATCH,)


class SE(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

    def forward(self, x): return x * self.b(F.relu(self.a(x.mean((2, 3), keepdim=True)))).sigmoid()


@case
def mbconv_se():
    def block(c, k, s): return nn.Sequential(nn.Conv2d(c, 4 * c, 1, bias=False), nn.BatchNorm2d(4 * c), nn.SiLU(), nn.Conv2d(4 * c, 4 * c, k, s, k // 2, groups=4 * c, bias=False), nn.BatchNorm2d(4 * c), nn.SiLU(), SE(4 * c), nn.Conv2d(4 * c, c, 1), nn.BatchNorm2d(c))
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), block(8, 3, 1), block(8, 5, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)), (torch.randn(2, 3, 32, 32),), (BATCH,)


@case
def lstm():
    return Fn(lambda s, x: s.modules_[0](x)[0], nn.LSTM(12, 16, 2, batch_first=True, bidirectional=True)), (torch.randn(2, 9, 12),), (BATCH,)


@case
def lstm_with_state():
    def f(s, x, h, c):
        y, (h, c) = s.modules_[0](x, (h, c))
        return s.modules_[1](y), h, c
    return Fn(f, nn.LSTM(12, 16, 1), nn.Linear(16, 4)), (torch.randn(9, 2, 12), torch.randn(1, 2, 16), torch.randn(1, 2, 16)), None


@case
def gru():
    return Fn(lambda s, x: s.modules_[0](x), nn.GRU(12, 16, 2, batch_first=True)), (torch.randn(2, 9, 12),), (BATCH,)


@case
def rnn_cells():
    def f(s, x, h):
        a = s.modules_[0](x, h)
        b, c = s.modules_[1](x, (h, h))
        return s.modules_[2](x, a + b) + c
    return Fn(f, nn.GRUCell(12, 16), nn.LSTMCell(12, 16), nn.RNNCell(12, 16)), (torch.randn(3, 12), torch.randn(3, 16)), (BATCH, BATCH)


@case
def seq2seq_gru_attention():
    def f(s, x, y):
        enc, h = s.modules_[0](x)
        dec, _ = s.modules_[1](y, h)
        a = torch.softmax(torch.bmm(dec, enc.transpose(1, 2)), -1)
        return s.modules_[2](torch.cat([dec, torch.bmm(a, enc)], -1)).log_softmax(-1)
    return Fn(f, nn.GRU(8, 16, batch_first=True), nn.GRU(6, 16, batch_first=True), nn.Linear(32, 11)), (torch.randn(2, 7, 8), torch.randn(2, 5, 6)), None


class TCNBlock(nn.Module):
    def __init__(self, a, b, d):
        super().__init__()
        self.d = d
        self.c1, self.c2, self.s = nn.utils.parametrizations.weight_norm(nn.Conv1d(a, b, 3, dilation=d)), nn.Conv1d(b, b, 3, dilation=d), nn.Conv1d(a, b, 1)

    def forward(self, x):
        y = F.relu(self.c1(F.pad(x, (2 * self.d, 0))))
        return F.relu(self.s(x) + F.relu(self.c2(F.pad(y, (2 * self.d, 0)))))


@case
def tcn(): return nn.Sequential(TCNBlock(4, 8, 1), TCNBlock(8, 8, 2), TCNBlock(8, 12, 4)), (torch.randn(2, 4, 30),), ({0: (1, 4), 2: (8, 40)},)


@case
def wavenet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Conv1d(1, 8, 1)
            self.dil = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=2**i) for i in range(4))
            self.res, self.skip = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(4)), nn.ModuleList(nn.Conv1d(8, 6, 1) for _ in range(4))
            self.out = nn.Conv1d(6, 10, 1)
        def forward(self, x):
            x, total = self.inp(x), 0
            for i, (d, r, s) in enumerate(zip(self.dil, self.res, self.skip)):
                a, b = d(F.pad(x, (2**i, 0))).chunk(2, 1)
                z = a.tanh() * b.sigmoid()
                total = total + s(z)
                x = x + r(z)
            return self.out(F.relu(total))
    return Net(), (torch.randn(2, 1, 64),), (BATCH,)


@case
def conv3d_video():
    return nn.Sequential(nn.Conv3d(3, 8, 3, (1, 2, 2), 1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d((1, 2, 2)), nn.Conv3d(8, 12, (3, 1, 1), padding=(1, 0, 0)), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(12, 4)), (torch.randn(2, 3, 6, 20, 20),), (BATCH,)


@case
def vae():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 8, 3, 2, 1), nn.LeakyReLU(0.2), nn.Flatten())
            self.mu, self.lv, self.up = nn.Linear(8 * 49, 6), nn.Linear(8 * 49, 6), nn.Linear(6, 8 * 49)
            self.d = nn.Sequential(nn.Unflatten(1, (8, 7, 7)), nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(8, 1, 3, 2, 1, output_padding=1), nn.Sigmoid())
        def forward(self, x, eps):
            h = self.e(x)
            mu, lv = self.mu(h), self.lv(h).clamp(-6, 6)
            kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum(1).mean()
            return self.d(self.up(mu + eps * (0.5 * lv).exp())), kl
    return Net(), (torch.randn(2, 1, 28, 28), torch.randn(2, 6)), (BATCH, BATCH)


@case
def dcgan_generator():
    return nn.Sequential(nn.ConvTranspose2d(10, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True), nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh()), (torch.randn(2, 10, 1, 1),), (BATCH,)


@case
def stylegan_like_modulated_conv():
    def f(s, x, w):
        b, c, h, wd = x.shape
        style = s.modules_[0](w)
        k = s.weight[None] * style[:, None, :, None, None]
        k = k * torch.rsqrt(k.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, b * c, h, wd), k.reshape(-1, c, 3, 3), padding=1, groups=b)
        return F.leaky_relu(y.reshape(b, -1, h, wd), 0.2)
    return Fn(f, nn.Linear(6, 8), weight=torch.randn(12, 8, 3, 3)), (torch.randn(2, 8, 8, 8), torch.randn(2, 6)), None


@case
def pix2pix_instance_norm():
    return nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(3, 8, 7), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.ReplicationPad2d(1), nn.Conv2d(8, 8, 3), nn.InstanceNorm2d(8), nn.PReLU(8), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(8, 3, 3, padding=1), nn.Tanh()), (torch.randn(2, 3, 16, 18),), (BATCH,)


@case
def super_resolution_pixel_shuffle():
    return nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.GELU(), nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3), nn.PixelUnshuffle(3), nn.Conv2d(9, 4, 1), nn.PixelShuffle(2)), (torch.randn(2, 1, 12, 12),), ({0: (1, 4), 2: (4, 20), 3: (4, 20)},)


@case
def mlp_mixer():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(24), nn.LayerNorm(24)
            self.t, self.c = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))
        def forward(self, x):
            x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.c(self.n2(x))
    return nn.Sequential(nn.Conv2d(3, 24, 8, 8), nn.Flatten(2), Fn(lambda s, x: x.transpose(1, 2)), Block(), Block(), Fn(lambda s, x: x.mean(1)), nn.Linear(24, 5)), (torch.randn(2, 3, 32, 32),), (BATCH,)


@case
def moe_one_hot():
    class Net(nn.Module):
        def __init__(self, d=16, e=4):
            super().__init__()
            self.gate, self.w1, self.w2, self.e = nn.Linear(d, e), nn.Parameter(torch.randn(e, d, 32) * 0.2), nn.Parameter(torch.randn(e, 32, d) * 0.2), e
        def forward(self, x):
            p = self.gate(x).softmax(-1)
            w, i = p.topk(2, -1)
            w = w / w.sum(-1, keepdim=True)
            combine = (F.one_hot(i, self.e).to(x.dtype) * w[..., None]).sum(-2)
            h = F.silu(torch.einsum("btd,edh->bteh", x, self.w1))
            return torch.einsum("bteh,ehd,bte->btd", h, self.w2, combine)
    return Net(), (torch.randn(2, 7, 16),), ({0: (1, 4), 1: (2, 12)},)


@case
def moe_index_add():
    class Net(nn.Module):
        def __init__(self, d=16, e=4, cap=6):
            super().__init__()
            self.gate, self.w = nn.Linear(d, e), nn.Parameter(torch.randn(e, d, d) * 0.2)
            self.cap = cap
        def forward(self, x):
            s = self.gate(x).softmax(-1)
            g, i = s.t().topk(self.cap, -1)
            y = torch.bmm(x[i.reshape(-1)].reshape(i.shape[0], self.cap, -1), self.w) * g[..., None]
            return torch.zeros_like(x).index_add(0, i.reshape(-1), y.reshape(-1, x.shape[-1]))
    return Net(), (torch.randn(12, 16),), None


@case
def rope_complex():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            f = 1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8))
            a = torch.outer(torch.arange(32).float(), f)
            self.register_buffer("freqs", torch.polar(torch.ones_like(a), a))
            self.q = nn.Linear(16, 16)
        def forward(self, x):
            b, t, d = x.shape
            q = self.q(x).view(b, t, 2, 8)
            qc = torch.view_as_complex(q.float().reshape(b, t, 2, 4, 2))
            return torch.view_as_real(qc * self.freqs[:t].view(1, t, 1, 4)).flatten(3).type_as(x).reshape(b, t, d)
    return Net(), (torch.randn(2, 9, 16),), ({0: (1, 4), 1: (2, 30)},)


@case
def rope_interleaved_real():
    def f(s, x, pos):
        a = pos[..., None].float() * s.inv
        cos, sin = a.cos().repeat_interleave(2, -1), a.sin().repeat_interleave(2, -1)
        x1, x2 = x[..., ::2], x[..., 1::2]
        return x * cos + torch.stack((-x2, x1), -1).flatten(-2) * sin
    return Fn(f, inv=1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8))), (torch.randn(2, 9, 8), torch.arange(9).expand(2, 9).contiguous()), ({0: (1, 4), 1: (2, 30)},) * 2


@case
def recommender():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(n, 8) for n in (20, 30, 50))
            self.bag, self.bot, self.top = nn.EmbeddingBag(40, 8, mode="mean"), nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Sequential(nn.Linear(8 + 10, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
        def forward(self, dense, cats, hist):
            d = self.bot(dense)
            v = torch.stack([d, self.bag(hist)] + [t(cats[:, i]) for i, t in enumerate(self.tables)], 1)
            z = torch.bmm(v, v.transpose(1, 2))
            i, j = torch.tril_indices(5, 5, -1)
            return self.top(torch.cat([d, z[:, i, j]], 1))
    return Net(), (torch.randn(4, 5), torch.randint(0, 20, (4, 3)), torch.randint(0, 40, (4, 6))), (BATCH,) * 3


@case
def embedding_bag_offsets():
    bags = nn.EmbeddingBag(40, 8, mode="sum"), nn.EmbeddingBag(40, 8, mode="mean"), nn.EmbeddingBag(40, 8, mode="max")
    return Fn(lambda s, i: tuple(m(i, s.offsets) for m in s.modules_), *bags, offsets=torch.tensor([0, 3, 7])), (torch.randint(0, 40, (11,)),), None


@case
def deepfm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e, self.w, self.mlp = nn.Embedding(60, 6), nn.Embedding(60, 1), nn.Sequential(nn.Linear(24, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
            self.register_buffer("offsets", torch.tensor([0, 15, 30, 45]))
        def forward(self, x):
            x = x + self.offsets
            e = self.e(x)
            fm = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1, keepdim=True)
            return torch.sigmoid(self.w(x).sum(1) + fm + self.mlp(e.flatten(1))).squeeze(1)
    return Net(), (torch.randint(0, 15, (4, 4)),), (BATCH,)


def knn(x, k):
    d = (x[:, :, None] - x[:, None]).square().sum(-1)
    return d.topk(k, dim=-1, largest=False).indices


@case
def pointnet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU()), nn.Conv1d(16, 32, 1), nn.Linear(32, 5)
            self.t = nn.Linear(16, 9)
        def forward(self, p):
            h = self.a(p)
            t = self.t(h.amax(-1)).view(-1, 3, 3) + torch.eye(3)
            h = self.b(self.a(torch.bmm(t, p)))
            g = torch.max(h, 2)[0]
            return self.c(g)
    return Net(), (torch.randn(2, 3, 20),), ({0: (1, 4), 2: (5, 40)},)


@case
def dgcnn_knn_gather():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16))
        def forward(self, p):
            b, n, _ = p.shape
            i = knn(p, 4)
            nb = torch.gather(p[:, None].expand(b, n, n, 3), 2, i[..., None].expand(b, n, 4, 3))
            e = torch.cat([nb - p[:, :, None], p[:, :, None].expand(b, n, 4, 3)], -1)
            return self.c(e).max(2).values.mean(1)
    return Net(), (torch.randn(2, 12, 3),), (BATCH,)


@case
def gcn_index_add():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l1, self.l2 = nn.Linear(8, 16), nn.Linear(16, 4)
        def conv(self, x, src, dst, lin):
            n = x.shape[0]
            deg = torch.zeros(n).index_add(0, dst, torch.ones_like(dst, dtype=torch.float32)) + 1
            norm = deg.rsqrt()
            h = lin(x)
            m = h[src] * (norm[src] * norm[dst])[:, None]
            return torch.zeros_like(h).index_add_(0, dst, m) + h * norm.square()[:, None]
        def forward(self, x, edges):
            x = F.relu(self.conv(x, edges[0], edges[1], self.l1))
            return self.conv(x, edges[0], edges[1], self.l2).log_softmax(1)
    return Net(), (torch.randn(10, 8), torch.randint(0, 10, (2, 24))), None


@case
def gat_scatter_softmax():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.a, self.b = nn.Linear(8, 16), nn.Parameter(torch.randn(16)), nn.Parameter(torch.randn(16))
        def forward(self, x, edges):
            h, (s, d), n = self.w(x), (edges[0], edges[1]), x.shape[0]
            e = F.leaky_relu((h @ self.a)[s] + (h @ self.b)[d], 0.2)
            top = torch.full((n,), -1e30).scatter_reduce(0, d, e, "amax")
            w = (e - top[d]).exp()
            z = torch.zeros(n).scatter_add(0, d, w)
            out = torch.zeros_like(h).scatter_add_(0, d[:, None].expand(-1, 16), h[s] * (w / (z[d] + 1e-9))[:, None])
            return F.elu(out)
    return Net(), (torch.randn(10, 8), torch.randint(0, 10, (2, 24))), None


@case
def graph_dense_pool():
    def f(s, x, adj):
        a = adj + torch.eye(adj.shape[-1])
        d = a.sum(-1).clamp(min=1).rsqrt()
        a = a * d[..., None] * d[:, None]
        z = F.relu(a @ s.modules_[0](x))
        p = (a @ s.modules_[1](x)).softmax(-1)
        return p.transpose(1, 2) @ z, p.transpose(1, 2) @ a @ p
    return Fn(f, nn.Linear(6, 8), nn.Linear(6, 3)), (torch.randn(2, 7, 6), (torch.rand(2, 7, 7) > 0.6).float()), (BATCH, BATCH)


@case
def attention_bool_masks():
    def f(s, x, pad):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, 4, 4).transpose(1, 2) for y in s.modules_[0](x).split(16, -1))
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        m = causal[None, None] & ~pad[:, None, None]
        m = m | torch.eye(t, dtype=torch.bool)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=m).transpose(1, 2).reshape(b, t, 16)
    return Fn(f, nn.Linear(16, 48)), (torch.randn(2, 9, 16), torch.zeros(2, 9, dtype=torch.bool)), ({0: (1, 4), 1: (2, 24)},) * 2


@case
def attention_alibi_manual():
    def f(s, x):
        b, t, _ = x.shape
        q, k, v = s.modules_[0](x).view(b, t, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        pos = torch.arange(t)
        bias = -(pos[:, None] - pos[None]).abs()[None] * torch.tensor([0.5, 0.25, 0.125, 0.0625])[:, None, None]
        a = q @ k.transpose(-1, -2) / 2 + bias
        a = a.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf"))
        return (a.softmax(-1) @ v).transpose(1, 2).flatten(2)
    return Fn(f, nn.Linear(16, 48)), (torch.randn(2, 9, 16),), ({0: (1, 4), 1: (2, 24)},)


@case
def multihead_attention_module():
    m = nn.MultiheadAttention(16, 4, batch_first=True)
    return Fn(lambda s, x, y: s.modules_[0](x, y, y, need_weights=True), m), (torch.randn(2, 5, 16), torch.randn(2, 8, 16)), (BATCH, BATCH)


@case
def nn_transformer():
    m = nn.Transformer(16, 2, 1, 1, 32, batch_first=True, norm_first=True)
    return Fn(lambda s, x, y: s.modules_[0](x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(6)), m), (torch.randn(2, 8, 16), torch.randn(2, 6, 16)), (BATCH, BATCH)


@case
def nn_transformer_encoder():
    m = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu"), 2)
    return Fn(lambda s, x, p: s.modules_[0](x, src_key_padding_mask=p), m), (torch.randn(2, 8, 16), torch.tensor([[False] * 8, [False] * 6 + [True] * 2])), None


@case
def linear_attention():
    def f(s, x):
        q, k, v = s.modules_[0](x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("btd,bte->btde", k, v).cumsum(1)
        return torch.einsum("btd,btde->bte", q, kv) / (torch.einsum("btd,btd->bt", q, k.cumsum(1))[..., None] + 1e-6)
    return Fn(f, nn.Linear(8, 24)), (torch.randn(2, 9, 8),), ({0: (1, 4), 1: (2, 24)},)


@case
def local_attention_unfold():
    def f(s, x):
        b, t, d = x.shape
        q, k, v = s.modules_[0](x).chunk(3, -1)
        k, v = (F.pad(y, (0, 0, 3, 0)).unfold(1, 4, 1) for y in (k, v))
        a = torch.einsum("btd,btdw->btw", q, k).softmax(-1)
        return torch.einsum("btw,btdw->btd", a, v)
    return Fn(f, nn.Linear(8, 24)), (torch.randn(2, 9, 8),), (BATCH,)


@case
def kv_cache_index_copy():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)
            self.register_buffer("k", torch.zeros(1, 4, 16, 4))
            self.register_buffer("v", torch.zeros(1, 4, 16, 4))
        def forward(self, x, pos):
            q, k, v = (y.view(1, -1, 4, 4).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
            self.k.index_copy_(2, pos, k)
            self.v.index_copy_(2, pos, v)
            m = torch.arange(16)[None] <= pos[:, None]
            return F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=m).transpose(1, 2).flatten(2)
    return Net(), (torch.randn(1, 1, 16), torch.tensor([3])), None


@case
def kv_cache_slice_write():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(2, 16, 8))
            self.l = nn.Linear(8, 8)
        def forward(self, x):
            self.k[:, 4:8] = self.l(x)
            self.k[:, 0] += 1.0
            return (self.k @ x.transpose(1, 2)).softmax(1)
    return Net(), (torch.randn(2, 4, 8),), None


@case
def kv_cache_index_put():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(2, 16, 8))
        def forward(self, x, pos):
            self.k[:, pos] = x
            return self.k.sum(1)
    return Net(), (torch.randn(2, 3, 8), torch.tensor([1, 5, 9])), None


@case
def shift_register_state():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv1d(4, 6, 5)
            self.register_buffer("past", torch.zeros(1, 4, 4))
        def forward(self, x):
            y = torch.cat([self.past, x], 2)
            self.past.copy_(y[:, :, -4:])
            return self.c(y)
    return Net(), (torch.randn(1, 4, 8),), None


@case
def quantile_sort_post():
    def f(s, x):
        q = torch.quantile(x, s.q, dim=1)
        v, i = x.sort(dim=1, descending=True)
        c = v.softmax(-1).cumsum(-1)
        keep = (c < 0.8).to(x.dtype)
        return q, torch.zeros_like(x).scatter(1, i, v * keep), x.median(1).values, x.kthvalue(2, 1).values, torch.argsort(x, 1), x.msort()
    return Fn(f, q=torch.tensor([0.1, 0.5, 0.9])), (torch.randn(3, 17),), None


@case
def normalisations():
    def f(s, x):
        y = s.modules_[0](x) + s.modules_[1](x) + s.modules_[2](x) + F.normalize(x, dim=1) + F.local_response_norm(x, 3)
        z = s.modules_[3](x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        std, mean = torch.std_mean(x, (2, 3), keepdim=True)
        return y + z + (x - mean) / (std + 1e-5) + F.rms_norm(x, (6,)) + x / x.norm(dim=1, keepdim=True)
    return Fn(f, nn.BatchNorm2d(8), nn.GroupNorm(2, 8), nn.InstanceNorm2d(8), nn.LayerNorm(8)), (torch.randn(2, 8, 5, 6),), (BATCH,)


@case
def activations():
    names = "relu relu6 elu selu celu gelu silu mish hardswish hardsigmoid hardtanh softplus softsign tanhshrink logsigmoid leaky_relu hardshrink softshrink".split()
    return Fn(lambda s, x: torch.stack([getattr(F, n)(x) for n in names] + [F.glu(torch.cat([x, x], -1)), F.threshold(x, 0.1, 2.0), F.gelu(x, approximate="tanh")])), (torch.randn(3, 33),), (BATCH,)


def box_iou(a, b):
    lt, rb = torch.max(a[:, None, :2], b[None, :, :2]), torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
    return inter / (area(a)[:, None] + area(b)[None] - inter + 1e-6)


@case
def detection_head_retina():
    def f(s, feat):
        cls, reg = s.modules_[0](feat), s.modules_[1](feat)
        b, _, h, w = cls.shape
        cls = cls.view(b, 3, 4, h, w).permute(0, 3, 4, 1, 2).reshape(b, -1, 4).sigmoid()
        reg = reg.view(b, 3, 4, h, w).permute(0, 3, 4, 1, 2).reshape(b, -1, 4)
        ys, xs = torch.meshgrid(torch.arange(h, dtype=torch.float32), torch.arange(w, dtype=torch.float32), indexing="ij")
        ctr = torch.stack([xs, ys], -1).reshape(-1, 1, 2).expand(-1, 3, 2).reshape(-1, 2) * 8
        size = s.sizes[None].expand(h * w, 3, 2).reshape(-1, 2)
        xy, wh = ctr + reg[..., :2] * size, size * reg[..., 2:].clamp(max=4).exp()
        boxes = torch.cat([xy - wh / 2, xy + wh / 2], -1).clamp(0, 64)
        score, label = cls.max(-1)
        top, i = score.topk(10, dim=1)
        picked = boxes.gather(1, i[..., None].expand(-1, -1, 4))
        return picked, torch.where(top > 0.5, top, torch.zeros_like(top)), label.gather(1, i)
    return Fn(f, nn.Conv2d(8, 12, 3, padding=1), nn.Conv2d(8, 12, 3, padding=1), sizes=torch.tensor([[8.0, 8], [16, 8], [8, 16]])), (torch.randn(2, 8, 8, 8),), (BATCH,)


@case
def nms_matrix_soft():
    def f(s, boxes, scores):
        o = scores.argsort(descending=True)
        b, sc = boxes[o], scores[o]
        iou = box_iou(b, b).triu(1)
        comp = iou.max(0).values
        decay = ((1 - iou) / (1 - comp[:, None]).clamp(min=1e-3)).min(0).values
        return b, sc * decay
    xy = torch.rand(12, 2) * 20
    return Fn(f), (torch.cat([xy, xy + 5 + torch.rand(12, 2) * 5], 1), torch.rand(12)), None


@case
def yolo_head():
    def f(s, x):
        outs = []
        for m, stride in zip(s.modules_, (8, 16)):
            y = m(x)
            b, c, h, w = y.shape
            y = y.view(b, 3, c // 3, h, w).permute(0, 1, 3, 4, 2).sigmoid()
            yv, xv = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack((xv, yv), 2).expand(1, 3, h, w, 2).float()
            xy, wh = (y[..., 0:2] * 2 + grid - 0.5) * stride, (y[..., 2:4] * 2) ** 2 * stride
            outs.append(torch.cat((xy, wh, y[..., 4:]), 4).view(b, -1, c // 3))
            x = F.max_pool2d(x, 2)
        return torch.cat(outs, 1)
    return Fn(f, nn.Conv2d(8, 21, 1), nn.Conv2d(8, 21, 1)), (torch.randn(2, 8, 8, 8),), (BATCH,)


@case
def fpn_spp():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 12, 3, 2, 1), nn.Conv2d(12, 16, 3, 2, 1)])
            self.l, self.spp = nn.ModuleList([nn.Conv2d(c, 8, 1) for c in (8, 12, 16)]), nn.Conv2d(64, 16, 1)
        def forward(self, x):
            fs = []
            for c in self.c:
                x = F.mish(c(x))
                fs.append(x)
            fs[-1] = self.spp(torch.cat([x] + [F.max_pool2d(x, k, 1, k // 2) for k in (3, 5, 7)], 1))
            p = self.l[2](fs[2])
            outs = [p]
            for i in (1, 0):
                p = self.l[i](fs[i]) + F.interpolate(p, size=fs[i].shape[-2:], mode="nearest")
                outs.append(p)
            return tuple(outs)
    return Net(), (torch.randn(2, 3, 48, 40),), (BATCH,)


@case
def roi_align_grid_sample():
    def f(s, feat, boxes):
        y = (torch.arange(4) + 0.5) / 4
        gx = boxes[:, 0:1] + (boxes[:, 2:3] - boxes[:, 0:1]) * y
        gy = boxes[:, 1:2] + (boxes[:, 3:4] - boxes[:, 1:2]) * y
        grid = torch.stack([gx[:, None].expand(-1, 4, 4), gy[:, :, None].expand(-1, 4, 4)], -1) * 2 - 1
        return F.grid_sample(feat, grid, align_corners=False)
    return Fn(f), (torch.randn(3, 6, 10, 10), torch.rand(3, 4)), None


@case
def spatial_transformer_affine():
    def f(s, x):
        theta = s.modules_[0](x.mean((2, 3))).view(-1, 2, 3) * 0.1
        return F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), padding_mode="border", align_corners=False)
    return Fn(f, nn.Linear(3, 6)), (torch.randn(2, 3, 9, 11),), None


@case
def spectral_fft_mixer():
    return Fn(lambda s, x: torch.fft.irfft(torch.fft.rfft(x, dim=1) * torch.view_as_complex(s.w), n=16, dim=1), w=torch.randn(9, 8, 2)), (torch.randn(2, 16, 8),), (BATCH,)


@case
def stft_frontend():
    def f(s, x):
        z = torch.stft(x, 32, 16, 32, s.window, center=True, return_complex=True)
        p = z.real.square() + z.imag.square()
        return (s.mel @ p).clamp(min=1e-5).log10()
    return Fn(f, window=torch.hann_window(32), mel=torch.rand(8, 17)), (torch.randn(2, 200),), (BATCH,)


@case
def mel_frontend_conv():
    return Fn(lambda s, x: (s.mel @ F.conv1d(F.pad(x[:, None], (16, 16), mode="reflect"), s.basis, stride=16).unflatten(1, (2, 17)).square().sum(1)).clamp(min=1e-5).log(), basis=torch.randn(34, 1, 32), mel=torch.rand(8, 17)), (torch.randn(2, 200),), (BATCH,)


@case
def siamese_contrastive():
    def f(s, a, b):
        x, y = F.normalize(s.modules_[0](a), dim=-1), F.normalize(s.modules_[0](b), dim=-1)
        return F.cosine_similarity(x, y), torch.cdist(x, y), F.pairwise_distance(x, y), (x @ y.t() / 0.07).log_softmax(-1)
    return Fn(f, nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 6))), (torch.randn(3, 10), torch.randn(3, 10)), (BATCH, BATCH)


@case
def vector_quantizer():
    def f(s, x):
        b, c, h, w = x.shape
        flat = x.permute(0, 2, 3, 1).reshape(-1, c)
        d = flat.square().sum(1, keepdim=True) - 2 * flat @ s.book.t() + s.book.square().sum(1)
        i = d.argmin(1)
        q = F.embedding(i, s.book).view(b, h, w, c).permute(0, 3, 1, 2)
        return x + (q - x).detach(), i.view(b, h, w), F.mse_loss(q, x)
    return Fn(f, book=torch.randn(20, 6)), (torch.randn(2, 6, 4, 5),), (BATCH,)


@case
def tabular_tree_soft():
    def f(s, x):
        g = (s.modules_[0](x) * 5).sigmoid()
        p = torch.ones(x.shape[0], 1)
        for d in range(3):
            g_d = g[:, 2**d - 1 : 2 ** (d + 1) - 1]
            p = torch.stack([p * g_d, p * (1 - g_d)], -1).flatten(1)
        return p @ s.leaf
    return Fn(f, nn.Linear(6, 7), leaf=torch.randn(8, 2)), (torch.randn(4, 6),), (BATCH,)


@case
def gradient_boosted_lookup():
    def f(s, x):
        i = torch.zeros(x.shape[0], 5, dtype=torch.int64)
        for _ in range(3):
            feat = s.feature.gather(1, i.t()).t()
            go = x.gather(1, feat) > s.cut.gather(1, i.t()).t()
            i = 2 * i + 1 + go.to(torch.int64)
        return s.leaf.gather(1, (i - 7).t()).t().sum(1)
    return Fn(f, feature=torch.randint(0, 6, (5, 7)), cut=torch.randn(5, 7), leaf=torch.randn(5, 8)), (torch.randn(4, 6),), (BATCH,)


@case
def crf_viterbi():
    def f(s, e):
        score, back = s.start + e[:, 0], []
        for t in range(1, 6):
            best, i = (score[:, :, None] + s.trans[None]).max(1)
            score = best + e[:, t]
            back.append(i)
        last = score.argmax(1, keepdim=True)
        tags = [last]
        for i in reversed(back):
            last = i.gather(1, last)
            tags.append(last)
        return torch.cat(tags[::-1], 1), score.logsumexp(1)
    return Fn(f, start=torch.randn(4), trans=torch.randn(4, 4)), (torch.randn(2, 6, 4),), (BATCH,)


@case
def ode_rk4():
    def f(s, x):
        h = 0.1
        for _ in range(3):
            k1 = s.modules_[0](x); k2 = s.modules_[0](x + h / 2 * k1); k3 = s.modules_[0](x + h / 2 * k2); k4 = s.modules_[0](x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x
    return Fn(f, nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))), (torch.randn(3, 4),), (BATCH,)


@case
def nerf_positional():
    def f(s, p):
        fr = 2.0 ** torch.arange(4)
        a = p[..., None, :] * fr[:, None]
        e = torch.cat([p, a.sin().flatten(-2), a.cos().flatten(-2)], -1)
        rgb, sigma = s.modules_[0](e).split([3, 1], -1)
        alpha = 1 - torch.exp(-F.relu(sigma.squeeze(-1)) * 0.1)
        T = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        return ((alpha * T)[..., None] * rgb.sigmoid()).sum(1)
    return Fn(f, nn.Sequential(nn.Linear(27, 32), nn.ReLU(), nn.Linear(32, 4))), (torch.randn(3, 8, 3),), (BATCH,)


@case
def flow_coupling():
    def f(s, x):
        logdet = 0
        for m in s.modules_:
            a, b = x.chunk(2, -1)
            sc, t = m(a).chunk(2, -1)
            sc = sc.tanh()
            x = torch.cat([b * sc.exp() + t, a], -1).flip(-1)
            logdet = logdet + sc.sum(-1)
        return x, logdet
    return Fn(f, *(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6)) for _ in range(3))), (torch.randn(4, 6),), (BATCH,)


@case
def kalman_linalg():
    def f(s, x, P):
        F_ = torch.eye(3) + s.a
        x = (F_ @ x[..., None])[..., 0]
        P = F_ @ P @ F_.transpose(-1, -2) + torch.eye(3) * 0.1
        S = P[..., :1, :1] + 0.5
        K = P[..., :1] / S
        return x + (K @ (1 - x[..., :1, None]))[..., 0], P - K @ P[..., :1, :], torch.diagonal(P, dim1=-2, dim2=-1), P.diagonal(dim1=-2, dim2=-1).sum(-1)
    return Fn(f, a=torch.randn(3, 3) * 0.1), (torch.randn(2, 3), torch.eye(3).repeat(2, 1, 1)), (BATCH, BATCH)


@case
def shufflenet_channel_shuffle():
    def f(s, x):
        b, c, h, w = x.shape
        y = s.modules_[0](x).view(b, 4, c // 4, h, w).transpose(1, 2).reshape(b, c, h, w)
        l, r = y.chunk(2, 1)
        return torch.cat([l, s.modules_[1](r)], 1)
    return Fn(f, nn.Conv2d(16, 16, 1, groups=4), nn.Conv2d(8, 8, 3, padding=1, groups=8)), (torch.randn(2, 16, 9, 9),), (BATCH,)


@case
def inception_pools():
    def f(s, x):
        a = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        b = F.max_pool2d(x, 3, 2, ceil_mode=True)
        c = F.lp_pool2d(x, 2, 2)
        return torch.cat([s.modules_[0](x), s.modules_[1](x), a], 1), b, c, F.adaptive_max_pool2d(x, (3, 2)), F.adaptive_avg_pool2d(x, (5, 4)), F.avg_pool1d(x.flatten(2), 4)
    return Fn(f, nn.Conv2d(6, 4, (1, 7), padding=(0, 3)), nn.Conv2d(6, 4, (7, 1), padding=(3, 0))), (torch.randn(2, 6, 13, 11),), (BATCH,)


@case
def densenet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(6 + 4 * i), nn.ReLU(), nn.Conv2d(6 + 4 * i, 4, 3, padding=1)) for i in range(4))
            self.t = nn.Sequential(nn.BatchNorm2d(22), nn.ReLU(), nn.Conv2d(22, 8, 1), nn.AvgPool2d(2, 2))
        def forward(self, x):
            for l in self.l: x = torch.cat([x, l(x)], 1)
            return self.t(x)
    return Net(), (torch.randn(2, 6, 12, 12),), (BATCH,)


@case
def ghost_channels_last():
    m = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6(), nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.ReLU6()).to(memory_format=torch.channels_last)
    return m, (torch.randn(2, 3, 24, 24),), (BATCH,)


@case
def deep_supervision_dict_outputs():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)
        def forward(self, inp):
            h = F.relu(self.a(inp["x"]))
            return {"out": self.b(h), "aux": [h, h.mean()], "n": inp["y"]}
    return Net(), ({"x": torch.randn(3, 8), "y": torch.randn(3)},), None


@case
def multi_dtype_ints():
    def f(s, x, m):
        y = (x.to(torch.int32) * 3) >> 1
        z = x.to(torch.uint8).float() / 255
        return y, z, (m.to(torch.int8) + 1).to(torch.float16), x.to(torch.float64).sum(), torch.bitwise_xor(y, y.flip(0)), m.logical_not().sum(-1)
    return Fn(f), (torch.randint(0, 200, (4, 6)), torch.rand(4, 6) > 0.5), (BATCH, BATCH)


@case
def image_preprocess_uint8():
    def f(s, x):
        x = x.permute(0, 3, 1, 2).float() / 255
        x = F.interpolate(x, size=(24, 24), mode="bicubic", align_corners=False, antialias=True)
        return (x.clamp(0, 1) - s.mean) / s.std
    return Fn(f, mean=torch.tensor([0.48, 0.45, 0.4]).view(1, 3, 1, 1), std=torch.tensor([0.27, 0.26, 0.28]).view(1, 3, 1, 1)), (torch.randint(0, 255, (2, 40, 36, 3), dtype=torch.uint8),), (BATCH,)


@case
def int8_weight_only_linear():
    def f(s, x):
        w = s.w.to(x.dtype) * s.scale[:, None]
        return F.linear(x, w)
    return Fn(f, w=torch.randint(-127, 127, (16, 8), dtype=torch.int8), scale=torch.rand(16) * 0.01), (torch.randn(3, 8),), (BATCH,)


@case
def fake_quant():
    def f(s, x):
        q = torch.clamp(torch.round(x / 0.05) + 3, -128, 127)
        return F.linear((q - 3) * 0.05, s.w), torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
    return Fn(f, w=torch.randn(4, 8)), (torch.randn(3, 8),), (BATCH,)


@case
def control_flow_cond():
    def f(s, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    return Fn(f), (torch.randn(3, 4),), None


@case
def data_dependent_nonzero():
    return Fn(lambda s, x: x[x > 0].sum()), (torch.randn(3, 4),), None


@case
def cholesky_solve():
    return Fn(lambda s, x, b: torch.linalg.solve(x @ x.transpose(-1, -2) + torch.eye(4), b)), (torch.randn(2, 4, 4), torch.randn(2, 4, 3)), None


@case
def random_dropout_train():
    return Fn(lambda s, x: F.dropout(x, 0.5, True)), (torch.randn(3, 4),), None


@case
def beam_search_step():
    def f(s, logits, scores):
        p = logits.log_softmax(-1) + scores[:, :, None]
        v, i = p.flatten(1).topk(3, -1)
        beam = torch.div(i, 11, rounding_mode="floor")
        return v, beam, i % 11, torch.take_along_dim(logits, beam[..., None], 1)
    return Fn(f), (torch.randn(2, 3, 11), torch.randn(2, 3)), (BATCH, BATCH)


@case
def sampling_top_p():
    def f(s, logits):
        srt, i = torch.sort(logits, descending=True, dim=-1)
        remove = srt.softmax(-1).cumsum(-1) > 0.9
        remove = torch.cat([torch.zeros_like(remove[..., :1]), remove[..., :-1]], -1)
        remove = remove.scatter(-1, i, remove)
        out = logits.masked_fill(remove, float("-inf"))
        return out.softmax(-1), out.argmax(-1)
    return Fn(f), (torch.randn(2, 19),), (BATCH,)


@case
def masked_scatter_vlm():
    def f(s, ids, img):
        e = s.modules_[0](ids)
        m = (ids == 7)[..., None].expand_as(e)
        return e.masked_scatter(m, img.to(e.dtype))
    i = torch.randint(8, 20, (2, 6)); i[:, 1:3] = 7
    return Fn(f, nn.Embedding(20, 4)), (i, torch.randn(4, 4)), None


@case
def bucketize_histogram():
    def f(s, x):
        return torch.bucketize(x, s.edges), torch.searchsorted(s.edges, x), torch.histc(x, 5, -2, 2)
    return Fn(f, edges=torch.tensor([-1.0, -0.5, 0, 0.5, 1.0])), (torch.randn(30),), None


@case
def bucketize_relative_positions():
    def f(s, x):
        t = x.shape[1]
        rel = torch.arange(t)[None] - torch.arange(t)[:, None]
        i = torch.bucketize(rel, s.edges)
        return x + s.modules_[0](i).sum(1)
    return Fn(f, nn.Embedding(6, 8), edges=torch.tensor([-4, -2, 0, 2, 4])), (torch.randn(2, 9, 8),), ({0: (1, 4), 1: (2, 24)},)


@case
def pairformer_triangle():
    def f(s, z):
        n = s.modules_[0](z)
        a, b = s.modules_[1](n).chunk(2, -1)
        x = torch.einsum("bikc,bjkc->bijc", a.sigmoid(), b)
        return z + s.modules_[2](x) * s.modules_[2](n).sigmoid()
    return Fn(f, nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(8, 8)), (torch.randn(1, 7, 7, 8),), None


@case
def hyena_long_conv():
    def f(s, x):
        t = x.shape[-1]
        fx = torch.fft.rfft(x, n=32)
        fk = torch.fft.rfft(s.k, n=32)
        return torch.fft.irfft(fx * fk, n=32)[..., :t] + x * s.d[:, None]
    return Fn(f, k=torch.randn(4, 16), d=torch.randn(4)), (torch.randn(2, 4, 16),), (BATCH,)


@case
def selective_scan_loop():
    def f(s, x):
        b, t, d = x.shape
        dt, B, C = F.softplus(s.modules_[0](x)), s.modules_[1](x), s.modules_[2](x)
        h, ys = torch.zeros(b, d, 4), []
        for i in range(t):
            h = h * torch.exp(dt[:, i, :, None] * s.A) + dt[:, i, :, None] * B[:, i, None] * x[:, i, :, None]
            ys.append((h * C[:, i, None]).sum(-1))
        return torch.stack(ys, 1)
    return Fn(f, nn.Linear(6, 6), nn.Linear(6, 4), nn.Linear(6, 4), A=-torch.rand(6, 4)), (torch.randn(2, 8, 6),), (BATCH,)
