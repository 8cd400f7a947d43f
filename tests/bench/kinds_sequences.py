"""Recommender and recurrent nets, audio, state spaces, time series: (module, arguments) by name."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from kinds_nets import NETS, Fn, I, R, mlp, net


# recommenders
@net
def dlrm(b=128, tables=26, d=64, rows=10000):
    def f(m, dense, *idx):
        x = m.bot(dense)
        off = torch.arange(0, b * 4, 4)
        e = [t(i, off) for t, i in zip(m.tables, idx)]
        z = torch.stack([x] + e, 1)
        zz = torch.bmm(z, z.transpose(1, 2))
        li = torch.tril_indices(tables + 1, tables + 1, -1)
        return torch.sigmoid(m.top(torch.cat([x, zz[:, li[0], li[1]]], 1)))
    n = (tables + 1) * tables // 2 + d
    return Fn(f, bot=mlp(13, 512, 256, d, last=True), top=mlp(n, 1024, 1024, 512, 1), tables=nn.ModuleList(nn.EmbeddingBag(rows, d, mode="sum") for _ in range(tables))), (R(b, 13), *[I(rows, b * 4) for _ in range(tables)])


@net
def dlrm_b1():
    return dlrm(b=1)


@net
def bare_bags():
    return Fn(lambda m, i, o: m.t(i, o), t=nn.EmbeddingBag(1000, 64, mode="sum")), (I(1000, 20480), torch.arange(0, 20480, 20))


@net
def bags_mean():
    return Fn(lambda m, i, o: m.t(i, o), t=nn.EmbeddingBag(50000, 128, mode="mean")), (I(50000, 8192), torch.arange(0, 8192, 16))


@net
def bags_max():
    return Fn(lambda m, i, o: m.t(i, o), t=nn.EmbeddingBag(1000, 64, mode="max")), (I(1000, 8192), torch.arange(0, 8192, 16))


@net
def bags_weighted():
    return Fn(lambda m, i, o, w: m.t(i, o, per_sample_weights=w), t=nn.EmbeddingBag(1000, 64, mode="sum")), (I(1000, 8192), torch.arange(0, 8192, 16), R(8192))


@net
def wide_deep(b=256):
    def f(m, cat, dense):
        wide = m.wide(cat + m.base).sum((1, 2))
        deep = m.deep(torch.cat([m.emb(cat + m.base).flatten(1), dense], 1))
        return torch.sigmoid(wide[:, None] + deep)
    return Fn(f, wide=nn.Embedding(26000, 1), emb=nn.Embedding(26000, 16), deep=mlp(26 * 16 + 13, 400, 400, 1), base=torch.arange(26) * 1000), (I(1000, b, 26), R(b, 13))


@net
def deepfm(b=256):
    def f(m, cat):
        e = m.emb(cat)
        s = e.sum(1)
        fm = 0.5 * (s * s - (e * e).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(m.wide(cat).sum(1) + fm + m.deep(e.flatten(1)))
    return Fn(f, wide=nn.Embedding(10000, 1), emb=nn.Embedding(10000, 16), deep=mlp(39 * 16, 256, 128, 1)), (I(10000, b, 39),)


@net
def two_tower(b=64, n=2000):
    def f(m, user, hist, items):
        mask = (hist > 0).float()[..., None]
        h = (m.emb(hist) * mask).sum(1) / mask.sum(1).clamp(min=1)
        u = F.normalize(m.u(torch.cat([m.ue(user), h], 1)), dim=-1)
        v = F.normalize(m.v(m.emb(items)), dim=-1)
        return tuple(torch.topk(u @ v.t(), 20))
    return Fn(f, emb=nn.Embedding(20000, 64), ue=nn.Embedding(20000, 64), u=mlp(128, 128, 64), v=mlp(64, 128, 64)), (I(20000, b), I(20000, b, 50), I(20000, n))


@net
def din(b=64, n=100, d=32):
    def f(m, item, hist, length):
        q, k = m.emb(item)[:, None].expand(-1, n, -1), m.emb(hist)
        w = m.att(torch.cat([q, k, q - k, q * k], -1)).squeeze(-1)
        w = w.masked_fill(torch.arange(n)[None] >= length[:, None], -1e9).softmax(-1)
        return torch.sigmoid(m.out(torch.cat([m.emb(item), (w[..., None] * k).sum(1)], 1)))
    return Fn(f, emb=nn.Embedding(50000, d), att=mlp(4 * d, 80, 40, 1, act=nn.Sigmoid), out=mlp(2 * d, 200, 80, 1, act=nn.PReLU)), (I(50000, b), I(50000, b, n), I(100, b) + 1)


@net
def dcn(b=512, d=429):
    def f(m, x):
        y = x
        for l in m.cross:
            y = x * l(y) + y
        return torch.sigmoid(m.out(torch.cat([y, m.deep(x)], 1)))
    return Fn(f, cross=nn.ModuleList(nn.Linear(d, d) for _ in range(3)), deep=mlp(d, 256, 128, last=True), out=nn.Linear(d + 128, 1)), (R(b, d),)


@net
def sasrec(b=16, n=50, d=64):
    layer = nn.TransformerEncoderLayer(d, 2, 256, 0.0, batch_first=True, norm_first=True)
    def f(m, hist):
        x = m.emb(hist) * d ** 0.5 + m.pos
        mask = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
        for l in m.layers:
            x = l(x, src_mask=mask)
        return x[:, -1] @ m.emb.weight.t()
    return Fn(f, emb=nn.Embedding(5000, d), pos=nn.Parameter(R(n, d)), layers=nn.ModuleList(copy.deepcopy(layer) for _ in range(2))), (I(5000, b, n),)


# recurrent
def rnn(kind, b, t, i, h, layers=1, bi=False, **kw):
    r = kind(i, h, layers, batch_first=True, bidirectional=bi, **kw)
    return Fn(lambda m, x: m.r(x)[0], r=r), (R(b, t, i),)


net_rows = {
    "lstm_b1_t64_h256": lambda: rnn(nn.LSTM, 1, 64, 256, 256),
    "lstm_b32_t64_h256": lambda: rnn(nn.LSTM, 32, 64, 256, 256),
    "lstm_bi2_b1_t100_h256": lambda: rnn(nn.LSTM, 1, 100, 128, 256, 2, True),
    "lstm_bi2_b8_t50_h128": lambda: rnn(nn.LSTM, 8, 50, 128, 128, 2, True),
    "lstm_b1_t1000_h64": lambda: rnn(nn.LSTM, 1, 1000, 64, 64),
    "lstm_b1_t20_h1024": lambda: rnn(nn.LSTM, 1, 20, 512, 1024),
    "lstm_proj": lambda: rnn(nn.LSTM, 4, 50, 128, 512, 1, False, proj_size=128),
    "gru_b1_t64_h256": lambda: rnn(nn.GRU, 1, 64, 256, 256),
    "gru_b32_t64_h128": lambda: rnn(nn.GRU, 32, 64, 128, 128),
    "gru_bi_b16_t100_h64": lambda: rnn(nn.GRU, 16, 100, 80, 64, 1, True),
    "rnn_b8_t100_h128": lambda: rnn(nn.RNN, 8, 100, 128, 128),
}
NETS.update(net_rows)


@net
def lstm_cells(b=8, t=24, h=128):
    def f(m, x):
        hc = (torch.zeros(b, h), torch.zeros(b, h))
        out = []
        for k in range(t):
            hc = m.c(x[:, k], hc)
            out.append(m.o(hc[0]))
        return torch.stack(out, 1)
    return Fn(f, c=nn.LSTMCell(64, h), o=nn.Linear(h, 32)), (R(b, t, 64),)


@net
def gru_masked(b=16, t=40, h=96):
    def f(m, x, length):
        y = m.r(x)[0]
        mask = (torch.arange(t)[None] < length[:, None])[..., None]
        y = y * mask
        last = y.gather(1, (length - 1)[:, None, None].expand(-1, 1, h)).squeeze(1)
        return m.o(torch.cat([last, y.masked_fill(~mask, -1e9).amax(1)], 1))
    return Fn(f, r=nn.GRU(64, h, batch_first=True), o=nn.Linear(2 * h, 10)), (R(b, t, 64), I(t, b).clamp(max=t - 1) + 1)


@net
def seq2seq_attention(b=4, t=30, h=128):
    def f(m, src, tgt):
        enc, (hn, cn) = m.e(m.emb(src))
        hx, cx = hn[0], cn[0]
        out = []
        for k in range(12):
            hx, cx = m.c(torch.cat([m.emb(tgt[:, k]), hx], 1), (hx, cx))
            a = torch.softmax((enc @ m.w(hx)[..., None]).squeeze(-1), -1)
            out.append(m.o(torch.cat([hx, (a[:, None] @ enc).squeeze(1)], 1)))
        return torch.stack(out, 1)
    return Fn(f, emb=nn.Embedding(2000, 64), e=nn.LSTM(64, h, batch_first=True), c=nn.LSTMCell(64 + h, h), w=nn.Linear(h, h), o=nn.Linear(2 * h, 2000)), (I(2000, b, t), I(2000, b, 12))


# audio
@net
def log_mel():
    def f(m, x):
        s = torch.stft(x, 400, 160, window=m.w, return_complex=True)
        p = s.abs() ** 2
        return torch.log10((m.fb @ p).clamp(min=1e-10))
    return Fn(f, w=torch.hann_window(400), fb=torch.rand(80, 201)), (R(1, 16000 * 4),)


@net
def stft_1024():
    def f(m, x):
        s = torch.view_as_real(torch.stft(x, 1024, 256, window=m.w, return_complex=True))
        return s
    return Fn(f, w=torch.hann_window(1024)), (R(2, 32000),)


@net
def istft_mask():
    def f(m, x):
        s = torch.stft(x, 512, 128, window=m.w, return_complex=True)
        g = torch.sigmoid(s.abs() - 1)
        return torch.istft(s * g, 512, 128, window=m.w, length=16000)
    return Fn(f, w=torch.hann_window(512)), (R(1, 16000),)


@net
def conformer(b=1, t=200, d=256):
    class Block(nn.Module):
        def __init__(s):
            super().__init__()
            s.f1, s.f2 = [nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d)) for _ in range(2)]
            s.n, s.qkv, s.o = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
            s.cn, s.p1, s.dw, s.bn, s.p2 = nn.LayerNorm(d), nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 31, padding=15, groups=d), nn.BatchNorm1d(d), nn.Conv1d(d, d, 1)
            s.ln = nn.LayerNorm(d)

        def forward(s, x):
            x = x + 0.5 * s.f1(x)
            q, k, v = s.qkv(s.n(x)).view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
            x = x + s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
            c = s.cn(x).transpose(1, 2)
            c = s.p2(F.silu(s.bn(s.dw(F.glu(s.p1(c), 1)))))
            x = x + c.transpose(1, 2)
            return s.ln(x + 0.5 * s.f2(x))
    return nn.Sequential(*[Block() for _ in range(2)]), (R(b, t, d),)


@net
def wav2vec_front():
    rows = [(10, 5)] + [(3, 2)] * 4 + [(2, 2)] * 2
    layers, i = [], 1
    for n, (k, s) in enumerate(rows):
        layers += [nn.Conv1d(i, 256, k, s, bias=False)] + ([nn.GroupNorm(256, 256)] if n == 0 else []) + [nn.GELU()]
        i = 256
    return nn.Sequential(*layers), (R(1, 1, 16000),)


@net
def wavenet(t=2000, c=64):
    class Block(nn.Module):
        def __init__(s, d):
            super().__init__()
            s.d, s.c, s.r, s.s = d, nn.Conv1d(c, 2 * c, 2, dilation=d), nn.Conv1d(c, c, 1), nn.Conv1d(c, c, 1)

        def forward(s, x):
            a, g = s.c(F.pad(x, (s.d, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(g)
            return x + s.r(y), s.s(y)

    def f(m, x):
        x, skip = m.i(x), 0
        for l in m.l:
            x, s = l(x)
            skip = skip + s
        return m.o(F.relu(skip))
    return Fn(f, i=nn.Conv1d(1, c, 1), l=nn.ModuleList(Block(2 ** k) for k in range(8)), o=nn.Conv1d(c, 256, 1)), (R(1, 1, t),)


@net
def hifigan(t=32):
    class Res(nn.Module):
        def __init__(s, c, k):
            super().__init__()
            s.a = nn.ModuleList(nn.Conv1d(c, c, k, padding=(k - 1) * d // 2, dilation=d) for d in (1, 3, 5))
            s.b = nn.ModuleList(nn.Conv1d(c, c, k, padding=k // 2) for d in (1, 3, 5))

        def forward(s, x):
            for a, b in zip(s.a, s.b):
                x = x + b(F.leaky_relu(a(F.leaky_relu(x, 0.1)), 0.1))
            return x

    class Net(nn.Module):
        def __init__(s):
            super().__init__()
            s.i = nn.Conv1d(80, 128, 7, padding=3)
            s.up = nn.ModuleList(nn.ConvTranspose1d(128 >> k, 64 >> k, 2 * u, u, padding=u // 2) for k, u in enumerate((8, 8, 2, 2)))
            s.res = nn.ModuleList(nn.ModuleList(Res(64 >> k, n) for n in (3, 7, 11)) for k in range(4))
            s.o = nn.Conv1d(8, 1, 7, padding=3)

        def forward(s, x):
            x = s.i(x)
            for u, r in zip(s.up, s.res):
                x = u(F.leaky_relu(x, 0.1))
                x = sum(k(x) for k in r) / 3
            return torch.tanh(s.o(F.leaky_relu(x)))
    return Net(), (R(1, 80, t),)


@net
def encodec_like(t=4800):
    layers, c = [nn.Conv1d(1, 32, 7, padding=3)], 32
    for s in (2, 4, 5, 8):
        layers += [nn.ELU(), nn.Conv1d(c, 2 * c, 2 * s, s, padding=s // 2)]
        c *= 2
    return nn.Sequential(*layers), (R(1, 1, t),)


@net
def tasnet_block(t=1500, c=128, h=256):
    def blk(d):
        return nn.Sequential(nn.Conv1d(c, h, 1), nn.PReLU(), nn.GroupNorm(1, h), nn.Conv1d(h, h, 3, padding=d, dilation=d, groups=h), nn.PReLU(), nn.GroupNorm(1, h), nn.Conv1d(h, c, 1))
    def f(m, x):
        y = m.enc(x)
        z = y
        for b in m.b:
            z = z + b(z)
        return m.dec(y * torch.sigmoid(z))
    return Fn(f, enc=nn.Conv1d(1, c, 16, 8), b=nn.ModuleList(blk(2 ** k) for k in range(4)), dec=nn.ConvTranspose1d(c, 1, 16, 8)), (R(1, 1, t * 8),)


# state spaces
@net
def mamba_block(b=1, t=64, d=128, n=16):
    def f(m, x):
        u, z = m.i(x).chunk(2, -1)
        u = F.silu(m.c(u.transpose(1, 2))[..., :t].transpose(1, 2))
        dt, B, C = m.x(u).split([8, n, n], -1)
        dt = F.softplus(m.dt(dt))
        A = -torch.exp(m.A)
        dA, dBu = torch.exp(dt[..., None] * A), (dt * u)[..., None] * B[:, :, None]
        h, ys = torch.zeros(b, 2 * d, n), []
        for k in range(t):
            h = dA[:, k] * h + dBu[:, k]
            ys.append((h * C[:, k, None]).sum(-1))
        return m.o((torch.stack(ys, 1) + u * m.D) * F.silu(z))
    e = 2 * d
    return Fn(f, i=nn.Linear(d, 2 * e), c=nn.Conv1d(e, e, 4, padding=3, groups=e), x=nn.Linear(e, 8 + 2 * n), dt=nn.Linear(8, e), A=nn.Parameter(R(e, n)), D=nn.Parameter(R(e)), o=nn.Linear(e, d)), (R(b, t, d),)


@net
def ssd_cumsum(b=1, t=256, h=8, p=64, n=32):
    def f(m, x, a, B, C):
        s = torch.cumsum(a, 1).transpose(1, 2)
        L = torch.exp((s[..., :, None] - s[..., None, :]).masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf")))
        g = torch.einsum("bthn,bshn->bhts", C, B)
        return torch.einsum("bhts,bshp->bthp", g * L, x)
    return Fn(f), (R(b, t, h, p), -torch.rand(b, t, h), R(b, t, h, n), R(b, t, h, n))


@net
def s4_fft(b=1, t=1024, d=64):
    def f(m, x):
        k = torch.fft.rfft(m.k, 2 * t)
        y = torch.fft.irfft(torch.fft.rfft(x.transpose(1, 2), 2 * t) * k, 2 * t)[..., :t]
        return m.o(F.gelu(y.transpose(1, 2) + x * m.D))
    return Fn(f, k=nn.Parameter(R(d, t)), D=nn.Parameter(R(d)), o=nn.Linear(d, d)), (R(b, t, d),)


@net
def rwkv_like(b=1, t=64, d=256):
    def f(m, x):
        p = F.pad(x, (0, 0, 1, -1))
        k, v, r = m.k(x * m.mu + p * (1 - m.mu)), m.v(x * m.mu + p * (1 - m.mu)), torch.sigmoid(m.r(x * m.mu + p * (1 - m.mu)))
        w, u = -torch.exp(m.w), m.u
        num, den, ys = torch.zeros(b, d), torch.zeros(b, d), []
        ek = torch.exp(k.clamp(max=10))
        for i in range(t):
            e = ek[:, i] * torch.exp(u)
            ys.append((num + e * v[:, i]) / (den + e + 1e-6))
            num, den = torch.exp(w) * num + ek[:, i] * v[:, i], torch.exp(w) * den + ek[:, i]
        return m.o(r * torch.stack(ys, 1))
    return Fn(f, k=nn.Linear(d, d), v=nn.Linear(d, d), r=nn.Linear(d, d), o=nn.Linear(d, d), mu=nn.Parameter(torch.rand(d)), w=nn.Parameter(R(d)), u=nn.Parameter(R(d))), (R(b, t, d),)


@net
def linear_attention(b=2, t=512, h=8, d=32):
    def f(m, q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bhtd,bhte->bhde", k, v)
        return torch.einsum("bhtd,bhde->bhte", q, kv) / (q @ k.sum(2)[..., None])
    return Fn(f), (R(b, h, t, d), R(b, h, t, d), R(b, h, t, d))


# time series
@net
def tcn(b=8, t=256, c=64):
    class Block(nn.Module):
        def __init__(s, i, d):
            super().__init__()
            s.a, s.b, s.d = nn.Conv1d(i, c, 3, dilation=d), nn.Conv1d(c, c, 3, dilation=d), d
            s.r = nn.Conv1d(i, c, 1) if i != c else nn.Identity()

        def forward(s, x):
            y = F.relu(s.a(F.pad(x, (2 * s.d, 0))))
            return F.relu(s.r(x) + F.relu(s.b(F.pad(y, (2 * s.d, 0)))))
    return nn.Sequential(*[Block(16 if k == 0 else c, 2 ** k) for k in range(5)]), (R(b, 16, t),)


@net
def nbeats(b=64, t=96, h=256):
    class Net(nn.Module):
        def __init__(s):
            super().__init__()
            s.blocks = nn.ModuleList(mlp(t, h, h, h, h, last=True) for _ in range(6))
            s.back, s.fore = nn.ModuleList(nn.Linear(h, t) for _ in range(6)), nn.ModuleList(nn.Linear(h, 24) for _ in range(6))

        def forward(s, x):
            y = 0
            for k, a, c in zip(s.blocks, s.back, s.fore):
                z = k(x)
                x, y = x - a(z), y + c(z)
            return y
    return Net(), (R(b, t),)


@net
def patchtst(b=8, c=7, t=336, d=128):
    layer = nn.TransformerEncoderLayer(d, 8, 256, 0.0, F.gelu, batch_first=True)
    def f(m, x):
        mean, std = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
        p = F.pad(((x - mean) / std).transpose(1, 2), (0, 8), "replicate").unfold(-1, 16, 8)
        y = m.e(m.i(p).flatten(0, 1) + m.pos).view(b, c, -1)
        return m.o(y).transpose(1, 2) * std + mean
    n = (t + 8 - 16) // 8 + 1
    return Fn(f, i=nn.Linear(16, d), pos=nn.Parameter(R(n, d)), e=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), o=nn.Linear(n * d, 96)), (R(b, t, c),)


@net
def dlinear(b=32, t=336, c=21):
    def f(m, x):
        trend = F.avg_pool1d(F.pad(x.transpose(1, 2), (12, 12), "replicate"), 25, 1)
        return (m.s(x.transpose(1, 2) - trend) + m.t(trend)).transpose(1, 2)
    return Fn(f, s=nn.Linear(t, 96), t=nn.Linear(t, 96)), (R(b, t, c),)


@net
def inception_time(b=16, t=256):
    class Block(nn.Module):
        def __init__(s, i):
            super().__init__()
            s.i, s.c, s.p, s.bn = nn.Conv1d(i, 32, 1), nn.ModuleList(nn.Conv1d(32, 32, k, padding=k // 2) for k in (9, 19, 39)), nn.Conv1d(i, 32, 1), nn.BatchNorm1d(128)

        def forward(s, x):
            y = s.i(x)
            return F.relu(s.bn(torch.cat([c(y) for c in s.c] + [s.p(F.max_pool1d(x, 3, 1, 1))], 1)))
    return nn.Sequential(Block(4), Block(128), Block(128), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 5)), (R(b, 4, t),)
