"""Reductions, scans, sorting."""
from generator import FLOATS, INTS, NUMBERS, REAL, Skip, row


def some_axes(g, x):
    """Text of the dim argument, or nothing for all."""
    if x.rank == 0 or g.chance(0.2):
        return ""
    if g.chance(0.6):
        return f", {g.axis(x)}{g.choice(['', '', ', True'])}"
    return f", {tuple(g.axes(x))}{g.choice(['', ', True'])}"


@row("sum and mean", 6)
def sums(g):
    x = g.tensor(REAL)
    name = g.choice(["sum", "sum", "mean", "nansum", "nanmean"] if x.dtype.is_floating_point else ["sum"])
    axes = some_axes(g, x)
    dtype = f", dtype={g.choice(FLOATS[:2] + INTS[:3] if not x.dtype.is_floating_point else FLOATS)}" if g.chance(0.2) else ""
    return f"torch.{name}({x}{axes}{dtype})"


@row("extremes", 4)
def extremes(g):
    x = g.tensor(NUMBERS)
    kind = g.int(0, 7)
    if kind <= 1:
        return f"torch.{g.choice(['amax', 'amin'])}({x}{some_axes(g, x)})"
    if kind == 2:
        return f"torch.{g.choice(['max', 'min'])}({x})"
    if x.rank == 0:
        raise Skip
    d = g.axis(x)
    if kind <= 4:
        return f"torch.{g.choice(['max', 'min'])}({x}, {d}{g.choice(['', ', True'])})", 2
    if kind <= 6:
        return f"torch.{g.choice(['argmax', 'argmin'])}({x}{g.choice(['', f', {d}', f', {d}, True'])})"
    return f"torch.aminmax({x}, dim={d})", 2


@row("logical reductions", 2)
def logical(g):
    x = g.tensor(REAL)
    kind = g.int(0, 3)
    if kind == 0:
        return f"torch.count_nonzero({x}{'' if x.rank == 0 or g.chance(0.3) else f', dim={g.axis(x)}'})"
    name = g.choice(["any", "all"])
    if kind == 1 or x.rank == 0:
        return f"torch.{name}({x})"
    return f"torch.{name}({x}, {g.axis(x)}{g.choice(['', ', True'])})"


@row("product", 1.5)
def product(g):
    x = g.tensor(REAL)
    return f"torch.prod({x}{'' if x.rank == 0 or g.chance(0.3) else f', {g.axis(x)}' + g.choice(['', ', True'])})"


@row("variance", 2.5)
def variance(g):
    x = g.tensor(FLOATS)
    name = g.choice(["var", "std", "var_mean", "std_mean"])
    axes = "" if x.rank == 0 or g.chance(0.2) else f", dim={g.choice([g.axis(x), tuple(g.axes(x))])}"
    text = f"torch.{name}({x}{axes}, correction={g.choice(['1', '0', '2'])}{', keepdim=True' if axes and g.chance(0.3) else ''})"
    return (text, 2) if "_" in name else text


@row("norm", 2)
def norms(g):
    x = g.tensor(FLOATS)
    axes = "" if x.rank == 0 or g.chance(0.3) else f", dim={g.axis(x)}"
    order = g.choice(["2", "1", "inf", "-inf", "0", "3", "0.5"])
    return g.choice([f"torch.linalg.vector_norm({x}, {order}{axes})", f"torch.norm({x}, {order}{axes})", f"torch.logsumexp({x}, {g.axis(x) if x.rank else 0})",
                     f"F.normalize({x}, dim={g.axis(x) if x.rank else 0})"])


@row("median and quantile", 1)
def medians(g):
    kind = g.int(0, 4)
    x = g.tensor(NUMBERS if kind < 3 else FLOATS[:2], (1, 4))
    d = g.axis(x)
    if kind == 0:
        return f"torch.{g.choice(['median', 'nanmedian'])}({x}, {d})", 2
    if kind == 1:
        return f"torch.median({x})"
    if kind == 2:
        text = f"torch.kthvalue({x}, {g.int(1, max(1, min(3, x.shape[d])))}, {d})"
        return (text, 2) if x.dtype.is_floating_point else text + "[0]"  # which of equal ones it is, is LibTorch's secret
    return f"torch.{g.choice(['quantile', 'nanquantile'])}({x}, {g.choice(['0.3', '0.5', '1.0'])}, dim={d})"


