"""Values of the 16-bit floating types inside fused kernels: each is a number of its type for whatever looks at it. Every case has inputs of its
own, so that what it looks at is nobody else's and stays in its kernel."""
import math

import torch
import torch.nn.functional as F

from exact import Case, suite

HALVES = [torch.float16, torch.bfloat16]
SPECIAL = [0.0, -0.0, 1 / 3, -1 / 3, 0.1, 1.5, 2.5, -2.5, 0.9998, 255.7, 256.5, 2048.6, 2049.0, 7001.0, 65504.0, 65519.9, 65520.0, 65536.0, -1e6,
           1e6, 3.3e38, 3.4e38, -3.4e38, 1e-7, 6e-8, 2.9e-8, 1e-40, 1e-45, math.inf, -math.inf, math.nan]


def numbers(dtype, n=257):
    """Special values, then random ones of all magnitudes."""
    if dtype == torch.bool:
        return torch.rand(n) > 0.5
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        x = (torch.randn(n, dtype=torch.float64) * 10.0 ** torch.randint(0, 16, (n,))).clamp(max(info.min, -(2**53)), min(info.max, 2**53))
        return x.to(torch.int64).to(dtype)
    x = torch.cat([torch.tensor(SPECIAL, dtype=torch.float64), torch.randn(n - len(SPECIAL), dtype=torch.float64) * 10.0 ** torch.randint(-6, 6, (n - len(SPECIAL),))])
    return x.to(dtype)


