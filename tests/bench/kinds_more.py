"""More programs of the kinds of kinds_sequences.py and kinds_others.py, other in what they compute: (module, arguments) by name."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from kinds_nets import Fn, I, R, mlp, net


# recommenders
@net
def autoint(b=128, fields=39, d=16):
    def f(m, cat):
        x = m.emb(cat + m.base)
        for q, k, v, r in zip(m.q, m.k, m.v, m.r):
            s = lambda l: l(x).view(b, fields, 2, 16).transpose(1, 2)
            x = F.relu((torch.softmax(s(q) @ s(k).transpose(-1, -2), -1) @ s(v)).transpose(1, 2).reshape(b, fields, 32) + r(x))
        return torch.sigmoid(m.o(x.flatten(1)))
    lin = lambda: nn.ModuleList(nn.Linear(i, 32, bias=False) for i in (d, 32, 32))
    return Fn(f, emb=nn.Embedding(39000, d), q=lin(), k=lin(), v=lin(), r=lin(), o=nn.Linear(fields * 32, 1), base=torch.arange(fields) * 1000), (I(1000, b, fields),)


@net
def dcn_v2_mix(b=256, d=416, r=64, n=4):
    def f(m, x):
        x0 = x
        for u, v, c, g, bias in zip(m.u, m.v, m.c, m.g, m.b):
            w = torch.softmax(g(x), -1)
            y = torch.tanh(torch.einsum("bd,nrd->bnr", x, v))
            y = torch.tanh(torch.einsum("bnr,nrs->bns", y, c))
            y = x0[:, None] * (torch.einsum("bns,nds->bnd", y, u) + bias)
            x = x + torch.einsum("bnd,bn->bd", y, w)
        return torch.sigmoid(m.o(x))
    pl = lambda *s: nn.ParameterList(nn.Parameter(R(*s) * 0.05) for _ in range(2))
    return Fn(f, u=pl(n, d, r), v=pl(n, r, d), c=pl(n, r, r), b=pl(d), g=nn.ModuleList(nn.Linear(d, n) for _ in range(2)), o=nn.Linear(d, 1)), (R(b, d),)


@net
def mmoe(b=256, d=256, experts=6, tasks=3):
    def f(m, x):
        e = torch.stack([k(x) for k in m.e], 1)
        return torch.cat([t((g(x).softmax(-1)[..., None] * e).sum(1)) for g, t in zip(m.g, m.t)], 1)
    return Fn(f, e=nn.ModuleList(mlp(d, 128, 64, last=True) for _ in range(experts)), g=nn.ModuleList(nn.Linear(d, experts) for _ in range(tasks)), t=nn.ModuleList(mlp(64, 32, 1) for _ in range(tasks))), (R(b, d),)


@net
def xdeepfm_cin(b=64, fields=26, d=16, h=64):
    def f(m, cat):
        x0 = x = m.emb(cat)
        out = []
        for w in m.w:
            z = torch.einsum("bhd,bmd->bhmd", x, x0).reshape(b, -1, d)
            x = F.relu(w(z))
            out.append(x.sum(-1))
        return torch.sigmoid(m.o(torch.cat(out, 1)))
    return Fn(f, emb=nn.Embedding(26000, d), w=nn.ModuleList([nn.Conv1d(fields * fields, h, 1), nn.Conv1d(h * fields, h, 1)]), o=nn.Linear(2 * h, 1)), (I(26000, b, fields),)


@net
def ncf(b=512, d=32):
    def f(m, u, i):
        g = m.gu(u) * m.gi(i)
        return torch.sigmoid(m.o(torch.cat([g, m.m(torch.cat([m.mu(u), m.mi(i)], 1))], 1)))
    return Fn(f, gu=nn.Embedding(50000, d), gi=nn.Embedding(20000, d), mu=nn.Embedding(50000, d), mi=nn.Embedding(20000, d), m=mlp(2 * d, 64, 32, 16, last=True), o=nn.Linear(d + 16, 1)), (I(50000, b), I(20000, b))


@net
def gru4rec(b=16, t=20, h=100, items=20000):
    return Fn(lambda m, i: tuple(torch.topk(m.r(m.e(i))[0][:, -1] @ m.e.weight.t(), 20)), e=nn.Embedding(items, h), r=nn.GRU(h, h, batch_first=True)), (I(items, b, t),)


# recurrent
@net
def lstm_peephole(b=16, t=32, i=64, h=128):
    def f(m, x):
        hh, c, out = torch.zeros(b, h), torch.zeros(b, h), []
        g = m.x(x)
        for k in range(t):
            a, r, n, o = (g[:, k] + m.h(hh)).chunk(4, 1)
            a, r = torch.sigmoid(a + m.p[0] * c), torch.sigmoid(r + m.p[1] * c)
            c = r * c + a * torch.tanh(n)
            hh = torch.sigmoid(o + m.p[2] * c) * torch.tanh(c)
            out.append(hh)
        return torch.stack(out, 1)
    return Fn(f, x=nn.Linear(i, 4 * h), h=nn.Linear(h, 4 * h, bias=False), p=nn.Parameter(R(3, h) * 0.1)), (R(b, t, i),)


@net
def lstm_bi_masked(b=8, t=60, i=64, h=96):
    def f(m, x, length):
        mask = (torch.arange(t)[None] < length[:, None])[..., None]
        back = torch.where(mask, length[:, None, None] - 1 - torch.arange(t)[None, :, None], torch.arange(t)[None, :, None])
        fw = m.a(x)[0]
        bw = m.b(x.gather(1, back.expand(-1, -1, i)))[0].gather(1, back.expand(-1, -1, h))
        return torch.cat([fw, bw], -1) * mask
    return Fn(f, a=nn.LSTM(i, h, batch_first=True), b=nn.LSTM(i, h, batch_first=True)), (R(b, t, i), I(t, b) + 1)


@net
def sru(b=8, t=64, d=256):
    def f(m, x):
        u, fg, rg = m.w(x).chunk(3, -1)
        fg, rg = torch.sigmoid(fg + m.bf), torch.sigmoid(rg + m.br)
        c, out = torch.zeros(b, d), []
        for k in range(t):
            c = fg[:, k] * c + (1 - fg[:, k]) * u[:, k]
            out.append(c)
        c = torch.stack(out, 1)
        return rg * torch.tanh(c) + (1 - rg) * x
    return Fn(f, w=nn.Linear(d, 3 * d), bf=nn.Parameter(R(d)), br=nn.Parameter(R(d))), (R(b, t, d),)


@net
def convlstm(b=1, t=6, c=16, s=32):
    def f(m, x):
        h, cc = torch.zeros(b, c, s, s), torch.zeros(b, c, s, s)
        for k in range(t):
            i, r, g, o = m.c(torch.cat([x[:, k], h], 1)).chunk(4, 1)
            cc = torch.sigmoid(r) * cc + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(cc)
        return h
    return Fn(f, c=nn.Conv2d(2 * c, 4 * c, 3, padding=1)), (R(b, t, c, s, s),)


@net
def crnn_ocr(w=128):
    body = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(), nn.MaxPool2d((2, 1)), nn.Conv2d(128, 128, (4, 1)), nn.ReLU())
    return Fn(lambda m, x: m.o(m.r(m.b(x).squeeze(2).transpose(1, 2))[0]).log_softmax(-1), b=body, r=nn.LSTM(128, 128, 1, batch_first=True, bidirectional=True), o=nn.Linear(256, 80)), (R(1, 1, 32, w),)


# audio
@net
def mfcc(t=48000):
    def f(m, x):
        x = x - 0.97 * F.pad(x, (1, -1))
        p = torch.stft(x, 512, 160, 400, m.w, return_complex=True).abs().pow(2)
        s = torch.log(p.transpose(1, 2) @ m.fb + 1e-6)
        return s @ m.dct
    return Fn(f, w=torch.hamming_window(400), fb=torch.rand(257, 40), dct=R(40, 13)), (R(1, t),)


@net
def sinc_front(t=16000):
    def f(m, x):
        lo = m.lo.abs() + 30
        hi = (lo + m.band.abs() + 50).clamp(max=8000)
        k = (torch.sin(hi * m.n) - torch.sin(lo * m.n)) / (m.n * 8000)
        return F.max_pool1d(F.conv1d(x, (k * m.win)[:, None], stride=1).abs(), 3)
    n = 2 * math.pi * torch.arange(-125, 126).float().add(0.5) / 16000
    return Fn(f, lo=nn.Parameter(torch.linspace(30, 7000, 64)[:, None]), band=nn.Parameter(torch.full((64, 1), 100.)), n=n[None], win=torch.hamming_window(251)), (R(1, 1, t),)


@net
def ddsp_harmonics(t=100, h=60, up=160):
    def f(m, f0, amp):
        w = F.interpolate(f0[:, None], scale_factor=up, mode="linear")[:, 0] / 16000
        phase = 2 * math.pi * torch.cumsum(w, -1)
        a = F.interpolate(amp.softmax(-1).transpose(1, 2), scale_factor=up, mode="linear")
        k = torch.arange(1., h + 1)
        a = a * (w[:, None] * k[:, None] < 0.5)
        return (torch.sin(phase[:, None] * k[:, None]) * a).sum(1)
    return Fn(f), (torch.rand(1, t) * 200 + 100, R(1, t, h))


@net
def squeezeformer_sub(t=400):
    return nn.Sequential(nn.Conv2d(1, 128, 3, 2), nn.ReLU(), nn.Conv2d(128, 128, 3, 2, groups=128), nn.Conv2d(128, 128, 1), nn.ReLU()), (R(1, 1, t, 80),)


@net
def vits_spline(b=1, t=200, k=10):
    def f(m, x, p):
        w, h, d = p.split([k, k, k + 1], -1)
        w, h, d = 1e-3 + (1 - 1e-3 * k) * w.softmax(-1), 1e-3 + (1 - 1e-3 * k) * h.softmax(-1), 1e-3 + F.softplus(d)
        cw, ch = F.pad(w.cumsum(-1), (1, 0)) * 10 - 5, F.pad(h.cumsum(-1), (1, 0)) * 10 - 5
        i = ((x[..., None] >= cw).sum(-1, keepdim=True) - 1).clamp(0, k - 1)
        g = lambda y: y.gather(-1, i).squeeze(-1)
        x0, y0, ww, hh, d0, d1 = g(cw), g(ch), g(cw[..., 1:] - cw[..., :-1]), g(ch[..., 1:] - ch[..., :-1]), g(d), g(d[..., 1:])
        s, z = hh / ww, ((x - x0) / ww).clamp(0, 1)
        q = z * (1 - z)
        y = y0 + hh * (s * z * z + d0 * q) / (s + (d0 + d1 - 2 * s) * q)
        return torch.where(x.abs() < 5, y, x)
    return Fn(f), (R(b, 192, t), R(b, 192, t, 3 * k + 1))


# state spaces, linear attention
@net
def retention_parallel(b=1, t=256, h=8, d=32):
    def f(m, q, k, v):
        n = torch.arange(t)
        g = 1 - torch.exp2(-5 - torch.arange(0., h))
        D = torch.where(n[:, None] >= n, g[:, None, None] ** (n[:, None] - n), 0.0)
        r = (q @ k.transpose(-1, -2) * d ** -0.5) * D
        r = r / r.detach().abs().sum(-1, keepdim=True).clamp(min=1)
        return F.group_norm((r @ v).transpose(1, 2).reshape(b * t, h * d), h).view(b, t, h * d)
    return Fn(f), (R(b, h, t, d), R(b, h, t, d), R(b, h, t, d))


@net
def retention_chunk(b=1, t=512, c=64, h=8, d=32):
    def f(m, q, k, v):
        n = torch.arange(c)
        g = (1 - torch.exp2(-5 - torch.arange(0., h)))[:, None, None]
        D = torch.where(n[:, None] >= n, g ** (n[:, None] - n), 0.0)
        s, out = torch.zeros(b, h, d, d), []
        for i in range(t // c):
            x, y, z = [a[:, :, i * c:(i + 1) * c] for a in (q, k, v)]
            out.append(((x @ y.transpose(-1, -2)) * D) @ z + (x @ s) * g ** (n[:, None] + 1.0))
            s = s * g ** c + (y * g ** (c - 1.0 - n[:, None])).transpose(-1, -2) @ z
        return torch.cat(out, 2)
    return Fn(f), (R(b, h, t, d), R(b, h, t, d), R(b, h, t, d))


@net
def gated_delta(b=1, t=48, h=4, d=32):
    def f(m, q, k, v, g, beta):
        k = F.normalize(k, dim=-1)
        s, out = torch.zeros(b, h, d, d), []
        for i in range(t):
            s = s * g[:, :, i, None, None].exp()
            u = (v[:, :, i] - (s * k[:, :, i, :, None]).sum(-2)) * beta[:, :, i, None]
            s = s + k[:, :, i, :, None] * u[:, :, None]
            out.append((s * q[:, :, i, :, None]).sum(-2))
        return torch.stack(out, 2)
    return Fn(f), (R(b, h, t, d), R(b, h, t, d), R(b, h, t, d), -torch.rand(b, h, t), torch.rand(b, h, t))


@net
def mamba2_chunks(b=1, t=512, c=64, h=8, p=64, n=64):
    def seg(a):
        s = a.cumsum(-1)
        d = s[..., :, None] - s[..., None, :]
        return d.masked_fill(~torch.tril(torch.ones(a.size(-1), a.size(-1), dtype=torch.bool)), float("-inf"))
    def f(m, x, a, B, C):
        k = t // c
        x, B, C = [y.view(b, k, c, h, -1) for y in (x, B, C)]
        a = a.view(b, k, c, h).permute(0, 3, 1, 2)
        s = a.cumsum(-1)
        y = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", C, B, torch.exp(seg(a)), x)
        st = torch.einsum("bclhn,bhcl,bclhp->bchpn", B, torch.exp(s[..., -1:] - s), x)
        st = torch.cat([torch.zeros_like(st[:, :1]), st], 1)
        st = torch.einsum("bhzc,bchpn->bzhpn", torch.exp(seg(F.pad(s[..., -1], (1, 0)))), st)[:, :-1]
        return (y + torch.einsum("bclhn,bchpn,bhcl->bclhp", C, st, torch.exp(s))).reshape(b, t, h, p)
    return Fn(f), (R(b, t, h, p), -torch.rand(b, t, h), R(b, t, h, n), R(b, t, h, n))


@net
def hyena_conv(b=1, t=512, d=128):
    def f(m, x):
        u, v, w = m.i(x).transpose(1, 2).chunk(3, 1)
        u, v, w = [F.conv1d(F.pad(y, (2, 0)), m.s, groups=d) for y in (u, v, w)]
        k = m.k(m.t).t() * torch.exp(-m.t[:, :1].t() * m.decay.abs())
        z = torch.fft.irfft(torch.fft.rfft(v * w, 2 * t) * torch.fft.rfft(k, 2 * t), 2 * t)[..., :t]
        return m.o((u * (z + v * m.bias)).transpose(1, 2))
    pos = torch.linspace(0, 1, t)[:, None]
    return Fn(f, i=nn.Linear(d, 3 * d), s=nn.Parameter(R(d, 1, 3)), k=mlp(5, 64, 64, d, act=nn.SiLU), t=torch.cat([pos, torch.sin(pos * 7), torch.cos(pos * 7), torch.sin(pos * 3), torch.cos(pos * 3)], 1), decay=nn.Parameter(R(d, 1)), bias=nn.Parameter(R(d, 1)), o=nn.Linear(d, d)), (R(b, t, d),)


@net
def rwkv_channel(b=1, t=128, d=384):
    def f(m, x):
        p = F.pad(x, (0, 0, 1, -1))
        k = torch.relu(m.k(x + (p - x) * m.mk)) ** 2
        return torch.sigmoid(m.r(x + (p - x) * m.mr)) * m.v(k)
    return Fn(f, k=nn.Linear(d, 4 * d, bias=False), v=nn.Linear(4 * d, d, bias=False), r=nn.Linear(d, d, bias=False), mk=nn.Parameter(torch.rand(d)), mr=nn.Parameter(torch.rand(d))), (R(b, t, d),)


@net
def performer_causal(b=1, t=256, h=4, d=32, r=64):
    def f(m, q, k, v):
        phi = lambda x: torch.exp(x @ m.w - (x * x).sum(-1, keepdim=True) / 2) * r ** -0.5 + 1e-4
        q, k = phi(q * d ** -0.25), phi(k * d ** -0.25)
        kv = torch.cumsum(k[..., None] * v[..., None, :], 2)
        return torch.einsum("bhtr,bhtrd->bhtd", q, kv) / torch.einsum("bhtr,bhtr->bht", q, k.cumsum(2))[..., None]
    return Fn(f, w=R(d, r)), (R(b, h, t, d), R(b, h, t, d), R(b, h, t, d))


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


# sequences: decoding, sampling
@net
def crf_log_partition(b=16, t=50, n=24):
    def f(m, e, mask):
        a = m.s + e[:, 0]
        for k in range(1, t):
            a = torch.where(mask[:, k, None], torch.logsumexp(a[:, :, None] + m.t, 1) + e[:, k], a)
        return torch.logsumexp(a + m.e, -1)
    return Fn(f, t=nn.Parameter(R(n, n)), s=nn.Parameter(R(n)), e=nn.Parameter(R(n))), (R(b, t, n), torch.rand(b, t) > 0.2)


@net
def ctc_forward(b=4, t=60, n=40, l=16):
    def f(m, x, y):
        lp = x.log_softmax(-1)
        z = torch.stack([torch.zeros_like(y), y], -1).flatten(1)
        g = lp.gather(2, z[:, None].expand(-1, t, -1))
        skip = F.pad((z[:, 2:] != z[:, :-2]) & (z[:, 2:] != 0), (2, 0))
        a = g[:, 0].masked_fill(torch.arange(2 * l) > 1, -1e9)
        for k in range(1, t):
            b1, b2 = F.pad(a, (1, -1), value=-1e9), F.pad(a, (2, -2), value=-1e9).masked_fill(~skip, -1e9)
            a = torch.logsumexp(torch.stack([a, b1, b2]), 0) + g[:, k]
        return torch.logsumexp(a[:, -2:], -1)
    return Fn(f), (R(b, t, n), I(n - 1, b, l) + 1)


@net
def dtw(n=48, m=48):
    def f(mod, a, b):
        c = torch.cdist(a, b)
        prev = torch.cat([c[:1, :1], c[0, 1:][None]], 1).cumsum(1)[0]
        for i in range(1, n):
            lo = torch.minimum(prev, F.pad(prev, (1, -1), value=1e9)) + c[i]
            s = c[i].cumsum(0)
            prev = torch.cummin(lo - s, 0).values + s
        return prev[-1]
    return Fn(f), (R(n, 16), R(m, 16))


@net
def token_sampling(b=8, v=32000):
    def f(m, x, prev, u):
        g = x.gather(1, prev)
        x = x.scatter(1, prev, torch.where(g > 0, g / 1.2, g * 1.2)) / 0.7
        x = x.masked_fill(x < x.topk(40).values[:, -1:], float("-inf"))
        p = x.softmax(-1)
        return (p / -torch.log(u)).argmax(-1), p.max(-1).values
    return Fn(f), (R(b, v) * 3, I(v, b, 64), torch.rand(b, v))


@net
def min_p_entropy(b=4, v=50257):
    def f(m, x):
        lp = x.log_softmax(-1)
        p = lp.exp()
        ent = -(p * lp).sum(-1)
        keep = p >= 0.05 * p.amax(-1, keepdim=True)
        return torch.where(keep, lp, float("-inf")).argmax(-1), ent, keep.sum(-1)
    return Fn(f), (R(b, v) * 3,)


@net
def speculative_accept(k=5, v=32000):
    def f(m, p, q, tok, u):
        r = (p.gather(1, tok[:, None]) / q.gather(1, tok[:, None]))[:, 0]
        n = torch.cumprod((u < r).long(), 0).sum()
        d = (p - q).clamp(min=0)
        return n, d / d.sum(-1, keepdim=True)
    return Fn(f), (torch.rand(k, v).softmax(-1), torch.rand(k, v).softmax(-1), I(v, k), torch.rand(k))


@net
def beam_reorder(b=4, k=4, t=64, h=8, d=64):
    def f(m, kc, vc, i, q):
        j = (torch.arange(b)[:, None] * k + i).flatten()
        kc, vc = kc.index_select(0, j), vc.index_select(0, j)
        return F.scaled_dot_product_attention(q, kc, vc), kc, vc
    return Fn(f), (R(b * k, h, t, d), R(b * k, h, t, d), I(k, b, k), R(b * k, h, 1, d))


# graphs
@net
def gin(n=2000, e=16000, d=64):
    def f(m, x, ei, batch):
        for l in m.l:
            x = l(x + torch.zeros_like(x).index_add(0, ei[1], x[ei[0]]))
        g = torch.zeros(64, d).index_add(0, batch, x)
        return m.o(g)
    return Fn(f, l=nn.ModuleList(mlp(d, d, d, last=True) for _ in range(3)), o=nn.Linear(d, 2)), (R(n, d), I(n, 2, e), I(64, n).sort().values)


@net
def gatv2(n=1000, e=8000, h=4, d=16):
    def f(m, x, ei):
        s, t = ei[0], ei[1]
        l, r = m.l(x).view(n, h, d), m.r(x).view(n, h, d)
        a = (F.leaky_relu(l[s] + r[t], 0.2) * m.a).sum(-1)
        a = torch.exp(a - a.amax(0))
        den = torch.zeros(n, h).index_add(0, t, a)
        return torch.zeros(n, h, d).index_add(0, t, l[s] * (a / (den[t] + 1e-16))[..., None]).flatten(1)
    return Fn(f, l=nn.Linear(64, h * d), r=nn.Linear(64, h * d), a=nn.Parameter(R(h, d))), (R(n, 64), I(n, 2, e))


@net
def egnn(n=300, e=6000, d=64):
    def f(m, h, p, ei):
        s, t = ei[0], ei[1]
        v = p[s] - p[t]
        msg = m.e(torch.cat([h[s], h[t], (v * v).sum(-1, keepdim=True)], -1))
        p = p + torch.zeros(n, 3).index_add(0, t, v * m.x(msg)) / n
        return h + m.h(torch.cat([h, torch.zeros(n, d).index_add(0, t, msg)], -1)), p
    return Fn(f, e=mlp(2 * d + 1, d, d, act=nn.SiLU, last=True), x=mlp(d, d, 1, act=nn.SiLU), h=mlp(2 * d, d, d, act=nn.SiLU)), (R(n, d), R(n, 3), I(n, 2, e))


@net
def dense_gcn(b=16, n=64, d=64):
    def f(m, x, a):
        a = a + torch.eye(n)
        dg = a.sum(-1).rsqrt()
        a = a * dg[:, :, None] * dg[:, None]
        for l in m.l:
            x = F.relu(a @ l(x))
        return x.mean(1)
    return Fn(f, l=nn.ModuleList(nn.Linear(d, d) for _ in range(3))), (R(b, n, d), (torch.rand(b, n, n) > 0.8).float())


@net
def graphormer(b=4, n=64, d=128, h=8):
    def f(m, x, dist, deg):
        x = x + m.deg(deg)
        y = F.layer_norm(x, (d,))
        q, k, v = m.qkv(y).view(b, n, 3, h, d // h).permute(2, 0, 3, 1, 4)
        x = x + m.o(F.scaled_dot_product_attention(q, k, v, m.sp(dist).permute(0, 3, 1, 2)).transpose(1, 2).reshape(b, n, d))
        return x + m.m(F.layer_norm(x, (d,)))
    return Fn(f, deg=nn.Embedding(64, d), sp=nn.Embedding(20, h), qkv=nn.Linear(d, 3 * d), o=nn.Linear(d, d), m=mlp(d, 2 * d, d, act=nn.GELU)), (R(b, n, d), I(20, b, n, n), I(64, b, n))


# time series
@net
def autoformer_corr(b=8, t=192, h=8, d=16):
    def f(m, q, k, v):
        c = torch.fft.irfft(torch.fft.rfft(q, dim=-1) * torch.fft.rfft(k, dim=-1).conj(), t)
        w, i = c.mean((1, 2)).topk(5)
        w = w.softmax(-1)
        out = 0
        for j in range(5):
            idx = (torch.arange(t) + i[:, j, None]) % t
            out = out + v.gather(-1, idx[:, None, None].expand(-1, h, d, -1)) * w[:, j, None, None, None]
        return out
    return Fn(f), (R(b, h, d, t), R(b, h, d, t), R(b, h, d, t))


@net
def timesnet_block(b=8, t=192, c=32):
    def f(m, x):
        y = x.transpose(1, 2).reshape(b, c, t // 24, 24)
        y = sum(k(y) for k in m.a) / len(m.a)
        y = F.gelu(y)
        return x + m.b(y).reshape(b, c, t).transpose(1, 2)
    return Fn(f, a=nn.ModuleList(nn.Conv2d(c, 64, 2 * k + 1, padding=k) for k in range(4)), b=nn.Conv2d(64, c, 3, padding=1)), (R(b, t, c),)


@net
def holt_winters(b=64, t=96):
    def f(m, x):
        l, g, out = x[:, 0], x[:, 1] - x[:, 0], []
        a, c = torch.sigmoid(m.a), torch.sigmoid(m.b)
        for k in range(1, t):
            n = a * x[:, k] + (1 - a) * (l + g)
            g = c * (n - l) + (1 - c) * g
            l = n
            out.append(l + g)
        return torch.stack(out, 1)
    return Fn(f, a=nn.Parameter(R(1)), b=nn.Parameter(R(1))), (R(b, t),)


@net
def rocket(b=8, t=256, k=200):
    def f(m, x):
        out = []
        for w, d in zip(m.w, (1, 4, 16)):
            y = F.conv1d(x, w, dilation=d, padding=4 * d)
            out += [y.amax(-1), (y > 0).float().mean(-1)]
        return m.o(torch.cat(out, 1))
    return Fn(f, w=nn.ParameterList(nn.Parameter(R(k, 1, 9)) for _ in range(3)), o=nn.Linear(6 * k, 6)), (R(b, 1, t),)


# tables, trees
@net
def tree_paths(n=512, trees=64, depth=5):
    def f(m, x):
        d = (x @ m.a < m.b).float().view(n, trees, -1)
        p = (torch.einsum("nti,til->ntl", d, m.c) == m.d).float()
        return torch.einsum("ntl,tlo->no", p, m.e)
    i, l = 2 ** depth - 1, 2 ** depth
    return Fn(f, a=F.one_hot(I(40, trees * i), 40).float().t().contiguous(), b=R(trees * i), c=I(3, trees, i, l).float() - 1, d=I(4, l).float(), e=R(trees, l, 4)), (R(n, 40),)


@net
def node_oblivious(b=256, i=64, trees=128, depth=5):
    def f(m, x):
        v = x @ m.s.softmax(0)
        t = torch.sigmoid((v.view(b, trees, depth) - m.t) * torch.exp(-m.l))
        r = torch.ones(b, trees, 1)
        for k in range(depth):
            g = t[:, :, k, None]
            r = torch.cat([r * g, r * (1 - g)], -1)
        return torch.einsum("btl,tlo->bo", r, m.o)
    return Fn(f, s=nn.Parameter(R(i, trees * depth)), t=nn.Parameter(R(trees, depth)), l=nn.Parameter(R(trees, depth)), o=nn.Parameter(R(trees, 2 ** depth, 4))), (R(b, i),)


@net
def ft_transformer(b=64, n=20, d=64):
    layer = nn.TransformerEncoderLayer(d, 4, 128, 0.0, F.gelu, batch_first=True, norm_first=True)
    def f(m, x, c):
        t = torch.cat([m.cls.expand(b, -1, -1), x[..., None] * m.w + m.b, m.e(c + m.base)], 1)
        for l in m.l:
            t = l(t)
        return m.o(F.relu(t[:, 0]))
    return Fn(f, cls=nn.Parameter(R(1, 1, d)), w=nn.Parameter(R(n, d)), b=nn.Parameter(R(n, d)), e=nn.Embedding(100, d), base=torch.arange(10) * 10, l=nn.ModuleList(copy.deepcopy(layer) for _ in range(2)), o=nn.Linear(d, 1)), (R(b, n), I(10, b, 10))


# spectra, algebra
@net
def fno_1d(b=4, c=32, s=512, k=24):
    def f(m, x):
        for w, l in zip(m.k, m.w):
            z = torch.fft.rfft(x)[..., :k]
            y = torch.fft.irfft(F.pad(torch.einsum("bik,iok->bok", z, torch.view_as_complex(w)), (0, s // 2 + 1 - k)), n=s)
            x = F.gelu(y + l(x))
        return x
    return Fn(f, k=nn.ParameterList(nn.Parameter(R(c, c, k, 2) / c) for _ in range(2)), w=nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(2))), (R(b, c, s),)


@net
def gfnet_filter(b=2, s=14, c=256):
    def f(m, x):
        z = torch.fft.rfft2(x.view(b, s, s, c), dim=(1, 2), norm="ortho") * torch.view_as_complex(m.w)
        return torch.fft.irfft2(z, s=(s, s), dim=(1, 2), norm="ortho").reshape(b, s * s, c)
    return Fn(f, w=nn.Parameter(R(s, s // 2 + 1, c, 2))), (R(b, s * s, c),)


@net
def sinkhorn(b=8, n=64, rounds=20):
    def f(m, x, y):
        k = -torch.cdist(x, y) / 0.1
        u, v = torch.zeros(b, n), torch.zeros(b, n)
        for _ in range(rounds):
            u = -torch.logsumexp(k + v[:, None], 2)
            v = -torch.logsumexp(k + u[..., None], 1)
        return torch.exp(k + u[..., None] + v[:, None])
    return Fn(f), (R(b, n, 8), R(b, n, 8))


@net
def neural_ode(b=64, d=64, steps=10):
    def f(m, x):
        h = 1 / steps
        for _ in range(steps):
            a = m.net(x)
            c = m.net(x + h / 2 * a)
            e = m.net(x + h / 2 * c)
            g = m.net(x + h * e)
            x = x + h / 6 * (a + 2 * c + 2 * e + g)
        return x
    return Fn(f, net=mlp(d, 128, d, act=nn.Tanh)), (R(b, d),)


@net
def mahalanobis(b=512, k=16, d=24):
    def f(m, x):
        L = torch.linalg.cholesky(m.s @ m.s.mT + torch.eye(d))
        z = torch.linalg.solve_triangular(L, (x[None] - m.mu[:, None]).mT, upper=False)
        lp = -0.5 * (z * z).sum(1) - L.diagonal(dim1=-2, dim2=-1).log().sum(-1)[:, None]
        return lp.t().softmax(-1)
    return Fn(f, s=R(k, d, d), mu=R(k, d)), (R(b, d),)


@net
def power_iteration(b=16, n=64):
    def f(m, a):
        v = torch.ones(b, n, 1)
        for _ in range(20):
            v = F.normalize(a @ v, dim=1)
        return v.squeeze(-1), (v.mT @ a @ v).flatten()
    return Fn(f), (R(b, n, n),)


@net
def set_transformer(b=8, n=100, d=64, i=16):
    def mab(m, k, x, y):
        q, kk, v = [l(z).view(b, -1, 4, d // 4).transpose(1, 2) for l, z in zip(m[k], (x, y, y))]
        o = F.scaled_dot_product_attention(q, kk, v).transpose(1, 2).reshape(b, -1, d) + x
        return o + F.relu(m[k][3](o))
    def f(m, x):
        x = m.i(x)
        h = mab(m.p, 0, m.ind.expand(b, -1, -1), x)
        x = mab(m.p, 1, x, h)
        return m.o(mab(m.p, 2, m.seed.expand(b, -1, -1), x).squeeze(1))
    return Fn(f, i=nn.Linear(3, d), p=nn.ModuleList(nn.ModuleList(nn.Linear(d, d) for _ in range(4)) for _ in range(3)), ind=nn.Parameter(R(1, i, d)), seed=nn.Parameter(R(1, 1, d)), o=nn.Linear(d, 10)), (R(b, n, 3),)


@net
def capsules(b=8, i=288, o=10, d=16):
    def f(m, x):
        u = torch.einsum("bik,oikd->boid", x, m.w)
        a = torch.zeros(b, o, i)
        for r in range(3):
            s = (a.softmax(1)[..., None] * u).sum(2)
            n = (s * s).sum(-1, keepdim=True)
            v = s * n / (1 + n) / (n + 1e-8).sqrt()
            if r < 2:
                a = a + (u * v[:, :, None]).sum(-1)
        return v
    return Fn(f, w=nn.Parameter(R(o, i, 8, d) * 0.1)), (R(b, i, 8),)
