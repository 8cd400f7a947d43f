"""Fourier transforms in float64, which eager rounds about as often as it must: within a bound of sums over extended doubles."""
import numpy
import torch

from exact import Case, suite

PI = numpy.longdouble("3.14159265358979323846264338327950288")
BOUND = 2.2 * 2.0**-53  # of eager 1.5; with factors that were rounded as 2 pi j / n is, 2.5 to 3.9


def waves(n):
    k = numpy.arange(n)
    angle = (numpy.outer(k, k) % n).astype(numpy.longdouble) * 2 * PI / n
    return numpy.cos(angle), numpy.sin(angle)


def parts(z):
    z = z.resolve_conj().resolve_neg()
    return (z.real.numpy().astype(numpy.longdouble), z.imag.numpy().astype(numpy.longdouble)) if z.is_complex() else (z.numpy().astype(numpy.longdouble), 0 * z.numpy().astype(numpy.longdouble))


def pair(re, im):
    return torch.stack([torch.from_numpy(re.astype(numpy.float64)), torch.from_numpy(im.astype(numpy.float64))], -1)


def forward(re, im):
    c, s = waves(re.shape[-1])
    return re @ c + im @ s, im @ c - re @ s


def whole(z, n):
    """Both halves of a spectrum of which z is the first."""
    re, im = parts(z)
    im = im.copy()
    im[..., 0] = 0
    if n % 2 == 0:
        im[..., -1] = 0
    rest = slice(n - n // 2 - 1, 0, -1)
    return numpy.concatenate([re, re[..., rest]], -1), numpy.concatenate([im, -im[..., rest]], -1)


def transforms(n):
    """(name, of eager, right) of a real x and a complex z of n numbers."""
    half = lambda z: z[..., : z.shape[-1] // 2 + 1]
    real = torch.view_as_real
    scaled = lambda p: tuple(v / n for v in p)
    return [
        ("fft", lambda x, z: real(torch.fft.fft(z)), lambda x, z: pair(*forward(*parts(z)))),
        ("ifft", lambda x, z: real(torch.fft.ifft(z)), lambda x, z: pair(*scaled(forward(*parts(z.conj())))) * torch.tensor([1.0, -1.0], dtype=torch.float64)),
        ("rfft", lambda x, z: real(torch.fft.rfft(x)), lambda x, z: pair(*(half(v) for v in forward(*parts(x))))),
        ("ihfft", lambda x, z: real(torch.fft.ihfft(x).resolve_conj()), lambda x, z: pair(*scaled(half(v) for v in forward(*parts(x)))) * torch.tensor([1.0, -1.0], dtype=torch.float64)),
        ("irfft", lambda x, z: torch.fft.irfft(half(z), n=z.shape[-1]), lambda x, z: pair(*scaled(forward(*whole(half(z).conj(), n))))[..., 0]),
        ("hfft", lambda x, z: torch.fft.hfft(half(z), n=z.shape[-1]), lambda x, z: pair(*forward(*whole(half(z), n)))[..., 0]),
    ]


def cases_of(n):
    x, z = torch.randn(64, n, dtype=torch.float64), torch.randn(64, n, 2, dtype=torch.float64)
    of_parts = lambda f: lambda x, z: f(x, torch.view_as_complex(z))
    return [Case(f"{name} of {n}", of_parts(f), [x, z], right=of_parts(right), norm=BOUND) for name, f, right in transforms(n)]


@suite
def fourier():
    return [c for n in (3, 6, 13, 17) for c in cases_of(n)]


@suite
def fourier_of_size():
    """Lengths that are known when a run starts."""
    return cases_of(17)


fourier_of_size.moves = (1,)
