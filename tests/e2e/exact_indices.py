"""Indices out of range: an index fault wherever eager raises, its result where it does not. Numbers are whole, sums exact."""
import torch
import torch.nn.functional as F

from exact import Checked, Indexed, faults


def rows(*picks):
    return torch.tensor(picks)


@faults
def indices():
    whole = lambda *shape: torch.randint(-9, 10, shape).float()
    x, w = whole(4, 5), whole(6, 3)
    flat, wide = rows(0, 3, 2), lambda *p: torch.tensor(p).view(1, -1).expand(4, len(p)).contiguous()
    line = [rows(-1, 0, 1), rows(0, 5, 1), rows(0, 1, 2**40), rows(-6, 0, 1), rows(-(2**62), 0, 1), rows(4, 4, 4)]  # of five
    across = [t.view(1, -1).expand(4, 3).contiguous() for t in line]
    tables = [rows(-1, 0, 5), rows(5, 6, 0), rows(0, 0, 2**33), rows(-7, 1, 2), rows(5, 5, 5)]  # of six
    cases = []

    def add(name, f, index, others, *fixed):
        """f(index, *fixed) with each of `others` in the place of index."""
        cases.append(Indexed(name, f, [index.clone(), *(t.clone() for t in fixed)], others))

    add("embedding", lambda i, w: F.embedding(i, w), flat, tables, w)
    add("embedding int32", lambda i, w: F.embedding(i, w), flat.int(), [t.int() for t in tables if t.abs().max() < 2**31], w)
    add("embedding summed", lambda i, w: F.embedding(i, w).relu().sum(), flat, tables, w)
    add("embedding into product", lambda i, w, v: F.embedding(i, w) @ v, flat, tables, w, whole(3, 33))
    add("embedding_bag", lambda i, w: F.embedding_bag(i, w, torch.tensor([0, 2]), mode="sum"), flat, tables, w)
    add("embedding_bag rows", lambda i, w: F.embedding_bag(i.view(1, 3), w, mode="mean"), flat, tables, w)
    add("embedding_bag max", lambda i, w: F.embedding_bag(i.view(1, 3), w, mode="max"), flat, tables, w)
    add("index_select", lambda i, x: x.index_select(1, i), flat, line, x)
    add("index_select rows", lambda i, x: x.index_select(0, i), flat, [rows(-1, 0, 1), rows(4, 0, 1), rows(3, 3, 3)], x)
    add("gather", lambda i, x: x.gather(1, i), wide(0, 3, 2), across, x)
    add("gather rows", lambda i, x: x.gather(0, i), wide(0, 3, 2), [wide(0, -1, 2), wide(0, 4, 0), wide(3, 3, 3)], x)
    add("take_along_dim", lambda i, x: torch.take_along_dim(x, i, 1), wide(0, 3, 2), across, x)
    add("take_along_dim of all", lambda i, x: torch.take_along_dim(x, i), flat, [rows(-1, 0, 1), rows(20, 0, 1), rows(19, 0, 1)], x)
    add("take", lambda i, x: torch.take(x, i), flat, [rows(-1, 0, 1), rows(20, 0, 1), rows(-20, 19, 3), rows(-21, 0, 0)], x)
    add("index", lambda i, x: x[:, i], flat, line, x)
    one, ones = torch.tensor(2), [torch.tensor(k) for k in (0, -1, 3, 4, -4, -5, 2**40)]
    add("a number read out", lambda i, x: x[i], one, ones, x)
    add("a number read out, for columns", lambda i, x: x[:, i] * 2, one, [torch.tensor(k) for k in (4, -5, 5, -6)], x)
    add("two indices", lambda i, x: x[i, i], flat, [rows(-1, -4, 3), rows(4, 0, 1), rows(-5, 0, 1)], x)
    add("scatter", lambda i, x: x.scatter(1, i, x), wide(0, 3, 2), across, x)
    add("scatter value", lambda i, x: x.scatter(1, i, 2.0), wide(0, 3, 2), across, x)
    add("scatter_add", lambda i, x: x.scatter_add(1, i, x), wide(0, 3, 2), across, x)
    add("scatter_reduce", lambda i, x: x.scatter_reduce(1, i, x, "amax"), wide(0, 3, 2), across, x)
    add("index_add", lambda i, x: x.index_add(1, i, x[:, :3]), flat, line, x)
    add("index_copy", lambda i, x: x.index_copy(1, i, x[:, :3]), flat, line[:4], x)
    add("index_fill", lambda i, x: x.index_fill(1, i, 2.0), flat, line, x)
    add("index_put", lambda i, x: x.index_put((i,), x[:3]), flat, [rows(-1, 0, 1), rows(4, 0, 1), rows(-5, 0, 1)], x)
    add("index_put sum", lambda i, x: x.index_put((i, i), x[0, :3], accumulate=True), flat, [rows(-1, -4, 3), rows(4, 0, 1), rows(-5, 0, 1)], x)
    add("put", lambda i, x: x.put(i, x[0, :3]), flat, [rows(-1, 0, 1), rows(20, 0, 1), rows(-20, 19, 3)], x)
    add("one_hot", lambda i: F.one_hot(i, 5), flat, line)
    add("nll_loss", lambda i, x: F.nll_loss(x[:3], i), flat, [*line[:2], rows(-100, 1, 2)], x)
    add("cross_entropy", lambda i, x: F.cross_entropy(x[:3], i, reduction="none").round(), flat, [*line[:2], rows(-100, 1, 2)], x)
    add("cross_entropy ignoring", lambda i, x: F.cross_entropy(x[:3], i, ignore_index=-1, reduction="none").round(), flat, [rows(-1, 0, 1), rows(-2, 0, 1)], x)
    add("max_unpool2d", lambda i, x: F.max_unpool2d(x[:1, :3].view(1, 1, 1, 3), i.view(1, 1, 1, 3), (2, 2)), flat, [rows(-1, 0, 1), rows(12, 0, 1), rows(11, 10, 9)], x)
    add("sorted by", lambda i, x: torch.searchsorted(torch.tensor([3.0, 1.0, 2.0]), x, sorter=i), rows(1, 2, 0), [rows(-1, 0, 1), rows(0, 1, 3)], x)
    add("masked_scatter", lambda m, x: x.masked_scatter(m > 0, x[0]), torch.eye(4, 5), [torch.ones(4, 5), torch.zeros(4, 5)], x)
    return cases


