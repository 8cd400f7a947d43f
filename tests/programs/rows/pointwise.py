"""Pointwise operators."""
from generator import BOOL, COMPLEX, FLOATS, INTEGRAL, INTS, NUMBERS, REAL, row

F_I_B = REAL

UNARY_FLOAT = """sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sigmoid erf erfc
erfinv lgamma digamma logit sinc deg2rad rad2deg i0 special.i0e special.i1 special.i1e special.ndtr special.log_ndtr special.entr special.psi
special.expit special.gammaln special.erfcx nan_to_num""".split()
UNARY_ANY = "abs neg square sign sgn positive signbit isnan isinf isfinite isposinf isneginf isreal logical_not ceil floor trunc round frac".split()
ACTIVATIONS = """relu relu6 elu selu celu gelu silu mish softplus softsign hardtanh hardswish hardsigmoid leaky_relu logsigmoid tanhshrink softshrink
hardshrink""".split()
BINARY = "add sub mul maximum minimum fmax fmin".split()
BINARY_FLOAT = "div true_divide atan2 hypot logaddexp logaddexp2 copysign nextafter pow xlogy special.xlog1py float_power".split()
COMPARE = "eq ne lt le gt ge logical_and logical_or logical_xor isclose".split()
OPERATORS = "+ - * < <= > >= == !=".split()


@row("unary of floats", 6)
def unary_float(g):
    x = g.tensor(REAL if g.chance(0.2) else FLOATS)
    return f"torch.{g.choice(UNARY_FLOAT)}({x})"


@row("unary of anything", 4)
def unary_any(g):
    return f"torch.{g.choice(UNARY_ANY)}({g.tensor(REAL)})"


@row("activation", 3)
def activation(g):
    x = g.tensor(FLOATS)
    name = g.choice(ACTIVATIONS)
    extra = {
        "elu": ["", ", alpha=0.7"],
        "celu": ["", ", alpha=1.3"],
        "gelu": ["", ", approximate='tanh'"],
        "softplus": ["", ", beta=2.0, threshold=3.0"],
        "hardtanh": ["", ", -0.5, 0.25"],
        "leaky_relu": ["", ", 0.2", ", -0.1"],
        "softshrink": ["", ", 0.3"],
        "hardshrink": ["", ", 0.3"],
    }.get(name, [""])
    return f"F.{name}({x}{g.choice(extra)})"


@row("binary", 8)
def binary(g):
    x = g.tensor(REAL)
    kinds = (x.dtype,) if g.chance(0.7) else REAL
    y = g.like(x, kinds, broadcast=True) if g.chance(0.75) else g.number(x.dtype)
    x, y = (y, x) if g.chance(0.3) and not isinstance(y, str) else (x, y)
    if g.chance(0.4):
        return f"{x} {g.choice(OPERATORS)} {y}" if g.chance(0.8) or not isinstance(y, str) else f"{y} {g.choice(OPERATORS)} {x}"
    name = g.choice(BINARY)
    if isinstance(y, str) and name not in ("add", "sub", "mul"):
        y = g.like(x, kinds, broadcast=True)
    alpha = f", alpha={g.choice(['2', '3', '-1'])}" if name in ("add", "sub") and g.chance(0.3) else ""
    return f"torch.{name}({x}, {y}{alpha})"


@row("binary of floats", 4)
def binary_float(g):
    x = g.tensor(FLOATS if g.chance(0.8) else NUMBERS)
    name = g.choice(BINARY_FLOAT)
    if g.chance(0.2) and name in ("div", "pow", "xlogy", "float_power", "copysign"):
        return f"torch.{name}({x}, {g.number(x.dtype)})"
    return f"torch.{name}({x}, {g.like(x, (x.dtype,) if name == 'nextafter' or g.chance(0.7) else NUMBERS, broadcast=True)})"


