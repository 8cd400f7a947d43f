"""What users ship: tables, points, necks, segmentation, keypoints, speech, vocoders, forecasts, graphs, recommenders, games: (module, arguments) by name."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from kinds_nets import Fn, I, R, mlp, net

heads = lambda x, n: x.unflatten(-1, (n, -1)).transpose(-3, -2)
joined = lambda x: x.transpose(-3, -2).flatten(-2)
attend = lambda q, k, v, n, **o: joined(F.scaled_dot_product_attention(heads(q, n), heads(k, n), heads(v, n), **o))
conv_bn = lambda i, o, k=3, s=1, g=1, act=nn.ReLU, d=1: nn.Sequential(nn.Conv2d(i, o, k, s, d * (k // 2), d, g, bias=False), nn.BatchNorm2d(o), act())


def encoder(d, n, layers, ff=4):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(d, n, ff * d, 0, "gelu", batch_first=True, norm_first=True), layers, enable_nested_tensor=False)


# tables, recommenders
@net
def plr_tabular(rows=256, features=40, k=24, d=16):
    def f(m, x):
        v = 2 * math.pi * m.c[None] * x[..., None]
        e = torch.cat([torch.cos(v), torch.sin(v)], -1)
        return m.head(F.relu(torch.einsum("bfk,fkd->bfd", e, m.w) + m.b).flatten(1))
    return Fn(f, c=nn.Parameter(R(features, k) * 0.1), w=nn.Parameter(R(features, 2 * k, d) * 0.1), b=nn.Parameter(R(features, d)), head=mlp(features * d, 256, 256, 1)), (R(rows, features),)


@net
def behaviour_transformer(rows=32, length=20, d=64):
    def f(m, history, target, other):
        x = m.e(torch.cat([history, target[:, None]], 1)) + m.p
        return torch.sigmoid(m.head(torch.cat([m.t(x).flatten(1), m.o(other).flatten(1)], 1)))
    return Fn(f, e=nn.Embedding(10000, d), p=nn.Parameter(R(length + 1, d)), t=encoder(d, 8, 1), o=nn.Embedding(1000, 16), head=mlp((length + 1) * d + 8 * 16, 1024, 512, 256, 1, act=nn.LeakyReLU)), (
        I(10000, rows, length), I(10000, rows), I(1000, rows, 8))


@net
def bilinear_interactions(rows=256, fields=24, d=16):
    i, j = torch.triu_indices(fields, fields, 1)
    def f(m, ids):
        e = m.e(ids + m.offset)
        e2 = e * m.s(e.mean(-1))[..., None]
        p = [(m.w(x)[:, i] * x[:, j]).flatten(1) for x in (e, e2)]
        return torch.sigmoid(m.head(torch.cat(p, 1)) + m.first(ids + m.offset).sum(1))
    return Fn(f, e=nn.Embedding(fields * 1000, d), first=nn.Embedding(fields * 1000, 1), offset=torch.arange(fields) * 1000, s=mlp(fields, 8, fields, last=True), w=nn.Linear(d, d, bias=False),
              head=mlp(2 * d * fields * (fields - 1) // 2, 128, 64, 1)), (I(1000, rows, fields),)


@net
def masked_blocks(rows=256, d=512, blocks=3):
    def f(m, e):
        return torch.sigmoid(m.head(torch.cat([F.relu(b[2](b[1](e) * b[0](m.n(e)))) for b in m.b], 1)))
    return Fn(f, n=nn.LayerNorm(d), b=nn.ModuleList(nn.ModuleList([mlp(d, 2 * d, d), nn.Identity(), nn.Sequential(nn.Linear(d, 256), nn.LayerNorm(256))]) for _ in range(blocks)), head=mlp(256 * blocks, 128, 1)), (R(rows, d),)


# forecasts
@net
def tide(rows=32, length=336, horizon=96, c=7):
    def block(i, h, o):
        return nn.ModuleDict({"a": nn.Linear(i, h), "b": nn.Linear(h, o), "s": nn.Linear(i, o), "n": nn.LayerNorm(o)})
    run = lambda m, x: m["n"](m["b"](F.relu(m["a"](x))) + m["s"](x))
    def f(m, x, time):
        x = x.transpose(1, 2)
        mean, dev = x.mean(-1, keepdim=True), torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)
        x = (x - mean) / dev
        t = run(m.feature, time)
        h = torch.cat([x, t.flatten(1)[:, None].expand(-1, c, -1)], -1)
        for b in m.layers:
            h = run(b, h)
        h = h.unflatten(-1, (horizon, 8))
        h = run(m.last, torch.cat([h, t[:, None, length:].expand(-1, c, -1, -1)], -1))[..., 0] + m.skip(x)
        return (h * dev + mean).transpose(1, 2)
    return Fn(f, feature=block(4, 64, 4), layers=nn.ModuleList([block(length + 4 * (length + horizon), 256, 256), block(256, 256, 256), block(256, 256, 8 * horizon)]), last=block(12, 32, 1), skip=nn.Linear(length, horizon)), (
        R(rows, length, c), R(rows, length + horizon, 4))


@net
def time_mixer(rows=32, length=512, horizon=96, c=21, layers=3):
    def f(m, x):
        for n1, t, n2, w in m.b:
            x = x + t(n1(x.flatten(1)).view_as(x).transpose(1, 2)).transpose(1, 2)
            x = x + w(n2(x.flatten(1)).view_as(x))
        return m.o(x.transpose(1, 2)).transpose(1, 2)
    return Fn(f, b=nn.ModuleList(nn.ModuleList([nn.BatchNorm1d(length * c), nn.Sequential(nn.Linear(length, length), nn.ReLU()), nn.BatchNorm1d(length * c), mlp(c, 64, c)]) for _ in range(layers)), o=nn.Linear(length, horizon)), (R(rows, length, c),)


@net
def nhits(rows=64, length=480, horizon=96):
    def f(m, x):
        out = 0
        for pool, k, net_, size in zip(m.pools, (8, 4, 1), m.nets, (4, 12, 96)):
            theta = net_(pool(x[:, None])[:, 0])
            back, fore = theta[:, :length // k], theta[:, length // k:]
            x = x - F.interpolate(back[:, None], size=length, mode="linear")[:, 0]
            out = out + F.interpolate(fore[:, None], size=horizon, mode="linear")[:, 0]
        return out
    return Fn(f, pools=nn.ModuleList(nn.MaxPool1d(k, k) for k in (8, 4, 1)), nets=nn.ModuleList(mlp(length // k, 512, 512, length // k + s) for k, s in ((8, 4), (4, 12), (1, 96)))), (R(rows, length),)


# points, graphs
@net
def point_transformer(n=512, k=16, d=64):
    def f(m, xyz, x):
        i = torch.cdist(xyz, xyz).topk(k, largest=False)[1]
        q, key, v = m.qkv(x).chunk(3, -1)
        take = lambda t: torch.gather(t[:, None].expand(-1, n, -1, -1), 2, i[..., None].expand(-1, -1, -1, t.shape[-1]))
        p = m.p(xyz[:, :, None] - take(xyz))
        a = torch.softmax(m.g(q[:, :, None] - take(key) + p) / math.sqrt(d), 2)
        return x + m.o((a * (take(v) + p)).sum(2))
    return Fn(f, qkv=nn.Linear(d, 3 * d), p=mlp(3, d, d), g=mlp(d, d, d), o=nn.Linear(d, d)), (R(1, n, 3), R(1, n, d))


@net
def principal_aggregation(n=2000, e=12000, d=48):
    def f(m, x, src, dst):
        h = m.pre(torch.cat([x[src], x[dst]], 1))
        deg = torch.zeros(n).index_add(0, dst, torch.ones(e)).clamp_min(1)[:, None]
        mean = torch.zeros(n, d).index_add(0, dst, h) / deg
        square = torch.zeros(n, d).index_add(0, dst, h * h) / deg
        i = dst[:, None].expand(-1, d)
        high = torch.zeros(n, d).scatter_reduce(0, i, h, "amax", include_self=False)
        low = torch.zeros(n, d).scatter_reduce(0, i, h, "amin", include_self=False)
        a = torch.cat([mean, high, low, torch.sqrt(F.relu(square - mean * mean) + 1e-5)], 1)
        s = torch.log(deg + 1)
        return x + F.relu(m.post(torch.cat([x, a, a * s, a / s], 1)))
    return Fn(f, pre=nn.Linear(2 * d, d), post=nn.Linear(13 * d, d)), (R(n, d), I(n, e), I(n, e))


@net
def light_gcn(users=2000, items=3000, edges=40000, d=64):
    n = users + items
    def f(m, src, dst, w, who):
        x, total = m.e, m.e
        for _ in range(3):
            x = torch.zeros(n, d).index_add(0, dst, x[src] * w[:, None])
            total = total + x
        total = total / 4
        return (total[who] @ total[users:].T).topk(20)
    return Fn(f, e=nn.Parameter(R(n, d) * 0.1)), (I(n, edges), I(n, edges), torch.rand(edges), I(users, 64))


# vision: necks, heads, small nets
@net
def bifpn(c=64):
    act = nn.SiLU
    sep = lambda: nn.Sequential(nn.Conv2d(c, c, 3, 1, 1, groups=c, bias=False), nn.Conv2d(c, c, 1), nn.BatchNorm2d(c), act())
    def f(m, p3, p4, p5):
        w = F.relu(m.w)
        up = lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest")
        down = lambda x: F.max_pool2d(x, 3, 2, 1)
        mix = lambda k, *xs: sum(w[k, i] * x for i, x in enumerate(xs)) / (w[k, :len(xs)].sum() + 1e-4)
        for s in m.s:
            t4 = s[0](mix(0, p4, up(p5)))
            p3 = s[1](mix(1, p3, up(t4)))
            p4 = s[2](mix(2, p4, t4, down(p3)))
            p5 = s[3](mix(3, p5, down(p4)))
        return p3, p4, p5
    return Fn(f, w=nn.Parameter(torch.ones(4, 3)), s=nn.ModuleList(nn.ModuleList(sep() for _ in range(4)) for _ in range(3))), tuple(R(1, c, s, s) for s in (64, 32, 16))


@net
def aspp_head(c=256, s=33):
    def f(m, x, low):
        g = F.interpolate(m.pool(F.adaptive_avg_pool2d(x, 1)), size=x.shape[-2:], mode="bilinear")
        x = m.project(torch.cat([b(x) for b in m.b] + [g], 1))
        x = torch.cat([F.interpolate(x, size=low.shape[-2:], mode="bilinear", align_corners=False), m.low(low)], 1)
        return F.interpolate(m.head(x), scale_factor=4.0, mode="bilinear", align_corners=False).argmax(1)
    return Fn(f, b=nn.ModuleList([conv_bn(c, 64, 1)] + [conv_bn(c, 64, d=d) for d in (6, 12, 18)]), pool=nn.Sequential(nn.Conv2d(c, 64, 1), nn.ReLU()), project=conv_bn(320, 64, 1), low=conv_bn(64, 24, 1),
              head=nn.Sequential(conv_bn(88, 64), nn.Conv2d(64, 21, 1))), (R(1, c, s, s), R(1, 64, 65, 65))


@net
def segformer_stage(c=64, s=56, ratio=4):
    def f(m, x):
        b, _, h, w = x.shape
        t = x.flatten(2).mT
        for n1, q, r, rn, kv, o, n2, up, dw, down in m.b:
            y = n1(t)
            z = rn(r(y.mT.reshape(b, c, h, w)).flatten(2).mT)
            k, v = kv(z).chunk(2, -1)
            t = t + o(attend(q(y), k, v, 2))
            y = up(n2(t))
            t = t + down(F.gelu(dw(y.mT.reshape(b, -1, h, w)).flatten(2).mT))
        return t.mT.reshape(b, c, h, w)
    block = lambda: nn.ModuleList([nn.LayerNorm(c), nn.Linear(c, c), nn.Conv2d(c, c, ratio, ratio), nn.LayerNorm(c), nn.Linear(c, 2 * c), nn.Linear(c, c), nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Conv2d(4 * c, 4 * c, 3, 1, 1, groups=4 * c), nn.Linear(4 * c, c)])
    return Fn(f, b=nn.ModuleList(block() for _ in range(2))), (R(1, c, s, s),)


@net
def face_boxes(s=128):
    def blaze(i, o, stride):
        return nn.ModuleDict({"d": nn.Conv2d(i, i, 5, stride, 2 if stride == 1 else 0, groups=i), "p": nn.Conv2d(i, o, 1)})
    def run(b, x, i, o, stride):
        h = F.pad(x, (1, 2, 1, 2)) if stride == 2 else x
        y = b["p"](b["d"](h))
        x = F.max_pool2d(x, 2) if stride == 2 else x
        return F.relu(y + (F.pad(x, (0, 0, 0, 0, 0, o - i)) if o > i else x))
    shape = [(24, 24, 1), (24, 28, 1), (28, 32, 2), (32, 36, 1), (36, 42, 1), (42, 48, 2), (48, 56, 1), (56, 64, 1), (64, 72, 1), (72, 80, 1), (80, 88, 1)]
    def f(m, x):
        x = F.relu(m.stem(F.pad(x, (1, 2, 1, 2))))
        for b, d in zip(m.b, shape):
            x = run(b, x, *d)
        flat = lambda y, k: y.permute(0, 2, 3, 1).reshape(y.shape[0], -1, k)
        score, raw = torch.sigmoid(flat(m.c(x), 1).clamp(-100, 100))[..., 0], flat(m.r(x), 16)
        xy = raw[..., :2] / s * m.anchors[:, 2:] + m.anchors[:, :2]
        wh = raw[..., 2:4] / s
        best, i = score.topk(64)
        boxes = torch.cat([xy - wh / 2, xy + wh / 2], -1)
        return best, torch.gather(boxes, 1, i[..., None].expand(-1, -1, 4))
    return Fn(f, stem=nn.Conv2d(3, 24, 5, 2), b=nn.ModuleList(blaze(*d) for d in shape), c=nn.Conv2d(88, 2, 1), r=nn.Conv2d(88, 32, 1), anchors=torch.rand(16 * 16 * 2, 4)), (R(1, 3, s, s),)


@net
def dfl_boxes(classes=80, bins=16):
    sizes = (40, 20, 10)
    anchors = torch.cat([torch.stack(torch.meshgrid(torch.arange(s) + 0.5, torch.arange(s) + 0.5, indexing="xy"), -1).view(-1, 2) for s in sizes])
    strides = torch.cat([torch.full((s * s, 1), 320.0 / s) for s in sizes])
    def f(m, *levels):
        x = torch.cat([torch.cat([b(v), c(v)], 1).flatten(2) for v, b, c in zip(levels, m.b, m.c)], 2)
        box, cls = x.split((4 * bins, classes), 1)
        d = (box.unflatten(1, (4, bins)).softmax(2) * m.bins[:, None]).sum(2).mT
        xy, wh = m.anchors - d[..., :2], m.anchors + d[..., 2:]
        y = torch.cat([(xy + wh) / 2 * m.strides, (wh - xy) * m.strides, cls.mT.sigmoid()], -1)
        best, label = y[..., 4:].max(-1)
        s, i = best.topk(300)
        return s, torch.gather(label, 1, i), torch.gather(y[..., :4], 1, i[..., None].expand(-1, -1, 4))
    return Fn(f, b=nn.ModuleList(nn.Sequential(conv_bn(64, 64, act=nn.SiLU), nn.Conv2d(64, 4 * bins, 1)) for _ in sizes), c=nn.ModuleList(nn.Sequential(conv_bn(64, 80, act=nn.SiLU), nn.Conv2d(80, classes, 1)) for _ in sizes),
              bins=torch.arange(bins).float(), anchors=anchors, strides=strides), tuple(R(1, 64, s, s) for s in sizes)


@net
def shuffled_groups(c=116, s=28, blocks=4):
    def f(m, x):
        for b in m.b:
            a, y = x.chunk(2, 1)
            x = torch.cat([a, b(y)], 1)
            x = x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)
        return x
    h = c // 2
    return Fn(f, b=nn.ModuleList(nn.Sequential(conv_bn(h, h, 1), nn.Conv2d(h, h, 3, 1, 1, groups=h, bias=False), nn.BatchNorm2d(h), conv_bn(h, h, 1)) for _ in range(blocks))), (R(1, c, s, s),)


@net
def face_embedding(s=112):
    unit = lambda i, o, k, st, g=1: nn.Sequential(nn.Conv2d(i, o, k, st, k // 2, groups=g, bias=False), nn.BatchNorm2d(o), nn.PReLU(o))
    def f(m, x):
        x = m.stem(x)
        for b, res in zip(m.b, (False, True, True, False, True)):
            x = x + b(x) if res else b(x)
        x = m.last(m.up(x))
        return F.normalize(m.o(x.flatten(1)))
    block = lambda i, h, o, st: nn.Sequential(unit(i, h, 1, 1), unit(h, h, 3, st, h), nn.Conv2d(h, o, 1, bias=False), nn.BatchNorm2d(o))
    return Fn(f, stem=nn.Sequential(unit(3, 64, 3, 2), unit(64, 64, 3, 1, 64)), b=nn.ModuleList([block(64, 128, 64, 2), block(64, 128, 64, 1), block(64, 128, 64, 1), block(64, 256, 128, 2), block(128, 256, 128, 1)]),
              up=unit(128, 512, 1, 1), last=nn.Conv2d(512, 512, 14, groups=512), o=nn.Linear(512, 128)), (R(1, 3, s, s),)


@net
def dense_residuals(c=32, g=16, s=64):
    def f(m, x):
        y = m.first(x)
        z = y
        for block in m.b:
            parts = [z]
            for conv in block[:-1]:
                parts.append(F.leaky_relu(conv(torch.cat(parts, 1)), 0.2))
            z = z + 0.2 * block[-1](torch.cat(parts, 1))
        z = y + z
        z = F.leaky_relu(m.up(F.interpolate(z, scale_factor=2.0, mode="nearest")), 0.2)
        return m.last(z)
    conv = lambda i, o: nn.Conv2d(i, o, 3, 1, 1)
    return Fn(f, first=conv(3, c), b=nn.ModuleList(nn.ModuleList([conv(c + i * g, g) for i in range(4)] + [conv(c + 4 * g, c)]) for _ in range(3)), up=conv(c, c), last=conv(c, 3)), (R(1, 3, s, s),)


@net
def gated_skips(c=16, s=128):
    def f(m, x):
        a = m.e1(x)
        b = m.e2(F.max_pool2d(a, 2))
        d = m.e3(F.max_pool2d(b, 2))
        for up, g, w, p, dec, skip in ((m.u2, m.g2, m.w2, m.p2, m.d2, b), (m.u1, m.g1, m.w1, m.p1, m.d1, a)):
            y = up(F.interpolate(d, scale_factor=2.0, mode="bilinear", align_corners=True))
            skip = skip * torch.sigmoid(p(F.relu(g(y) + w(skip))))
            d = dec(torch.cat([skip, y], 1))
        return torch.sigmoid(m.o(d))
    two = lambda i, o: nn.Sequential(conv_bn(i, o), conv_bn(o, o))
    one = lambda i, o: nn.Conv2d(i, o, 1)
    return Fn(f, e1=two(3, c), e2=two(c, 2 * c), e3=two(2 * c, 4 * c), u2=conv_bn(4 * c, 2 * c), g2=one(2 * c, c), w2=one(2 * c, c), p2=one(c, 1), d2=two(4 * c, 2 * c), u1=conv_bn(2 * c, c), g1=one(c, c // 2), w1=one(c, c // 2),
              p1=one(c // 2, 1), d1=two(2 * c, c), o=one(c, 1)), (R(1, 3, s, s),)


@net
def memory_bank(n=784, bank=4000, d=128):
    def f(m, x):
        y = F.avg_pool2d(x, 3, 1, 1).flatten(2).mT
        dist, i = torch.cdist(y, m.bank[None]).topk(3, largest=False)
        score = dist[..., 0]
        w = 1 - torch.softmax(dist, -1)[..., 0]
        return (score * w).amax(1), F.interpolate(score.view(-1, 1, 28, 28), size=(224, 224), mode="bilinear")
    return Fn(f, bank=nn.Parameter(R(bank, d))), (R(1, d, 28, 28),)


@net
def keypoint_bins(c=128, k=17, bins=384):
    def f(m, x):
        y = m.c(x).flatten(2)
        y = m.e(F.normalize(y, dim=-1) * 2)
        h, v = m.x(y), m.y(y)
        px, ix = torch.softmax(h, -1).max(-1)
        py, iy = torch.softmax(v, -1).max(-1)
        return torch.stack([ix, iy], -1).float() / 2, torch.minimum(px, py)
    return Fn(f, c=nn.Conv2d(c, k, 7, 1, 3), e=nn.Sequential(nn.Linear(48, 256), encoder(256, 4, 1, 2)), x=nn.Linear(256, bins), y=nn.Linear(256, bins)), (R(1, c, 8, 6),)


@net
def impala(rows=4, s=84):
    conv = lambda i, o: nn.Conv2d(i, o, 3, 1, 1)
    def f(m, x):
        x = x.float() / 255
        for first, *rest in m.b:
            x = F.max_pool2d(first(x), 3, 2, 1)
            for a, b in zip(rest[::2], rest[1::2]):
                x = x + b(F.relu(a(F.relu(x))))
        h = F.relu(m.h(F.relu(x).flatten(1)))
        return torch.softmax(m.pi(h), -1), m.v(h)
    return Fn(f, b=nn.ModuleList(nn.ModuleList([conv(i, o)] + [conv(o, o) for _ in range(4)]) for i, o in ((4, 16), (16, 32), (32, 32))), h=nn.Linear(32 * 11 * 11, 256), pi=nn.Linear(256, 15), v=nn.Linear(256, 1)), (
        torch.randint(0, 256, (rows, 4, s, s), dtype=torch.uint8),)


@net
def board_tower(rows=1, c=64, s=19, blocks=6):
    def f(m, x):
        x = m.stem(x)
        for b in m.b:
            x = F.relu(x + b(x))
        return torch.log_softmax(m.p(m.pc(x).flatten(1)), -1), torch.tanh(m.v(m.vc(x).flatten(1)))
    return Fn(f, stem=conv_bn(17, c), b=nn.ModuleList(nn.Sequential(conv_bn(c, c), nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c)) for _ in range(blocks)), pc=conv_bn(c, 2, 1), p=nn.Linear(2 * s * s, s * s + 1), vc=conv_bn(c, 1, 1),
              v=mlp(s * s, 64, 1)), (R(rows, 17, s, s),)
