"""The oracle: runs a program once in eager and, beside it, every operator again in double precision.

A cast to a narrower floating type rounds in the double run as well (the rounding is part of the program); every other operator's result
stays as double gives it, so a compiler may keep more precision than eager within an expression. Each value knows whether it is exact:
moved, cast, compared or chosen only, from exact values; those must come out equal, bit for bit.

With `amplitude` the double run is disturbed after every inexact operator by that many units in the last place of the operator's own type:
what changes then is what no rounding order can promise. Every other such run rounds to the operator's type as well, so that values meet as they do
there (a difference that is exactly zero). Where sums run over and the like (overflow.py), anything stands in such a run.
"""
import math

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map

from overflow import base_name, hazy, put

WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.complex64: torch.complex128}
PRECISION = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53, torch.complex64: 2.0**-24, torch.complex128: 2.0**-53}

# Operators whose results are their operands' elements, or follow from them without rounding.
EXACT = set("""
abs alias all amax amin aminmax any argmax argmin argsort as_strided as_strided_scatter bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor bucketize cat ceil channel_shuffle clamp clamp_max clamp_min clone col2im_none constant_pad_nd copy copy_ copysign
count_nonzero cummax cummin detach diag_embed diagonal diagonal_copy diagonal_scatter embedding empty_like eq expand fill flip floor fmax fmin
fmod frexp full_like gather ge gt heaviside hardtanh im2col index index_copy index_fill index_put index_select isfinite isin isinf isnan isneginf
isposinf kthvalue le lift lift_fresh logical_and logical_not logical_or logical_xor lt masked_fill masked_scatter masked_select max
max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices max_unpool2d maximum median min minimum mode nan_to_num nanmedian
narrow_copy native_channel_shuffle ne neg nextafter nonzero one_hot ones_like permute pixel_shuffle pixel_unshuffle positive real imag
reflection_pad1d reflection_pad2d reflection_pad3d relu repeat replication_pad1d replication_pad2d replication_pad3d reshape roll rot90 round
scatter searchsorted select select_scatter sgn sign signbit slice slice_scatter sort split split_with_sizes squeeze stack t take threshold topk
trace_none transpose tril triu trunc unbind unfold unique_consecutive unique_dim _unique2 unsqueeze unsafe_split unsafe_split_with_sizes
upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d view
view_as_complex view_as_real where zero zeros_like _to_copy _unsafe_view _reshape_alias _conj conj_physical new_zeros new_ones new_full
_unsafe_index adaptive_max_pool2d adaptive_max_pool3d adaptive_max_pool1d argwhere block_diag complex repeat_interleave _adaptive_max_pool2d
""".split())
INEXACT_CREATION = ("linspace", "logspace", "arange")  # of floats; arange by steps of as many elements as a register of the machine has
OF_MATRICES = set("linalg_pinv linalg_inv_ex _linalg_solve_ex linalg_lstsq linalg_matrix_exp cholesky_inverse".split())
# These jump: operands that are exact stay so.
DISCRETE = ("remainder", "fmod", "floor_divide", "div", "add", "sub", "rsub", "mul")


def jumps(name, args, kwargs):
    """DISCRETE, but a sum of a product: it may be rounded in between, or not."""
    return name in DISCRETE and not (name in ("add", "sub", "rsub") and kwargs.get("alpha", args[2] if len(args) > 2 else 1) != 1)


# Of exact operands, zeros come with a sign that no order and no rounding decides: the operand's, or that of a sum which begins at 0.
SIGNED = set("tanh sin tan asin atan sinh asinh atanh erf expm1 log1p erfinv sqrt reciprocal sum mean nansum cumsum logcumsumexp".split())


def keeps_signs(name, args, kwargs):
    zero = name in ("add", "sub", "rsub") and isinstance(args[1], (int, float)) and args[1] == 0
    return name in SIGNED or (zero and kwargs.get("alpha", args[2] if len(args) > 2 else 1) == 1)


def in_exact_table(func, args, kwargs):
    """Nothing is rounded, whatever the operands."""
    if func._overloadname in ("decimals", "reduce", "value_reduce"):
        return False
    if base_name(func) in ("abs", "sgn") and args[0].is_complex():
        return False
    if base_name(func) in ("index_put", "_unsafe_index_put", "put") and True in (*args[3:4], kwargs.get("accumulate")):
        return False
    return base_name(func) in EXACT


def is_rounded(t):
    return isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())


