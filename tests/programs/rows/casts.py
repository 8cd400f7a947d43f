"""Casts: between all types, and their roundings where they show."""
from generator import FLOATS, INTS, NUMBERS, REAL, row


def to_integers(g, x, to):
    """A float tensor as integers of a type that holds them (what eager gives beyond its range is not defined)."""
    top = 100 if to.itemsize == 1 else 30000
    low = 0 if not to.is_signed else -top
    return f"torch.nan_to_num({x} * {g.choice(['1', '10', '0.5'])}, 0, {top}, {low}).clamp({low}, {top}).to({to})"


@row("cast", 7)
def cast(g):
    x = g.tensor(REAL)
    to = g.choice(REAL)
    if x.dtype.is_floating_point and to in INTS:
        return to_integers(g, x, to)
    return g.choice([f"{x}.to({to})", f"{x}.to({to})", f"{x}.type({to})", f"torch.zeros_like({x}, dtype={to}) + {x}.to({to})"])


@row("cast there and back", 5)
def round_trip(g):
    x = g.tensor(NUMBERS)
    narrow = g.choice([f for f in FLOATS if f != x.dtype])
    back = g.choice([x.dtype, x.dtype, FLOATS[0], FLOATS[1]])
    if back in INTS:
        return to_integers(g, f"{x}.to({narrow})", back)
    return f"{x}.to({narrow}).to({back})"


@row("cast, then observed", 5)
def observed(g):
    x = g.tensor(NUMBERS)
    if g.chance(0.5) and x.dtype.is_floating_point:
        x = g.like(x, data=g.choice(["scaled", "normal", "special"]))
    narrow = g.choice(FLOATS)
    h = f"{x}.to({narrow})"
    return g.choice([f"torch.isinf({h})", f"{h} == {x}", f"{h} != {x}.to({g.choice(FLOATS)})", f"torch.floor({h})", f"torch.isfinite({h} * 1)", f"{h}.to({FLOATS[1]}) - {x}.to({FLOATS[1]})",
                     f"torch.sign({h})", f"{h}.round()", f"{h} > 0.1", f"torch.signbit({h})", f"torch.nan_to_num({h}, 0, 9, -9).clamp(-99, 99).to({INTS[1]})",
                     f"torch.where({h} == 0, {h} + 1, {h})", f"{h}.bool()", f"torch.maximum({h}, {h} * 0.5)"])


@row("cast chain", 2)
def chain(g):
    x = g.tensor(FLOATS)
    return f"{x}" + "".join(f".to({g.choice(FLOATS)})" for _ in range(g.int(2, 4)))


@row("mixed types", 3)
def mixed(g):
    x = g.tensor(REAL)
    y = g.like(x, REAL, broadcast=True)
    return g.choice([f"{x} + {y}", f"{x} * {y}", f"torch.maximum({x}, {y})", f"torch.where({x} > {y}, {x}, {y})", f"torch.cat([{x}.reshape(-1), {y}.reshape(-1)])",
                     f"torch.add({x}, {y}, alpha=2)", f"{x} / {y}", f"torch.atan2({x}, {y})", f"{x} <= {y}"])


@row("integer arithmetic at the edges", 3)
def wrap(g):
    x = g.leaf(g.choice(INTS), [g.dim_text() for _ in range(g.int(1, 3))], "full")
    y = g.like(x, data="full")
    return g.choice([f"{x} + {y}", f"{x} * {y}", f"{x} - {y}", f"-{x}", f"{x}.abs()", f"{x} ** 2", f"({x} * {y}).to({g.choice(INTS)})", f"{x}.to({g.choice(INTS)})", f"{x} > {y}",
                     f"{x}.to({g.choice(FLOATS)})", f"torch.minimum({x}, {y})", f"({x}.to({g.choice(INTS)}) + {y})"])