def bits(dtype, n, seed):
    """Random bit patterns, half of them of ordinary size."""
    g = torch.Generator().manual_seed(seed)
    wild = torch.randint(-(2**15), 2**15, (n // 2,), generator=g).to(torch.int16).view(dtype)
    return torch.cat([wild, (torch.randn(n - n // 2, generator=g) * 8).to(dtype)])


def whole(dtype, *shape, top=100):
    return torch.randint(-top, top + 1, shape).to(dtype)


finite = lambda h: torch.where(h.isfinite(), h, 0.0)
# What can tell a rounded value from one that is not: f(h, x), h a 16-bit float made of x.
OBSERVERS = {
    "itself": lambda h, x: h,
    "f32": lambda h, x: h.float(),
    "f64": lambda h, x: h.double(),
    "back": lambda h, x: h.to(x.dtype) if x.dtype.is_floating_point else torch.where(h.abs() < 3e4, h, 1.0).to(x.dtype),
    "isinf": lambda h, x: h.isinf(),
    "isfinite": lambda h, x: h.isfinite(),
    "isnan": lambda h, x: (h - h).isnan(),
    "equals": lambda h, x: h == x.to(torch.float64),
    "below": lambda h, x: h.float() < x,
    "greater": lambda h, x: h > 0.1,
    "differs": lambda h, x: h.double() - x.double(),
    "floor": lambda h, x: h.floor(),
    "ceil": lambda h, x: h.ceil().float(),
    "round": lambda h, x: h.round(),
    "trunc": lambda h, x: h.trunc().double(),
    "frac": lambda h, x: finite(h).frac(),
    "remainder": lambda h, x: finite(h) % 1,
    "fmod": lambda h, x: torch.fmod(finite(h), 3),
    "div_floor": lambda h, x: finite(h) // 1,
    "i64": lambda h, x: torch.where(h.abs() < 3e4, h, 1.0).to(torch.int64),
    "i32": lambda h, x: torch.where(h.abs() < 3e4, h, 1.0).to(torch.int32),
    "bool": lambda h, x: h.bool(),
    "sign": lambda h, x: (h - x).sign(),
    "signbit": lambda h, x: torch.signbit(finite(h)),
    "bits": lambda h, x: finite(h).view(torch.int16),
    "other": lambda h, x: h.to(torch.float16 if h.dtype == torch.bfloat16 else torch.bfloat16).float(),
    "argmax": lambda h, x: (finite(h).argmax(), finite(h).argmin()),
    "neighbours": lambda h, x: (h[1:] == h[:-1]).sum(),
    "where": lambda h, x: torch.where(h == h.to(torch.float64), h.float(), 7.0),
    "extremes": lambda h, x: (finite(h).amax(), finite(h).amin()),
    "cummax": lambda h, x: finite(h).cummax(0),
    "sort": lambda h, x: finite(h).sort(stable=True),
    "pad": lambda h, x: F.pad(h, (1, 2), value=0.1).float(),
    "cat": lambda h, x: torch.cat([h, h.flip(0)]).float(),
    "lookup": lambda h, x: torch.arange(9)[finite(h).clamp(-4, 4).to(torch.int64)],
    "outer": lambda h, x: h[:, None].float() - h[None, :9].float(),
    "alone": lambda h, x: h[29].float(),
}


@suite
def casts_to_16_bits():
    cases = []
    for half in HALVES:
        for n, source in enumerate([torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, HALVES[half == torch.float16]]):
            every = source in (torch.float32, torch.int64)
            for i, (name, f) in enumerate(OBSERVERS.items()):
                if every or i % 5 == n % 5 or name in ("itself", "f32"):
                    how = [lambda x, half=half: x.to(half), lambda x, half=half: x.type_as(torch.zeros(1, dtype=half))][i % 7 == 6]
                    cases.append(Case(f"{source} to {half}, {name}", lambda x, f=f, how=how: f(how(x), x), [numbers(source)]))
    return cases


# One rounding each, of what float32 makes of the operands: f(a), f(a, b), f(a, b, c).
ONE = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "ceil": torch.ceil, "floor": torch.floor, "round": torch.round, "trunc": torch.trunc,
    "frac": torch.frac, "square": torch.square, "sqrt": torch.sqrt, "reciprocal": torch.reciprocal, "relu": torch.relu, "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.7), "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1), "threshold": lambda x: F.threshold(x, 0.1, -3.3), "hardshrink": lambda x: F.hardshrink(x, 0.1),
    "softshrink": lambda x: F.softshrink(x, 0.1), "softsign": F.softsign, "deg2rad": torch.deg2rad, "rad2deg": torch.rad2deg,
    "pow2": lambda x: x**2, "pow-1": lambda x: x**-1, "nan_to_num": torch.nan_to_num, "isinf": torch.isinf, "isnan": torch.isnan,
    "isfinite": torch.isfinite, "isposinf": torch.isposinf, "signbit": torch.signbit, "logical_not": torch.logical_not,
    "add number": lambda x: x + 0.1, "sub number": lambda x: x - 0.1, "rsub number": lambda x: 0.1 - x, "mul number": lambda x: x * 0.1,
    "div number": lambda x: x / 0.3, "number by": lambda x: 0.3 / x, "add integer": lambda x: x + 3, "mul integer": lambda x: x * 3,
    "remainder number": lambda x: torch.where(x.abs() < 100, x, 1.0) % 0.3, "fmod number": lambda x: torch.fmod(torch.where(x.abs() < 100, x, 1.0), 0.3),
    "eq number": lambda x: x == 0.1, "lt number": lambda x: x < 0.1, "ge number": lambda x: x >= 0.1, "clamp": lambda x: x.clamp(-0.1, 0.3),
    "clamp_min": lambda x: x.clamp_min(0.1), "masked_fill": lambda x: x.masked_fill(x > 0.3, 0.1).float(), "where number": lambda x: torch.where(x > 1, x, 0.1).float(),
    "full_like": lambda x: torch.full_like(x, 0.1).float(), "round decimals": lambda x: torch.round(torch.where(x.abs() < 100, x, 1.0), decimals=1),
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.1, dtype=x.dtype)), "cast of number": lambda x: (x * 0 + 0.1).double(),
}
TWO = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
    "copysign": torch.copysign, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "heaviside": torch.heaviside, "isclose": lambda a, b: torch.isclose(a, b, rtol=0.5),
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"), "l1": lambda a, b: F.l1_loss(a, b, reduction="none"),
    "add rank 0": lambda a, b: a + 0.1 * b.float()[40], "mul rank 0": lambda a, b: a * (0.1 * b.float()[40]), "div rank 0": lambda a, b: a / (0.1 * b.float()[40]),
    "by rank 0": lambda a, b: (0.1 * b.float()[40]) / a, "add integers": lambda a, b: a + (torch.arange(6000) * 77 - 9000), "times integers": lambda a, b: b * (torch.arange(6000) * 77 - 9000),
    "alpha": lambda a, b: torch.sub(a, b, alpha=2), "clamp tensors": lambda a, b: a.clamp(b - 1, b + 1), "logical_and": torch.logical_and,
    "where": lambda a, b: torch.where(a > b, a, b), "addcmul one": lambda a, b: torch.addcmul(a, b, b),
}
THREE = {
    "addcmul": torch.addcmul, "addcdiv": torch.addcdiv, "lerp": torch.lerp, "clamp": lambda a, b, c: torch.clamp(a, b, c),
}
# Several operators, each of which rounds.
CHAINS = {
    "compared": lambda a, b, c: (a + b) * c > b,
    "equal": lambda a, b, c: (a * b) * c == a * (b * c),
    "there and back": lambda a, b, c: (a + b) - b == a,
    "thirds": lambda a, b, c: a / 3 * 3 == a,
    "overflow": lambda a, b, c: (a * b * 0.25).isinf(),
    "underflow": lambda a, b, c: (a * 1e-6) * 1e6,
    "floor": lambda a, b, c: ((a + b) * c).floor(),
    "residue": lambda a, b, c: a * b - (a * b).float(),
    "sum of five": lambda a, b, c: a + b + c + a * b + b * c,
    "widened": lambda a, b, c: (a * b).float() + (b * c).float(),
    "bits": lambda a, b, c: torch.where((a * b + c).isnan(), 0.0, a * b + c).view(torch.int16),
    "branches": lambda a, b, c: torch.where(a + b > c, a * b, c - a) + c,
    "integers": lambda a, b, c: (finite(a) / 7 * 3).clamp(-1e4, 1e4).to(torch.int64),
    "relu of sums": lambda a, b, c: F.relu(a + b) * c - a,
    "other type": lambda a, b, c: (a + b).to(torch.bfloat16 if a.dtype == torch.float16 else torch.float16).float(),
    "padded": lambda a, b, c: F.pad(a + b, (3, 1), value=0.1).float(),
    "joined": lambda a, b, c: torch.cat([a + b, b * c]).float(),
    "picked": lambda a, b, c: (a * b)[torch.arange(0, a.shape[0], 3)].float() + (a * b).flip(0)[::3].float(),
    "scaled by state": lambda a, b, c: (a.abs().sqrt() * 0.7).float() * (b.abs().sqrt() + 0.3).float(),
    "differences": lambda a, b, c: torch.diff(a * b, n=2),
}


def arithmetic(half):
    cases = []
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(half)
    for name, f in ONE.items():
        cases.append(Case(f"{half} {name}", f, [every.clone()]))
    n = 6000
    for table, count in ((TWO, 2), (THREE, 3), (CHAINS, 3)):
        for i, (name, f) in enumerate(table.items()):
            cases.append(Case(f"{half} {name}", f, [bits(half, n, 10 * i + k) for k in range(count)]))
    return cases


@suite
def float16_arithmetic():
    return arithmetic(torch.float16)


@suite
def bfloat16_arithmetic():
    return arithmetic(torch.bfloat16)


@suite
def rows_of_16_bits():
    """Rounded values on their way through reductions, scans, products and convolutions; all numbers are such that no order of sums rounds."""
    cases = []
    for half in HALVES:

        def add(name, f, *inputs, constants=()):
            cases.append(Case(f"{half} {name}", f, inputs, constants))

        w = lambda *shape, top=100: whole(half, *shape, top=top)
        add("sum", lambda a, b: ((a * b).sum(-1), (a * b).float().sum(-1)), w(9, 8), w(9, 8))
        add("mean", lambda a, b: (a * b).mean(0), w(8, 9), w(8, 9))
        add("sum of f32 rounded", lambda x: x.to(half).sum(-1).float(), torch.randint(-(2**14), 2**14, (7, 16)).float())
        add("sums of sums", lambda a: a.sum(-1).sum(-1).float() if half == torch.bfloat16 else a.sum(1).sum(0).float(), w(5, 7) * 8)
        add("extremes", lambda a, b: ((a * b).amax(-1).float(), (a * b).amin(0).float(), (a * b).argmax(-1), (a * b).argmin(0)), w(9, 33), w(9, 33))
        add("max and place", lambda a, b: tuple((a * b).max(-1)), w(9, 33), w(9, 33))
        add("cumsum", lambda a, b: (a * b).cumsum(-1).float(), w(9, 5), w(9, 5))
        add("cumsum compared", lambda a, b: (a * b).cumsum(0) == (a * b).cumsum(0).float(), w(5, 9), w(5, 9))
        add("cummax", lambda a, b: (a * b).cummax(-1), w(9, 21), w(9, 21))
        add("shifted row", lambda a, b: ((a * b) - (a * b).amax(-1, keepdim=True)).floor().float(), w(9, 40), w(9, 40))
        add("any", lambda a, b: ((a * b == 9999).any(-1), (a + b != b).all(0), torch.count_nonzero((a * b) % 2)), w(9, 40), w(9, 40))
        add("norms", lambda a: ((a * 3).float().abs().sum(-1), (a * 3).abs().amax(-1)), w(9, 40))
        # 0/1 matrices pick elements, others make exact sums.
        pick = torch.eye(16).to(half)
        few = lambda *shape: whole(half, *shape, top=3)
        for name, after in {
            "itself": lambda y, z: y, "residual": lambda y, z: y + z, "compared": lambda y, z: y > z + 0.1, "floor": lambda y, z: (y / 3).floor(),
            "f32": lambda y, z: y.float() - z, "scaled": lambda y, z: y * 0.1 + z, "gated": lambda y, z: F.relu(y) * z == y.float() * z,
            "i32": lambda y, z: (y * 1.5).to(torch.int32), "bits": lambda y, z: (y + 0.3).view(torch.int16),
        }.items():
            add(f"product, {name}", lambda a, b, z, after=after: after(a @ b, z), few(11, 200) * 5, few(200, 24) * 5, w(11, 24))
            add(f"linear, {name}", lambda a, z, b, c, after=after: after(F.linear(a, b, c), z), few(11, 200) * 5, w(11, 24), constants=[few(24, 200) * 5, w(24)])
            add(f"conv2d, {name}", lambda a, b, z, after=after: after(F.conv2d(a, b, padding=1), z), few(1, 8, 6, 6) * 9, few(4, 8, 3, 3) * 9, w(1, 4, 6, 6))
        add("computed operand", lambda a, b, c, p: ((a * b + c) @ p).float(), w(33, 16), w(33, 16), w(33, 16), constants=[pick])
        add("computed operands", lambda a, b: (a.float() * 0.1).to(half) @ (b.float().to(half)), few(9, 16), torch.eye(16))
        add("looked up", lambda t, i: (t * 1.7)[i].float(), w(20, 8), torch.tensor([3, 0, 19]))
        add("embedded", lambda i, t: F.embedding(i, t).float() * 3, torch.tensor([3, 0, 19]), constants=[w(20, 8) / 7])
    def mixed(x, w, b):
        """Mixed precision as autocast leaves it: casts around products."""
        down = lambda t: t.to(torch.bfloat16)
        y = F.linear(down(x), down(w), down(b))
        return y, (y + 1).float(), y.float() == F.linear(x, w, b), F.relu(y) * x[:, :24], down(y * x[:, :24]).float() - x[:, :24]

    cases.append(Case("autocast", mixed, [whole(torch.float32, 9, 64, top=5)], [whole(torch.float32, 24, 64, top=5), whole(torch.float32, 24)]))
    return cases