@row("division and remainder", 4)
def division(g):
    x = g.tensor(NUMBERS)
    if g.chance(0.3):
        y = g.choice(["2", "3", "-2", "5"] if x.dtype.is_signed else ["2", "3", "7"])
    elif x.dtype in INTS:
        y = g.like(x, (x.dtype,) if g.chance(0.7) else INTS, broadcast=True, new=0)
        y = f"({y}.abs() % 5 + 1)" if g.chance(0.5) else f"torch.where({y} == 0, torch.ones_like({y}), {y})"
    else:
        y = g.like(x, FLOATS, broadcast=True)
    form = g.choice(["torch.div({}, {}, rounding_mode='floor')", "torch.div({}, {}, rounding_mode='trunc')", "torch.floor_divide({}, {})", "torch.remainder({}, {})",
                     "torch.fmod({}, {})", "{} // {}", "{} % {}", "torch.div({}, {})"])
    return form.format(x, y)


@row("compare", 4)
def compare(g):
    x = g.tensor(REAL)
    name = g.choice(COMPARE)
    y = g.like(x, (x.dtype,) if name == "isclose" or g.chance(0.6) else REAL, broadcast=True)
    if g.chance(0.3) and name in COMPARE[:6]:
        y = g.number(x.dtype)
    equal_nan = ", equal_nan=True" if name == "isclose" and g.chance(0.5) else ""
    return f"torch.{name}({x}, {y}{equal_nan})"


SIGNED = "tanh sin tan asin atan sinh asinh atanh erf expm1 log1p sqrt".split()


@row("signs of zero, seen by division", 2)
def signs_of_zero(g):
    x = g.tensor(FLOATS, (0, 4))
    z = f"torch.copysign(torch.zeros_like({x}), {x})" if g.chance(0.5) else f"torch.where({x} > 0, 0.0, -0.0).to({x}.dtype)"
    f = ["{} + 0.0", "0.0 + {}", "{} - 0.0", "{} + (-0.0)", "{} - (-0.0)", "0.0 - {}", "{} * 1.0", "{} / 1", "-{}", "{}.sum()", "{}[None].sum(0)", "{}[None].mean(0)", "{}[None].cumsum(0)", "{}.abs() + 0.0"]
    f += [f"torch.{n}({{}})" for n in SIGNED] + ["{} ** torch.tensor(0.5)", "{} ** torch.tensor(-0.5)", "({} + 0.0) + 0.0", "torch.relu({})"]
    return f"torch.reciprocal({g.choice(f).format(z)})"


@row("bits", 3)
def bits(g):
    x = g.tensor(INTEGRAL)
    if g.chance(0.15):
        return f"torch.bitwise_not({x})"
    y = g.like(x, INTEGRAL if g.chance(0.3) else (x.dtype,), broadcast=True) if g.chance(0.7) else g.number(x.dtype)
    return f"torch.bitwise_{g.choice(['and', 'or', 'xor'])}({x}, {y})" if g.chance(0.6) else f"{x} {g.choice('&|^')} {y}"


@row("shift", 1)
def shift(g):
    x = g.tensor(INTS)
    y = g.choice(["1", "3", "7", "0"]) if g.chance(0.5) else f"({g.like(x, (x.dtype,), broadcast=True)} & 7)"
    return f"torch.bitwise_{g.choice(['left', 'right'])}_shift({x}, {y})"


@row("where", 5)
def where(g):
    c = g.tensor(BOOL, new=0.3)
    x = g.like(c, NUMBERS, broadcast=True)
    y = g.like(x, (x.dtype,) if g.chance(0.6) else NUMBERS, broadcast=True) if g.chance(0.7) else g.number(x.dtype)
    return f"torch.where({c}, {x}, {y})"


@row("masked_fill", 2)
def masked_fill(g):
    x = g.tensor(REAL)
    value = g.choice(["-inf", "0.5", "nan"]) if x.dtype.is_floating_point and g.chance(0.5) else g.number(x.dtype)
    return f"{x}.masked_fill({g.like(x, BOOL, broadcast=True)}, {value})"


@row("clamp", 3)
def clamp(g):
    x = g.tensor(NUMBERS)
    kind = g.int(0, 4)
    lo, hi = g.number(x.dtype), g.number(x.dtype)
    if kind == 0:
        return f"torch.clamp({x}, {lo}, {hi})"
    if kind == 1:
        return f"{x}.clamp(min={lo})"
    if kind == 2:
        return f"{x}.clamp(max={hi})"
    if kind == 3:
        return f"torch.clamp({x}, min={g.like(x, broadcast=True)}, max={g.like(x, broadcast=True)})"
    return f"torch.clip({x}, max={g.like(x, broadcast=True)})"


