"""Is what an artifact computed right? Exactly for integers, booleans and what is only moved or cast; else by the rule of `aotc verify`
(error against fp64 at most twice eager's plus an epsilon of the type), and element by element where that rule fails or hides something."""
import math

import torch

from shadow import OtherAttention, PRECISION, Shadow

EPSILON = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-21, torch.float64: 2.0**-50, torch.complex64: 2.0**-21, torch.complex128: 2.0**-50}
DISTURBED_RUNS = 16


def plain(t):
    """The value as real doubles or integers."""
    t = t.detach()
    if t.is_complex():
        t = torch.view_as_real(t.resolve_conj()).to(torch.float64)
    if t.is_floating_point():
        return t.resolve_neg().to(torch.float64)
    return t.to(torch.int64)


def classes(t):
    """0 finite, 1 NaN, 2 inf, 3 -inf."""
    return torch.isnan(t).to(torch.int8) + 2 * (t == math.inf).to(torch.int8) + 3 * (t == -math.inf).to(torch.int8)


class Expected:
    """What one run of a program must give: eager's values and the fp64 values of all outputs, then of the leaves that the program writes."""

    refused = False  # the program's own checks refuse these data

    def __init__(self, program, made, sizes):
        self.program, self.made, self.sizes = program, made, sizes
        with Shadow() as mode:
            _, live, outputs = program.replay(sizes, given=made)
        self.live = live
        views = {x.name for x in program.leaves() if x.of}
        self.names = program.outputs + [n for n in live if n not in views and not same_bits(live[n], made[n])]
        eager = outputs + [live[n] for n in self.names[len(outputs):]]
        self.eager = [t.resolve_conj().resolve_neg().contiguous() for t in eager]
        self.truth = [mode.shadow(t).contiguous() for t in eager]
        self.exact = [mode.is_exact(t) for t in eager]
        self.broken = mode.broken
        self.disturbed = None

    def disturbances(self, i):
        if self.disturbed is None:
            self.disturbed = []
            for k in range(DISTURBED_RUNS):
                try:
                    with Shadow(amplitude=float(1 << k % 4), seed=k) as mode, OtherAttention(mode):
                        _, live, outputs = self.program.replay(self.sizes, given=self.made)
                    values = outputs + [live[n] for n in self.names[len(outputs):]]
                    self.disturbed.append([plain(mode.shadow(t)) for t in values])
                except Exception:
                    continue
        return [d[i] for d in self.disturbed if d[i].shape == plain(self.truth[i]).shape]

    def size_hangs(self, i):
        """Does the size of output i hang on a rounding? Runs that could not follow count as well: the sizes of their operands differed."""
        return len(self.disturbances(i)) < DISTURBED_RUNS


def same_bits(a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = plain(a), plain(b)
    return bool(((x == y) | ((x != x) & (y != y))).all()) if a.numel() else True


def relative_l2(a, t):
    same = (a == t) | (torch.isnan(a) & torch.isnan(t))
    keep = torch.isfinite(t)
    error = torch.where(same | ~keep, torch.zeros_like(a), a - t)
    e, n = float(error.norm()), float(torch.where(keep, t, torch.zeros_like(t)).norm())
    return 0.0 if e == 0 else e / (n or 1.0)


def judge(expected, i, got):
    """None, or what is wrong with output i."""
    eager, truth = expected.eager[i], expected.truth[i]
    if got.shape != eager.shape and not expected.exact[i] and expected.size_hangs(i):
        return None
    if got.dtype != eager.dtype or got.shape != eager.shape:
        return f"{got.dtype} {tuple(got.shape)}, eager gives {eager.dtype} {tuple(eager.shape)}"
    if not got.numel():
        return None
    a, e, t = plain(got), plain(eager), plain(truth)
    if not got.dtype.is_floating_point and not got.dtype.is_complex:
        if torch.equal(a, e):
            return None
        wrong = a != e
        if not expected.exact[i]:  # near a tie of an inexact value either side is right
            for d in [d for d in [t] + expected.disturbances(i) if d.shape == a.shape]:
                wrong &= ~((d != e) | (a == d))
        return describe(wrong, a, e, t, "integers or booleans")
    same = (a == e) | (torch.isnan(a) & torch.isnan(e))
    if bool(same.all()):
        return None
    if expected.exact[i]:
        return describe(~same, a, e, t, "exact values")
    ca, ce, ct = classes(a), classes(e), classes(t)
    other = (ca != ce) & (ca != ct) & (ca != classes(rounded(t, got.dtype)))  # fp64's may be too large for the type
    if bool(other.any()):
        for d in expected.disturbances(i):
            other &= (ca != classes(d)) & (ca != classes(rounded(d, got.dtype)))
        if bool(other.any()):
            return describe(other, a, e, t, "NaN or infinity")
    finite = (ca == 0) & (ce == 0) & (ct == 0)
    zero = torch.zeros_like(a)
    a, e, t = torch.where(finite, a, zero), torch.where(finite, e, zero), torch.where(finite, t, zero)
    eps = EPSILON[got.dtype]
    # A complex number's parts are as exact as the number is.
    size = t.norm(dim=-1, keepdim=True).expand_as(t) if got.dtype.is_complex else t.abs()
    limit = 2 * relative_l2(e, t) + eps
    loose = (a - t).abs() > 4 * (e - t).abs() + 8 * eps * size + torch.finfo(got.dtype).tiny
    if relative_l2(a, t) <= limit and not bool(loose.any()):
        return None
    spread = zero.clone()
    for d in expected.disturbances(i):
        d = torch.where(finite, torch.nan_to_num(d, math.inf), t)
        spread = torch.maximum(spread, (d - t).abs())
    floor = 4 * torch.finfo(got.dtype).tiny * PRECISION[got.dtype] * 2
    times = 8 if got.dtype in (torch.float64, torch.complex128) else 4  # the truth has eager's roundings then
    wrong = (a - t).abs() > times * spread + 4 * (e - t).abs() + 4 * eps * size + floor
    return describe(wrong, a, e, t, f"error {relative_l2(a, t):.3g} against fp64, eager {relative_l2(e, t):.3g};")


def rounded(d, dtype):
    """Doubles as the nearest of the type."""
    return d.to({torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)).to(torch.float64)


def describe(wrong, a, e, t, what):
    n = int(wrong.sum())
    if not n:
        return None
    k = int(wrong.reshape(-1).nonzero()[0])
    at = [x.reshape(-1)[k].item() for x in (a, e, t)]
    return f"{what} {n} of {wrong.numel()} elements wrong, first [{k}]: {at[0]!r}, eager {at[1]!r}, fp64 {at[2]!r}"
