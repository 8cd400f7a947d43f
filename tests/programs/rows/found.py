"""Sizes that depend on data: what is selected, unequal, counted, repeated, a number that is read; and conditions that the program checks."""
from generator import BOOL, FLOATS, INTS, NUMBERS, REAL, Skip, row
import torch

I64 = (torch.int64,)


def mask(g, x, rank=None):
    """Text of a mask over x, or over its first dims."""
    rank = x.rank if rank is None else rank
    fits = [v for v in g.values if v.dtype in BOOL and v.shape == x.shape[:rank]]
    if fits and g.chance(0.4):
        return str(g.choice(fits))
    if rank == x.rank and x.dtype in NUMBERS and g.chance(0.5):
        return g.choice([f"({x} > 0)", f"({x} != 0)", f"({x} <= 1)", f"({x} == {x}.flatten()[:1].sum())", f"({x} < -100)", f"({x} == {x})"])
    return str(g.leaf(torch.bool, [g.dim(x, d) for d in range(rank)], "bools"))


def some(g, kinds=REAL, rank=(1, 3)):
    return g.tensor(kinds, rank, where=lambda v: v.t.numel() > 0)


@row("selection by a mask", 14, "found")
def select(g):
    x = some(g)
    kind = g.int(0, 5)
    if kind <= 2:
        return f"{x}[{mask(g, x, g.int(1, x.rank))}]"
    if kind == 5:
        return f"(lambda m: torch.zeros_like({x}).masked_scatter(m, {x}[m] + 1))({mask(g, x)})"
    if kind == 3:
        return f"torch.masked_select({x}, {mask(g, x)})"
    d = g.int(0, x.rank - 1)
    m = g.leaf(torch.bool, [g.dim(x, d)], "bools")
    return f"{x}[{':, ' * d}{m}]"


@row("places of what is true", 8, "found")
def places(g):
    x = some(g)
    m = mask(g, x)
    kind = g.int(0, 4)
    if kind == 0:
        return (f"torch.where({m})", x.rank) if x.rank > 1 else f"torch.where({m})[0]"
    if kind == 1:
        return f"torch.nonzero({m})[:, {g.int(0, x.rank - 1)}]"
    if kind == 2:
        return f"{x}[torch.where({m})]"
    return g.choice([f"torch.nonzero({m})", f"torch.argwhere({m})", f"{x}.nonzero()"])


@row("what is unequal", 8, "found")
def unequal(g):
    x = some(g, INTS + BOOL if g.chance(0.7) else REAL, (1, 2))
    kind = g.int(0, 5)
    f = g.choice(["torch.unique", "torch.unique_consecutive"])
    if kind <= 1:
        return f"{f}({x})"
    if kind == 2:
        return f"{f}({x}, return_inverse=True)", 2
    if kind == 3:
        return f"{f}({x}, return_counts=True)", 2
    if kind == 4 and x.rank == 1:
        return f"{f}({x}, dim=0)"
    return f"{f}({x}, return_inverse=True, return_counts=True)", 3


def checked(checks, result, number):
    """A text in which n is the number, after the checks."""
    return f"(lambda n: [{''.join(f'torch._check({c}), ' for c in checks)}{result}][-1])({number})"


@row("counts", 3, "found")
def counts(g):
    i = g.leaf(torch.int64, [g.dim_text()], "ints", "0", "9")
    more = g.choice(["", f", weights={g.leaf(g.choice(FLOATS[:2]), list(i.leaf.dims))}", ", minlength=4", ", minlength=12"])
    return f"(lambda c: [torch._check(c.shape[0] <= 14), c][-1])(torch.bincount({i}{more}))"


@row("repeated rows", 5, "found")
def repeated(g):
    x = g.tensor(REAL, (1, 3), where=lambda v: not v.found)
    d = g.int(0, x.rank - 1)
    r = g.leaf(torch.int64, [g.dim(x, d)], "ints", "0", "4")
    kind = g.int(0, 2)
    if kind == 0:
        return f"(lambda r: [torch._check(r.shape[0] <= 3 * {g.dim(x, d)}), r][-1])(torch.repeat_interleave({r}))"
    return f"(lambda r: [torch._check(r.shape[{d}] <= 3 * {g.dim(x, d)}), r][-1])(torch.repeat_interleave({x}, {r}, dim={d}))"


