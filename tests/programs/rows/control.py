"""Branches, loops and maps. The helpers are base_env's (control.py): operators of higher order where a program is exported, Python where it is run."""
from generator import FLOATS, INTS, NUMBERS, REAL, Skip, row
import torch

BODIES = ["{x} + 1", "{x} * 2", "-{x}", "{x}.abs()", "{x} * {x}", "{x} - {x}.sum()", "{x}.clone().fill_(2)", "{x}.flip(0)", "{x}.cumsum(0)", "{x}.clamp(-1, 1)", "torch.where({x} > 0, {x}, 0 * {x})", "{x}.roll(1, 0)"]
FLOAT_BODIES = BODIES + ["{x}.tanh()", "{x}.softmax(0)", "F.relu({x})", "{x} / 3", "{x}.exp().clamp(max=9)", "F.layer_norm({x}, ({x}.shape[-1],))", "{x} - {x}.mean()"]


def body(g, x, name):
    return g.choice(FLOAT_BODIES if x.dtype.is_floating_point else BODIES).format(x=name)


def some(g, rank=(1, 3), kinds=NUMBERS):
    return g.tensor(kinds, rank, where=lambda v: 0 not in v.shape)


@row("branch", 10, "control")
def branch(g):
    x = some(g, (0, 3))
    if not x.rank:
        x = some(g)
    k = g.leaf(torch.int64, [], "ints", "-3", "4")
    p = g.choice([f"{k} > 0", f"{k} % 2 == 0", f"({x} > 0).any()", f"({x} > 0).all()", f"{x}.amax() < 1"])
    kind = g.int(0, 5)
    a, b = body(g, x, "a"), body(g, x, "a")
    if kind <= 1:
        return f"cond({p}, lambda a: ({a}) * 1, lambda a: ({b}) * 1, ({x},))"
    if kind == 2:
        y = g.like(x)
        return f"cond({p}, lambda a, b: (a + b, ({b}) * 1), lambda a, b: (({a}) * 1, b - a), ({x}, {y}))", 2
    if kind == 3:
        return f"cond({p}, lambda a: cond(a.sum() > 0, lambda c: c + 1, lambda c: c - 1, (({a}) * 1,)), lambda a: ({b}) * 1, ({x},))"
    if kind == 4:
        return f"cond({p}, lambda a: {x} + ({a}), lambda a: ({b}) - {x}, ({x} * 1,))"
    return f"cond({p}, lambda a: a[:1].sum(0), lambda a: a.amax(0), ({x},))" if x.dtype in FLOATS + INTS[:1] else f"cond({p}, lambda a: a.amin(0), lambda a: a.amax(0), ({x},))"


@row("rounds over rows", 8, "control")
def scans(g):
    x = some(g, (1, 3), FLOATS[:2] + INTS[:1])
    inner = [g.dim(x, d) for d in range(1, x.rank)]
    c = g.leaf(x.dtype, inner, "normal" if x.dtype.is_floating_point else None)
    step = g.choice(["c + v", "c * 0.5 + v" if x.dtype.is_floating_point else "c * 3 + v", "torch.maximum(c, v)", "c - v", "torch.where(v > 0, v, c)", "v - c * 2"])
    out = g.choice(["n * 2", "n + v", "n - c", "(n > v)", "n.sum()", "c * 1", "torch.stack([n, v])"])
    rev = g.choice(["", ", reverse=True"])
    return f"scan(lambda c, v: (lambda n: (n, {out}))({step}), {c}, {x}{rev})", 2


@row("rounds with two values carried", 4, "control")
def scan_two(g):
    x = some(g, (2, 3), FLOATS[:2])
    y = g.like(x)
    inner = [g.dim(x, d) for d in range(1, x.rank)]
    c = g.leaf(x.dtype, inner, "normal")
    return f"(lambda r: (r[0][0], r[0][1], r[1]))(scan(lambda c, v: ((torch.tanh(c[0] + v[0]), c[1] + 1), c[0] * v[1]), ({c}, torch.zeros((), dtype=torch.int64)), ({x}, {y})))", 3


@row("each row on its own", 6, "control")
def maps(g):
    x = some(g, (2, 4))
    w = g.like(x)
    kind = g.int(0, 3)
    b = body(g, x, "v")
    if kind == 0:
        return f"rows_map(lambda v: ({b}) * 1, {x})"
    if kind == 1:
        return f"rows_map(lambda v, w: v + w.sum(), {x}, {w}[0].clone())"
    if kind == 2:
        return f"torch.vmap(lambda v: ({b}) * 1)({x})"
    return g.choice([f"torch.vmap(lambda v, w: v * w + v.sum(), in_dims=(0, None))({x}, {w}[0])", f"torch.vmap(lambda v: v.flip(0), in_dims=1, out_dims=1)({x})", f"torch.vmap(torch.vmap(lambda v: v * 2 + 1))({x})", f"torch.vmap(lambda v, w: v @ w, in_dims=(0, None))({x}.float(), {x}[0].float().mT)" if x.rank == 3 else f"torch.vmap(torch.sum)({x})",
                     f"torch.vmap(lambda v: torch.where(v > 0, v, v.amin()))({x})", f"torch.vmap(lambda v: v.argmax())({x})", f"torch.vmap(lambda v: v.sort(stable=True)[0])({x})" if x.rank == 2 else f"torch.vmap(lambda v: v.cumsum(0))({x})", f"torch.vmap(lambda v: v[:1] + v[-1:])({x})", f"torch.vmap(lambda v, i: v[i % v.shape[0]])({x}, torch.arange({x}.shape[0]))"])


@row("loop", 6, "control")
def loops(g):
    x = some(g, (0, 3), FLOATS[:2] + INTS[:2])
    n = g.leaf(torch.int64, [], "ints", "0", "7")
    most = g.int(1, 6)
    step = g.choice(["y * 2", "y + 1", "y - i", "y * 0.5 + 1" if x.dtype.is_floating_point else "y * 3 - 1", "torch.tanh(y)" if x.dtype.is_floating_point else "-y"])
    stop, by, first = g.choice([(f"(i < {n}) & (i < {most})", "+ 1", 0), (f"i < {most}", "+ 2", 0), (f"(i < {most}) & (y.abs().sum() < 20)", "+ 1", 0), (f"(i < {most}) & (i != {n})", "+ 1", 0), ("i > 0", "- 1", most), (f"(i >= 1) & (i > {n})", "- 2", most)])
    return f"loop(lambda i, y: {stop}, lambda i, y: (i {by}, {step}), (torch.full((), {first}), {x} * 1))", 2


@row("scan by halves", 3, "control")
def halves(g):
    x = some(g, (1, 3), FLOATS[:2] + INTS[:1])
    f = g.choice(["lambda a, b: a + b", "lambda a, b: torch.maximum(a, b)", "lambda a, b: torch.minimum(a, b)"])
    return f"halves({f}, {x}, {g.axis(x) % x.rank}{g.choice(['', ', reverse=True'])})"