class Shadow(TorchDispatchMode):
    def __init__(self, amplitude=0.0, seed=0):
        super().__init__()
        self.amplitude, self.run = amplitude, seed
        self.rounds = amplitude > 0 and seed // 4 % 2 == 1
        self.generator = torch.Generator().manual_seed(seed)
        self.pairs = {}  # id of the eager tensor -> (it, its double)
        self.inexact = set()  # storages
        self.broken = False  # the double run could not follow

    def value(self, t):
        """(double value, exact) of an eager tensor."""
        return self.shadow(t), self.is_exact(t)

    def is_exact(self, t):
        return t.untyped_storage()._cdata not in self.inexact

    def shadow(self, t):
        if not isinstance(t, torch.Tensor):
            return t
        found = self.pairs.get(id(t))
        if found is None:
            wide = t.to(WIDE[t.dtype]) if t.dtype in WIDE else t.clone()
            found = self.pairs[id(t)] = (t, wide)
        return found[1]

    def noise(self, s, dtype, times=1.0):
        u = torch.rand(s.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
        return 1 + times * self.amplitude * PRECISION[dtype] * u

    def rounded(self, s, dtype):
        skips = self.run >= 12 and float(torch.rand((), generator=self.generator)) < 0.5  # a product that a sum takes in is not rounded
        return s.to(dtype).to(s.dtype) if self.rounds and not skips else s

    def signed_zeros(self, d):
        """The sign of a zero that was summed or rounded to hangs on the order, too."""
        if d.is_floating_point() and bool((d == 0).any()):
            u = torch.rand(d.shape, generator=self.generator, dtype=torch.float64) - 0.5
            d.copy_(torch.where(d == 0, torch.copysign(torch.zeros_like(d), u.to(d.dtype)), d))

    def widen(self, x):
        if isinstance(x, torch.Tensor):
            return self.shadow(x)
        return WIDE.get(x, x) if isinstance(x, torch.dtype) else x

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = base_name(func)
        operands = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        shadows = tree_map(self.widen, (args, kwargs))  # before the operator writes
        exact_operands = all(self.is_exact(t) for t in operands)
        sources = [t.dtype for t in operands]
        result = func(*args, **kwargs)
        results = [t for t in tree_flatten(result)[0] if isinstance(t, torch.Tensor)]
        if not operands:
            return self.created(func, args, kwargs, results, result) if (name in INEXACT_CREATION or "window" in name) and is_rounded(results[0]) else result
        integral = not any(is_rounded(t) for t in operands)
        moves = in_exact_table(func, args, kwargs)
        exact = exact_operands and (moves or (integral and not any(is_rounded(t) for t in results)))
        quiet = moves or not self.amplitude
        written = [t for t in results if any(t is o for o in operands)]
        masks = hazy(func, *shadows, results, written, self.amplitude > 0)
        exact = exact and all(m is None for m in masks)
        if not quiet and not jumps(name, args, kwargs):  # right for operands a rounding away is right
            seen = {}
            writes = {id(self.shadow(t)) for t in results if id(t) in {id(o) for o in operands}}

            def disturb(x):
                if not is_rounded(x) or id(x) in writes:
                    return x
                if id(x) not in seen:
                    nominal = next((o.dtype for o in operands if self.pairs.get(id(o), (0, 0))[1] is x), torch.float32)
                    seen[id(x)] = self.rounded(conjugated(x) * self.noise(x, nominal), nominal)
                return seen[id(x)]

            shadows = tree_map(disturb, shadows)
        try:
            if func._overloadname == "dtype" and name == "view" and is_rounded(operands[0]):  # the bits of the type, not those of doubles
                shadows = ((shadows[0][0].to(operands[0].dtype), *args[1:]), kwargs)
            doubles = func(*shadows[0], **shadows[1])
        except Exception:
            self.broken = True
            doubles = tree_map(lambda t: (t.to(WIDE[t.dtype]) if t.dtype in WIDE else t.clone()) if isinstance(t, torch.Tensor) else t, result)
        # How many roundings a sum of doubles passes through, for which there is no wider type to compare with.
        length = max([math.sqrt(o.numel() / max(t.numel(), 1)) for o in operands for t in results[:1]] + [1.0])
        for t, d, mask in zip(results, [t for t in tree_flatten(doubles)[0] if isinstance(t, torch.Tensor)], masks):
            own = self.pairs.get(id(t))
            if own is None and d.dtype != WIDE.get(t.dtype, t.dtype):
                d = d.to(WIDE.get(t.dtype, t.dtype))
            if name in ("_to_copy", "copy") and t.dtype in WIDE and any(s != t.dtype for s in sources):
                d.copy_(d.to(t.dtype))
            if not quiet and is_rounded(t):
                d.mul_(self.noise(d, t.dtype, length if t.dtype in (torch.float64, torch.complex128) else 1.0))
                if d.is_complex():  # each part to within the number's size: what cancels in one need not in the other
                    parts = torch.view_as_real(d)
                    parts.add_(d.abs().unsqueeze(-1) * (self.noise(parts, t.dtype) - 1))
                if ("fft" in name or "upsample" in name or "grid_sampler" in name) and d.numel():  # its sums cancel, and places between elements are rounded
                    parts = torch.view_as_real(d) if d.is_complex() else d
                    parts.add_(parts.abs().max() * (self.noise(parts, t.dtype) - 1))
                if name in OF_MATRICES and d.dim() > 1 and d.numel():  # as exact as the matrix is large
                    parts, most = (torch.view_as_real(d), d.abs().amax((-2, -1), True).unsqueeze(-1)) if d.is_complex() else (d, d.abs().amax((-2, -1), True))
                    parts.add_(most * (self.noise(parts, t.dtype) - 1))
                if name == "gelu":  # x times what is left of 1 + erf
                    d.add_(shadows[0][0] * (self.noise(d, t.dtype) - 1))
                if "log_softmax" in name or "logcumsumexp" in name:  # the logarithm of a sum near one
                    d.add_(self.noise(d, t.dtype) - 1)
                d.copy_(self.rounded(d, t.dtype))
                if not (exact_operands and keeps_signs(name, args, kwargs)):
                    self.signed_zeros(d)
            if mask is not None and self.amplitude:
                put(d, mask, self.run, self.generator)
            if own is None:
                self.pairs[id(t)] = (t, d)
        return result if exact else self.mark(results, result)

    def created(self, func, args, kwargs, results, result):
        for t in results:
            try:
                s = func(*args, **{**kwargs, "dtype": torch.float64})
            except Exception:  # the operator takes no type
                s = self.shadow(t)
            if self.amplitude:
                s.mul_(self.noise(s, t.dtype))
                if base_name(func) == "linspace" and s.numel():  # a step times a number, beside an end: what is left of both near zero
                    s.add_(s.abs().max() * (self.noise(s, t.dtype) - 1))
            self.pairs[id(t)] = (t, s)
        return self.mark(results, result)

    def mark(self, results, result):
        for t in results:
            self.inexact.add(t.untyped_storage()._cdata)
        return result


def conjugated(x):
    """x without a pending conjugation, which arithmetic below the dispatcher's key for it would not see."""
    return torch.conj_physical(x.conj()) if x.is_conj() else x


def widen_leaf(t):
    return t.to(WIDE[t.dtype]) if t.dtype in WIDE else t.clone()


class OtherAttention(TorchFunctionMode):
    """Disturbs attention of 16-bit types as one that rounds its weights to that type before they meet the values, as PyTorch's own does on
    GPUs; on CPUs some of its ways keep them in float32, which the operators that `shadow` sees do not tell apart. Keys that are hidden from a row,
    by order or a mask, count for nothing, or make an infinite value of theirs NaN (times 0), and a NaN of their score one of the whole row (-inf is
    added to it, in some of eager's ways): both are found. So are rows without keys, for which eager gives zero times all there is, a NaN where a
    query is infinite."""

    def __init__(self, shadow):
        super().__init__()
        self.of = shadow

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func is torch.nn.functional.scaled_dot_product_attention and is_rounded(result) and len(args) >= 3:
            wide = tree_map(self.of.widen, (args, kwargs))
            with _disable_current_modes():
                q, k, v = wide[0][:3]
                d = self.of.shadow(result)
                if self.of.run % 2 and (k.shape[-2] == 0 or not all(bool(torch.isfinite(t).all()) for t in (q, k, v))):
                    d.copy_(of_seen_keys(wide))
                if result.dtype in (torch.float16, torch.bfloat16):
                    spread = func(q, k, v.abs(), *wide[0][3:], **wide[1])
                    d.add_(torch.nan_to_num(spread) * (self.of.noise(d, result.dtype) - 1))
        return result


def of_seen_keys(wide):
    """Attention whose rows never meet the scores and the values of keys that the order or a mask hides from them."""
    (q, k, v), mask = wide[0][:3], (list(wide[0][3:4]) + [wide[1].get("attn_mask")])[0]
    if wide[1].get("enable_gqa") and k.shape[-3]:
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    if wide[1].get("is_causal"):
        seen = seen.tril()
    scale = wide[1].get("scale")
    scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is not None:
        seen = seen & (mask if mask.dtype == torch.bool else mask != -torch.inf)
        scores = scores if mask.dtype == torch.bool else scores + mask
    scores = scores.masked_fill(~seen, -torch.inf)
    weights = torch.softmax(scores, -1).masked_fill((scores == -torch.inf).all(-1, keepdim=True), 0.0)
    return torch.where(seen.unsqueeze(-1), weights.unsqueeze(-1) * v.unsqueeze(-3), 0.0).sum(-2)
