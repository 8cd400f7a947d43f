"""Signs of zero, infinities and NaN: pointwise functions, sums and products of few elements, on lines longer than a vector that end within
one."""
import math

import torch
import torch.nn.functional as F

from exact import Case, suite
from exact_nan import without_onednn

NAN, INF = math.nan, math.inf
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SPECIAL = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -0.5, 2.0, -2.0, 3.0, -3.5, 88.0, -90.0, 1000.0, -1000.0, 1e-5, -1e-5, 1e-4, -1e-4]


def line(dtype):
    return torch.tensor((SPECIAL * 3)[: 3 * len(SPECIAL) - 2], dtype=torch.float64).to(dtype)


def zeros(dtype, *shape):
    """Of both signs, alternating along the first dim."""
    z = torch.zeros(shape, dtype=dtype)
    z[::2] = -0.0
    return z


# The same elements for one kernel: the sign of what is 0 is seen in the quotient.
ADDED = {
    "x + 0": lambda x: x + 0.0, "0 + x": lambda x: 0.0 + x, "x + -0": lambda x: x + (-0.0), "x - 0": lambda x: x - 0.0, "x - -0": lambda x: x - (-0.0), "0 - x": lambda x: 0.0 - x, "-0 - x": lambda x: -0.0 - x,
    "x + 0 + 0": lambda x: x + 0.0 + 0.0, "abs(x) + 0": lambda x: x.abs() + 0.0, "-(abs(x)) + 0": lambda x: -(x.abs()) + 0.0, "x + zeros": lambda x: x + torch.zeros_like(x), "x - zeros": lambda x: x - torch.zeros_like(x), "x + full(-0)": lambda x: x + torch.full_like(x, -0.0),
    "x + 0 z": lambda x: torch.add(x, x.abs(), alpha=0), "x - 0 z": lambda x: torch.sub(x, x.abs(), alpha=0), "rsub": lambda x: torch.rsub(x, 0.0), "x * 1": lambda x: x * 1.0, "x / 1": lambda x: x / 1.0, "x * -1": lambda x: x * -1.0, "x / -1": lambda x: x / -1.0, "x * 0": lambda x: x * 0.0, "x * -0": lambda x: x * -0.0,
    "0 / x": lambda x: 0.0 / x, "1 / x": lambda x: 1.0 / x, "x - x": lambda x: x - x, "x + -x": lambda x: x + -x, "neg": lambda x: -x, "-(-x)": lambda x: -(-x), "x + (-y)": lambda x: x + (-x.flip(0)), "-x + y": lambda x: -x + x.flip(0), "x - (-y)": lambda x: x - (-x.flip(0)), "-x * -y": lambda x: -x * -x.flip(0), "-(x + y)": lambda x: -(x + x.flip(0)), "-(x * y)": lambda x: -(x * x.flip(0)),
    "where": lambda x: (torch.where(x == 0, x, 1.0), torch.where(x > 0, x, -0.0), torch.where(x == 0, 0.0, x)), "masked_fill": lambda x: x.masked_fill(x != 0, -0.0), "abs": lambda x: (x.abs(), (-x).abs()), "square": lambda x: (x * x, x.square(), x**2), "sign": lambda x: (x.sign(), x.sgn()), "copysign": lambda x: (torch.copysign(x, x.flip(0)), torch.copysign(x.abs(), x)), "signbit": torch.signbit,
    "addcmul": lambda x: (torch.addcmul(torch.zeros_like(x), x, x.abs()), torch.addcdiv(x, x, x.flip(0))), "lerp": lambda x: torch.lerp(x, x, 0.25), "float": lambda x: x.double() + 0.0, "cast": lambda x: ((x > 0).to(x.dtype) - 0.0),
}
ROUNDED = {
    "rounded": lambda x: (x.round(), x.floor(), x.ceil(), x.trunc(), x.frac()), "decimals": lambda x: x.round(decimals=1), "remainders": lambda x: (torch.fmod(x, 2), torch.fmod(x, -2), x % 2, x % -2, torch.fmod(x, INF)), "divided": lambda x: (torch.div(x, 2, rounding_mode="trunc"), torch.div(x, -2, rounding_mode="trunc"), x // 2, x // -2),
    "relu": lambda x: (F.relu(x), F.relu6(x), F.hardtanh(x), F.leaky_relu(x), F.threshold(x, -1.0, -0.0)), "clamp": lambda x: (x.clamp(min=-1), x.clamp(max=1), x.clamp(-2, 2), x.clamp(min=-INF), x.clamp(max=INF)),
}
# To a few roundings.
CURVED = {
    "powers": lambda x: (x**1, x**0, x**3, x**-1, x**-2, x**0.5, x**-0.5, x**1.5),
    "powers by tensor": lambda x: tuple(x ** torch.tensor(e, dtype=x.dtype) for e in (0.5, -0.5, 1.0, 2.0, 3.0, -1.0, 0.0, -2.0, 1.5, -1.5)), "powers by line": lambda x: tuple(x ** torch.full_like(x, e) for e in (0.5, -0.5, 1.0, 2.0, 3.0, -1.0)), "powers of": lambda x: (torch.pow(2.0, x), torch.pow(x.abs() + 0.0, 0.5)), "float_power": lambda x: (torch.float_power(x, 0.5), torch.float_power(x, -0.5), torch.float_power(x, 2.0)), "roots": lambda x: (x.sqrt(), x.rsqrt(), x.reciprocal()),
    "tanh": torch.tanh, "odd": lambda x: (x.sin(), x.tan(), x.asin(), x.atan(), x.sinh(), x.asinh(), x.atanh(), x.erf(), x.expm1(), x.log1p(), x.erfinv()), "even": lambda x: (x.cos(), x.acos(), x.cosh(), x.acosh(), x.exp(), x.exp2(), x.log(), x.log2(), x.log10(), x.sigmoid()), "erfc": torch.erfc, "atan2": lambda x: (torch.atan2(x, x.flip(0)), torch.atan2(x, torch.ones_like(x)), torch.hypot(x, x.flip(0))),
    "activations": lambda x: (F.silu(x), F.mish(x), F.softsign(x), F.hardswish(x), F.selu(x), F.logsigmoid(x)), "sinc": torch.sinc, "xlogy": lambda x: torch.xlogy(x, x.flip(0)), "logaddexp": lambda x: torch.logaddexp(x, x.flip(0)),
}
# Of zeros alone, [n, m]: sums begin at 0.
SUMS = {
    "sum": lambda x: (x.sum(1), x.sum(0), x.sum(), x.sum((0, 1)), x[:, :1].sum(1), x[:, :1].sum(1, keepdim=True), x[0, 0].sum(), x[0, :1].sum(0), x.sum(1, dtype=torch.float64)), "mean": lambda x: (x.mean(1), x.mean(0), x[:, :1].mean(1), x[0, 0].mean(), x[:1].mean(0)), "nansum": lambda x: (x.nansum(1), x[:, :1].nansum(1), x[:, :1].nanmean(1)),
    "sum of 1 of many": lambda x: (x[:, None].sum(1), x.reshape(x.shape[0], 1, -1, 1).sum((1, 3)), x[None].sum((0, 2))), "cumsum": lambda x: (x.cumsum(1), x.cumsum(0), x[:, :1].cumsum(1), x[0, 0].cumsum(0)), "logcumsumexp": lambda x: (x.logcumsumexp(1), x.logcumsumexp(0), x[:, :1].logcumsumexp(1)), "logsumexp": lambda x: (x.logsumexp(1), x[:, :1].logsumexp(1)), "prod": lambda x: (x[:, :1].prod(1), x[:, :1].cumprod(1), x.cumprod(1)),
    "extremes": lambda x: (x[:, :1].amax(1), x[:, :1].amin(1), x[:, :1].max(1).values, x[:, :1].cummax(1).values, x.amax(1), x.amin(1)), "var_mean": lambda x: torch.var_mean(x, 1, correction=0), "index_add": lambda x: (torch.zeros_like(x).index_add(0, torch.tensor([0, 1]), x[:2]), x.scatter_add(1, torch.zeros_like(x, dtype=torch.long), x)),
    "matmul": lambda x: (x @ x.t().abs(), x[:, :2] @ x[:2].abs(), x[:, :3] @ x[:3, :2].abs(), x @ x[0].abs(), torch.outer(x[:, 0], x[0].abs()), torch.dot(x[0, :1], x[1, :1])), "bmm": lambda x: torch.bmm(x[:, :1, None].expand(-1, -1, 4), x[:, None, :5].abs().expand(-1, 4, -1)), "einsum": lambda x: (torch.einsum("ij,ij->i", x, x.abs()), torch.einsum("ij->", x)),
    "conv": lambda x: (F.conv1d(x[:, None].expand(-1, 3, -1), torch.ones(2, 3, 1, dtype=x.dtype)), F.conv1d(x[:, None], torch.ones(2, 1, 3, dtype=x.dtype), padding=1), F.conv2d(x[None, :4, :4, None], torch.ones(4, 1, 1, 1, dtype=x.dtype), groups=4)), "pool": lambda x: (F.avg_pool1d(x[:, None], 1), F.avg_pool1d(x[:, None], 2), F.adaptive_avg_pool1d(x[:, None], x.shape[1]), F.max_pool1d(x[:, None], 1)),
}


# Of a small difference of large numbers; eager's kernel in one pass has other zeros.
CANCELS = {"gelu": lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.tanhshrink(x))}


