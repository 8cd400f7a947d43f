"""Types that meet: Python's numbers and tensors of rank 0 beside tensors of any type, bools as numbers, lists of mixed types."""
from generator import BOOL, FLOATS, INTS, NUMBERS, REAL, row

NUMBERS_IN_PYTHON = ["0", "1", "-2", "3", "7", "0.5", "-1.25", "2.0", "1e-3", "True", "False", "100", "-1", "300", "1e10", "2.5", "-0.0", "inf", "nan"]
FORMS = """{x} + {s}|{s} + {x}|{x} - {s}|{s} - {x}|{x} * {s}|{s} * {x}|{x} / {s}|{s} / {x}|{x} // {s}|{s} // {x}|{x} % {s}|{s} % {x}|{x} ** {s}|{s} ** {x}
{x} < {s}|{x} <= {s}|{x} == {s}|{x} != {s}|{s} > {x}|{s} >= {x}|torch.where({x} > {s}, {s}, {x})|torch.where({x} != 0, {s}, {r})|torch.where({x} != 0, {x}, {s})
torch.fmod({x}, {s})|torch.remainder({x}, {s})|torch.remainder({s}, {x})|torch.div({x}, {s}, rounding_mode='floor')|torch.div({x}, {s}, rounding_mode='trunc')
torch.clamp({x}, {s}, {r})|torch.clamp({x}, min={s})|torch.clamp({x}, max={s})|torch.add({x}, {s}, alpha={k})|torch.sub({x}, {s}, alpha={k})|torch.rsub({x}, {s}, alpha={k})
torch.pow({s}, {x})|torch.pow({x}, {s})|torch.float_power({x}, {s})|torch.float_power({s}, {x})|torch.xlogy({x}, {s})|torch.xlogy({s}, {x})|torch.special.xlog1py({x}, {s})
torch.copysign({x}, {s})|torch.eq({x}, {s})|torch.full_like({x}, {s})|{x}.masked_fill({x} > 0, {s})|torch.isin({x}, {s})|F.threshold({x}, {s}, {r})
{x} & {s}|{x} | {s}|{s} ^ {x}|{x} << {k}|{x} >> {k}|{k} << {x}|torch.bitwise_and({s}, {x})|torch.floor_divide({x}, {s})|torch.nan_to_num({x}, {s})|{x}.sum() + {s}|{s} * {x}.amax()""".replace("\n", "|").split("|")
PAIRS = """{x} + {y}|{x} - {y}|{x} * {y}|{x} / {y}|{y} / {x}|{x} ** {y}|{y} ** {x}|{x} < {y}|{x} == {y}|torch.maximum({x}, {y})|torch.fmin({x}, {y})|torch.where({x} > {y}, {x}, {y})
torch.where({x} != 0, {y}, {x})|torch.add({x}, {y}, alpha={k})|torch.atan2({x}, {y})|torch.hypot({x}, {y})|torch.fmod({x}, {y})|torch.remainder({x}, {y})|{x} // {y}|torch.clamp({x}, {y})
torch.clamp({x}, max={y})|torch.copysign({x}, {y})|torch.lerp({x}, {y}, 0.25)|torch.addcmul({x}, {y}, {y})|torch.addcdiv({x}, {y}, {y})|torch.isclose({x}, {y})|{x}.masked_fill({x} > 0, {y})
torch.xlogy({x}, {y})|torch.logical_xor({x}, {y})|{x} & {y}|{x} ^ {y}|torch.isin({x}, {y})|torch.heaviside({x}, {y})|torch.full_like({x}, 2) - {y}|torch.logaddexp({x}, {y})|torch.ldexp({x} * 1.0, {y})
torch.div({x}, {y}, rounding_mode='floor')|torch.div({y}, {x}, rounding_mode='trunc')|torch.cat([{x}.reshape(-1), {y}.reshape(-1)])|torch.stack([{x}, {y}.expand({x}.shape)])|torch.gcd({x}, {y})
{x}.to({y}.dtype)|{x}.type_as({y}) + {x}|torch.nextafter({x}, {y})|torch.float_power({x}, {y})|torch.dist({x}, {y})|torch.mul({x}, {y}).sum()|F.mse_loss({x}, {y}.expand({x}.shape))""".replace("\n", "|").split("|")


