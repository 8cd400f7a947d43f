"""Models with operators of higher order: branches on data and on sizes, rounds over the rows of a tensor."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim

from models import Fn, model


@model
def branches():
    """Both sides of a branch on data, one of them with a branch of its own; one on a size; parameters and several results within."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 5), nn.Linear(6, 5)

        def forward(self, x):
            def inner(x):
                return torch.cond(x[0, 0] > 0.2, lambda x: self.a(x).sin(), lambda x: self.b(x) - 1, (x,))

            y = torch.cond(x.sum() > 0, lambda x: inner(x) * 2, lambda x: self.b(x).relu(), (x,))
            p, q = torch.cond(y.mean() > 0, lambda x, y: (x + 1, y.exp()), lambda x, y: (x - 1, y.tanh()), (x, y))
            return y, p, q, torch.cond(x.shape[0] > 4, lambda x: x * 3, lambda x: x / 3, (x,))

    return Net(), (torch.randn(5, 6),), ({0: Dim("n", min=2, max=9)},)


@model
def rounds_over_rows():
    """What is carried from row to row (scan), and each row on its own (map), with values from outside."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 4)

        def forward(self, x, w):
            def step(c, v):
                z = torch.sigmoid(self.gate(torch.cat([c, v], 1)))
                h = z * c + (1 - z) * v
                return h, h * 2

            last, every = torch._higher_order_ops.scan(step, torch.zeros(x.shape[1], 4), x)
            rows = torch._higher_order_ops.map(lambda v, w: v.sin() @ w, x, w)
            return last, every, rows

    return Net(), (torch.randn(6, 3, 4), torch.randn(4, 5)), ({1: Dim("n", min=2, max=9)}, None)


@model
def counted_rounds():
    """Loops on data (while_loop) whose condition counts, beside others or alone; loops of which no round is taken."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.step = nn.Linear(4, 4)

        def forward(self, x, n):
            loop = torch._higher_order_ops.while_loop
            zero = torch.zeros((), dtype=torch.int64)
            i, y = loop(lambda i, y: (i < 12) & (y.norm() > 0.4), lambda i, y: (i + 1, torch.tanh(self.step(y)) * 0.7), (zero, x))
            j, z = loop(lambda j, z: (j < n) & (j <= 9), lambda j, z: (j + 2, z * 0.5 + 1), (torch.tensor(3), x))
            k, w = loop(lambda k, w: k < 0, lambda k, w: (k + 1, w + 1), (torch.ones((), dtype=torch.int64), x))
            return i, y, j, z, k, w + 1

    return Net(), (torch.randn(3, 4), torch.tensor(7)), ({0: Dim("n", min=2, max=9)}, None)


@model
def rounds_by_sizes():
    """Loops whose counters end at sizes, and such that count down; sizes of one row, of all."""

    class Net(nn.Module):
        def forward(self, x, y, n):
            loop = torch._higher_order_ops.while_loop
            zero, rows = torch.zeros((), dtype=torch.int64), x.shape[0]
            i, a = loop(lambda i, a: i < rows, lambda i, a: (i + 1, a * 0.5 + x.index_select(0, i.reshape(1))[0]), (zero, y * 1))
            j, b = loop(lambda j, b: 2 * rows - 3 > j, lambda j, b: (j + 3, b.tanh() + 1), (torch.tensor(-2), y * 1))
            k, c = loop(lambda k, c: k > 0, lambda k, c: (k - 1, c * 0.75 + x.index_select(0, (k % rows).reshape(1))[0]), (torch.tensor(5), y * 1))
            m, d = loop(lambda m, d: (m >= 2) & (m > n), lambda m, d: (m + -2, d * 0.5 + 1), (torch.full((), rows), y * 1))
            return i, a, j, b, k, c, m, d

    return Net(), (torch.randn(4, 3), torch.randn(3), torch.tensor(3)), ({0: Dim("n", min=1, max=12)}, None, None)


