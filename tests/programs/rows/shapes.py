"""Joining, padding, repeating, moving."""
from generator import FLOATS, NUMBERS, REAL, Skip, row


@row("cat", 5)
def cat(g):
    x = g.tensor(REAL, (1, 4))
    d = g.axis(x)
    parts = [str(x)]
    for _ in range(g.int(0, 3)):
        kinds = (x.dtype,) if g.chance(0.8) else REAL

        def fits(v):
            return v.rank == x.rank and all(a == b or k == d % x.rank for k, (a, b) in enumerate(zip(v.shape, x.shape)))

        found = [v for v in g.values if v.dtype in kinds and fits(v)]
        if found and g.chance(0.7):
            parts.append(str(g.choice(found)))
        else:
            dims = g.dims_like(x)
            dims[d] = g.dim_text()
            parts.append(str(g.leaf(g.choice(kinds), dims)))
    g.rng.shuffle(parts)
    return f"torch.cat([{', '.join(parts)}], {d})"


@row("stack", 3)
def stack(g):
    x = g.tensor(REAL, (0, 3))
    parts = [str(x)] + [str(g.like(x)) for _ in range(g.int(0, 3))]
    g.rng.shuffle(parts)
    joined = ", ".join(parts)
    if g.chance(0.3):
        return f"torch.{g.choice(['hstack', 'vstack', 'dstack', 'column_stack'])}([{joined}])"
    return f"torch.stack([{joined}], {g.int(-x.rank - 1, x.rank)})"


@row("pad", 4)
def pad(g):
    x = g.tensor(REAL, (1, 4))
    mode = g.choice(["constant"] * 3 + ["reflect", "replicate", "circular"])
    if mode == "constant":
        k = g.int(1, x.rank)
        pads = [g.choice([0, 0, 1, 2, 3, -1]) for _ in range(2 * k)]
        if g.chance(0.2):  # to a multiple, or by a part
            w = g.int(2, 4)
            pads[:2] = g.choice([(f"0, -({x}.shape[-1] % {w})",), (f"-({x}.shape[-1] // {w}), 0",), (f"-{x}.shape[-1] % {w}, {x}.shape[-1] // 3 - 1",)])
        value = "" if g.chance(0.5) else f", value={g.number(x.dtype)}"
        return f"F.pad({x}, ({', '.join(map(str, pads))}){value})"
    x = g.tensor(FLOATS, (2, 4), where=lambda v: 0 not in v.shape)
    k = g.int(1, max(1, min(3, x.rank - 1)))
    pads = [g.int(0, 2) for _ in range(2 * k)]
    return f"F.pad({x}, {tuple(pads)}, mode={mode!r})"


@row("repeat", 3)
def repeat(g):
    x = g.tensor(REAL, (0, 4))
    kind = g.int(0, 3)
    times = [g.int(1, 3) for _ in range(x.rank + g.choice([0, 0, 1]))]
    if kind == 0 and times:
        return f"{x}.repeat({', '.join(map(str, times))})"
    if kind == 1 and times:
        return f"torch.tile({x}, {tuple(times)})"
    if kind == 2 and x.rank:
        return f"torch.repeat_interleave({x}, {g.int(1, 3)}, dim={g.axis(x)})"
    if x.rank:
        return f"torch.roll({x}, {g.int(-3, 3)}, {g.axis(x)})"
    raise Skip


@row("roll and rotate", 2)
def roll(g):
    x = g.tensor(REAL, (1, 4))
    if x.rank >= 2 and g.chance(0.5):
        a, b = g.rng.sample(range(x.rank), 2)
        return g.choice([f"torch.rot90({x}, {g.int(-1, 3)}, ({a}, {b}))", f"torch.roll({x}, ({g.int(-2, 2)}, {g.int(-2, 2)}), ({a}, {b}))"])
    return g.choice([f"torch.roll({x}, {g.int(-5, 5)})", f"torch.flip({x}, ({g.axis(x)},))", f"torch.flip({x}, (-1,)).roll(1, 0)"])


@row("diagonals made", 1.5)
def diagonals(g):
    x = g.tensor(REAL, (1, 2))
    return g.choice([f"torch.diag_embed({x}, {g.int(-1, 1)})", f"torch.diag({x})", f"torch.diagflat({x})", f"torch.block_diag({x}, {g.tensor((x.dtype,), (0, 2))})"])


@row("products of lists", 1)
def grids(g):
    x = g.tensor(REAL, (1, 1))
    y = g.tensor((x.dtype,), (1, 1))
    kind = g.int(0, 3)
    if kind == 0:
        return f"torch.meshgrid({x}, {y}, indexing={g.choice(['ij', 'xy'])!r})", 2
    if kind == 1:
        return f"torch.cartesian_prod({x}, {y})"
    if kind == 2:
        return f"torch.kron({x}, {y})"
    return f"torch.outer({x}, {y})"


@row("pixel shuffle", 1)
def pixels(g):
    n, c = g.dim_text(), g.int(1, 3)
    kind = g.int(0, 2)
    h, w = (g.dim_text(), g.dim_text())
    dtype = g.dtype(FLOATS)
    if kind == 0:
        return f"F.pixel_shuffle({g.leaf(dtype, [n, 4 * c, h, w])}, 2)"
    if kind == 1:
        return f"F.pixel_unshuffle({g.leaf(dtype, [n, c, f'2 * {h}', f'2 * {w}'])}, 2)"
    return f"F.channel_shuffle({g.leaf(dtype, [n, 2 * c, h, w])}, 2)"


@row("unfold of images", 1)
def im2col(g):
    x = g.leaf(g.dtype(FLOATS), [g.int(1, 2), g.int(1, 3), g.choice([5, 6, 8]) if not g.dynamic else g.dim_text(), g.choice([4, 7, 9])])
    k = g.int(1, 3)
    if g.chance(0.6):
        return f"F.unfold({x}, {k}, dilation={g.int(1, 2)}, padding={g.int(0, 1)}, stride={g.int(1, 2)})"
    return f"F.fold(F.unfold({x}, 2, stride={g.int(1, 2)}), ({g.dim(x, 2)}, {g.dim(x, 3)}), 2, stride=1)"


@row("attr of numbers", 1)
def sizes_as_values(g):
    x = g.tensor(NUMBERS, (1, 4))
    return g.choice([f"{x} * {g.dim(x, 0)}", f"{x} + {x}.numel()", f"{x} / ({g.dim(x, -1)} + 1)", f"torch.full_like({x}, {g.dim(x, 0)})"])
