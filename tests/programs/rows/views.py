"""Views: slices, strides, permutations, reshapes."""
from generator import REAL, Skip, row

ANY = REAL


@row("slice", 6)
def slices(g):
    x = g.tensor(ANY, (1, 5))
    parts = []
    for d in range(x.rank):
        n = x.shape[d]
        kind = g.int(0, 7)
        if kind <= 2:
            parts.append(":")
        elif kind == 3:
            parts.append(f"{g.int(0, max(0, n // 2))}:")
        elif kind == 4:
            parts.append(f":{g.choice([str(max(1, n // 2)), '-1'])}")
        elif kind == 5:
            parts.append(f"{g.choice(['', '1'])}::{g.int(2, 3)}")
        elif kind == 6 and n:
            parts.append(str(g.int(0, n - 1) if g.chance(0.7) else -1))
        else:
            parts.append(f"-{g.int(1, max(1, n))}:")
        if g.chance(0.2):
            break
    if g.chance(0.15):
        parts.insert(g.int(0, len(parts)), "None")
    if g.chance(0.1) and len(parts) < x.rank:
        parts.append("...")
    return f"{x}[{', '.join(parts)}]"


@row("permute", 4)
def permute(g):
    x = g.tensor(ANY, (1, 5))
    kind = g.int(0, 6)
    if kind <= 1:
        order = list(range(x.rank))
        g.rng.shuffle(order)
        return f"{x}.permute({tuple(order)})"
    if kind == 2:
        return f"{x}.transpose({g.axis(x)}, {g.axis(x)})"
    if kind == 3:
        return f"torch.movedim({x}, {g.axis(x)}, {g.axis(x)})"
    if kind == 4:
        return f"{x}.{g.choice(['t()', 'T'])}" if x.rank == 2 else f"{x}.swapaxes(0, -1)"
    if kind == 5 and x.rank >= 2:
        return f"{x}.{g.choice(['mT', 'mT.contiguous()'])}"
    return f"torch.flip({x}, {tuple(g.axes(x))})"


@row("reshape", 5)
def reshape(g):
    x = g.tensor(ANY, (0, 5))
    kind = g.int(0, 6)
    call = g.choice(["reshape", "view", "reshape"])
    if kind == 0:
        return f"{x}.{call}(-1)"
    if kind == 1 and x.rank:
        a = g.int(0, x.rank - 1)
        return f"{x}.flatten({a}, {g.int(a, x.rank - 1)})"
    if kind == 2 and x.rank >= 2:
        return f"{x}.{call}({g.dim(x, 0)}, -1)"
    if kind == 3 and x.rank >= 2:
        d = g.int(0, x.rank - 2)
        dims = [g.dim(x, k) for k in range(x.rank)]
        return f"{x}.{call}({', '.join(dims[:d] + [f'{dims[d]} * {dims[d + 1]}' if g.dynamic else '-1'] + dims[d + 2:])})"
    if kind == 4 and x.rank:
        d = g.int(0, x.rank - 1)
        factors = [k for k in (2, 3, 4, 8) if x.shape[d] and x.shape[d] % k == 0]
        if not factors:
            raise Skip
        return f"{x}.unflatten({d}, ({g.choice([f'{factors[0]}, -1', f'-1, {factors[-1]}'])}))"
    if kind == 5 and x.rank:
        dims = [g.dim(x, k) for k in range(x.rank)]
        g.rng.shuffle(dims)
        return f"{x}.{call}({', '.join(dims)})"
    return f"{x}.ravel()"


@row("squeeze and unsqueeze", 3)
def squeeze(g):
    x = g.tensor(ANY, (0, 5))
    if g.chance(0.6):
        return f"{x}.unsqueeze({g.int(-x.rank - 1, x.rank)})"
    return f"{x}.squeeze({g.axis(x) if x.rank and g.chance(0.6) else ''})"