@model
def numbers_read_out():
    """Elements, rows and windows at places that the data say, read and written; arithmetic with numbers that are read out of tensors."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(2, 16, 4))

        def forward(self, x, i, at, scale):
            p = at.item()
            torch._check(p >= 0)
            torch._check(p < 13)
            self.seen[:, p : p + 1] = x[i, 1]
            self.seen[:, p + 1].mul_(scale.item()).add_(i.item())
            best = x[x.sum((1, 2)).argmax()]
            return x[i] * p + best * (scale > 0).item(), x[:, i + 1].sum(0), self.seen.narrow(1, p, 4), x.clamp(max=scale.item()) / best.max().item(), best[i] ** 2 + torch.arange(p, p + 4), i.item() * 2 + p, (x > 0).sum().item()

    inputs = torch.randn(5, 5, 4), torch.tensor(2), torch.tensor([7]), torch.tensor(0.7)
    return Net(), inputs, ({0: Dim("rows", min=4, max=9)}, None, None, None)


@model
def maps_over_rows():
    """Functions of a row carried out for all (vmap), one in another, over several dims and with what all rows share; map over any length."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm, self.conv = nn.Linear(6, 5), nn.LayerNorm(6), nn.Conv2d(1, 4, 3, padding=1)

        def forward(self, x, w, i, z):
            def row(v, j):
                y = self.a(self.norm(v)).relu()
                pairs = torch.vmap(torch.vmap(lambda p, q: (p - q).norm(), in_dims=(None, 0)), in_dims=(0, None))(v, v)
                image = nn.functional.max_pool2d(self.conv(v[None]), 2)
                parts = torch.cat([v.t().flip(0)[1:], v.t()[:2]]).softmax(0).cumsum(1)
                picked = v[j], w[j], v.gather(0, j[:, None].expand(3, 6)), v.index_put((j,), w[:3]), v.scatter_add(0, j[:, None].expand(3, 6), w[:3])
                return y @ y.t(), pairs, image, parts, *picked, v.sort(0)[0], v.topk(2, 1)[1], nn.functional.pad(v, (1, 2), value=3), v.unfold(0, 2, 1).sum(2)

            each = torch._higher_order_ops.map(lambda v, u: (v @ u.t()).tanh() + v.mean(), z, w)
            return (*torch.vmap(row)(x, i), each, torch.vmap(lambda v: self.a(v).softmax(1) + v.sum())(z))

    n = {0: Dim("rows", min=2, max=9)}
    return Net(), (torch.randn(5, 4, 6), torch.randn(4, 6), torch.stack([torch.randperm(4)[:3] for _ in range(5)]), torch.randn(3, 4, 6)), (None, None, None, n)


@model
def writes_in_maps():
    """In each row of a map: writes into new tensors, through slices and transposed views, read by views made before; a map within that writes."""

    class Net(nn.Module):
        def forward(self, x, w):
            def inner(p, q):
                z = p.clone()
                z[0] = q.sum()
                z.relu_()
                return z * q

            def row(v):
                o = torch.empty_like(v)
                o.copy_(v)
                t = o.t()
                t[0].mul_(3)
                o[1:3, 2] = 7
                shifted = torch.zeros_like(v)
                shifted[1:] = o[:-1]
                shifted.add_(v).mul_(2)
                shifted[::2] += 1
                each = torch.vmap(inner, in_dims=(0, None))(o, w[0])
                each[:, 1].sub_(o[:, 0])
                o.clamp_(max=1.5)
                return o, t + 1, shifted, each, o.sum()

            return torch.vmap(row)(x)

    return Net(), (torch.randn(5, 4, 6), torch.randn(4, 6)), None


@model
def ensembles_in_maps():
    """Nets that share their code: each row of a map has parameters and statistics of its own, and the batch or images of its own."""
    from torch.func import functional_call, stack_module_state

    def net():
        return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, groups=2, stride=2),
                             nn.ConvTranspose2d(6, 4, 2, groups=2), nn.Flatten(2), nn.Linear(4, 5))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parameters_of_all, self.buffers_of_all = stack_module_state([net().eval() for _ in range(3)])
            self.net = net().eval()

        def forward(self, x, each, w):
            def row(p, b, v):
                return functional_call(self.net, (p, b), (v,))

            state = {k: v.detach() for k, v in self.parameters_of_all.items()}, self.buffers_of_all
            pairs = torch.vmap(torch.vmap(nn.functional.conv1d, in_dims=(0, None)), in_dims=(None, 0))(each[..., 0], w)
            return torch.vmap(row, in_dims=(0, 0, None))(*state, x), torch.vmap(row)(*state, each), pairs

    return Net(), (torch.randn(2, 3, 8, 8), torch.randn(3, 2, 3, 8, 8), torch.randn(4, 2, 3, 3)), None