@row("ternary", 2)
def ternary(g):
    x = g.tensor(NUMBERS)
    y, z = g.like(x, broadcast=True), g.like(x, broadcast=True)
    kind = g.int(0, 4)
    if kind == 0:
        return f"torch.addcmul({x}, {y}, {z}, value={g.choice(['1', '2', '3'])})"
    if kind == 1:
        return f"torch.addcdiv({x}, {y}, {z}, value={g.choice(['1', '0.5'])})"
    if kind == 2:
        return f"torch.lerp({x}, {y}, {g.choice(['0.3', '0.75', str(z)])})"
    if kind == 3:
        return f"torch.threshold({x}, {g.number(x.dtype)}, {g.number(x.dtype)})"
    return f"torch.where({x} > {y}, {x} * 2, {z} - 1)"


@row("rounding", 2)
def rounding(g):
    x = g.tensor(FLOATS)
    if g.chance(0.3):
        return f"torch.round({x} * 10, decimals={g.choice(['1', '2', '-1'])})"
    return f"torch.{g.choice(['round', 'floor', 'ceil', 'trunc', 'frac'])}({x} * {g.choice(['0.5', '1', '2', '4'])})"


@row("power of a scalar", 2)
def power(g):
    x = g.tensor(NUMBERS)
    if g.chance(0.2):
        return f"torch.pow({g.choice(['2', '0.5', '3'])}, {x})"
    exponents = ["2", "3", "0.5", "-1", "-0.5", "1", "0", "2.5", "4"] if x.dtype.is_floating_point else ["2", "3", "1", "0", "4"]
    return f"{x} ** {g.choice(exponents)}" if g.chance(0.5) else f"torch.pow({x}, {g.choice(exponents)})"


@row("nan_to_num", 1)
def nan_to_num(g):
    return f"torch.nan_to_num({g.tensor(REAL)}{g.choice(['', ', 0.5', ', nan=1.0, posinf=2.0, neginf=-2.0'])})"


@row("prelu and glu", 1)
def prelu(g):
    if g.chance(0.5):
        x = g.tensor(FLOATS, (2, 4))
        return f"F.prelu({x}, {g.leaf(x.dtype, [g.dim(x, 1) if g.chance(0.5) else 1])})"
    x = g.tensor(FLOATS, (1, 4))
    even = [d for d in range(x.rank) if x.shape[d] % 2 == 0 and x.shape[d]]
    return f"F.glu({x}, {g.choice(even)})" if even else None


@row("heaviside, ldexp, gcd", 1)
def odd_pairs(g):
    kind = g.int(0, 3)
    x = g.tensor(NUMBERS)
    if kind == 0:
        return f"torch.heaviside({x}, {g.like(x, broadcast=True)})"
    if kind == 1:
        return f"torch.ldexp({g.tensor(FLOATS)}, {g.leaf(g.choice(INTS), [], 'ints', '0', '9')})"
    if kind == 2:
        return f"torch.polygamma({g.choice(['0', '1', '2'])}, {g.tensor(FLOATS)})"
    return f"torch.rsub({x}, {g.number(x.dtype)})"


@row("complex", 0.7)
def complex_numbers(g):
    kind = g.int(0, 6)
    if kind <= 1:
        x = g.tensor(FLOATS[:2])
        return f"torch.{g.choice(['complex', 'polar'])}({x}, {g.like(x)})"
    x = g.tensor(COMPLEX, new=0.05)
    if kind == 2:
        return f"{x} {g.choice('+-*/')} {g.like(x, COMPLEX, broadcast=True, new=0.05)}"
    if kind == 3:
        return f"torch.{g.choice(['abs', 'angle', 'conj', 'real', 'imag', 'exp', 'sqrt', 'reciprocal', 'neg', 'square'])}({x})"
    if kind == 4:
        return f"torch.view_as_real({x}.resolve_conj())"
    if kind == 5:
        return f"torch.real({x} * {x}.conj())"
    return f"{x} * {g.choice(['2', '0.5', '1j', '(1 - 2j)'])}"
