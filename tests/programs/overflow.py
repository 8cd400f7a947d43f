"""Elements whose value hangs on the order of additions or on a kernel's inner ways, so that eager's own value is an accident.

Of rounded results (TABLE):

- sums and products that run over somewhere on the way, in the operator's own type, in one order and not in another;
- a norm's weights that are not finite;
- a convolution's padding (or a transposed one's gaps) times a weight that is not finite: 0 * inf, where a kernel multiplies it at all;
- attention whose scores hold a NaN or an infinity: LibTorch's own kernels (one pass, and in parts) differ there, by dtype and length; and values so
  large that they run over before the weights are divided by their sum (one pass divides last, the others first);
- products of 16-bit floats times 0 (alpha) that are not finite: oneDNN does not look at them, LibTorch's own loops do;
- products of bf16 where an operand or the result is denormal: the machine's bf16 instructions take those as zero, and LibTorch uses them from some
  number of rows on (mkldnn: [1, 2] x [2, 64] keeps, [4, 2] x [2, 64] flushes);
- images resized with antialiasing to one column and another number of rows: every row of LibTorch's result is the first one (to two columns they differ);
- variances that are rounding alone (of equal numbers: 0 or some units in the last place of their mean, squared);
- floored quotients that run over: NaN in vectors of eight, a number in what is left at the end;
- sums with a factor (alpha) where the product runs over: LibTorch's kernels for AVX multiply and add at once, those for older processors round between;
- losses of logits where one of the two products that they subtract runs over: LibTorch rounds each, a compiler may multiply and subtract at once;
- products of complex numbers whose parts run over on the way: infinities that are subtracted, or none where the power is found otherwise;
- incomplete gamma functions of numbers whose log gamma runs over: what LibTorch subtracts from it may do so, too, or not;
- functions that go by e to the operand where that power runs over in the type they compute in and their own value does not (cosh(89) is 2.2e38).

Of any result, exact ones too (ANY):
- the index of the kth value, median, nanmedian or mode where several elements are equal: quickselect gives another one for another length;
- remainders whose quotient runs over, for the same reason;
- the bits of a NaN: its sign and what it carries are the processor's own, and the compiler's;
- the sign of a NaN: rounding to bf16 sets it in LibTorch's vectors for AVX, not in its scalars and not on GPUs;
- places in what was never sorted;
- common divisors of a type's lowest integer, whose magnitude it does not have: LibTorch's remainders keep signs then;
- sums taken in integers of floats out of their range: the cast is the processor's own;
- what slice_scatter and its like make of a view whose elements overlap: LibTorch's copy overlaps as well, and what is written shows in its neighbours;
- a write in place through a view whose elements overlap (unfold, as_strided): an element that several share is read and written in an order that is
  the vector width's. PyTorch's documentation says to clone before such a write.


hazy() gives a mask for each result, or none. A disturbed run (shadow.py) puts anything in their places, so that what is made from them is not judged; an
index is put to one of those that are as right.
"""
import math

import torch

# Sums of products of operands: over when the same sum of absolute values is.
SUMS = set("""
addr sum mean nansum cumsum avg_pool2d avg_pool3d avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d
adaptive_avg_pool1d index_add scatter_add trace col2im convolution upsample_linear1d upsample_bilinear2d upsample_trilinear3d
_trilinear
""".split())
CONTRACTIONS = "mm bmm addmm baddbmm addbmm addmv mv dot vdot".split()
# These square their operands on the way, of all that they reduce.
SQUARES = set("""
var var_mean std std_mean native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
batch_norm norm linalg_vector_norm _fused_rms_norm _cdist_forward _pdist_forward _euclidean_dist
""".split())
PRODUCTS = ("prod", "cumprod")


def is_real(x):
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())


def finite_abs(x):
    if not is_real(x):
        return x
    a = x.detach().abs()
    a = torch.where(torch.isfinite(a), a, torch.zeros_like(a))
    return a.to(x.dtype)


def largest(t):
    return torch.finfo(t.dtype).max


def beyond(x, t):
    return ~(x.abs() <= largest(t)) if is_real(x) else None