@row("a number as a size", 14, "found")
def sized(g):
    x = g.tensor(REAL, (1, 3))
    d = g.int(0, x.rank - 1)
    size = g.dim(x, d)
    lo = g.choice(["0", "0", "1"])
    k = g.leaf(torch.int64, [], "ints", lo, f"{size} + 1")
    before = ":, " * d
    body = g.choice([f"{x}[{before}:n]", f"{x}[{before}n:]", f"{x}.narrow({d}, 0, n)", f"{x}.narrow({d}, n, {size} - n)", "torch.arange(n)", f"{x}.new_zeros(n, 2)",
                     f"{x}.new_full((2, n), {g.number(x.dtype)})", f"torch.arange({size} - n)", f"torch.arange(n, dtype={g.choice(FLOATS)}) * n", f"torch.ones(n, n).tril()", "torch.eye(n)",
                     f"torch.cat([{x}, {x}[{before}:n]], {d})", f"torch.cat([{x}[{before}:n], {x}[{before}n:]], {d})", f"{x} * n", f"torch.full((n, 3), n)", f"{x}[{before}:max(n, 1)]",
                     f"{x}[{before}:n // 2]", "torch.zeros(2 * n + 1)", f"{x}[{before}:n].flip({d})", f"torch.split({x}, [n, {size} - n], {d})[{g.int(0, 1)}]", f"{x}[{before}:n].clone().fill_(n)",
                     f"{x}.unsqueeze(0).expand(n, {', '.join(['-1'] * x.rank)})", f"torch.linspace(0, 1, n)", f"F.pad({x}, (0, n))", f"F.pad({x}, (n, 0))", f"{x}.roll(n, {d})", f"torch.arange({size}) < n",
                     f"torch.arange(n, {size})", f"{x}[{before}-n:]", f"{x}.index_select({d}, torch.arange(n))", f"{x}.repeat(n{', 1' * (x.rank - 1)})", f"torch.stack([{x}[{before}:n]] * 2)",
                     f"{x}[{before}:n].sum({d})", f"{x}[{before}n - 1]"])
    return checked([f"n >= {lo}", f"n <= {size}"], body, f"{k}.item()")


@row("as much as a number says, whatever it is", 5, "found")
def cut(g):
    x = g.tensor(REAL, (1, 3))
    d = g.int(0, x.rank - 1)
    k = g.leaf(torch.int64, [], "ints", "-4", f"{g.dim(x, d)} + 3")
    before = ":, " * d
    text = g.choice([":n", "n:", "1:n", "-2:n", "n:-1", ":n:2", "n::3", "n:n + 2", ":-n", ":n - 1", "n // 2:n"])
    return f"(lambda n: {x}[{before}{text}])({k}.item())"


@row("a number found in values as a size", 4, "found")
def computed(g):
    x = some(g, rank=(1, 2))
    m = mask(g, x)
    return checked(["n >= 0", f"n <= {x}.numel()"], g.choice(["torch.arange(n)", "torch.ones(n, 2)", f"{x}.flatten()[:n]", f"{x}.flatten()[n:]"]), f"{m}.sum().item()")


@row("parts of lengths", 3, "found")
def parts(g):
    x = g.tensor(REAL, (1, 3))
    size = g.dim(x, 0)
    a = g.leaf(torch.int64, [], "ints", "0", f"{size} + 1")
    text = f"(lambda a, b: [torch._check(a >= 0), torch._check(b >= 0), torch._check(a + b == {size}), *torch.split({x}, [a, b])][-2:])(*torch.stack([{a}, {size} - {a}]).tolist())"
    return text, 2


@row("condition", 4, "found")
def condition(g):
    if g.chance(0.2):
        return f"torch._check({g.leaf(torch.float32, [], 'normal')}.item() {g.choice(['> -0.25', '< 0.5', '<= 1', '>= -1.5'])})", 0
    if g.chance(0.5):
        k = g.leaf(torch.int64, [], "ints", "0", "9")
        return f"torch._check({k}.item() {g.choice(['<= 6', '>= 2', '!= 5', '% 2 == 0', '% 3 != 1', '// 2 >= 1'])})", 0
    x = some(g, NUMBERS, (1, 2))
    return g.choice([f"torch._check(({x} {g.choice(['> -3', '< 2.5', '!= 1'])}).all().item())", f"torch._check({x}[{x} > 0].shape[0] <= {x}.numel() // 2 + 1)", f"torch._check({x}[{x} > 0].shape[0] % 2 == 0)"]), 0