def batch_norm(w, b, m):
    def f(x):
        n = x.shape[1]
        of = lambda v: torch.full((n,), v, dtype=x.dtype)
        return F.batch_norm(x, of(m), of(1.0), of(w), of(b))

    return f


NORMS = {"batch_norm": lambda x: (batch_norm(0.0, 0.0, 0.0)(x), batch_norm(0.0, 0.0, 1.0)(x), batch_norm(1.0, 0.0, 0.0)(x), batch_norm(-1.0, -0.0, 0.0)(x)), "scaled": lambda x: (x * torch.zeros(x.shape[1], dtype=x.dtype) + torch.zeros(x.shape[1], dtype=x.dtype), x * 0.0 + 0.0)}


def rows_of(dtype):
    x, near = line(dtype), {torch.float64: 1e-14, torch.float32: 4e-6}.get(dtype, 4 * torch.finfo(dtype).eps)
    cases = [Case(f"{name} {dtype}", f, [x], signs=True) for name, f in {**ADDED, **ROUNDED}.items()]
    cases += [Case(f"{name} {dtype}", f, [x], signs=True, near=near) for name, f in CURVED.items()]
    cases += [Case(f"{name} {dtype}", f, [x], right=without_onednn(f), signs=True, near=max(1e-3, near)) for name, f in CANCELS.items()]
    for shape in ((5, 21), (9, 3)):
        z = zeros(dtype, *shape)
        cases += [Case(f"{name} of {shape} {dtype}", f, [z], signs=True, near=near) for name, f in SUMS.items()]
    table = torch.stack([x, x.flip(0), -x])
    return cases + [Case(f"{name} {dtype}", f, [table], signs=True) for name, f in NORMS.items()]


@suite
def signs_float32():
    return rows_of(torch.float32)


@suite
def signs_float64():
    return rows_of(torch.float64)


@suite
def signs_float16():
    return rows_of(torch.float16)


@suite
def signs_bfloat16():
    return rows_of(torch.bfloat16)