@row("expand", 4)
def expand(g):
    x = g.tensor(ANY, (0, 4))
    dims = [g.extent() if x.shape[d] == 1 else g.choice(["-1", g.dim(x, d)]) for d in range(x.rank)]
    lead = [g.extent() for _ in range(g.choice([0, 1, 1, 2]))]
    if not lead and 1 not in x.shape:
        raise Skip
    if g.chance(0.3):
        return f"torch.broadcast_to({x}, ({', '.join(lead + [g.dim(x, d) if t == '-1' else t for d, t in enumerate(dims)])},))"
    return f"{x}.expand({', '.join(lead + dims)})"


@row("expand_as", 1)
def expand_as(g):
    x = g.tensor(ANY, (0, 4))
    y = g.like(x, ANY, broadcast=True)
    return g.choice([f"{y}.expand_as({x})", f"torch.broadcast_tensors({x}, {y})[1]", f"{x}.reshape_as({g.like(x, ANY)})", f"{x}.type_as({y})"])


@row("as_strided", 2.5)
def as_strided(g):
    x = g.tensor(ANY, (1, 4), where=lambda v: v.t.numel() > 1)
    if g.dynamic and g.chance(0.7):
        raise Skip
    n = x.t.untyped_storage().size() // x.t.element_size()
    offset = g.int(0, min(3, n - 1))
    size, stride, room = [], [], n - 1 - offset
    for _ in range(g.int(1, 3)):
        s = g.choice([0, 1, 1, 2, 3, 5])
        most = min(6, room // s + 1) if s else 4
        k = g.int(1, max(1, most))
        room -= (k - 1) * s
        size.append(k)
        stride.append(s)
    return f"torch.as_strided({x}, {tuple(size)}, {tuple(stride)}, {offset})"


@row("narrow and select", 3)
def narrow(g):
    x = g.tensor(ANY, (1, 5), where=lambda v: 0 not in v.shape)
    d = g.axis(x)
    n = x.shape[d]
    start = g.int(0, n - 1)
    length = g.int(1, n - start)
    return g.choice([f"{x}.narrow({d}, {start}, {length})", f"torch.narrow_copy({x}, {d}, {start}, {length})", f"{x}.select({d}, {g.choice([start, -1])})",
                     f"torch.select({x}, {d}, {start})"])


@row("split", 4)
def split(g):
    x = g.tensor(ANY, (1, 4), where=lambda v: 0 not in v.shape)
    d = g.axis(x)
    n = x.shape[d]
    kind = g.int(0, 4)
    if kind == 0:
        k = g.int(1, n)
        parts = -(-n // k)
        text = f"torch.split({x}, {k}, {d})"
    elif kind == 1:
        k = g.int(1, 4)
        parts = len(x.t.chunk(k, d))
        text = f"torch.chunk({x}, {k}, {d})"
    elif kind == 2:
        k = g.int(1, 4)
        parts = k
        text = f"torch.tensor_split({x}, {k}, {d})"
    elif kind == 3:
        a = g.int(0, n)
        sizes = f"[{a}, {self_rest(g, x, d, a)}]"
        parts = 2
        text = f"torch.split({x}, {sizes}, {d})"
    else:
        parts = n
        text = f"{x}.unbind({d})"
    if parts > 6 or g.chance(0.3):
        return f"{text}[{g.choice([0, -1, parts // 2])}]"
    return (text, parts) if parts > 1 else f"{text}[0]"


def self_rest(g, x, d, a):
    return f"{g.dim(x, d)} - {a}" if g.dynamic else str(x.shape[d % x.rank] - a)


@row("diagonal", 2)
def diagonal(g):
    x = g.tensor(ANY, (2, 4))
    a, b = g.rng.sample(range(x.rank), 2)
    return g.choice([f"torch.diagonal({x}, {g.int(-2, 2)}, {a}, {b})", f"torch.{g.choice(['tril', 'triu'])}({x}, {g.int(-2, 2)})"])


@row("unfold", 1.5)
def unfold(g):
    x = g.tensor(ANY, (1, 3), where=lambda v: 0 not in v.shape)
    d = g.axis(x)
    return f"{x}.unfold({d}, {g.int(1, max(1, min(4, x.shape[d])))}, {g.int(1, 3)})"


@row("copies and detached values", 0.5)
def copies(g):
    x = g.tensor(ANY, (1, 3))
    return f"{x}.{g.choice(['contiguous()', 'clone()', 'detach()', f'view_as({x})'])}"