@row("scan", 3)
def scans(g):
    x = g.tensor(REAL, (1, 4))
    d = g.axis(x)
    kind = g.int(0, 5)
    if kind <= 1:
        return f"torch.cumsum({x}, {d}{f', dtype={g.choice(FLOATS[:2] + INTS[:2])}' if g.chance(0.2) else ''})"
    if kind == 2:
        return f"torch.cumprod({x}, {d})"
    if kind == 3:
        return f"torch.{g.choice(['cummax', 'cummin'])}({x}, {d})", 2
    x = g.tensor(FLOATS, (1, 4))
    if kind == 4:
        return f"torch.logcumsumexp({x}, {g.axis(x)})"
    return g.choice([f"torch.trapezoid({x}, dim={g.axis(x)})", f"torch.cumulative_trapezoid({x}, dim={g.axis(x)})", f"torch.diff({x}, dim={g.axis(x)})"])


@row("sort", 3)
def sorts(g):
    x = g.tensor(REAL, (1, 4))
    d = g.axis(x)
    down = g.choice(["", ", descending=True"])
    kind = g.int(0, 4)
    if kind <= 1:
        return f"torch.sort({x}, dim={d}{down}, stable=True)", 2
    if kind == 2:
        return f"torch.argsort({x}, dim={d}{down}, stable=True)"
    if kind == 3:
        return f"torch.topk({x}, {g.int(1, max(1, min(4, x.shape[d])))}, {d}, {g.choice(['True', 'False'])})[0]"
    return f"torch.msort({x})"


@row("softmax", 4)
def softmax(g):
    x = g.tensor(FLOATS, (1, 4))
    dtype = f", dtype={g.choice(FLOATS[:2])}" if g.chance(0.15) else ""
    return f"{g.choice(['F.softmax', 'F.log_softmax', 'torch.softmax', 'F.softmin'])}({x}, {g.axis(x)}{dtype})"


@row("masked softmax", 1.5)
def masked_softmax(g):
    x = g.tensor(FLOATS, (1, 4))
    mask = g.like(x, (x.dtype,) if False else (__import__("torch").bool,), broadcast=True)
    return f"F.softmax({x}.masked_fill({mask}, -inf), {g.axis(x)})"


@row("distance", 1)
def distance(g):
    kind = g.int(0, 3)
    x = g.tensor(FLOATS[:2], (2, 3))
    if kind == 0:
        y = g.leaf(x.dtype, [*g.dims_like(x)[:-2], g.dim_text(), g.dim(x, -1)])
        return f"torch.cdist({x}, {y}, p={g.choice(['2.0', '1.0', 'inf', '3.0'])})"
    y = g.like(x)
    if kind == 1:
        return f"F.pairwise_distance({x}, {y}{g.choice(['', ', p=1.0'])})"
    if kind == 2:
        return f"F.cosine_similarity({x}, {y}, dim={g.axis(x)})"
    return f"torch.dist({x}, {y}, {g.choice(['2', '1', 'inf'])})"


@row("loss", 1.5)
def losses(g):
    x = g.tensor(FLOATS, (1, 3))
    red = g.choice(["", ", reduction='none'", ", reduction='sum'"])
    name = g.choice(["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "kl_div", "soft_margin_loss", "nll", "cross"])
    if name in ("nll", "cross"):
        if x.rank != 2:
            x = g.tensor(FLOATS, (2, 2))
        target = g.index([g.dim(x, 0)], g.dim(x, 1))
        return f"F.cross_entropy({x}, {target}{red})" if name == "cross" else f"F.nll_loss({x}, {target}{red})"
    return f"F.{name}({x}, {g.like(x)}{red})"
