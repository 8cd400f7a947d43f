"""NaN and infinities at every position, alone and in pairs, for what orders, reduces or weighs elements."""
import itertools
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from exact import Case, suite

NAN, INF = math.nan, math.inf


def planted(n, dtype, seed=0):
    """Rows of n numbers (some of them equal) with one or two special ones at every place, and rows of one special number only."""
    g = torch.Generator().manual_seed(seed)
    rows = []
    for at in range(n):
        for special in (NAN, INF, -INF):
            row = torch.randint(-3, 4, (n,), generator=g).double()
            row[at] = special
            rows.append(row)
    for i, j in itertools.combinations(range(n), 2):
        for a, b in ((NAN, NAN), (NAN, INF), (-INF, NAN), (INF, -INF), (INF, INF), (-INF, -INF)):
            row = torch.randint(-3, 4, (n,), generator=g).double()
            row[i], row[j] = a, b
            rows.append(row)
    rows += [torch.full((n,), x, dtype=torch.float64) for x in (NAN, INF, -INF, 0.0, -0.0)]
    return torch.stack(rows).to(dtype)


# Which element or which order: exact. f(x) over the last dim.
ORDERS = {
    "argmax": lambda x: (x.argmax(-1), x.argmax()), "argmin": lambda x: (x.argmin(-1), x.argmin()), "argmax dim 0": lambda x: x.argmax(0),
    "argmin dim 0": lambda x: x.argmin(0), "max dim": lambda x: x.max(-1), "min dim": lambda x: x.min(-1), "max dim 0": lambda x: x.max(0), "min dim 0": lambda x: x.min(0),
    "amax": lambda x: x.amax(-1), "amin": lambda x: x.amin(-1), "amax 0": lambda x: x.amax(0), "max": lambda x: x.max(), "min": lambda x: x.min(), "aminmax": lambda x: torch.aminmax(x, dim=-1),
    "cummax": lambda x: x.cummax(-1), "cummin": lambda x: x.cummin(-1), "cummax 0": lambda x: x.cummax(0), "cummin 0": lambda x: x.cummin(0),
    "sort": lambda x: torch.sort(x, dim=-1, stable=True), "sort down": lambda x: torch.sort(x, dim=-1, descending=True, stable=True), "argsort": lambda x: torch.argsort(x, dim=-1, stable=True),
    "topk": lambda x: x.topk(3, -1).values, "topk least": lambda x: x.topk(3, -1, largest=False).values, "kthvalue": lambda x: x.kthvalue(2, -1).values,
    "median": lambda x: x.median(-1).values, "nanmedian": lambda x: x.nanmedian(-1).values, "medians": lambda x: (x.median(), x.nanmedian()), "msort": lambda x: torch.msort(x),
    "any": lambda x: (x.any(-1), x.all(-1), x.bool().any(0)), "count_nonzero": lambda x: x.count_nonzero(-1), "isin": lambda x: torch.isin(x, torch.tensor([1.0, NAN, INF], dtype=x.dtype)),
    "searchsorted": lambda x: tuple(torch.searchsorted(torch.tensor([-INF, -1.0, 0.0, 2.0, INF, NAN, NAN], dtype=x.dtype)[:n], x, right=r) for n in (1, 5, 6, 7) for r in (False, True)),
    "searchsorted rows": lambda x: (torch.searchsorted(x.sort(-1).values, x[:, :3].contiguous()), torch.searchsorted(x.sort(-1).values, x, right=True), torch.searchsorted(x[0].sort(-1).values, 1.0)),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 2.0, INF], dtype=x.dtype), right=True),
    "clamp": lambda x: (x.clamp(-1, 2), x.clamp(min=NAN), x.clamp(max=x.flip(-1)), x.clamp(x.flip(-1), x.roll(1, -1))), "relu": lambda x: (F.relu(x), F.relu6(x), F.hardtanh(x), F.leaky_relu(x), F.hardshrink(x), F.threshold(x, 0.5, 7.0)),
    "extremes": lambda x: (torch.maximum(x, x.flip(-1)), torch.minimum(x, x.flip(-1)), torch.fmax(x, x.flip(-1)), torch.fmin(x, x.flip(-1))),
    "compared": lambda x: (x == x.flip(-1), x != x.flip(-1), x < x.flip(-1), x >= x.flip(-1), torch.isclose(x, x.flip(-1)), torch.isclose(x, x.flip(-1), equal_nan=True)),
    "kinds": lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.isposinf(), x.isneginf(), x.sign(), x.nan_to_num(), torch.nan_to_num(x, 1.0, 2.0, 3.0)),
    "whole": lambda x: (x.floor(), x.round(), x.trunc(), x.frac(), x % 2, torch.fmod(x, 2), x // 2, torch.div(x, 2, rounding_mode="trunc"), x.remainder(-2)),
    "by zero": lambda x: (x / 0, 0 / x, x % 0, torch.fmod(x, 0), torch.heaviside(x, x.flip(-1)), torch.copysign(x, x.flip(-1)).abs()),
    "where": lambda x: torch.where(x > 0, x, -x), "masked": lambda x: (x.masked_fill(x.isnan(), 0.0), torch.where(x == x, x, 0.0)), "sum": lambda x: (x.sum(-1), x.sum(0), x.nansum(-1), x.nanmean(-1) == 0),
    "prod": lambda x: (x.prod(-1), x.cumprod(-1), x.cumsum(-1), x.cumsum(0), x.diff(dim=-1), x.diff(n=2)), "histc": lambda x: torch.histc(x.nan_to_num(0, 3, -3), 4, -4, 4),
    "pad": lambda x: (F.pad(x, (1, 1)), F.pad(x[None], (2, 2), mode="reflect"), F.pad(x[None], (2, 2), mode="replicate"), x.roll(2, -1), x.tril(), x.triu()),
    "one hot": lambda x: F.one_hot(x.argmax(-1), x.shape[-1]),
}
# Of a certain size: NaN and infinities exact, the rest close.
WEIGHS = {
    "mean": lambda x: (x.mean(-1), x.mean(0), x.nanmean(-1)), "var": lambda x: (x.var(-1), x.var(-1, correction=0), x.std(-1), x.var(0)), "var_mean": lambda x: torch.var_mean(x, -1), "std_mean": lambda x: torch.std_mean(x, -1),
    "var_mean all": lambda x: (*torch.var_mean(x[:1], [0, 1]), *torch.var_mean(x[1:2]), *torch.std_mean(x[-4:-3])),
    "var_mean 0": lambda x: (*torch.var_mean(x[::11], 0), *torch.std_mean(x[1::11], 0)), "var one": lambda x: (x[:, :1].var(-1), *torch.var_mean(x[:, :1], -1), x[:, :1].std(-1, correction=0)),
    "norms": lambda x: tuple(torch.linalg.vector_norm(x, p, dim=-1) for p in (0, 1, 2, 3, INF, -INF)), "logsumexp": lambda x: (x.logsumexp(-1), x.logcumsumexp(-1)),
    "softmax": lambda x: (x.softmax(-1), x.log_softmax(-1), F.softmin(x, -1)), "softmax 0": lambda x: (x[::9].softmax(0), x[1::9].log_softmax(0)), "trapezoid": lambda x: (torch.trapezoid(x, dx=0.5), torch.trapezoid(x, dim=0)), "trapezoid x": lambda x: torch.trapezoid(x, torch.arange(x.shape[-1]).to(x.dtype) ** 2),
    "trapezoid one": lambda x: (torch.trapezoid(x[:, :1]), torch.trapezoid(x[:, :1], x[:, :1]), torch.trapezoid(x[:, :0])), "trapezoid two": lambda x: (torch.trapezoid(x[:, :2]), torch.trapezoid(x[:, :2], x[:, 1:3])),
    "cumulative_trapezoid": lambda x: (torch.cumulative_trapezoid(x, dx=0.5), torch.cumulative_trapezoid(x[:, :1]), torch.cumulative_trapezoid(x, torch.arange(x.shape[-1]).to(x.dtype))), "logaddexp": lambda x: (torch.logaddexp(x, x.flip(-1)), torch.logaddexp2(x, x.flip(-1))),
    "exponentials": lambda x: (x.exp(), x.expm1(), x.exp2(), x.log(), x.log1p(), x.log2(), x.sqrt(), x.rsqrt(), x.reciprocal()), "periodic": lambda x: (x.sin(), x.cos(), x.tan()), "hyperbolic": lambda x: (x.tanh(), x.sinh(), x.cosh(), x.asinh(), x.acosh(), x.atanh()),
    "activations": lambda x: (x.sigmoid(), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.softplus(x), F.elu(x), F.selu(x), F.celu(x), F.softsign(x), F.tanhshrink(x), F.softshrink(x), F.logsigmoid(x), F.hardswish(x), F.hardsigmoid(x)),
    "special": lambda x: (x.erf(), x.erfc(), x.lgamma(), x.digamma(), torch.special.entr(x), torch.sinc(x), torch.logit(x)), "powers": lambda x: (x**2, x**3, x**0.5, x**-1, torch.pow(x, x.flip(-1)), torch.pow(2.0, x), torch.hypot(x, x.flip(-1)), torch.atan2(x, x.flip(-1)), torch.xlogy(x, x.flip(-1))),
    "layer_norm": lambda x: (F.layer_norm(x, x.shape[-1:]), F.rms_norm(x, x.shape[-1:])), "group_norm": lambda x: F.group_norm(x[:, None], 1), "batch_norm": lambda x: F.batch_norm(x, torch.zeros(x.shape[1], dtype=x.dtype), torch.ones(x.shape[1], dtype=x.dtype)),
    "normalize": lambda x: (F.normalize(x, dim=-1), F.cosine_similarity(x, x.flip(-1), dim=-1)), "losses": lambda x: (F.mse_loss(x, x.flip(-1), reduction="none"), F.l1_loss(x, x.flip(-1), reduction="none"), F.smooth_l1_loss(x, x.flip(-1), reduction="none"), F.huber_loss(x, x.flip(-1), reduction="none"), F.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype), reduction="none")),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.arange(x.shape[0]) % x.shape[1], reduction="none"), "lerp": lambda x: (torch.lerp(x, x.flip(-1), 0.5), torch.lerp(x, x.flip(-1), x), torch.addcmul(x, x, x.flip(-1)), torch.addcdiv(x, x, x.flip(-1))),
    "avg_pool": lambda x: (F.avg_pool1d(x[:, None], 3, 2, 1), F.adaptive_avg_pool1d(x[:, None], 3)), "quantile": lambda x: tuple(f(x, q, dim=-1, interpolation=how) for f in (torch.quantile, torch.nanquantile) for q in (0.3, 0.55) for how in ("linear", "midpoint", "lower", "higher", "nearest")),
    "interpolate": lambda x: (F.interpolate(x[:, None], 11), F.interpolate(x[:, None], 11, mode="linear"), F.interpolate(x[:, None], 3, mode="linear", align_corners=True)),
    "gelu": F.gelu, "attention": lambda x: F.scaled_dot_product_attention(x[None, ::9, None].abs(), x[None, 1::9, None].abs(), x[None, 2::9, None]),
    "masked softmax": lambda x: (x.masked_fill(x > 0, -INF).softmax(-1), x.masked_fill(x == x, -INF).softmax(-1)), "products": lambda x: (x @ x.t()[:, :5], x[:7].t() @ x[:7]),
}


