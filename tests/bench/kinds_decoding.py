"""Decoding and sampling, and more graphs, time series, trees, spectra and algebra: (module, arguments) by name."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from kinds_nets import Fn, I, R, mlp, net


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
