"""What people export, whole: diffusion, detectors' heads, points, graphs, tables, speech, retrieval, forecasts, densities, caches: (module, arguments) by name."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from kinds_nets import Fn, I, R, mlp, net

heads = lambda x, n: x.unflatten(-1, (n, -1)).transpose(-3, -2)
joined = lambda x: x.transpose(-3, -2).flatten(-2)
attend = lambda q, k, v, n, **o: joined(F.scaled_dot_product_attention(heads(q, n), heads(k, n), heads(v, n), **o))


# diffusion, compression
@net
def unet_cross_block(c=128, s=16, t=77, d=256):
    def f(m, x, time, text):
        h = m.c2(F.silu(m.n2(m.c1(F.silu(m.n1(x))) + m.t(F.silu(time))[:, :, None, None]))) + x
        y = m.n3(h).flatten(2).mT
        y = y + m.o1(attend(*m.qkv(m.l1(y)).chunk(3, -1), 8))
        k, v = m.kv(text).chunk(2, -1)
        y = y + m.o2(attend(m.q(m.l2(y)), k, v, 8))
        a, g = m.up(m.l3(y)).chunk(2, -1)
        y = y + m.down(a * F.gelu(g))
        return m.d(h + y.mT.view_as(h))
    return Fn(f, n1=nn.GroupNorm(32, c), c1=nn.Conv2d(c, c, 3, padding=1), n2=nn.GroupNorm(32, c), c2=nn.Conv2d(c, c, 3, padding=1), t=nn.Linear(512, c), n3=nn.GroupNorm(32, c),
              l1=nn.LayerNorm(c), l2=nn.LayerNorm(c), l3=nn.LayerNorm(c), qkv=nn.Linear(c, 3 * c, bias=False), o1=nn.Linear(c, c), q=nn.Linear(c, c, bias=False), kv=nn.Linear(d, 2 * c, bias=False),
              o2=nn.Linear(c, c), up=nn.Linear(c, 8 * c), down=nn.Linear(4 * c, c), d=nn.Conv2d(c, c, 3, 2, 1)), (R(2, c, s, s), R(2, 512), R(2, t, d))


@net
def learned_compression(c=64, s=64):
    def gdn(x, g, b):
        return x * torch.rsqrt(F.conv2d(x * x, g[:, :, None, None], b))
    def f(m, x):
        y = m.c3(gdn(m.c2(gdn(m.c1(x), m.g1, m.b1)), m.g2, m.b2))
        q = torch.round(y)
        mu, s = m.h(torch.abs(y)).chunk(2, 1)
        s = F.softplus(s) + 0.1
        up, low = (q - mu + 0.5) / (s * math.sqrt(2)), (q - mu - 0.5) / (s * math.sqrt(2))
        return q, -torch.log2((0.5 * (torch.erf(up) - torch.erf(low))).clamp_min(1e-9)).sum((1, 2, 3))
    return Fn(f, c1=nn.Conv2d(3, c, 5, 2, 2), c2=nn.Conv2d(c, c, 5, 2, 2), c3=nn.Conv2d(c, c, 5, 2, 2), h=nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, 2 * c, 3, padding=1)),
              g1=nn.Parameter(torch.rand(c, c) * 0.1), b1=nn.Parameter(torch.ones(c)), g2=nn.Parameter(torch.rand(c, c) * 0.1), b2=nn.Parameter(torch.ones(c))), (R(1, 3, s * 4, s * 4),)


# detectors
@net
def retina_decode(classes=80, best=300):
    sizes = (32, 16, 8)
    def anchors(s, stride):
        y, x = torch.meshgrid(torch.arange(s) * stride, torch.arange(s) * stride, indexing="ij")
        wh = torch.tensor([[1.0, 1], [0.7, 1.4], [1.4, 0.7]]) * stride * 4
        xy = torch.stack([x, y], -1).view(-1, 1, 2).float()
        return torch.cat([xy.expand(-1, 3, -1), wh.expand(xy.shape[0], -1, -1)], -1).view(-1, 4)
    def f(m, *levels):
        boxes, scores, labels = [], [], []
        for x, a in zip(levels, (m.a0, m.a1, m.a2)):
            c = m.c(m.ct(x)).permute(0, 2, 3, 1).reshape(-1, classes).sigmoid()
            d = m.b(m.bt(x)).permute(0, 2, 3, 1).reshape(-1, 4)
            best_of, label = c.max(-1)
            s, i = best_of.topk(min(best, best_of.shape[0]))
            a, d = a[i], d[i]
            xy, wh = a[:, :2] + d[:, :2] * a[:, 2:], a[:, 2:] * torch.exp(d[:, 2:].clamp(max=4.1))
            boxes.append(torch.cat([xy - wh / 2, xy + wh / 2], -1).clamp(0, 256)), scores.append(s), labels.append(label[i])
        s, i = torch.cat(scores).topk(best)
        return torch.cat(boxes)[i], s, torch.cat(labels)[i]
    tower = lambda: nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())
    return Fn(f, ct=tower(), bt=tower(), c=nn.Conv2d(64, 3 * classes, 3, padding=1), b=nn.Conv2d(64, 12, 3, padding=1), **{f"a{i}": anchors(s, 256 // s) for i, s in enumerate(sizes)}), tuple(R(1, 64, s, s) for s in sizes)


@net
def fcos_heads(classes=20, best=100):
    def f(m, *levels):
        out = []
        for k, x in enumerate(levels):
            s = x.shape[-1]
            t = m.t(x)
            p = torch.arange(s) * (2 ** (k + 3)) + 2 ** (k + 2)
            y, xx = torch.meshgrid(p, p, indexing="ij")
            ltrb = F.relu(m.b(t)) * 2 ** (k + 3)
            score = torch.sqrt(m.c(t).sigmoid() * m.o(t).sigmoid()).flatten(1)
            box = torch.stack([xx - ltrb[:, 0], y - ltrb[:, 1], xx + ltrb[:, 2], y + ltrb[:, 3]], -1).flatten(1, 2)
            v, i = score.topk(best, 1)
            out.append(torch.cat([box.gather(1, (i % (s * s))[..., None].expand(-1, -1, 4)), v[..., None], (i // (s * s))[..., None].float()], -1))
        return torch.cat(out, 1)
    return Fn(f, t=nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.GroupNorm(16, 64), nn.ReLU()), c=nn.Conv2d(64, classes, 3, padding=1), b=nn.Conv2d(64, 4, 3, padding=1), o=nn.Conv2d(64, 1, 3, padding=1)), (R(1, 64, 40, 40), R(1, 64, 20, 20), R(1, 64, 10, 10))


@net
def detr_queries(q=100, d=128, s=400):
    def f(m, memory, pos):
        x = torch.zeros(1, q, d)
        for l in m.l:
            qk = x + m.query
            x = l.n1(x + l.o(attend(l.q(qk), l.k(qk), l.v(x), 8)))
            x = l.n2(x + l.o2(attend(l.q2(x + m.query), l.k2(memory + pos), l.v2(memory), 8)))
            x = l.n3(x + l.f(x))
        return *m.c(x).softmax(-1)[..., :-1].max(-1), m.b(x).sigmoid()
    layer = lambda: nn.ModuleDict({**{k: nn.Linear(d, d) for k in ("q", "k", "v", "o", "q2", "k2", "v2", "o2")}, **{k: nn.LayerNorm(d) for k in ("n1", "n2", "n3")}, "f": mlp(d, 512, d)})
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            for k, v in layer().items():
                setattr(self, k, v)
    return Fn(f, l=nn.ModuleList([Layer(), Layer()]), query=nn.Parameter(R(1, q, d)), c=nn.Linear(d, 92), b=mlp(d, d, d, 4)), (R(1, s, d), R(1, s, d))


# points
@net
def point_pillars(p=1500, n=20, s=64):
    def f(m, points, count, at):
        there = torch.arange(n)[None] < count[:, None]
        mean = (points[..., :3] * there[..., None]).sum(1, keepdim=True) / count[:, None, None].clamp_min(1)
        x = torch.cat([points, points[..., :3] - mean], -1) * there[..., None]
        x = F.relu(m.b(m.l(x).mT).mT).masked_fill(~there[..., None], 0).amax(1)
        canvas = torch.zeros(64, s * s).index_copy(1, at, x.mT)
        return m.c(canvas.view(1, 64, s, s))
    return Fn(f, l=nn.Linear(7, 64, bias=False), b=nn.BatchNorm1d(64), c=nn.Sequential(nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())), (
        R(p, n, 4), torch.randint(1, n + 1, (p,)), torch.randperm(s * s)[:p])


@net
def voxel_pool(n=8192, v=1000, d=64):
    def f(m, x, at):
        x = m.m(x)
        most = torch.zeros(v, d).scatter_reduce(0, at[:, None].expand(-1, d), x, "amax")
        mean = torch.zeros(v, d).index_add(0, at, x) / torch.zeros(v).index_add(0, at, torch.ones(n)).clamp_min(1)[:, None]
        return m.o(torch.cat([x, most[at], mean[at]], -1))
    return Fn(f, m=mlp(6, d, d, last=True), o=mlp(3 * d, d, 13)), (R(n, 6), I(v, n))


# graphs
@net
def gated_gcn(n=500, e=4000, d=64):
    def f(m, h, x, src, dst):
        for a, b, c, u, v, nh, ne in m.l:
            gate = a(h)[src] + b(h)[dst] + c(x)
            x = x + F.relu(ne(gate))
            s = torch.sigmoid(gate)
            over = torch.zeros(n, d).index_add(0, dst, s * v(h)[src]) / (torch.zeros(n, d).index_add(0, dst, s) + 1e-6)
            h = h + F.relu(nh(u(h) + over))
        return m.o(h.mean(0))
    return Fn(f, l=nn.ModuleList(nn.ModuleList([nn.Linear(d, d) for _ in range(5)] + [nn.BatchNorm1d(d), nn.BatchNorm1d(d)]) for _ in range(2)), o=mlp(d, d, 1)), (R(n, d), R(e, d), I(n, e), I(n, e))


@net
def hetero_messages(n=400, e=3000, d=64, relations=6):
    def f(m, h, src, dst, kind):
        msg = torch.einsum("ed,edo->eo", h[src], torch.einsum("rb,bdo->rdo", m.mix, m.bases)[kind])
        deg = torch.zeros(n).index_add(0, dst, torch.ones(e)).clamp_min(1)
        return F.relu(m.s(h) + torch.zeros(n, d).index_add(0, dst, msg) / deg[:, None])
    return Fn(f, mix=nn.Parameter(R(relations, 4)), bases=nn.Parameter(R(4, d, d) * 0.1), s=nn.Linear(d, d)), (R(n, d), I(n, e), I(n, e), I(relations, e))


# tables
@net
def tabnet_steps(b=256, i=54, d=32):
    def sparsemax(z):
        s = z.sort(-1, descending=True).values
        k = torch.arange(1, z.shape[-1] + 1)
        c = s.cumsum(-1)
        n = ((1 + k * s) > c).sum(-1, keepdim=True)
        return F.relu(z - (c.gather(-1, n - 1) - 1) / n)
    def f(m, x):
        x, prior, out = m.n(x), torch.ones(b, i), 0
        a = F.glu(m.f0(x))
        for att, ft in m.l:
            mask = sparsemax(att(a[:, d // 2:]) * prior)
            prior = prior * (1.5 - mask)
            a = F.glu(ft(x * mask))
            out = out + F.relu(a[:, :d // 2])
        return m.o(out)
    return Fn(f, n=nn.BatchNorm1d(i), f0=nn.Linear(i, 2 * d), l=nn.ModuleList(nn.ModuleList([nn.Linear(d // 2, i), nn.Linear(i, 2 * d)]) for _ in range(4)), o=nn.Linear(d // 2, 7)), (R(b, i),)


@net
def saint_rows(b=128, f=20, d=32):
    def fwd(m, cat, num):
        x = torch.cat([m.e(cat + m.off), num[..., None] * m.w + m.bias], 1)
        x = m.n1(x + m.o1(attend(*m.qkv1(x).chunk(3, -1), 4)))
        x = m.n2(x + m.f1(x))
        y = x.flatten(1)[None]
        y = m.n3(y + m.o2(attend(*m.qkv2(y).chunk(3, -1), 4)))[0]
        return m.h(y)
    n, w = f // 2, f * d
    return Fn(fwd, e=nn.Embedding(n * 50, d), off=torch.arange(n) * 50, w=nn.Parameter(R(n, d)), bias=nn.Parameter(R(n, d)), qkv1=nn.Linear(d, 3 * d), o1=nn.Linear(d, d), n1=nn.LayerNorm(d), n2=nn.LayerNorm(d),
              f1=mlp(d, 4 * d, d, act=nn.GELU), qkv2=nn.Linear(w, 192), o2=nn.Linear(64, w), n3=nn.LayerNorm(w), h=mlp(w, 64, 2)), (I(50, b, n), R(b, n))


@net
def hashed_features(b=256, n=40, v=50000, d=16):
    def f(m, at, x):
        e = m.e(at) * x[..., None]
        s = e.sum(1)
        return torch.sigmoid(m.w(at).squeeze(-1).mul(x).sum(1) + 0.5 * (s * s - (e * e).sum(1)).sum(-1) + m.m(s).squeeze(-1))
    return Fn(f, e=nn.Embedding(v, d), w=nn.Embedding(v, 1), m=mlp(d, 32, 1)), (I(v, b, n), torch.rand(b, n))


# speech
@net
def rnnt_joint(t=60, u=20, h=128, v=256):
    def f(m, enc, pred, y):
        z = torch.log_softmax(m.o(torch.tanh(m.e(enc)[:, :, None] + m.p(pred)[:, None])), -1)
        blank, label = z[..., 0], z[:, :, :-1].gather(-1, y[:, None, :, None].expand(-1, t, -1, -1)).squeeze(-1)
        return blank, label
    return Fn(f, e=nn.Linear(h, h), p=nn.Linear(h, h), o=nn.Linear(h, v)), (R(1, t, h), R(1, u + 1, h), I(v, 1, u))


@net
def streaming_conformer(d=144, chunk=16, left=64, k=15):
    def f(m, x, keys, values, conv):
        x = x + 0.5 * m.f1(x)
        q, kk, v = m.qkv(m.n1(x)).chunk(3, -1)
        keys, values = torch.cat([keys, kk], 1)[:, -left - chunk:], torch.cat([values, v], 1)[:, -left - chunk:]
        x = x + m.o(attend(q, keys, values, 4))
        y = F.glu(m.pw(m.n2(x)), -1).mT
        y = torch.cat([conv, y], -1)
        x = x + m.pw2(F.silu(m.bn(m.dw(y))).mT)
        return m.n3(x + 0.5 * m.f2(x)), keys[:, chunk:], values[:, chunk:], y[..., -(k - 1):]
    ff = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
    return Fn(f, f1=ff(), f2=ff(), n1=nn.LayerNorm(d), n2=nn.LayerNorm(d), n3=nn.LayerNorm(d), qkv=nn.Linear(d, 3 * d), o=nn.Linear(d, d), pw=nn.Linear(d, 2 * d), dw=nn.Conv1d(d, d, k, groups=d), bn=nn.BatchNorm1d(d), pw2=nn.Linear(d, d)), (
        R(1, chunk, d), R(1, left, d), R(1, left, d), R(1, d, k - 1))


# retrieval
@net
def late_interaction(q=32, docs=100, t=128, d=128):
    def f(m, query, doc, length):
        a, b = F.normalize(m.l(query), dim=-1), F.normalize(doc, dim=-1)
        s = torch.einsum("qd,ntd->nqt", a, b).masked_fill(torch.arange(t)[None, None] >= length[:, None, None], -1e4)
        return tuple(s.amax(-1).sum(-1).topk(10))
    return Fn(f, l=nn.Linear(256, d, bias=False)), (R(q, 256), R(docs, t, d), torch.randint(10, t + 1, (docs,)))


@net
def product_quantised(n=20000, parts=16, d=128, best=50):
    def f(m, q):
        table = ((q.view(-1, parts, 1, d // parts) - m.book) ** 2).sum(-1)
        dist = table.flatten(1)[:, m.codes].sum(-1)
        v, i = dist.topk(best, -1, largest=False)
        return v, i
    return Fn(f, book=R(parts, 256, d // parts), codes=I(256, n, parts) + torch.arange(parts) * 256), (R(2, d),)


# forecasts, densities
@net
def fusion_forecast(b=16, t=96, v=8, d=32):
    class Gated(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.a, self.b, self.g, self.n, self.s = nn.Linear(i, d), nn.Linear(d, o), nn.Linear(o, 2 * o), nn.LayerNorm(o), nn.Linear(i, o)

        def forward(self, x):
            return self.n(self.s(x) + F.glu(self.g(self.b(F.elu(self.a(x)))), -1))
    def f(m, x):
        e = x[..., None] * m.w + m.bias
        w = m.select(e.flatten(-2)).softmax(-1)
        x = (torch.stack([g(e[:, :, i]) for i, g in enumerate(m.each)], -1) * w[:, :, None]).sum(-1)
        y, _ = m.lstm(x)
        y = m.n1(x + F.glu(m.g1(y), -1))
        z = m.static(y)
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        z = m.n2(z + F.glu(m.g2(attend(m.q(z), m.k(z), m.v(z), 4, attn_mask=mask)), -1))
        q = m.o(m.last(z)[:, -24:])
        return torch.cat([q[..., :1], q[..., :1] + F.softplus(q[..., 1:]).cumsum(-1)], -1)
    return Fn(f, w=nn.Parameter(R(v, d)), bias=nn.Parameter(R(v, d)), select=Gated(v * d, v), each=nn.ModuleList(Gated(d, d) for _ in range(v)), lstm=nn.LSTM(d, d, batch_first=True), g1=nn.Linear(d, 2 * d), n1=nn.LayerNorm(d),
              static=Gated(d, d), q=nn.Linear(d, d), k=nn.Linear(d, d), v=nn.Linear(d, d), g2=nn.Linear(d, 2 * d), n2=nn.LayerNorm(d), last=Gated(d, d), o=nn.Linear(d, 7)), (R(b, t, v),)


@net
def inverted_transformer(b=16, t=96, v=21, d=128):
    def f(m, x):
        mu, s = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False).add(1e-5).sqrt()
        h = m.e(((x - mu) / s).mT)
        for qkv, o, ff, n1, n2 in m.l:
            h = n1(h + o(attend(*qkv(h).chunk(3, -1), 8)))
            h = n2(h + ff(h))
        return m.o(h).mT * s + mu
    return Fn(f, e=nn.Linear(t, d), l=nn.ModuleList(nn.ModuleList([nn.Linear(d, 3 * d), nn.Linear(d, d), mlp(d, 2 * d, d, act=nn.GELU), nn.LayerNorm(d), nn.LayerNorm(d)]) for _ in range(2)), o=nn.Linear(d, 96)), (R(b, t, v),)


@net
def mixture_density(b=512, k=10, d=8):
    def f(m, x, y):
        logit, mu, s = m.m(x).split([k, k * d, k * d], -1)
        z = (y[:, None] - mu.view(b, k, d)) * torch.exp(-s.view(b, k, d).clamp(-7, 7))
        return torch.logsumexp(logit.log_softmax(-1) - 0.5 * (z * z).sum(-1) - s.view(b, k, d).clamp(-7, 7).sum(-1) - 0.5 * d * math.log(2 * math.pi), -1)
    return Fn(f, m=mlp(32, 128, 128, k * (1 + 2 * d), act=nn.Tanh)), (R(b, 32), R(b, d))


@net
def distributional_q(b=64, a=18, atoms=51):
    def f(m, x, reward, done):
        h = F.relu(m.l(m.c(x).flatten(1)))
        p = (m.v(h)[:, None] + (q := m.a(h).view(b, a, atoms)) - q.mean(1, keepdim=True)).softmax(-1)
        z = torch.linspace(-10, 10, atoms)
        best = p[torch.arange(b), (p * z).sum(-1).argmax(-1)]
        at = ((reward[:, None] + 0.99 * (1 - done[:, None]) * z).clamp(-10, 10) + 10) / 0.4
        low = at.floor().clamp(0, atoms - 2)
        out = torch.zeros(b, atoms).scatter_add(1, low.long(), best * (low + 1 - at))
        return out.scatter_add(1, low.long() + 1, best * (at - low))
    return Fn(f, c=nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()), l=nn.Linear(3136, 128), v=nn.Linear(128, atoms), a=nn.Linear(128, a * atoms)), (
        torch.rand(b, 4, 84, 84), R(b), torch.randint(0, 2, (b,)).float())


# caches, adapters, slots
@net
def paged_decode(b=8, n=8, e=64, pages=128, page=16, most=32):
    def f(m, x, k, v, table, length):
        q = heads(m.q(x), n)
        kk, vv = (c[table].flatten(1, 2).transpose(1, 2) for c in (k, v))
        mask = torch.arange(most * page)[None] < length[:, None]
        return x + m.o(joined(F.scaled_dot_product_attention(q, kk, vv, attn_mask=mask[:, None, None])))
    return Fn(f, q=nn.Linear(n * e, n * e), o=nn.Linear(n * e, n * e)), (R(b, 1, n * e), R(pages, page, n, e), R(pages, page, n, e), I(pages, b, most), torch.randint(100, most * page, (b,)))


@net
def many_adapters(b=16, d=512, r=8, n=32):
    def f(m, x, at):
        return m.l(x) + torch.bmm(m.up[at], torch.bmm(m.down[at], x[..., None])).squeeze(-1)
    return Fn(f, l=nn.Linear(d, d), down=nn.Parameter(R(n, r, d)), up=nn.Parameter(R(n, d, r))), (R(b, d), I(n, b))


@net
def slot_attention(b=4, n=1024, d=64, s=7):
    def f(m, x):
        x = m.ni(x)
        k, v, slots = m.k(x), m.v(x), m.slots.expand(b, -1, -1)
        for _ in range(3):
            a = (k @ m.q(m.ns(slots)).mT * d ** -0.5).softmax(-1) + 1e-8
            u = (a / a.sum(1, keepdim=True)).mT @ v
            slots = m.g(u.reshape(-1, d), slots.reshape(-1, d)).view(b, s, d)
            slots = slots + m.m(m.nm(slots))
        return slots
    return Fn(f, ni=nn.LayerNorm(d), ns=nn.LayerNorm(d), nm=nn.LayerNorm(d), k=nn.Linear(d, d, bias=False), v=nn.Linear(d, d, bias=False), q=nn.Linear(d, d, bias=False), g=nn.GRUCell(d, d), m=mlp(d, 128, d), slots=nn.Parameter(R(1, s, d))), (R(b, n, d),)


@net
def perceiver_read(b=1, n=2048, d=64, l=64, w=128):
    def f(m, x):
        z = m.z.expand(b, -1, -1)
        k, v = m.kv(m.n0(x)).chunk(2, -1)
        z = z + m.o0(attend(m.q(m.n1(z)), k, v, 1))
        for qkv, o, ff, n1, n2 in m.l:
            z = z + o(attend(*qkv(n1(z)).chunk(3, -1), 4))
            z = z + ff(n2(z))
        return m.h(z.mean(1))
    return Fn(f, z=nn.Parameter(R(1, l, w)), n0=nn.LayerNorm(d), n1=nn.LayerNorm(w), kv=nn.Linear(d, 2 * w), q=nn.Linear(w, w), o0=nn.Linear(w, w),
              l=nn.ModuleList(nn.ModuleList([nn.Linear(w, 3 * w), nn.Linear(w, w), mlp(w, 4 * w, w, act=nn.GELU), nn.LayerNorm(w), nn.LayerNorm(w)]) for _ in range(2)), h=nn.Linear(w, 10)), (R(b, n, d),)