def sums(func, args, kwargs, results):
    from torch.utils._pytree import tree_flatten, tree_map

    absolute = tree_map(finite_abs, (args, kwargs))
    out = [x for x in tree_flatten(func(*absolute[0], **absolute[1]))[0] if isinstance(x, torch.Tensor)]
    return [beyond(x, t) if is_real(t) else None for x, t in zip(out, results)]


def is_close(a, b, bound):
    return (a == b) | (torch.isnan(a) & torch.isnan(b)) | ((a - b).abs() <= bound)


def contraction(func, args, kwargs, results):
    """sums, and what denormals and weights that are not divided yet do to products."""
    masks = sums(func, args, kwargs, results)
    left = args[0] if base_name(func) in ("mm", "bmm") else None
    if left is not None and left.is_floating_point() and left.numel():
        total, top = left.sum(-1, keepdim=True), left.amax(-1, keepdim=True)
        weights = (left >= 0).all(-1, keepdim=True) & ((total - 1).abs() < 0.05)
        early = func(torch.where(weights, finite_abs(left) / top, finite_abs(left)), finite_abs(args[1]))
        masks = [masks[0] | beyond(early, results[0])]
    unseen = unread(func, args, kwargs, results)
    return [m if m is None else m | f | unseen for m, f in zip(masks, flushed(func, args, kwargs, results))]


def unread(func, args, kwargs, results):
    if kwargs.get("alpha", 1) != 0 or results[0].dtype not in (torch.float16, torch.bfloat16):
        return False
    return ~torch.isfinite(func(*args, **{**kwargs, "alpha": 1}))


def flushed(func, args, kwargs, results):
    from torch.utils._pytree import tree_flatten, tree_map

    if not results or results[0].dtype != torch.bfloat16:
        return [False] * len(results)
    tiny = torch.finfo(torch.bfloat16).tiny
    zeroed = tree_map(lambda x: torch.where(x.abs() < tiny, 0.0, x) if is_real(x) else x, (args, kwargs))
    kept = [x for x in tree_flatten(func(*args, **kwargs))[0] if isinstance(x, torch.Tensor)]
    gone = [x for x in tree_flatten(func(*zeroed[0], **zeroed[1]))[0] if isinstance(x, torch.Tensor)]
    return [~is_close(a, b, 2.0**-10 * a.abs()) | (a.abs() < 4 * tiny) & (a != 0) if is_real(t) else False for a, b, t in zip(kept, gone, results)]


def whole(results, hit):
    return [torch.ones(t.shape, dtype=torch.bool) if hit and is_real(t) else None for t in results]


def squares(func, args, kwargs, results):
    types = [t for t in results if is_real(t)]
    if any(is_real(x) and not bool(torch.isfinite(x).all()) for x in args[1:]):  # weights: scale first or subtract the mean first
        return whole(results, True)
    top = max((float(finite_abs(x).abs().max()) ** 2 * x.numel() if finite_abs(x).abs().max() < 1e150 else math.inf for x in args if is_real(x) and x.numel()), default=0.0)
    return whole(results, types and top > largest(types[0]))


def variances(func, args, kwargs, results):
    """What is left of equal numbers' deviations, or of a sum that cancels, is rounding."""
    masks = squares(func, args, kwargs, results)
    top = float(finite_abs(args[0]).abs().max()) if args[0].numel() else 0.0
    for i, t in enumerate(results):
        if masks[i] is None or not bool(masks[i].any()):
            bound = 8 * torch.finfo(t.dtype).eps * top
            bound = bound if i or "std" in base_name(func) else bound**2
            ends = [torch.full_like(t, bound), torch.full_like(t, -bound if i else 0.0), torch.zeros_like(t)]
            masks[i] = Choice(t.abs().double() <= bound, ends)
    return masks


def quotients(func, args, kwargs, results):
    if base_name(func) == "div" and (len(args) > 2 and args[2] or kwargs.get("rounding_mode")) != "floor":
        return [None]
    a, b = (x if isinstance(x, torch.Tensor) else torch.tensor(float(x)) for x in args[:2])
    if not is_real(results[0]):
        return [None]
    return [beyond(a.abs() / b.abs(), results[0]) & (b != 0) & torch.isfinite(a)]