# Where eager's kernel has NaN that come from how it calculates, not from the operands.
def without_onednn(f):

    def right(*args):
        with torch.backends.mkldnn.flags(enabled=False):
            return f(*args)

    return right


def in_float64(f):
    return lambda *args: f(*(x.double() for x in args)).to(args[0].dtype)


def by_products(f):
    """The fused kernel takes a row of NaN for one that is masked."""

    def right(*args):
        with sdpa_kernel(SDPBackend.MATH):
            return f(*args)

    return right


# oneDNN's products in tiles of bf16 take the least numbers for zeros, which times infinity are NaN.
RIGHT = {"gelu": without_onednn, "attention": by_products, "products": without_onednn}
LACKING = {torch.bfloat16: {"quantile"}}  # in eager


def rows_of(dtype):
    cases = []
    for i, (name, f) in enumerate(ORDERS.items()):
        cases.append(Case(f"{name} {dtype}", f, [planted(7, dtype, i)]))
    for i, (name, f) in enumerate(WEIGHS.items()):
        if name in LACKING.get(dtype, ()):
            continue
        cases.append(Case(f"{name} {dtype}", f, [planted(7, dtype, i)], close=True, right=RIGHT[name](f) if name in RIGHT else None))
    # Rows longer than a vector, and short ones in lanes of another dim.
    for name in ("argmax", "argmin", "max dim", "min dim", "cummax", "cummin", "sort", "topk", "median", "amax"):
        cases.append(Case(f"long {name} {dtype}", ORDERS[name], [planted(41, dtype)[::7]]))
    for name in ("var_mean", "softmax", "logsumexp", "trapezoid", "norms", "layer_norm"):
        cases.append(Case(f"long {name} {dtype}", WEIGHS[name], [planted(41, dtype)[::7]], close=True))
    return cases