@model
def associative_scans():
    """Recurrences of first order and products of matrices, from either end, as a tree."""
    scan = torch._higher_order_ops.associative_scan

    def f(a, b, m):
        h = scan(lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (a, b), 0, combine_mode="generic")
        return (*h, scan(lambda x, y: x @ y, m, 0, reverse=True, combine_mode="generic"), scan(torch.maximum, a, 1, combine_mode="generic"))

    return Fn(f), (torch.rand(11, 3), torch.randn(11, 3), torch.randn(6, 3, 3) / 2), None


@model
def noise_without_strength():
    """What is drawn is scaled, turned and multiplied by 0 before anything reads it."""

    def f(x):
        first = torch.randn_like(x) * x.exp() * 0.0
        second = 0 * torch.rand(x.shape[0], 3, 4).transpose(1, 2).flip(1)
        return x + first, second + 1

    return Fn(f), (torch.randn(2, 5),), ({0: Dim("batch", min=1, max=9)},)


@model
def contexts_in_contexts():
    """What one context that is switched off gives on is what another one in it computed."""

    def f(x, y):
        with torch.autocast("cuda", enabled=False):
            with torch.autocast("cpu", enabled=False):
                z = torch.cdist(x, y)
        with torch.autocast("cuda", enabled=False):
            w = z.exp()
            with torch.autocast("cpu", enabled=False):
                v, u = w.sin(), w * 2
        return z.min(1)[0], v + 1, u

    return Fn(f), (torch.randn(6, 8), torch.randn(7, 8)), None


@model
def sizes_among_operands():
    """Sizes from outside within a loop and a branch: they stand among the tensors of the operands."""

    class Net(nn.Module):
        def forward(self, x):
            n = x.shape[0]
            rounds = torch.zeros((), dtype=torch.int64)
            _, kept = torch._higher_order_ops.while_loop(lambda i, y: (i < 5) & (i < n), lambda i, y: (i + 1, y * 0.5 + (torch.arange(n) > i)[:, None]), (rounds, x + 0))
            return kept, torch.cond(x.sum() > 0, lambda x: x * n + torch.arange(n)[:, None], lambda x: x / n, (x,))

    return Net(), (torch.randn(6, 3),), ({0: Dim("n", min=2, max=9)},)


@model
def sides_that_are_not_taken():
    """What a branch looks up, reads and asserts is of no consequence where the other one is taken: indices are out of range there, assertions fail."""

    def read(x):
        n = x.sum().int().item()
        torch._check(n >= 2)
        torch._check(n < 4)
        torch._check((x.sum() < 4).item())
        return x[n] * 1.0

    def f(i, x):
        low, high, far = i.min() >= 0, i.max() < 10, x.sum() * 0 + 1e4
        gathered = torch.cond(low & high, lambda i, x: x[i].sum(0), lambda i, x: x.sum(0) * 2, (i, x))
        embedded = torch.cond(low & high == False, lambda i, x: x.exp().sum(0), lambda i, x: F.embedding(i, x).sum(0), (i, x))  # noqa: E712
        added = torch.cond(low & high, lambda i, x: torch.zeros(10, 4).index_add(0, i, x[:3]), lambda i, x: x * 2, (i, x))
        nested = torch.cond(high, lambda i, x: torch.cond(low, lambda i, x: x[i].sum(0), lambda i, x: x[(-i).clamp(0, 9)].sum(0), (i, x)), lambda i, x: x.sum(0), (i, x))
        lost = torch.cond(i.max() < 4, lambda i, x: F.cross_entropy(x[:3], i), lambda i, x: x.sum() * 2, (i, x))
        asserted = torch.cond((x + far).sum() < 4, read, lambda x: x.sum(0) * 2, (x + far,))
        return gathered, embedded, added, nested, lost, asserted

    return Fn(f), (torch.tensor([3, -50, 700]), torch.randn(10, 4)), None