def scaled_sums(func, args, kwargs, results):
    """add, sub: self + alpha other; rsub: other - alpha self."""
    alpha = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    scaled = args[0] if base_name(func) == "rsub" else args[1]
    if alpha == 1 or not is_real(scaled):
        return [None]
    computed = torch.float64 if results[0].dtype == torch.float64 else torch.float32
    over = ~((scaled * alpha).abs() <= torch.finfo(computed).max)
    return [(over & torch.isfinite(scaled)).expand(results[0].shape)]


def losses_of_logits(func, args, kwargs, results):
    x, y = args[:2]
    weight = args[3] if len(args) > 3 else kwargs.get("pos_weight")
    scale = 1 if weight is None else (weight - 1) * y + 1
    over = beyond((1 - y) * x, results[0]) | beyond(scale * torch.nn.functional.logsigmoid(x), results[0])
    over &= torch.isfinite(x) & torch.isfinite(y)
    return [over] if over.shape == results[0].shape else whole(results, bool(over.any()))


def powers_of_e(func, args, kwargs, results):
    x = args[0]
    if base_name(func) == "soft_margin_loss":
        x = x * args[1]
    limit = math.log(torch.finfo(torch.float64 if results[0].dtype == torch.float64 else torch.float32).max)
    over = x.abs() > limit * (1 - 16 * torch.finfo(results[0].dtype).eps) - 0.01  # the operand's own rounding may turn it over
    return [over] if over.shape == results[0].shape else whole(results, bool(over.any()))


def complex_products(func, args, kwargs, results):
    if not results[0].is_complex():
        return [None]
    exact = func(*args, **kwargs)
    return [~(exact.abs() <= largest(results[0]) / 2) & torch.isfinite(args[0]).expand(results[0].shape)]


def incomplete_gammas(func, args, kwargs, results):
    a = args[0].double()
    return [(beyond(torch.lgamma(a), results[0]) & torch.isfinite(a)).expand(results[0].shape)]


def products(func, args, kwargs, results):
    x = finite_abs(args[0]).abs()
    logs = x.clamp(min=1).log().sum() if is_real(x) else torch.zeros(())
    return whole(results, is_real(results[0]) and float(logs) > math.log(largest(results[0])))


def convolution(func, args, kwargs, results):
    weight = args[1]
    bad = ~torch.isfinite(weight)
    gaps = args[6] or any(args[4])
    if gaps and bool(bad.any()):
        return whole(results, True)
    return contraction(func, args, kwargs, results)


def antialiased(func, args, kwargs, results):
    """LibTorch's pass over the rows gives the first one for all where a row of the result is one element wide."""
    t = results[0]
    if t.shape[-1] == 1 and t.shape[-2] != args[0].shape[-2]:
        return whole(results, True)
    return sums(func, args, kwargs, results)


def cubic(func, args, kwargs, results):
    """Weights below zero: what cancels may have run over before, in one order of the passes and not in the other."""
    return whole(results, args[0].numel() and 4 * float(finite_abs(args[0]).abs().max()) > largest(results[0]))


def rows_of_scores(results, p, bad):
    tiny = torch.finfo(results[0].dtype).tiny
    return [bad | ((p > 0) & (p < tiny))]


def softmax(func, args, kwargs, results):
    """Weights below the smallest normal number may count as none."""
    p = func(*args, **kwargs)
    return rows_of_scores(results, p, torch.zeros(p.shape, dtype=torch.bool))


def safe_softmax(func, args, kwargs, results):
    """The softmax of attention: a NaN among the scores may be masked or not."""
    p = func(*args, **kwargs)
    return rows_of_scores(results, p, torch.isnan(args[0]).any(args[1], keepdim=True).expand(p.shape))


def flash(func, args, kwargs, results):
    q, k, v = args[:3]
    repeat = q.shape[-3] // max(k.shape[-3], 1)
    k, v = (t.repeat_interleave(repeat, -3) for t in (k, v))
    scores = q.abs() @ k.abs().transpose(-1, -2)
    bad = beyond(scores, results[0]).any(-1, keepdim=True)
    mask = kwargs.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        bad = bad | (torch.isnan(mask) | (mask == math.inf)).any(-1, keepdim=True)
    v = v.abs().sum(-2, keepdim=True)
    lost = flushed(func, args, kwargs, results)[0]
    return [bad | beyond(v, results[0]) | lost] + [None] * (len(results) - 1)


