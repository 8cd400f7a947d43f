"""More recommenders, recurrent nets, audio, state spaces and linear attention: (module, arguments) by name."""
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