@row("of what is found", 26, "found")
def follow(g):
    late = [v for v in g.values if v.found and v.rank >= 1]
    if not late:
        raise Skip
    x = g.choice(late[-4:])
    d = g.axis(x)
    n = f"{x}.shape[{d}]"
    y = g.choice([v for v in late if v.rank == x.rank] or [x])
    other = g.tensor(NUMBERS, (1, 2))
    real = x.dtype.is_floating_point
    texts = [f"{x}.sum({d})", f"{x}.sum()", f"torch.cat([{x}, {y}], {d})", f"torch.cat([{x}, {other}])", f"{x}.flip({d})", f"torch.sort({x}, {d}, stable=True)[{g.int(0, 1)}]", f"torch.argsort({x}, {d}, stable=True, descending=True)",
             f"{x}.cumsum({d})", f"{x}.reshape(-1)", f"{x}.transpose(0, -1).reshape(-1)", f"{x}.unsqueeze({d})", f"{x}[1:]", f"{x}[:-1]", f"{x}[::2]", f"{x}[-1:]", f"{x}[..., None] * {x}[..., None, :]" if x.dtype != torch.bool else f"{x} & {x}",
             f"torch.stack([{x}, {x}], {d})", f"F.pad({x}, (1, 2))", f"F.pad({x}, (0, -1))", f"{x}.roll(1, {d})", f"({x} == {x}.flatten().unsqueeze(-1)).any(-1)" if x.rank == 1 else f"{x}.any({d})", f"{x}.repeat({', '.join(['2'] * x.rank)})",
             f"{x}.to(torch.float64).mean({d})", f"torch.arange({n})", f"{x}.new_zeros({n}, 2)", f"{x} + torch.arange({n}).view({', '.join('-1' if k == d % x.rank else '1' for k in range(x.rank))})",
             f"torch.where({x} > 0, {x}, 0)" if x.dtype != torch.bool else f"torch.where({x}, 1, 0)", f"{x}.count_nonzero({d})", f"{x}.diff(dim={d})", f"{x}.expand(2, {', '.join(['-1'] * x.rank)})", f"{x}.tril()" if x.rank > 1 else f"{x}.prod()",
             f"torch.zeros({n}, {n}) + {n}", f"{x}.t() @ {x}" if x.rank == 2 and real else f"{x}.clone()", f"{x} @ {x}.t()" if x.rank == 2 and real else f"{x} * 2", f"{x}.to(torch.float32).softmax({d})", f"{x}.to(torch.float64).var({d})",
             f"F.layer_norm({x}.to(torch.float32), ({x}.shape[-1],))", f"torch.cat([{x}, {x}[:1]]).amax(0)", f"torch.cat([{x}, {x}[:1]]).argmax(0)", f"{x}[torch.arange({x}.shape[0] - 1, -1, -1)]", f"{x}.to(torch.float32).norm()",
             f"torch.zeros(20, dtype={x.dtype}).index_add(0, torch.arange({x}.shape[0]) % 20, {x})" if x.rank == 1 else f"{x}.flatten(0, 1)", f"torch.searchsorted({x}.flatten().sort()[0], {x}.flatten()[:1])", f"{x}.unflatten({d}, (1, -1))",
             f"torch.logcumsumexp({x}.to(torch.float32), {d})", f"F.conv1d({x}.to(torch.float32).reshape(1, 1, -1), torch.ones(1, 1, 2), padding=1)", f"F.avg_pool1d({x}.to(torch.float32).reshape(1, 1, -1), 2, padding=1)",
             f"torch.nn.functional.scaled_dot_product_attention(*[{x}.to(torch.float32).reshape(1, 1, -1, 1)] * 3)", f"{x}.view({x}.dtype).unbind(1)[0]" if x.rank > 1 else f"{x}.view(-1, 1)", f"torch.cdist({x}.to(torch.float32), {x}.to(torch.float32))" if x.rank == 2 else f"{x}.ne(0)",
             f"{x}[{x} > 0]" if x.dtype != torch.bool else f"{x}.nonzero()", f"torch.unique({x})", f"{x}.sum() / {n}", f"torch.cummax({x}, {d})[0]", f"torch.gather({x}, {d}, torch.argsort({x}, {d}, stable=True))",
             f"torch.zeros_like({x}).scatter({d}, torch.argsort({x}, {d}, stable=True), {x})", f"torch.isin({x}, {x}.flatten()[:2])", f"torch.bucketize({x}, torch.tensor([0, 2, 4]))", f"torch.clone({x}).fill_(3)"]
    return g.choice(texts)
