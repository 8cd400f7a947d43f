"""Writes in place: into values, into views of them, into inputs and states. A row of this file has no result; what it wrote shows in whatever
shares the memory."""
import torch

from generator import BOOL, COMPLEX, FLOATS, INTS, NUMBERS, REAL, Skip, row


def target(g, kinds=NUMBERS, rank=(0, 5)):
    """Something to write to: not expanded memory. Inputs and states only now and then."""

    def fits(v):
        return v.t.numel() > 0 and all(s or n == 1 for s, n in zip(v.t.stride(), v.t.shape)) and (v.leaf is None or g.chance(0.35))

    return g.tensor(kinds, rank, where=fits, new=0.05)


def view_of(g, x):
    """Text of a view of x (or x), and its shape."""
    options = [str(x)]
    if x.rank >= 1:
        n = x.shape[0]
        options += [f"{x}[{g.int(0, n - 1)}]", f"{x}[::2]", f"{x}[1:]", f"{x}[..., -1]", f"{x}.flatten()" if x.t.is_contiguous() else f"{x}[:1]", f"{x}.unsqueeze(0)", f"{x}.select(-1, 0)"]
    if x.rank >= 2:
        options += [f"{x}.transpose(0, 1)", f"{x}[:, 0]", f"{x}[:, ::2]", f"{x}.diagonal()", f"{x}.mT", f"{x}[0, 1:]"]
    if x.rank >= 1 and x.t.is_contiguous():
        options += [f"{x}.view(-1)", f"{x}.view(-1)[1:]"]
    text = g.choice(options)
    return text, eval(text, g.env)


UNARY = """abs_ neg_ relu_ sigmoid_ tanh_ exp_ sqrt_ square_ floor_ ceil_ round_ trunc_ sign_ sin_ cos_ reciprocal_ zero_ erf_ log1p_ rsqrt_ frac_
nan_to_num_""".split()


@row("unary in place", 3)
def unary(g):
    x = target(g, FLOATS if g.chance(0.7) else NUMBERS)
    text, _ = view_of(g, x)
    return f"{text}.{g.choice(UNARY)}()", 0


@row("binary in place", 5)
def binary(g):
    x = target(g)
    text, v = view_of(g, x)
    if g.chance(0.4):
        y = g.number(x.dtype)
    else:
        fits = [w for w in g.values if torch.can_cast(w.dtype, x.dtype) and broadcasts(w.shape, tuple(v.shape))]
        y = g.choice(fits) if fits and g.chance(0.7) else g.leaf(x.dtype, list(v.shape) if not g.dynamic else ["1"])
    form = g.choice(["{}.add_({})", "{}.mul_({})", "{}.sub_({})", "{}.copy_({})", "{}.div_({})", "{}.clamp_(min={})", "{}.fill_({})", "{}.add_({}, alpha=2)", "{}.pow_({})",
                     "{}.maximum({})", "{}.remainder_({})", "{}.eq_({})", "{}.bitwise_xor_({})"])
    if form == "{}.maximum({})":
        raise Skip
    if form == "{}.copy_({})" and isinstance(y, str):
        form = "{}.fill_({})"
    if form == "{}.fill_({})" and not isinstance(y, str):
        form = "{}.copy_({})"
    return form.format(text, y), 0


def broadcasts(small, big):
    try:
        return torch.broadcast_shapes(small, big) == torch.Size(big)
    except RuntimeError:
        return False


@row("copy of another type", 2)
def copy_cast(g):
    x = target(g, REAL)
    text, v = view_of(g, x)
    fits = [w for w in g.values if w.dtype != x.dtype and broadcasts(w.shape, tuple(v.shape))]
    if not fits:
        raise Skip
    y = g.choice(fits)
    return f"{text}.copy_({y if not y.dtype.is_floating_point or x.dtype.is_floating_point else str(y) + '.nan_to_num(0, 50, 0).clamp(0, 50)'})", 0


@row("assign to a slice", 4)
def assign(g):
    x = target(g, REAL, (1, 5))
    text, v = view_of(g, x)
    if "[" not in text:
        text, v = f"{x}[...]", x.t
    fits = [w for w in g.values if w.dtype == x.dtype and broadcasts(w.shape, tuple(v.shape)) and w is not x]
    y = g.choice(fits) if fits and g.chance(0.6) else g.number(x.dtype)
    return f"{text} {g.choice(['=', '=', '+=', '*='])} {y}", 0


