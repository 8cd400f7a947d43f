"""Gathering and scattering by integers that the program is given."""
import torch

from generator import BOOL, FLOATS, INTS, NUMBERS, REAL, Skip, row


def source(g, kinds=REAL, rank=(1, 4)):
    return g.tensor(kinds, rank, where=lambda v: 0 not in v.shape)


@row("gather", 3)
def gather(g):
    x = source(g)
    d = g.axis(x)
    dims = g.dims_like(x)
    dims[d] = g.dim_text() if g.chance(0.3) else str(g.int(1, 5))
    index = g.index(dims, g.dim(x, d))
    return f"torch.gather({x}, {d}, {index})" if g.chance(0.7) else f"torch.take_along_dim({x}, {index}, {d})"


@row("index_select", 3)
def index_select(g):
    x = source(g)
    d = g.axis(x)
    return f"torch.index_select({x}, {d}, {g.index([g.dim_text()], g.dim(x, d), g.choice(INTS[:2]))})"


@row("fancy index", 4)
def fancy(g):
    x = source(g)
    kind = g.int(0, 5)
    k = g.dim_text()
    i0 = g.index([k], g.dim(x, 0), lo="0" if g.chance(0.6) else f"-{g.dim(x, 0)}")
    if kind <= 1 or x.rank == 1:
        return f"{x}[{i0}]"
    i1 = g.index([k], g.dim(x, 1))
    if kind == 2:
        return f"{x}[{i0}, {i1}]"
    if kind == 3:
        return f"{x}[:, {i1}]"
    if kind == 4:
        return f"{x}[{i0}[:, None], {i1}[None, :]]"
    if x.rank >= 3:
        return f"{x}[{i0}, :, {g.index([k], g.dim(x, 2))}]"
    return f"{x}[{g.int(0, x.shape[0] - 1)}, {i1}]"


@row("embedding", 3)
def embedding(g):
    rows = g.int(1, 20)
    table = g.tensor(FLOATS, (2, 2), where=lambda v: 0 not in v.shape) if g.chance(0.3) else g.leaf(g.dtype(FLOATS), [rows, g.int(1, 20)])
    index = g.index([g.dim_text() for _ in range(g.int(1, 3))], g.dim(table, 0), g.choice(INTS[:2]))
    return f"F.embedding({index}, {table})"


@row("scatter", 4)
def scatter(g):
    x = source(g, NUMBERS)
    d = g.axis(x)
    dims = g.dims_like(x)
    dims[d] = str(g.int(1, 4))
    index = g.index(dims, g.dim(x, d))
    kind = g.int(0, 4)
    src = g.leaf(x.dtype, dims)
    if kind == 0:  # each place once: the order of equal indices is not defined
        distinct = f"torch.argsort({index}.argsort({d}), {d})" if False else f"torch.zeros_like({index}) + torch.arange({dims[d]}).view({', '.join(str(-1 if k == d % x.rank else 1) for k in range(x.rank))})"
        if x.shape[d] < int(dims[d]):
            raise Skip
        return f"torch.scatter({x}, {d}, {distinct}, {src})"
    if kind == 1:
        return f"torch.scatter({x}, {d}, {index}, {g.number(x.dtype)})"
    if kind == 2:
        return f"torch.scatter_add({x}, {d}, {index}, {src})"
    if kind == 3:
        return f"torch.scatter_reduce({x}, {d}, {index}, {src}, reduce={g.choice(['sum', 'amax', 'amin', 'prod', 'mean'])!r}{g.choice(['', ', include_self=False'])})"
    return f"torch.scatter({x}, {d}, {index}, {g.number(x.dtype)}, reduce={g.choice(['add', 'multiply'])!r})"


@row("index_add and kin", 3)
def index_writes(g):
    x = source(g, NUMBERS)
    d = g.axis(x)
    dims = g.dims_like(x)
    k = str(g.int(1, 4))
    dims[d] = k
    index = g.index([k], g.dim(x, d))
    kind = g.int(0, 3)
    if kind == 0:
        return f"torch.index_add({x}, {d}, {index}, {g.leaf(x.dtype, dims)}{g.choice(['', ', alpha=2'])})"
    if kind == 1:
        return f"torch.index_fill({x}, {d}, {index}, {g.number(x.dtype)})"
    if kind == 2 and x.shape[d] >= int(k):
        return f"torch.index_copy({x}, {d}, torch.arange({k}), {g.leaf(x.dtype, dims)})"
    first = g.index([k], g.dim(x, 0))
    return f"torch.index_put({x}, ({first},), {g.leaf(x.dtype, [k, *g.dims_like(x)[1:]])}, accumulate=True)"


@row("search", 1.5)
def search(g):
    n = g.int(1, 9)
    dtype = g.choice(FLOATS[:2])
    edges = g.leaf(dtype, [n], "sorted")
    x = g.tensor((dtype,))
    right = g.choice(["", ", right=True"])
    return g.choice([f"torch.bucketize({x}, {edges}{right})", f"torch.searchsorted({edges}, {x}{right})"])


@row("isin and histogram", 1)
def counting(g):
    if g.chance(0.5):
        x = g.tensor(NUMBERS)
        return f"torch.isin({x}, {g.leaf(x.dtype, [g.int(1, 5)])})"
    if g.chance(0.3):
        return f"torch.histogramdd({g.tensor(FLOATS[:2], (2, 3))}.reshape(-1, 2), [{g.int(1, 4)}, {g.int(1, 4)}], range=[-2.0, 2.0, -1.0, 3.0])[0]" if not g.dynamic else "torch.histc({}, 3)".format(g.tensor(FLOATS[:1], (1, 2)))
    return f"torch.histc({g.tensor(FLOATS[:1], (1, 2))}, bins={g.int(1, 6)}, min=-2, max=2)"


@row("take and put", 1)
def take(g):
    x = source(g)
    index = g.index([g.dim_text()], "1" if g.dynamic else str(x.t.numel()))
    return f"torch.take({x}, {index})"


@row("masked scatter", 0.7)
def masked_scatter(g):
    x = source(g, NUMBERS)
    return f"torch.masked_scatter({x}, {g.like(x, BOOL)}, {g.like(x)})"


@row("index of a computed value", 2)
def computed(g):
    """Indices out of other operators: argmax, remainders, ranks."""
    x = source(g)
    i = g.tensor((torch.int64,), (1, 2))
    return f"{x}[{i} % {g.dim(x, 0)}]" if g.chance(0.6) else f"torch.index_select({x}, 0, ({i}.reshape(-1) % {g.dim(x, 0)}).abs())"
