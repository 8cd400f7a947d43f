"""Tensors out of nothing, and one-hot."""
from generator import FLOATS, INTS, NUMBERS, REAL, row


@row("constant", 2)
def constant(g):
    dims = ", ".join(g.extent() for _ in range(g.int(0, 3)))
    dtype = g.choice(REAL)
    return g.choice([f"torch.zeros(({dims}{',' if dims else ''}), dtype={dtype})", f"torch.ones(({dims}{',' if dims else ''}), dtype={dtype})",
                     f"torch.full(({dims}{',' if dims else ''}), {g.number(dtype)}, dtype={dtype})"])


@row("constant like another", 2)
def like(g):
    x = g.tensor(REAL)
    dtype = f", dtype={g.choice(REAL)}" if g.chance(0.3) else ""
    return g.choice([f"torch.zeros_like({x}{dtype})", f"torch.ones_like({x}{dtype})", f"torch.full_like({x}, {g.number(x.dtype)})", f"{x}.new_zeros({g.extent()}, 2)", f"{x}.new_full(({g.int(1, 3)},), 3)"])


@row("range", 3)
def arange(g):
    n = g.extent()
    dtype = g.choice(NUMBERS)
    kind = g.int(0, 4)
    if kind <= 1:
        return f"torch.arange({n}, dtype={dtype})"
    if kind == 2:
        return f"torch.arange({g.int(-3, 2)}, {g.int(3, 20)}, {g.int(1, 3)})"
    if kind == 3:
        return f"torch.linspace({g.number(FLOATS[0])}, {g.choice(['4', '-1', '10'])}, {n}, dtype={g.choice(FLOATS)})"
    return f"torch.arange({g.choice(['0.5', '-1'])}, {g.choice(['4', '3.3'])}, {g.choice(['0.5', '0.3'])}, dtype={g.choice(FLOATS[:2])})"


@row("positions of a value", 2)
def positions(g):
    x = g.tensor(REAL, (1, 4))
    d = g.axis(x)
    n = g.dim(x, d)
    return g.choice([f"torch.arange({n})", f"torch.arange({n}, dtype={g.choice(FLOATS)}) / {n}", f"torch.ones({n}, {n}, dtype={x.dtype}).tril()",
                     f"torch.arange({n})[None, :] <= torch.arange({n})[:, None]", f"torch.eye({n}, dtype={g.choice(NUMBERS)})"])


@row("triangles and eye", 1)
def triangles(g):
    n, m = g.extent(), g.extent()
    return g.choice([f"torch.eye({n}, {m}, dtype={g.choice(NUMBERS)})", f"torch.tril_indices({g.int(1, 5)}, {g.int(1, 5)}, {g.int(-1, 1)})", f"torch.{g.choice(['hann', 'hamming', 'blackman', 'bartlett'])}_window({g.int(2, 9)})"])


@row("one_hot", 1.5)
def one_hot(g):
    k = g.int(1, 7)
    return f"F.one_hot({g.index([g.dim_text() for _ in range(g.int(1, 2))], k)}, {k})"


@row("number as a tensor", 1)
def scalar(g):
    return f"torch.scalar_tensor({g.choice(['1.5', '-2', '7'])}, dtype={g.choice(FLOATS + INTS[:2])})"