@row("a number of Python's beside a tensor", 8, "wide")
def python_number(g):
    return g.choice(FORMS).format(x=g.tensor(REAL), s=g.choice(NUMBERS_IN_PYTHON), r=g.choice(NUMBERS_IN_PYTHON), k=g.choice(["2", "3", "1", "0.5", "-1"]))


@row("a tensor of rank 0 beside another", 7, "wide")
def rank_zero(g):
    x, y = g.tensor(REAL), g.choice([str(g.leaf(g.choice(REAL), [])), f"torch.tensor({g.choice(NUMBERS_IN_PYTHON)})", f"torch.tensor({g.choice(NUMBERS_IN_PYTHON[:10])}, dtype={g.choice(NUMBERS)})"])
    return g.choice(PAIRS).format(x=x, y=y, k=g.choice(["2", "-1"]))


@row("operands of other types", 6, "wide")
def other_types(g):
    x = g.tensor(REAL)
    return g.choice(PAIRS).format(x=x, y=g.like(x, REAL, broadcast=True), k=g.choice(["2", "3"]))


@row("bools as numbers", 4, "wide")
def bools(g):
    x = g.tensor(BOOL, new=0.3)
    d = g.axis(x) if x.rank else 0
    y = g.like(x, REAL, broadcast=True)
    return g.choice([f"{x} + {y}", f"{x} * {y}", f"{x} + {x}", f"{x} * {x}", f"{x}.sum({d})", f"{x}.cumsum({d})", f"{x}.prod({d})", f"{x}.to(torch.int8) - {y}", f"{x}.mean({d}, dtype=torch.float32)", f"torch.maximum({x}, {x})",
                     f"{x}.amax({d})", f"{x}.argmax({d})" if False else f"{x}.any({d})", f"{x} < {y}", f"{x} / 2", f"{x} // 2", f"{x} ** 2", f"{x} % 2", f"-{x}.int()", f"~{x}", f"{x}.logical_not()", f"torch.sort({x}, dim={d}, stable=True)[0]",
                     f"{x}.float() @ {x}.float().mT" if x.rank >= 2 else f"{x} ^ {x}", f"torch.cummax({x}, {d})[0]", f"torch.where({x}, 1, 0.5)", f"torch.where({x}, True, {y})", f"{x}.sum(dtype=torch.int8)", f"torch.add({x}, {y}, alpha=2)", f"{x}.abs()",
                     f"{x}.sign()", f"torch.clamp({x}, False, True)", f"{x} & True", f"{x} | {y}" if y.dtype in INTS else f"{x} | False", f"torch.gather({x}.long(), {d}, {x}.long() * 0)", f"{x}.count_nonzero({d})", f"torch.bitwise_not({x})", f"{x} << 1"])


@row("sums into another type", 3, "wide")
def into_another(g):
    x = g.tensor(REAL, (1, 5))
    d, to = g.axis(x), g.choice(NUMBERS)
    if x.dtype.is_floating_point and to in INTS:
        to = g.choice(FLOATS)
    return g.choice([f"{x}.sum({d}, dtype={to})", f"{x}.prod({d}, dtype={to})", f"{x}.cumsum({d}, dtype={to})", f"{x}.cumprod({d}, dtype={to})", f"torch.mean({x}, {d}, dtype={g.choice(FLOATS)})", f"torch.softmax({x}, {d}, dtype={g.choice(FLOATS)})",
                     f"torch.log_softmax({x}, {d}, dtype={g.choice(FLOATS)})", f"torch.linalg.vector_norm({x}, dim={d}, dtype={g.choice(FLOATS)})", f"torch.nansum({x}, {d}, dtype={to})"])


@row("8-bit floats", 2, "wide")
def eight_bits(g):
    x = g.leaf(g.choice(FLOATS), [g.dim_text() for _ in range(g.int(1, 3))], "normal")
    t = g.choice(["torch.float8_e4m3fn", "torch.float8_e5m2"])
    return g.choice([f"{x}.to({t}).to({g.choice(FLOATS)})", f"({x} * 40).to({t}).to(torch.float32) * 2", f"{x}.to({t}).to({t}).to({x.dtype}) - {x}"])