# Of any result


def of_ties(func, args, kwargs, results):
    """The index of an element that is as large as others."""
    if len(results) < 2 or not args[0].dim():
        return [None] * len(results)
    x = args[0]
    k = 2 if base_name(func) == "kthvalue" else 1
    dim = args[k] if len(args) > k else kwargs.get("dim", -1)
    value = results[0] if results[0].dim() == x.dim() else results[0].unsqueeze(dim)
    at = results[1] if results[1].dim() == x.dim() else results[1].unsqueeze(dim)
    own = x.gather(dim, at)
    equal = (x == own) | (torch.isnan(x) & torch.isnan(own)) if x.is_floating_point() else x == own
    tied = equal.sum(dim).view(results[1].shape) > 1
    size = x.shape[dim]
    place = torch.arange(size).view([size if d == dim % x.dim() else 1 for d in range(x.dim())]).expand(x.shape)
    first = torch.where(equal, place, size).amin(dim).view(results[1].shape)
    last = torch.where(equal, place, -1).amax(dim).view(results[1].shape)
    return [None, Choice(tied, (first, last))]


def of_nan_signs(func, args, kwargs, results):
    x = args[1] if base_name(func) == "copysign" else args[0]
    return [torch.isnan(x).expand(results[0].shape) if is_real(x) else None]


def of_nan_bits(func, args, kwargs, results):
    """A NaN's memory as other numbers: its bytes in turn, and any number that has one of them."""
    x, t = args[0], results[0]
    if func._overloadname != "dtype" or not is_real(x) or is_real(t) or t.is_complex() or not x.numel():
        return [None]
    width = t.element_size() * t.numel() // x.numel()  # of x's own type, in bytes
    memory = torch.isnan(x).unsqueeze(-1).expand(*x.shape, width)
    return [memory.reshape(*t.shape, t.element_size()).any(-1)]


def of_casts(func, args, kwargs, results):
    """Sums taken in integers of floats that these do not have: the cast is the processor's own (0, or the lowest number)."""
    x, t = args[0], results[0]
    if not is_real(x) or is_real(t) or t.dtype == torch.bool:
        return [None]
    info = torch.iinfo(t.dtype)
    bad = ~((x > info.min - 1) & (x < info.max + 1))
    return [torch.ones(t.shape, dtype=torch.bool) if bool(bad.any()) else None]


def of_unsorted(func, args, kwargs, results):
    line = args[0] if base_name(func) == "searchsorted" else args[1]
    if not isinstance(line, torch.Tensor) or line.shape[-1] < 2 or kwargs.get("sorter") is not None:
        return [None]
    a, b = line[..., :-1], line[..., 1:]
    sorted_ = bool(((a <= b) | (torch.isnan(b) if b.is_floating_point() else False)).all())
    return [None if sorted_ else Choice(torch.ones(results[0].shape, dtype=torch.bool), (torch.zeros_like(results[0]), torch.full_like(results[0], line.shape[-1])))]


def of_lowest(func, args, kwargs, results):
    lowest = [x == torch.iinfo(x.dtype).min for x in args[:2] if not x.is_floating_point() and x.dtype not in (torch.bool, torch.uint8)]
    return [torch.broadcast_to(torch.stack(torch.broadcast_tensors(*lowest)).any(0), results[0].shape) if lowest else None]


class Choice:
    """A mask, and what may stand in its places instead of anything."""

    def __init__(self, mask, values):
        self.mask, self.values = mask, values


def shared(t):
    """The elements of a view that others of it share memory with, or None."""
    reach = 0
    for n, stride in sorted(((n, s) for n, s in zip(t.shape, t.stride()) if n > 1), key=lambda x: x[1]):
        if stride <= reach:
            break
        reach += (n - 1) * stride
    else:
        return None
    at = torch.zeros(t.shape, dtype=torch.int64)
    for d, (n, stride) in enumerate(zip(t.shape, t.stride())):
        at += (torch.arange(n) * stride).view([n if k == d else 1 for k in range(t.dim())])
    return at_least_two(at)


