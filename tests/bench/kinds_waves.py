"""What users ship, of sounds, words and physics: convolutions of waves, voices, detectors of speech, attention of kinds, operators: (module, arguments) by name."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from kinds_nets import Fn, I, R, mlp, net

heads = lambda x, n: x.unflatten(-1, (n, -1)).transpose(-3, -2)
joined = lambda x: x.transpose(-3, -2).flatten(-2)
conv1 = lambda i, o, k=3, d=1, g=1, s=1: nn.Conv1d(i, o, k, s, d * (k // 2), d, g)


@net
def positional_convolution(c=768, t=199):
    def f(m, x):
        y = F.gelu(m.c(x.mT)[..., :-1]).mT
        return m.n(x + y)
    return Fn(f, c=nn.utils.parametrizations.weight_norm(nn.Conv1d(c, c, 128, padding=64, groups=16), dim=2), n=nn.LayerNorm(c)), (R(1, t, c),)


@net
def pitch_convolutions(frames=32):
    unit = lambda i, o, k, s, p: nn.Sequential(nn.ConstantPad1d(p, 0), nn.Conv1d(i, o, k, s), nn.ReLU(), nn.BatchNorm1d(o), nn.MaxPool1d(2))
    def f(m, x):
        x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True).clamp_min(1e-8)
        y = torch.sigmoid(m.o(m.b(x[:, None]).transpose(1, 2).flatten(1)))
        i = y.argmax(1, keepdim=True)
        w = torch.where((torch.arange(360) - i).abs() < 5, y, 0.0)
        return (w * m.cents).sum(1) / w.sum(1)
    return Fn(f, b=nn.Sequential(unit(1, 128, 512, 4, (254, 254)), unit(128, 16, 64, 1, (31, 32)), unit(16, 16, 64, 1, (31, 32)), unit(16, 32, 64, 1, (31, 32)), unit(32, 64, 64, 1, (31, 32))), o=nn.Linear(64 * 8, 360), cents=torch.linspace(0, 7180, 360)), (
        R(frames, 1024),)


@net
def speaker_embedding(c=256, t=300):
    def block(m, x, scale=8):
        y = m["a"](x)
        parts, out = y.chunk(scale, 1), []
        for i, p in enumerate(parts):
            out.append(p if i == 0 else m["r"][i - 1](p if i == 1 else p + out[-1]))
        y = m["b"](torch.cat(out, 1))
        return x + y * torch.sigmoid(m["s"](y.mean(2, keepdim=True)))
    unit = lambda i, o, k=1, d=1: nn.Sequential(conv1(i, o, k, d), nn.ReLU(), nn.BatchNorm1d(o))
    make = lambda d: nn.ModuleDict({"a": unit(c, c), "r": nn.ModuleList(unit(c // 8, c // 8, 3, d) for _ in range(7)), "b": unit(c, c), "s": nn.Sequential(nn.Conv1d(c, 64, 1), nn.ReLU(), nn.Conv1d(64, c, 1))})
    def f(m, x):
        x = m.first(x)
        outs = []
        for b in m.b:
            x = block(b, x)
            outs.append(x)
        x = F.relu(m.mix(torch.cat(outs, 1)))
        mean, dev = x.mean(2, keepdim=True).expand_as(x), torch.sqrt(x.var(2, keepdim=True).clamp_min(1e-4)).expand_as(x)
        w = torch.softmax(m.att(torch.cat([x, mean, dev], 1)), 2)
        mu = (x * w).sum(2)
        s = torch.sqrt(((x * x * w).sum(2) - mu * mu).clamp_min(1e-4))
        return m.o(m.n(torch.cat([mu, s], 1)))
    return Fn(f, first=unit(80, c, 5), b=nn.ModuleList(make(d) for d in (2, 3, 4)), mix=nn.Conv1d(3 * c, 768, 1), att=nn.Sequential(nn.Conv1d(3 * 768, 128, 1), nn.ReLU(), nn.BatchNorm1d(128), nn.Tanh(), nn.Conv1d(128, 768, 1)), n=nn.BatchNorm1d(1536),
              o=nn.Linear(1536, 192)), (R(1, 80, t),)


@net
def speech_detector(rows=1):
    n = torch.arange(256)
    waves = torch.cat([torch.cos(2 * math.pi * n[:129, None] * n / 256), -torch.sin(2 * math.pi * n[:129, None] * n / 256)]) * torch.hann_window(256)
    unit = lambda i, o, s: nn.Sequential(nn.Conv1d(i, o, 3, s, 1), nn.ReLU())
    def f(m, x, h, c):
        y = F.conv1d(F.pad(x[:, None], (0, 64), mode="reflect"), m.waves[:, None], stride=128)
        y = m.e(torch.sqrt(y[:, :129] ** 2 + y[:, 129:] ** 2))
        y, (h, c) = m.r(y.mT, (h, c))
        return torch.sigmoid(m.o(F.relu(y[:, -1]))), h, c
    return Fn(f, waves=waves, e=nn.Sequential(unit(129, 128, 1), unit(128, 64, 2), unit(64, 64, 2), unit(64, 128, 1)), r=nn.LSTM(128, 128, batch_first=True), o=nn.Linear(128, 1)), (R(rows, 576), R(1, rows, 128), R(1, rows, 128))


@net
def noise_gains(frames=100):
    def f(m, x):
        a = torch.tanh(m.i(x))
        v = m.v(a)[0]
        n = m.n(torch.cat([a, v, x], -1))[0]
        d = m.d(torch.cat([v, n, x], -1))[0]
        return torch.sigmoid(m.g(d)), torch.sigmoid(m.o(v))
    return Fn(f, i=nn.Linear(42, 24), v=nn.GRU(24, 24, batch_first=True), n=nn.GRU(90, 48, batch_first=True), d=nn.GRU(114, 96, batch_first=True), g=nn.Linear(96, 22), o=nn.Linear(24, 1)), (R(1, frames, 42),)


@net
def music_separator(c=32, t=8192):
    def f(m, x):
        skips = []
        for a, b in m.e:
            x = F.glu(b(F.relu(a(x))), 1)
            skips.append(x)
        y, _ = m.r(x.mT)
        x = m.l(y).mT
        for a, b in m.d:
            x = F.glu(a(x + skips.pop()), 1)
            x = b(x)
            x = F.relu(x) if skips else x
        return x
    d = [2, c, 2 * c, 4 * c, 8 * c]
    return Fn(f, e=nn.ModuleList(nn.ModuleList([nn.Conv1d(i, o, 8, 4, 2), nn.Conv1d(o, 2 * o, 1)]) for i, o in zip(d, d[1:])), r=nn.LSTM(8 * c, 8 * c, 1, bidirectional=True, batch_first=True), l=nn.Linear(16 * c, 8 * c),
              d=nn.ModuleList(nn.ModuleList([nn.Conv1d(o, 2 * o, 3, 1, 1), nn.ConvTranspose1d(o, i, 8, 4, 2)]) for i, o in reversed(list(zip(d, d[1:]))))), (R(1, 2, t),)


@net
def snake_block(c=64, t=2048, k=12):
    w = torch.sinc((torch.arange(k) - 5.5) / 2) * torch.hann_window(k, False)
    w = (w / w.sum()).view(1, 1, -1)
    def act(m, x, a):
        x = 2 * F.conv_transpose1d(F.pad(x, (5, 5), mode="replicate"), m.w.expand(c, -1, -1), stride=2, groups=c)[..., 15:-15]
        x = x + torch.sin(x * torch.exp(a)) ** 2 / (torch.exp(a) + 1e-9)
        return F.conv1d(F.pad(x, (5, 6), mode="replicate"), m.w.expand(c, -1, -1), stride=2, groups=c)
    def f(m, x):
        for c1, c2, a in zip(m.c1, m.c2, m.a):
            x = x + c2(act(m, c1(act(m, x, a[0])), a[1]))
        return x
    return Fn(f, w=w, c1=nn.ModuleList(conv1(c, c, 3, d) for d in (1, 3, 5)), c2=nn.ModuleList(conv1(c, c, 3) for _ in range(3)), a=nn.Parameter(R(3, 2, c, 1) * 0.1)), (R(1, c, t),)


@net
def length_regulator(t=100, frames=400, d=256):
    def f(m, x, lengths):
        e = torch.cumsum(lengths, 1)
        p = torch.arange(frames)[None]
        i = (p[..., None] >= e[:, None]).sum(-1).clamp_max(t - 1)
        y = torch.gather(x, 1, i[..., None].expand(-1, -1, d)) * (p < e[:, -1:])[..., None]
        mel = m.o(y)
        return mel + m.post(mel.mT).mT
    c = 512
    post = []
    for a, b in ((80, c), (c, c), (c, 80)):
        post += [nn.Conv1d(a, b, 5, 1, 2), nn.BatchNorm1d(b), nn.Tanh()]
    return Fn(f, o=nn.Linear(d, 80), post=nn.Sequential(*post[:-1])), (R(1, t, d), I(7, 1, t))


@net
def spectrum_voice(t=128, c=256):
    def f(m, x):
        x = m.n(m.e(x).mT).mT
        for dw, n, a, b in m.b:
            x = x + 0.1 * b(F.gelu(a(n(dw(x).mT)))).mT
        y = m.o(m.l(x.mT)).mT
        mag, p = y.chunk(2, 1)
        mag = torch.exp(mag).clamp_max(100)
        z = torch.fft.irfft(torch.complex(mag * torch.cos(p), mag * torch.sin(p)), 1024, dim=1) * m.w[None, :, None]
        out = F.fold(z, (1, (t - 1) * 256 + 1024), (1, 1024), stride=(1, 256))[:, 0, 0]
        return out / m.env
    w = torch.hann_window(1024)
    env = F.fold((w * w)[None, :, None].expand(1, -1, t), (1, (t - 1) * 256 + 1024), (1, 1024), stride=(1, 256))[:, 0, 0] + 1e-3
    return Fn(f, e=nn.Conv1d(80, c, 7, 1, 3), n=nn.LayerNorm(c), b=nn.ModuleList(nn.ModuleList([conv1(c, c, 7, g=c), nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(3 * c, c)]) for _ in range(2)),
              l=nn.LayerNorm(c), o=nn.Linear(c, 1026), w=w, env=env), (R(1, 80, t),)


# attention of kinds
@net
def disentangled_attention(t=128, d=256, n=4, span=64):
    def f(m, x):
        q, k, v = (heads(y, n) for y in m.qkv(x).chunk(3, -1))
        pk, pq = heads(m.pk(m.rel), n), heads(m.pq(m.rel), n)
        i = torch.arange(t)
        at = (i[:, None] - i + span).clamp(0, 2 * span - 1)
        c2p = torch.gather(q @ pk.mT, -1, at.expand(1, n, -1, -1))
        p2c = torch.gather(k @ pq.mT, -1, at.expand(1, n, -1, -1)).mT
        a = torch.softmax((q @ k.mT + c2p + p2c) / math.sqrt(3 * d // n), -1)
        return m.ln(x + m.o(joined(a @ v)))
    return Fn(f, qkv=nn.Linear(d, 3 * d), pk=nn.Linear(d, d), pq=nn.Linear(d, d), rel=nn.Parameter(R(2 * span, d)), o=nn.Linear(d, d), ln=nn.LayerNorm(d)), (R(1, t, d),)


@net
def windowed_attention(t=1024, d=128, n=4, w=64):
    def f(m, x):
        q, k, v = (heads(y, n).unflatten(2, (-1, w)) for y in m.qkv(x).chunk(3, -1))
        around = lambda y: torch.cat([F.pad(y, (0, 0, 0, 0, 1, 0))[:, :, :-1], y, F.pad(y, (0, 0, 0, 0, 0, 1))[:, :, 1:]], 3)
        s = q @ around(k).mT / math.sqrt(d // n)
        i, j, b = torch.arange(w)[:, None], torch.arange(3 * w) - w, torch.arange(t // w)[:, None, None]
        ok = ((i - j).abs() <= w) & (b * w + j >= 0) & (b * w + j < t)
        a = torch.softmax(s.masked_fill(~ok, -1e9), -1)
        return m.o(joined((a @ around(v)).flatten(2, 3)))
    return Fn(f, qkv=nn.Linear(d, 3 * d), o=nn.Linear(d, d)), (R(1, t, d),)


@net
def dynamic_convolution(t=128, d=256, n=4, k=9):
    def f(m, x):
        v = m.v(x)
        w = torch.softmax(m.w(m.q(x) * m.p(m.s(x.mT)).mT).unflatten(-1, (n, k)), -1)
        u = F.unfold(v.mT[..., None], (k, 1), padding=(k // 2, 0)).view(x.shape[0], n, d // n, k, t)
        y = torch.einsum("bncks,bsnk->bsnc", u, w).flatten(2)
        return m.o(y)
    return Fn(f, v=nn.Linear(d, d), q=nn.Linear(d, d), s=nn.Conv1d(d, d, k, padding=k // 2, groups=d), p=nn.Conv1d(d, d, 1), w=nn.Linear(d, n * k), o=nn.Linear(d, d)), (R(4, t, d),)


@net
def decision_steps(t=20, d=128):
    def f(m, r, s, a, when):
        e = m.t(when)
        x = torch.stack([m.r(r) + e, m.s(s) + e, m.a(a) + e], 2).flatten(1, 2)
        x = m.n(x)
        mask = torch.ones(3 * t, 3 * t).tril()
        for n1, qkv, o, n2, up, down in m.b:
            q, k, v = (heads(y, 1) for y in qkv(n1(x)).chunk(3, -1))
            x = x + o(joined(torch.softmax((q @ k.mT / math.sqrt(d)).masked_fill(mask == 0, float("-inf")), -1) @ v))
            x = x + down(F.relu(up(n2(x))))
        return torch.tanh(m.o(x.unflatten(1, (t, 3))[:, :, 1]))
    block = lambda: nn.ModuleList([nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)])
    return Fn(f, t=nn.Embedding(1000, d), r=nn.Linear(1, d), s=nn.Linear(17, d), a=nn.Linear(6, d), n=nn.LayerNorm(d), b=nn.ModuleList(block() for _ in range(3)), o=nn.Linear(d, 6)), (R(1, t, 1), R(1, t, 17), R(1, t, 6), I(1000, 1, t))


@net
def token_tags(t=128, d=256, tags=9):
    layer = nn.TransformerEncoderLayer(d, 4, 4 * d, 0, "gelu", batch_first=True)
    def f(m, ids):
        e = m.o(m.t(m.e(ids) + m.p))[0]
        score, back = e[0] + m.start, []
        for k in range(1, 32):
            best, i = (score[:, None] + m.tr).max(0)
            score = best + e[k]
            back.append(i)
        path = [score.argmax()]
        for i in reversed(back):
            path.append(i[path[-1]])
        return torch.stack(path[::-1]), e
    return Fn(f, e=nn.Embedding(5000, d), p=nn.Parameter(R(t, d)), t=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), o=nn.Linear(d, tags), start=nn.Parameter(R(tags)), tr=nn.Parameter(R(tags, tags))), (I(5000, 1, t),)


# operators of functions, physics
@net
def deep_operator(rows=64, points=1024, sensors=100):
    def f(m, u, y):
        return m.b(u) @ m.t(y).T + m.c
    return Fn(f, b=mlp(sensors, 128, 128, 128), t=mlp(2, 128, 128, 128, act=nn.Tanh, last=True), c=nn.Parameter(torch.zeros(1))), (R(rows, sensors), torch.rand(points, 2))


@net
def atom_triplets(n=64, k=8, d=64):
    def f(m, pos, z):
        dist = torch.cdist(pos, pos) + torch.eye(n) * 1e3
        r, j = dist.topk(k, largest=False)
        v = pos[j] - pos[:, None]
        u = v / r[..., None]
        cos = (u[:, :, None] * u[:, None]).sum(-1).clamp(-1, 1)
        angle = torch.cos(torch.arange(7) * torch.acos(cos * 0.999)[..., None])
        basis = math.sqrt(0.4) * torch.sin(m.freq * r[..., None] / 5) / r[..., None]
        e = m.e(torch.cat([m.z(z)[:, None].expand(-1, k, -1), m.z(z)[j], m.rb(basis)], -1))
        t = (angle[..., None] * m.a).sum(3)
        msg = F.silu(m.k(e))
        e = e + F.silu(m.o((t * msg[:, None]).sum(2)))
        return m.out(e.sum(1)).sum()
    return Fn(f, z=nn.Embedding(20, d), freq=torch.arange(1, 7) * math.pi, rb=nn.Linear(6, d), e=mlp(3 * d, d, act=nn.SiLU, last=True), a=nn.Parameter(R(7, d)), k=nn.Linear(d, d), o=nn.Linear(d, d), out=mlp(d, d, 1, act=nn.SiLU)), (R(n, 3) * 3, I(20, n))


@net
def mesh_messages(n=1500, e=9000, d=64):
    block = lambda i: nn.Sequential(nn.Linear(i, d), nn.ReLU(), nn.Linear(d, d), nn.LayerNorm(d))
    def f(m, x, ed, src, dst):
        for fe, fn in zip(m.e, m.n):
            ed = ed + fe(torch.cat([ed, x[src], x[dst]], -1))
            x = x + fn(torch.cat([x, torch.zeros(n, d).index_add(0, dst, ed)], -1))
        return x
    return Fn(f, e=nn.ModuleList(block(3 * d) for _ in range(3)), n=nn.ModuleList(block(2 * d) for _ in range(3))), (R(n, d), R(e, d), I(n, e), I(n, e))
