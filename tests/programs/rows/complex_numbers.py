"""What only complex numbers have: parts, turns, transforms. All other rows are tried with them, too (Generator.tensor)."""
from generator import COMPLEX, FLOATS, Skip, row


@row("parts of complex numbers", 8, "complex")
def parts(g):
    x = g.tensor(COMPLEX, (0, 4))
    return g.choice([f"torch.{f}({x})" for f in ("real", "imag", "abs", "angle", "conj", "sgn", "conj_physical", "view_as_real", "is_complex") if f != "is_complex"] + [f"{x}.conj().imag", f"{x}.mH" if x.rank > 1 else f"{x}.conj() * {x}"])


@row("complex numbers of parts", 4, "complex")
def made(g):
    x = g.tensor(FLOATS[:2], (0, 3))
    return g.choice([f"torch.complex({x}, {g.like(x)})", f"torch.polar({x}.abs(), {g.like(x)})", f"torch.view_as_complex(torch.stack([{x}, {g.like(x)}], -1))", f"{x} * 1j", f"{x} + (2 - 1j)", f"{x}.to({g.choice(COMPLEX)})"])


@row("arithmetic of complex numbers", 8, "complex")
def arithmetic(g):
    x = g.tensor(COMPLEX, (0, 4))
    y = g.like(x, COMPLEX + FLOATS[:2], broadcast=True)
    return g.choice([f"{x} {o} {y}" for o in "+-*/"] + [f"{x} == {y}", f"torch.addcmul({x}, {x}, {x}, value=2)", f"torch.where({x} == {y}, {x}, 0)", f"torch.lerp({x}, {x} * 2, 0.25)", f"{x} * (1 - 2j)", f"{x} ** 2", f"torch.add({x}, {y}, alpha=2)",
                     f"torch.sum({x})", f"torch.mean({x}, {g.axis(x)})" if x.rank else f"-{x}", f"torch.cumsum({x}, {g.axis(x)})" if x.rank else f"{x}.square()", f"torch.prod({x}, {g.axis(x)})" if x.rank else f"{x}.exp()",
                     f"torch.{g.choice(['exp', 'sqrt', 'log', 'sin', 'cos', 'tanh', 'reciprocal', 'sigmoid', 'square', 'sinh', 'cosh', 'rsqrt', 'log1p', 'expm1', 'tan', 'asin', 'acos', 'atan'])}({x})", f"{x}.to({g.choice(COMPLEX)})"])


# Of which either type has the same results but for roundings.
EXTREMES = "0.0 -0.0 1.0 -1.0 0.5 -2.5 1000.0 -1000.0 math.inf -math.inf math.nan".split()
AT_EXTREMES = "exp sqrt log sin cos tan sinh cosh tanh sigmoid reciprocal rsqrt".split()


@row("complex extremes", 4, "complex")
def extremes(g):
    x = g.tensor(COMPLEX, (0, 3))
    real = "float32" if str(x.dtype) == "torch.complex64" else "float64"
    part = lambda v: f"torch.where({v} > {g.choice(['0', '0.5', '-1'])}, {g.choice(EXTREMES)}, {g.choice(EXTREMES)}).to(torch.{real})"
    z = f"torch.complex({part(f'{x}.real')}, {part(f'{x}.imag')})"
    return g.choice([f"torch.{f}({z})" for f in AT_EXTREMES] + [f"{z} ** {e}" for e in ("-2", "0", "-1", "0.5", "2.5", "-0.5", x)] + [f"1 / {z}", f"{z} / 2", f"{z} * 2", f"{z} / {z}", f"torch.pow(2.0, {z})"])


@row("products of complex matrices", 4, "complex")
def products(g):
    x = g.tensor(COMPLEX, (2, 3))
    return g.choice([f"{x} @ {x}.mH", f"{x}.mT @ {x}", f"torch.einsum('...i,...i->...', {x}, {x}.conj())", f"torch.linalg.vector_norm({x})", f"torch.vdot({x}.reshape(-1), {x}.reshape(-1))", f"torch.outer({x}.reshape(-1)[:4], {x}.reshape(-1)[:3])"])


@row("transforms", 4, "complex")
def transforms(g):
    if g.odd:  # infinities times waves that are zero, in whatever order
        raise Skip
    x = g.tensor(COMPLEX + FLOATS[:2], (1, 3))
    d = g.axis(x)
    return g.choice([f"torch.fft.{f}({x}, dim={d})" for f in ("fft", "ifft", "fftshift", "ifftshift") + (("hfft",) if x.dtype.is_complex else ("rfft",))])


@row("writes of complex numbers", 5, "complex")
def writes(g):
    x = g.tensor(COMPLEX, (0, 3), where=lambda v: v.t.numel() > 0 and v.t.is_contiguous())
    return g.choice([f"{x}.mul_(2j)", f"{x}.add_({g.like(x)})", f"{x}.real.mul_(2)", f"{x}.imag.copy_({x}.real)", f"torch.view_as_real({x})[..., 0].add_(1)", f"{x}.conj_physical_()", f"{x}.copy_({x}.conj())", f"{x}[..., :1].zero_()" if x.rank else f"{x}.zero_()"]), 0