def of_overlaps(func, args, kwargs, results):
    return [shared(results[0])]


def at_least_two(at):
    counts = torch.bincount(at.reshape(-1))
    return counts[at] > 1 if bool((counts > 1).any()) else None


TABLE = {name: sums for name in SUMS}
TABLE |= {name: contraction for name in CONTRACTIONS}
TABLE |= {name: squares for name in SQUARES}
TABLE |= {name: variances for name in ("var", "std", "var_mean", "std_mean")}
TABLE |= {name: quotients for name in ("remainder", "fmod", "floor_divide", "div")}
TABLE |= {name: scaled_sums for name in ("add", "sub", "rsub")}
TABLE |= {name: antialiased for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")}
TABLE |= {"upsample_bicubic2d": cubic}
TABLE |= {name: powers_of_e for name in ("cosh", "sinh", "i0", "special_i1", "soft_margin_loss")}
TABLE |= {name: complex_products for name in ("mul", "pow", "square")}
TABLE |= {name: incomplete_gammas for name in ("igamma", "igammac", "special_gammainc", "special_gammaincc")}
TABLE |= {name: products for name in PRODUCTS}
TABLE |= {"binary_cross_entropy_with_logits": losses_of_logits}
TABLE |= {"convolution": convolution, "_softmax": softmax, "_safe_softmax": safe_softmax, "_scaled_dot_product_flash_attention_for_cpu": flash}


ANY = {name: of_ties for name in ("kthvalue", "median", "nanmedian", "mode")}
ANY |= {name: quotients for name in ("fmod", "remainder")}
ANY |= {name: of_overlaps for name in ("slice_scatter", "select_scatter", "diagonal_scatter")}
ANY |= {name: of_lowest for name in ("gcd", "lcm")}
ANY |= {name: of_casts for name in ("sum", "cumsum", "prod", "cumprod")}
ANY |= {"view": of_nan_bits, "signbit": of_nan_signs, "copysign": of_nan_signs, "searchsorted": of_unsorted, "bucketize": of_unsorted}


def base_name(func):
    name = func._schema.name.split("::")[1]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def hazy(func, args, kwargs, results, written, rounded):
    """A mask (or a Choice) for each result, or none. args and kwargs in fp64; results as eager gave them. written: the results that are operands. rounded:
    with the rules of TABLE."""
    masks = [shared(t) if any(t is w for w in written) else None for t in results]
    for table in (ANY, TABLE) if rounded else (ANY,):
        rule = table.get(base_name(func))
        if not rule or (table is TABLE and not any(is_real(t) for t in results)):
            continue
        try:
            more = rule(func, args, kwargs, results)
        except Exception:  # a form of the operator that the rule does not know
            more = []
        more += [None] * (len(results) - len(more))
        masks = [a if a is not None else b for a, b in zip(masks, more)]
    return [None if m is None or not bool(mask_of(m).any()) else m if isinstance(m, Choice) else m.expand(t.shape) for m, t in zip(masks, results)]


def mask_of(m):
    return m.mask if isinstance(m, Choice) else m


PUT = (math.nan, math.inf, -math.inf, 0.0, 1.0, None)


def put(d, mask, run, generator):
    """Something else in the masked places: in the first runs the same everywhere, later each its own."""
    options = list(mask.values) if isinstance(mask, Choice) else list(PUT) if d.is_floating_point() or d.is_complex() else [0, 1, None]
    mask = mask_of(mask)
    if run < 2 * len(options):
        place(d, mask, options[run % len(options)])
        return
    pick = torch.randint(0, len(options), d.shape, generator=generator)
    for k, value in enumerate(options):
        place(d, mask & (pick == k), value)


def place(d, mask, value):
    if d.is_complex():  # both parts
        d, mask = torch.view_as_real(d.conj() if d.is_conj() else d), mask.unsqueeze(-1)
        value = torch.view_as_real(value.to(torch.complex128)) if isinstance(value, torch.Tensor) else value
    if isinstance(value, torch.Tensor):
        d.copy_(torch.where(mask, value.to(d.dtype), d))
    elif value is not None:
        d.masked_fill_(mask, value)