@row("assign by mask or index", 3)
def assign_index(g):
    x = target(g, REAL, (1, 4))
    kind = g.int(0, 4)
    value = g.number(x.dtype)
    if kind == 0:
        mask = g.like(x, BOOL)
        return f"{x}[{mask}] = {value}", 0
    if kind == 1:
        return f"{x}.masked_fill_({g.like(x, BOOL, broadcast=True)}, {value})", 0
    d = g.axis(x)
    n = g.dim(x, d)
    if kind == 2:
        return f"{x}.index_fill_({d}, {g.index([g.int(1, 4)], n)}, {value})", 0
    if kind == 3:
        dims = g.dims_like(x)
        k = str(g.int(1, 4))
        dims[d] = k
        return f"{x}.index_add_({d}, {g.index([k], n)}, {g.leaf(x.dtype, dims)})", 0
    dims = ["1" if g.chance(0.1) else t for t in g.dims_like(x)]
    dims[d] = str(g.int(1, 3))
    index = g.index(dims, n)
    if g.chance(0.5):
        return f"{x}.scatter_({d}, {index}, {value})", 0
    return f"{x}.scatter_add_({d}, {index}, {g.leaf(x.dtype, dims)})", 0


@row("write, then read an alias", 3)
def alias(g):
    """A view taken before the write is read after it."""
    x = target(g, NUMBERS, (1, 4))
    text, _ = view_of(g, x)
    names = [f"v{g.counts['v']}"]
    g.env.pop(names[0], None)
    return f"({text}, {text}.add_({g.number(x.dtype)}))[0]"


@row("activation in place", 1.5)
def activation(g):
    x = target(g, FLOATS)
    return f"F.{g.choice(['relu', 'elu', 'silu', 'hardtanh', 'leaky_relu', 'hardswish', 'mish', 'selu', 'celu', 'hardsigmoid'])}({x}, inplace=True)", 0


@row("scattered by a view", 1)
def view_scatter(g):
    x = g.tensor(NUMBERS, (1, 4), where=lambda v: 0 not in v.shape)
    d = g.axis(x)
    dims = g.dims_like(x)
    n = x.shape[d]
    kind = g.int(0, 2)
    if kind == 0:
        dims.pop(d)
        return f"torch.select_scatter({x}, {g.leaf(x.dtype, dims)}, {d}, {g.int(0, n - 1)})"
    if kind == 1:
        a = g.int(0, n - 1)
        b = g.int(a + 1, n)
        dims[d] = str(b - a)
        return f"torch.slice_scatter({x}, {g.leaf(x.dtype, dims)}, {d}, {a}, {b})"
    if x.rank != 2:
        raise Skip
    k = min(x.shape)
    return None if g.dynamic else f"torch.diagonal_scatter({x}, {g.leaf(x.dtype, [k])}, 0)"


@row("one storage under two names", 2.5)
def shared(g):
    """A constant that is a view of another one: what is written through either is read through the other."""
    whole = [v for v in g.values if v.leaf and v.leaf.role == "const" and not v.leaf.of and v.t.numel() and not v.dtype == torch.bool]
    kinds = COMPLEX if g.kind == "complex" else NUMBERS
    x = g.choice(whole) if whole and g.chance(0.5) else g.leaf(g.dtype(kinds), [g.int(1, 6) for _ in range(g.int(1, 4))], role="const")
    if x.leaf.of or not x.t.numel():
        raise Skip
    text, _ = view_of(g, x)
    if g.chance(0.15) and x.rank:
        n = x.shape[0]
        text = g.choice([f"{x}.unfold(0, {min(2, n)}, 1)", f"{x}.expand(2, *{x.shape})", f"{x}.detach()"])
    y = g.view_leaf(x, f"{x}.detach()" if text == str(x) else text)
    overlaps = not all(s or n == 1 for s, n in zip(y.t.stride(), y.shape)) or ".unfold" in text
    a, b = (x, y) if overlaps or g.chance(0.4) else (y, x)
    write = g.choice([f"{a}.add_({g.number(x.dtype)})", f"{a}.mul_(2)", f"{a}.copy_({a} + 1)", f"{a}.fill_({g.number(x.dtype)})"])
    return f"({write}, {b} * 1)[1]"


@row("counted up", 1)
def counter(g):
    """A state that every run changes."""
    s = g.leaf(g.choice(FLOATS[:2] + INTS[:2]), [g.int(1, 5)], role="const")
    return f"{s}.{g.choice(['add_(1)', 'mul_(2)', 'copy_(' + str(s) + ' * 0.5)' if s.dtype.is_floating_point else 'sub_(3)'])}.clone()"