@suite
def not_numbers_float32():
    return rows_of(torch.float32)


@suite
def not_numbers_float64():
    return rows_of(torch.float64)[::3]


@suite
def not_numbers_bfloat16():
    return rows_of(torch.bfloat16)[1::2]


@suite
def not_numbers_in_windows():
    cases = []
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        line, plane, room = planted(9, dtype)[:, None], planted(20, dtype)[::3].view(-1, 1, 4, 5), planted(24, dtype)[::5].view(-1, 1, 2, 3, 4)
        for indices in (False, True):

            def add(name, f, x):
                cases.append(Case(f"{name}{' with indices' if indices else ''} {dtype}", f, [x.clone()]))

            n = indices
            add("max_pool1d", lambda x, n=n: F.max_pool1d(x, 3, 2, 1, return_indices=n), line)
            add("max_pool1d dilated", lambda x, n=n: F.max_pool1d(x, 3, 1, 1, 2, return_indices=n), line)
            add("max_pool1d ceil", lambda x, n=n: F.max_pool1d(x, 2, 2, ceil_mode=True, return_indices=n), line)
            add("max_pool2d", lambda x, n=n: F.max_pool2d(x, 2, 1, return_indices=n), plane)
            add("max_pool2d padded", lambda x, n=n: F.max_pool2d(x, 3, 2, 1, return_indices=n), plane)
            add("max_pool2d whole", lambda x, n=n: F.max_pool2d(x, (4, 5), return_indices=n), plane)
            add("max_pool2d dilated", lambda x, n=n: F.max_pool2d(x, 2, (1, 2), (0, 1), (2, 3), ceil_mode=True, return_indices=n), plane)
            add("max_pool3d", lambda x, n=n: F.max_pool3d(x, 2, 1, 1, return_indices=n), room)
            add("max_pool3d whole", lambda x, n=n: F.max_pool3d(x, (2, 3, 4), return_indices=n), room)
            add("adaptive_max_pool1d", lambda x, n=n: F.adaptive_max_pool1d(x, 4, return_indices=n), line)
            add("adaptive_max_pool1d even", lambda x, n=n: F.adaptive_max_pool1d(x, 3, return_indices=n), line)
            add("adaptive_max_pool2d", lambda x, n=n: F.adaptive_max_pool2d(x, (3, 2), return_indices=n), plane)
            add("adaptive_max_pool2d one", lambda x, n=n: F.adaptive_max_pool2d(x, 1, return_indices=n), plane)
            add("adaptive_max_pool3d", lambda x, n=n: F.adaptive_max_pool3d(x, (2, 2, 3), return_indices=n), room)
        # All that a window sees is padding or -inf: the first place in it.
        cases.append(Case(f"pooled -inf {dtype}", lambda x: F.max_pool2d(x, 2, 1, 1, return_indices=True), [torch.full((1, 2, 3, 3), -INF, dtype=dtype)]))
        cases.append(Case(f"pooled ties {dtype}", lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True), [torch.randint(0, 2, (2, 2, 6, 6)).to(dtype)]))
        cases.append(Case(f"avg_pool2d {dtype}", lambda x: (F.avg_pool2d(x, 2, 1, 1), F.adaptive_avg_pool2d(x, (3, 2)), F.lp_pool2d(x, 2, 2)), [plane.clone()], close=True))
        cases.append(Case(f"resized {dtype}", lambda x: (F.interpolate(x, (7, 6)), F.interpolate(x, (7, 6), mode="bilinear"), F.interpolate(x, (2, 3), mode="bilinear", align_corners=True), F.interpolate(x, (5, 6), mode="bicubic")), [plane[::5].clone()], close=True))
        convolved = lambda x: F.conv2d(x, torch.ones(1, 1, 2, 2, dtype=x.dtype), padding=1)
        cases.append(Case(f"convolved {dtype}", convolved, [plane[::5].clone()], close=True, right=in_float64(convolved)))
    cases.append(Case("pooled integers", lambda x: F.max_pool2d(x, 2, 1, 0, return_indices=True), [torch.randint(-9, 9, (1, 2, 5, 5))]))
    return cases
