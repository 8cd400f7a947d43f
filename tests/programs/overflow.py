"""Elements whose value hangs on the order of additions or on a kernel's inner ways, so that eager's own value is an accident:

- sums and products that run over somewhere on the way, in the operator's own type, in one order and not in another;
- a norm's weights that are not finite;
- a convolution's padding (or a transposed one's gaps) times a weight that is not finite: 0 * inf, where a kernel multiplies it at all;
- attention whose scores hold a NaN or an infinity: LibTorch's own kernels (one pass, and in parts) differ there, by dtype and length.

hazy() gives a mask for each result, or none. A disturbed run (shadow.py) puts anything in their places, so that what is made from them is not judged.
"""
import math

import torch

# Sums of products of operands: over when the same sum of absolute values is.
SUMS = set("""
mm bmm addmm baddbmm addbmm addmv addr mv dot vdot sum mean nansum cumsum avg_pool2d avg_pool3d avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d
adaptive_avg_pool1d index_add scatter_add trace col2im convolution upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d
_upsample_bilinear2d_aa _upsample_bicubic2d_aa
""".split())
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


def whole(results, hit):
    return [torch.ones(t.shape, dtype=torch.bool) if hit and is_real(t) else None for t in results]


def squares(func, args, kwargs, results):
    types = [t for t in results if is_real(t)]
    if any(is_real(x) and not bool(torch.isfinite(x).all()) for x in args[1:]):  # weights: scale first or subtract the mean first
        return whole(results, True)
    top = max((float(finite_abs(x).abs().max()) ** 2 * x.numel() if finite_abs(x).abs().max() < 1e150 else math.inf for x in args if is_real(x) and x.numel()), default=0.0)
    return whole(results, types and top > largest(types[0]))


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
    return sums(func, args, kwargs, results)


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
    return [bad | beyond(v, results[0])] + [None] * (len(results) - 1)


TABLE = {name: sums for name in SUMS}
TABLE |= {name: squares for name in SQUARES}
TABLE |= {name: products for name in PRODUCTS}
TABLE |= {"convolution": convolution, "_softmax": softmax, "_safe_softmax": safe_softmax, "_scaled_dot_product_flash_attention_for_cpu": flash}


def hazy(name, func, args, kwargs, results):
    """A mask for each result, or none. args and kwargs in fp64; results as eager gave them."""
    rule = TABLE.get(name)
    if not rule or not any(is_real(t) for t in results):
        return [None] * len(results)
    try:
        masks = rule(func, args, kwargs, results)
    except Exception:  # a form of the operator that the rule does not know
        masks = []
    masks = [m.expand(t.shape) if m is not None and bool(m.any()) else None for m, t in zip(masks, results)]
    return masks + [None] * (len(results) - len(masks))


PUT = (math.nan, math.inf, -math.inf, 0.0, 1.0, None)


def put(d, mask, run, generator):
    """Something else in the masked places: in the first runs the same everywhere, later each its own."""
    if run < 2 * len(PUT):
        if PUT[run % len(PUT)] is not None:
            d.masked_fill_(mask, PUT[run % len(PUT)])
        return
    pick = torch.randint(0, len(PUT), d.shape, generator=generator)
    for k, value in enumerate(PUT):
        if value is not None:
            d.masked_fill_(mask & (pick == k), value)
