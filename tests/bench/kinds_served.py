"""What is served: parts of language models, diffusion, speech, detection, with their caches, routes and stored bytes: (module, arguments) by name."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from kinds_nets import Fn, I, R, net

linear = lambda i, o, bias=False: nn.Linear(i, o, bias=bias)
heads = lambda x, n: x.view(*x.shape[:-1], n, -1).transpose(-3, -2)
joined = lambda x: x.transpose(-3, -2).flatten(-2)


class RMS(nn.Module):
    def __init__(s, d):
        super().__init__()
        s.w = nn.Parameter(torch.ones(d))

    def forward(s, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * s.w


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


# language models
def gqa_decode(b, kv=1024, d=1024, n=16, nkv=4):
    def f(m, x, k, v, pos, cos, sin):
        y = m.norm(x)
        q, key, value = heads(m.q(y), n), heads(m.k(y), nkv), heads(m.v(y), nkv)
        q, key = rotated(q, cos, sin), rotated(key, cos, sin)
        k, v = k.index_copy(2, pos, key), v.index_copy(2, pos, value)
        mask = (torch.arange(kv, device=x.device) <= pos)[None, None, None]
        x = x + m.o(joined(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)))
        y = m.norm2(x)
        return x + m.down(F.silu(m.gate(y)) * m.up(y)), k, v
    e = d // n
    return Fn(f, norm=RMS(d), norm2=RMS(d), q=linear(d, d), k=linear(d, nkv * e), v=linear(d, nkv * e), o=linear(d, d), gate=linear(d, 4 * d), up=linear(d, 4 * d), down=linear(4 * d, d)), (
        R(b, 1, d), R(b, nkv, kv, e), R(b, nkv, kv, e), torch.tensor([700]), R(1, e // 2), R(1, e // 2))


@net
def gqa_decode_8():
    return gqa_decode(8)


@net
def gqa_decode_32():
    return gqa_decode(32)


@net
def sliding_prefill(s=2048, d=512, n=8, window=256):
    def f(m, x):
        q, k, v = (heads(a, n) for a in m.qkv(x).chunk(3, -1))
        i = torch.arange(s, device=x.device)
        far = i[:, None] - i[None]
        return x + m.o(joined(F.scaled_dot_product_attention(q, k, v, attn_mask=(far >= 0) & (far < window))))
    return Fn(f, qkv=linear(d, 3 * d), o=linear(d, d)), (R(1, s, d),)


@net
def softcap_attention(b=1, s=512, n=8, e=64):
    def f(m, q, k, v):
        a = torch.tanh(q @ k.transpose(-1, -2) / math.sqrt(e) / 30) * 30
        causal = torch.ones(s, s, dtype=torch.bool, device=q.device).tril()
        return torch.softmax(a.masked_fill(~causal, float("-inf")).float(), -1).to(v.dtype) @ v
    return Fn(f), (R(b, n, s, e), R(b, n, s, e), R(b, n, s, e))


@net
def mla_decode(b=8, kv=1024, n=16, c=512, r=64):
    def f(m, q, qr, kv_c, k_r):
        a = torch.einsum("bnc,bkc->bnk", q, kv_c) + torch.einsum("bnr,bkr->bnk", qr, k_r)
        return torch.einsum("bnk,bkc->bnc", torch.softmax(a.float() / math.sqrt(c + r), -1).to(q.dtype), kv_c)
    return Fn(f), (R(b, n, c), R(b, n, r), R(b, kv, c), R(b, kv, r))


def int8_block(b, d=1024):
    """Weights as bytes with a scale a column: a block of gate, up and down."""
    def f(m, x):
        w = lambda a, s: a.to(x.dtype) * s[:, None]
        return x + (F.silu(x @ w(m.gate, m.sg).T) * (x @ w(m.up, m.su).T)) @ w(m.down, m.sd).T
    return Fn(f, gate=torch.randint(-127, 128, (4 * d, d), dtype=torch.int8), up=torch.randint(-127, 128, (4 * d, d), dtype=torch.int8), down=torch.randint(-127, 128, (d, 4 * d), dtype=torch.int8),
              sg=torch.rand(4 * d) / 4000, su=torch.rand(4 * d) / 4000, sd=torch.rand(d) / 4000), (R(b, d),)


@net
def int8_weights_decode():
    return int8_block(1)


@net
def int8_weights_prefill():
    return int8_block(256)


def int4_block(b, d=1024, o=4096, g=128):
    """Weights as nibbles, a scale and a zero a group."""
    def f(m, x):
        low, high = m.w & 15, m.w >> 4
        q = torch.stack([low, high], -1).view(o, d // g, g).to(x.dtype)
        return x @ ((q - m.z[..., None]) * m.s[..., None]).view(o, d).T
    return Fn(f, w=torch.randint(0, 256, (o, d // 2), dtype=torch.uint8), s=torch.rand(o, d // g) / 100, z=torch.full((o, d // g), 8.0)), (R(b, d),)


@net
def int4_weights_decode():
    return int4_block(1)


@net
def int4_weights_prefill():
    return int4_block(256)


@net
def moe_top2_bmm(t=32, d=512, n=8, h=1024):
    """Every expert on every token, then what the router took."""
    def f(m, x):
        p, i = torch.topk(torch.softmax(m.r(x).float(), -1), 2)
        w = torch.zeros(t, n, device=x.device).scatter(1, i, p / p.sum(-1, keepdim=True)).to(x.dtype)
        y = torch.bmm(F.silu(torch.bmm(x.expand(n, t, d), m.g)) * torch.bmm(x.expand(n, t, d), m.u), m.d)
        return (y * w.T[..., None]).sum(0)
    part = lambda *s: nn.Parameter(R(*s) / math.sqrt(s[-2]))
    return Fn(f, r=linear(d, n), g=part(n, d, h), u=part(n, d, h), d=part(n, h, d)), (R(t, d),)


@net
def moe_sorted(t=128, d=256, n=8, h=512, cap=64):
    """Tokens sorted by their expert into places of fixed number."""
    def f(m, x):
        p, e = torch.softmax(m.r(x).float(), -1).max(-1)
        order = torch.argsort(e, stable=True)
        sorted_e = e[order]
        first = torch.searchsorted(sorted_e, torch.arange(n, device=x.device))
        place = torch.arange(t, device=x.device) - first[sorted_e]
        keep = place < cap
        slot = torch.where(keep, sorted_e * cap + place, n * cap)
        buf = torch.zeros(n * cap + 1, d, dtype=x.dtype, device=x.device).index_copy(0, slot, x[order])
        y = torch.bmm(F.gelu(torch.bmm(buf[:-1].view(n, cap, d), m.a)), m.c).view(-1, d)
        y = torch.cat([y, torch.zeros(1, d, dtype=x.dtype, device=x.device)])[slot]
        return torch.zeros_like(x).index_copy(0, order, y) * p[:, None].to(x.dtype)
    part = lambda *s: nn.Parameter(R(*s) / math.sqrt(s[-2]))
    return Fn(f, r=linear(d, n), a=part(n, d, h), c=part(n, h, d)), (R(t, d),)


@net
def lm_loss(b=512, d=768, v=50257):
    def f(m, x, y):
        return F.cross_entropy(m.o(x).float(), y)
    return Fn(f, o=linear(d, v)), (R(b, d), I(v, b))


@net
def selective_scan(b=2, s=256, d=512, n=16):
    """A state space's recurrence by sums of logarithms in chunks."""
    def f(m, x, dt, bb, c):
        dt = F.softplus(dt)
        chunk = lambda a: a.view(b, s // 32, 32, -1)
        da = chunk(dt)[..., None] * -torch.exp(m.a)
        cum = da.cumsum(2)
        bx = (chunk(dt) * chunk(x))[..., None] * chunk(bb)[:, :, :, None]
        inner = torch.exp(cum) * (bx * torch.exp(-cum)).cumsum(2)
        state, out = torch.zeros(b, d, n, dtype=x.dtype, device=x.device), []
        for i in range(s // 32):
            h = inner[:, i] + torch.exp(cum[:, i]) * state[:, None]
            out.append((h * chunk(c)[:, i, :, None]).sum(-1))
            state = h[:, -1]
        return torch.cat(out, 1) + x * m.d
    return Fn(f, a=nn.Parameter(R(d, n) * 0.1 - 2), d=nn.Parameter(R(d))), (R(b, s, d), R(b, s, d) - 3, R(b, s, n), R(b, s, n))


@net
def gated_rms(b=4, s=1024, d=2048):
    def f(m, x, z):
        return m.n(x * F.silu(z))
    return Fn(f, n=RMS(d)), (R(b, s, d), R(b, s, d))


@net
def embed_positions(b=8, s=512, d=768):
    def f(m, ids, kinds):
        return m.n(m.t(ids) + m.p.weight[:s] + m.k(kinds))
    return Fn(f, t=nn.Embedding(30522, d), p=nn.Embedding(512, d), k=nn.Embedding(2, d), n=nn.LayerNorm(d)), (I(30522, b, s), I(2, b, s))


# diffusion, images
class Res(nn.Module):
    def __init__(s, i, o, t):
        super().__init__()
        s.n1, s.c1, s.t, s.n2, s.c2, s.skip = nn.GroupNorm(32, i), nn.Conv2d(i, o, 3, padding=1), nn.Linear(t, o), nn.GroupNorm(32, o), nn.Conv2d(o, o, 3, padding=1), nn.Conv2d(i, o, 1)

    def forward(s, x, t):
        h = s.c1(F.silu(s.n1(x))) + s.t(F.silu(t))[:, :, None, None]
        return s.skip(x) + s.c2(F.silu(s.n2(h)))


@net
def diffusion_res(b=2, c=320, s=32):
    return Fn(lambda m, x, t: m.r(x, t), r=Res(c, 2 * c, 1280)), (R(b, c, s, s), R(b, 1280))


@net
def diffusion_transformer(b=2, c=320, s=32, n=8, text=77):
    def f(m, x, context):
        h = m.i(m.g(x)).flatten(2).transpose(1, 2)
        y = m.n1(h)
        h = h + m.o1(joined(F.scaled_dot_product_attention(heads(m.q1(y), n), heads(m.k1(y), n), heads(m.v1(y), n))))
        y = m.n2(h)
        h = h + m.o2(joined(F.scaled_dot_product_attention(heads(m.q2(y), n), heads(m.k2(context), n), heads(m.v2(context), n))))
        a, g = m.ff1(m.n3(h)).chunk(2, -1)
        h = h + m.ff2(a * F.gelu(g))
        return x + m.o(h.transpose(1, 2).reshape(x.shape))
    ln = lambda: nn.LayerNorm(c)
    return Fn(f, g=nn.GroupNorm(32, c), i=nn.Conv2d(c, c, 1), n1=ln(), n2=ln(), n3=ln(), q1=linear(c, c), k1=linear(c, c), v1=linear(c, c), o1=nn.Linear(c, c), q2=linear(c, c), k2=linear(768, c), v2=linear(768, c),
              o2=nn.Linear(c, c), ff1=nn.Linear(c, 8 * c), ff2=nn.Linear(4 * c, c), o=nn.Conv2d(c, c, 1)), (R(b, c, s, s), R(b, text, 768))


@net
def vae_upsample(b=1, c=128, s=64):
    def f(m, x):
        x = m.c1(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return m.c2(F.silu(m.n(x)))
    return Fn(f, c1=nn.Conv2d(c, c, 3, padding=1), n=nn.GroupNorm(32, c), c2=nn.Conv2d(c, 3, 3, padding=1)), (R(b, c, s, s),)


@net
def convnext_block(b=8, c=192, s=28):
    def f(m, x):
        h = m.n(m.d(x).permute(0, 2, 3, 1))
        return x + (m.o(F.gelu(m.i(h))) * m.g).permute(0, 3, 1, 2)
    return Fn(f, d=nn.Conv2d(c, c, 7, padding=3, groups=c), n=nn.LayerNorm(c, eps=1e-6), i=nn.Linear(c, 4 * c), o=nn.Linear(4 * c, c), g=nn.Parameter(R(c))), (R(b, c, s, s),)


@net
def regnet_stage(b=16, c=128, s=28, g=8):
    def block():
        return nn.Sequential(nn.Conv2d(c, c, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1, groups=g, bias=False), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 1, bias=False), nn.BatchNorm2d(c))

    def f(m, x):
        for layer in m.layers:
            x = F.relu(x + layer(x))
        return x
    return Fn(f, layers=nn.ModuleList(block() for _ in range(3))), (R(b, c, s, s),)


@net
def mbconv_se(b=8, c=96, s=28, e=4):
    def f(m, x):
        h = m.a(x)
        h = h * torch.sigmoid(m.u(F.silu(m.d(h.mean((2, 3), keepdim=True)))))
        return x + m.o(h)
    h = c * e
    return Fn(f, a=nn.Sequential(nn.Conv2d(c, h, 1, bias=False), nn.BatchNorm2d(h), nn.SiLU(), nn.Conv2d(h, h, 5, padding=2, groups=h, bias=False), nn.BatchNorm2d(h), nn.SiLU()), d=nn.Conv2d(h, c // 4, 1), u=nn.Conv2d(c // 4, h, 1),
              o=nn.Sequential(nn.Conv2d(h, c, 1, bias=False), nn.BatchNorm2d(c))), (R(b, c, s, s),)


@net
def yolo_neck(b=4):
    def f(m, p3, p4, p5):
        a = m.a(torch.cat([F.interpolate(p5, scale_factor=2.0), p4], 1))
        o = m.b(torch.cat([F.interpolate(a, scale_factor=2.0), p3], 1))
        return o, m.c(torch.cat([m.d(o), a], 1))
    cbs = lambda i, o, s=1: nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.SiLU())
    return Fn(f, a=cbs(384, 128), b=cbs(192, 64), c=cbs(192, 128), d=cbs(64, 64, 2)), (R(b, 64, 80, 80), R(b, 128, 40, 40), R(b, 256, 20, 20))


@net
def yolo_decode(b=4, n=8400, k=300, classes=80):
    """Boxes as expectations over bins, the best of all classes."""
    def f(m, box, cls):
        d = (torch.softmax(box.view(b, 4, 16, n), 2) * m.bins[:, None]).sum(2)
        x1y1, x2y2 = m.points - d[:, :2], m.points + d[:, 2:]
        score, label = torch.sigmoid(cls).max(1)
        best, i = torch.topk(score, k)
        boxes = torch.cat([x1y1, x2y2], 1).transpose(1, 2)
        return best, label.gather(1, i), boxes.gather(1, i[..., None].expand(b, k, 4))
    return Fn(f, bins=torch.arange(16.0), points=R(2, n)), (R(b, 64, n), R(b, classes, n))


@net
def fpn_heads(b=1, c=128):
    def f(m, *levels):
        return tuple(m.o(F.relu(m.n(m.c(x)))) for x in levels)
    return Fn(f, c=nn.Conv2d(c, c, 3, padding=1), n=nn.GroupNorm(32, c), o=nn.Conv2d(c, 36, 3, padding=1)), tuple(R(b, c, s, s) for s in (64, 32, 16, 8))


@net
def point_distances(n=1024, k=4096, d=64):
    return Fn(lambda m, x, y: torch.cdist(x, y)), (R(n, d), R(k, d))


@net
def nearest_centres(b=2048, k=1024, d=64):
    return Fn(lambda m, x: m.c[torch.cdist(x, m.c).argmin(-1)], c=R(k, d)), (R(b, d),)


@net
def city_block_distances(n=512, k=1024, d=64):
    return Fn(lambda m, x, y: torch.cdist(x, y, p=1.0)), (R(n, d), R(k, d))


@net
def volume_norm(b=1, c=32, s=32):
    def f(m, x):
        return F.max_pool3d(F.leaky_relu(m.n(m.c(x))), 2), F.interpolate(x, scale_factor=2.0, mode="trilinear")
    return Fn(f, c=nn.Conv3d(c, c, 3, padding=1), n=nn.InstanceNorm3d(c, affine=True)), (R(b, c, s, s, s),)


# speech
@net
def relative_attention(b=4, s=256, d=256, n=4):
    """Transformer-XL's positions, shifted (conformers)."""
    def f(m, x):
        e = d // n
        q, k, v = (heads(a, n) for a in m.qkv(x).chunk(3, -1))
        p = heads(m.p(m.pos), n)
        ac = (q + m.u[:, None]) @ k.transpose(-1, -2)
        bd = (q + m.w[:, None]) @ p.transpose(-1, -2)
        bd = F.pad(bd, (1, 0)).view(b, n, 2 * s, s)[:, :, 1:].view(b, n, s, 2 * s - 1)[..., :s]
        return m.o(joined(torch.softmax((ac + bd) / math.sqrt(e), -1) @ v))
    return Fn(f, qkv=nn.Linear(d, 3 * d), p=linear(d, d), o=nn.Linear(d, d), u=nn.Parameter(R(n, d // n)), w=nn.Parameter(R(n, d // n)), pos=R(2 * s - 1, d)), (R(b, s, d),)


@net
def whisper_front(b=1, t=3000, d=512):
    def f(m, x):
        return F.gelu(m.b(F.gelu(m.a(x)))).transpose(1, 2) + m.p
    return Fn(f, a=nn.Conv1d(80, d, 3, padding=1), b=nn.Conv1d(d, d, 3, stride=2, padding=1), p=R(t // 2, d)), (R(b, 80, t),)


@net
def conv_module(b=4, s=512, d=256):
    def f(m, x):
        h = F.glu(m.i(m.n(x).transpose(1, 2)), 1)
        return x + m.o(F.silu(m.bn(m.c(h)))).transpose(1, 2)
    return Fn(f, n=nn.LayerNorm(d), i=nn.Conv1d(d, 2 * d, 1), c=nn.Conv1d(d, d, 31, padding=15, groups=d), bn=nn.BatchNorm1d(d), o=nn.Conv1d(d, d, 1)), (R(b, s, d),)


@net
def vocoder_up(b=1, t=128):
    def f(m, x):
        for up, c in zip(m.ups, m.convs):
            x = up(F.leaky_relu(x, 0.1))
            x = x + c(F.leaky_relu(x, 0.1))
        return torch.tanh(m.o(F.leaky_relu(x)))
    cs = (256, 128, 64, 32)
    return Fn(f, ups=nn.ModuleList(nn.ConvTranspose1d(i, o, 2 * s, s, s // 2) for i, o, s in zip(cs, cs[1:], (8, 8, 4))), convs=nn.ModuleList(nn.Conv1d(c, c, 7, padding=9, dilation=3) for c in cs[1:]), o=nn.Conv1d(32, 1, 7, padding=3)), (
        R(b, 256, t),)


@net
def running_sums(n=131072):
    return Fn(lambda m, x: (x.cumsum(-1), (x * 0.001).exp().cumprod(-1), x.cummax(-1).values, x.logcumsumexp(-1))), (R(1, n) * 0.01,)


@net
def running_sum_rows(b=8, n=65536):
    return Fn(lambda m, x: x.cumsum(-1)), (R(b, n),)


@net
def running_sum_million(n=2**20):
    return Fn(lambda m, x: x.cumsum(0)), (R(n),)


@net
def scores_by_products(b=8, n=8, s=256, e=64):
    def f(m, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / 8 + m.bias, -1) @ v
    return Fn(f, bias=R(n, s, s)), (R(b, n, s, e), R(b, n, s, e), R(b, n, s, e))


@net
def batched_products(b=16, m=512, n=512, k=512):
    return Fn(lambda _, x, y: x @ y), (R(b, m, k), R(b, k, n))


@net
def gram_matrices(b=8, c=256, s=1024):
    return Fn(lambda m, x: x @ x.transpose(-1, -2) / s), (R(b, c, s),)