@faults
def divisors():
    """Whole numbers divided by 0: eager raises for them, not for floats, nor where a bound or a selection keeps the 0 away."""
    cases = []
    forms = {
        "floor_divide": lambda x, d: x // d,
        "trunc": lambda x, d: torch.div(x, d, rounding_mode="trunc"),
        "floor": lambda x, d: torch.div(x, d, rounding_mode="floor"),
        "remainder": torch.remainder,
        "fmod": torch.fmod,
        "number": lambda x, d: 7 % d,
        "in place": lambda x, d: (x * 1).floor_divide_(d),
        "rows": lambda x, d: torch.vmap(lambda a, b: a % b)(torch.stack([x, x]), torch.stack([d, d])),
        "quotient": lambda x, d: x / d,
        "floats": lambda x, d: x // d.float(),
        "bounded": lambda x, d: x // d.clamp(min=1),
        "constant": lambda x, d: d // 3 % torch.tensor([5, 2, 3, 4]) // 2,
    }
    for t in (torch.int64, torch.int32, torch.int8, torch.uint8):
        x, d = torch.tensor([7, 100, 0, 9], dtype=t), torch.tensor([2, 1, 3, 4], dtype=t)
        zeros = [torch.tensor(v, dtype=t) for v in ([2, 0, 3, 4], [0, 0, 0, 0], [1, 2, 3, 0], [5, 6, 7, 8])]
        cases += [Checked(f"{name} {t}", lambda d, x, f=f: f(x, d), [d.clone(), x], zeros, "divided by 0") for name, f in forms.items()]
    masked = lambda d, x: (x[d != 0] // d[d != 0]).sum()
    cases.append(Checked("selected", masked, [torch.tensor([2, 0, 3, 4]), torch.tensor([7, 100, 0, 9])], [torch.tensor([0, 0, 0, 0]), torch.tensor([1, 2, 3, 0])], "divided by 0"))
    return cases


@faults
def values():
    """Numbers outside of what an operator takes."""
    def rows_of(*lists):
        return [torch.tensor(v) for v in lists]

    x = torch.randn(5, 2)
    p = torch.tensor([0.0, 0.25, 1.0])
    unit = rows_of([0.0, 1.5, 1.0], [-0.5, 0.5, 1.0], [float("nan"), 0.5, 1.0], [0.0, 0.0, 1.0])
    y, table = torch.tensor([1.0, 0.0, 0.5]), torch.arange(10.0).view(5, 2)
    at, counts, begins = torch.tensor([0, 4, 2]), torch.tensor([2, 0, 1, 2, 0]), torch.tensor([0, 2])
    return [
        Checked("binary_cross_entropy", lambda p, y: F.binary_cross_entropy(p, y, reduction="none") * 0 == 0, [p, y], unit, "outside of 0 to 1"),
        Checked("its target", lambda y, p: F.binary_cross_entropy(p, y, reduction="none") * 0 == 0, [y, p], unit, "outside of 0 to 1"),
        Checked("quantile", lambda p, x: torch.quantile(x, p, dim=0) * 0 == 0, [p.clone(), x], unit, "outside of 0 to 1"),
        Checked("repeat_interleave", lambda c, x: torch.repeat_interleave(x, c, dim=0, output_size=5), [counts, x], rows_of([2, -1, 2, 2, 0], [5, 0, 0, 0, 0]), "negative"),
        Checked("embedding_bag", lambda o, i, w: F.embedding_bag(i, w, o, mode="sum"), [begins, at, table], rows_of([1, 2], [0, 0], [0, 3]), "first offset"),
    ]
