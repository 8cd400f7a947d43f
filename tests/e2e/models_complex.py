"""Models of complex numbers, as neural operators and state space layers have them."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim

from models import Fn, model


class SpectralConvolution(nn.Module):
    """The lowest frequencies of an image times matrices, written into corners of a spectrum of zeros."""

    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        self.low = nn.Parameter(torch.randn(channels, channels, modes, modes, dtype=torch.cfloat) / channels)
        self.high = nn.Parameter(torch.randn(channels, channels, modes, modes, dtype=torch.cfloat) / channels)

    def forward(self, x):
        m, b, c = self.modes, x.shape[0], x.shape[1]
        z = torch.fft.rfft2(x)
        out = torch.zeros(b, c, x.shape[-2], x.shape[-1] // 2 + 1, dtype=torch.cfloat)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", z[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", z[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=(x.shape[-2], x.shape[-1]))


@model
def fourier_neural_operator():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.out = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 1, 1)
            self.spectral, self.skip = nn.ModuleList(SpectralConvolution(8, 8) for _ in range(2)), nn.ModuleList(nn.Conv2d(8, 8, 1) for _ in range(2))

        def forward(self, x):
            x = self.lift(x)
            for s, k in zip(self.spectral, self.skip):
                x = F.gelu(s(x) + k(x))
            return self.out(x)

    return Net(), (torch.randn(2, 3, 16, 18),), ({0: Dim("batch", min=1, max=8)},)


@model
def diagonal_state_space():
    """A layer of S4D: the kernel from powers of complex states, applied by transforms."""

    class Net(nn.Module):
        def __init__(self, h=6, n=4):
            super().__init__()
            self.log_dt, self.c = nn.Parameter(torch.rand(h) - 3), nn.Parameter(torch.randn(h, n, 2))
            self.log_re, self.im = nn.Parameter(torch.rand(h, n)), nn.Parameter(torch.arange(n).repeat(h, 1) * 3.0)

        def forward(self, u):
            length = u.shape[-1]
            c, dt, a = torch.view_as_complex(self.c), self.log_dt.exp(), -self.log_re.exp() + 1j * self.im
            dta = a * dt.unsqueeze(-1)
            c = c * (dta.exp() - 1.0) / a
            k = 2 * torch.einsum("hn,hnl->hl", c, (dta.unsqueeze(-1) * torch.arange(length)).exp()).real
            y = torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * torch.fft.rfft(k, n=2 * length), n=2 * length)[..., :length]
            return y + u, (1 / (1 - dta / 2)).abs(), torch.view_as_real((1 + dta / 2) / (1 - dta / 2))

    return Net(), (torch.randn(2, 6, 24),), None


def of_complex(f):
    def g(x, y):
        out = f(torch.view_as_complex(x), torch.view_as_complex(y))
        return tuple(torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in out)

    return Fn(g), (torch.randn(4, 6, 2), torch.randn(4, 6, 2)), ({0: Dim("rows", min=2, max=9)}, {0: Dim("rows", min=2, max=9)})


@model
def complex_functions():
    def f(z, w):
        squared = z**2, z**-3, z.square(), z.reciprocal(), torch.addcmul(z, z, w, value=0.5), torch.addcdiv(w, z, w + 3), 2 - z
        return *squared, z.log(), z.sqrt(), z.rsqrt(), z.sgn(), z.sigmoid(), z.tanh(), z.tan(), z.sin(), z.cos(), z.sinh(), z.cosh(), (z + 3) ** w, z**0.5, z.exp2(), z.expm1(), (z + 2).log1p(), (z + 4).log10()

    return of_complex(f)


@model
def complex_norms():
    """Of vectors by magnitudes; of matrices also by singular values, which are not those of the magnitudes."""

    def f(z, w):
        norm, matrix = torch.linalg.norm, torch.linalg.matrix_norm
        stack = torch.stack([z[:2, :5], w[:2, :5], z[:2, 1:]])
        singular = matrix(stack, 2), matrix(stack, -2, keepdim=True), matrix(stack, "nuc"), norm(w[:2], 2), norm(stack.movedim(0, 2), "nuc", dim=(1, 0))
        vectors = norm(z), norm(z, dim=1), norm(z, 1, dim=0), norm(z[0], 2), norm(w, 3, dim=1, keepdim=True), torch.linalg.vector_norm(z, 2, dim=(0, 1))
        return *singular, *vectors, matrix(stack, 1), matrix(stack, float("inf")), matrix(stack), norm(z, "fro"), torch.nn.functional.normalize(z, dim=1), z.real.expand_as(w) + 1

    return of_complex(f)


@model
def complex_beside_real():
    """Real and complex tensors in one operator; results of the other kind than operands."""

    def f(z, w):
        likes = torch.zeros_like(z, dtype=torch.float32) + 1, torch.ones_like(z.real, dtype=torch.complex64) * w, z.real.view_as(w) + 1, z.view_as(w.real) * 2
        joined = torch.cat([z, w.real]), torch.stack([z.imag, w], 1), z.real.sum(dtype=torch.complex64), z.imag.sum(1, dtype=torch.complex64)
        lines = torch.add(z, w, alpha=2j), torch.sub(z, w.real, alpha=1 - 1j), torch.nn.functional.linear(z, w[:2], w[0, :2]), torch.nn.functional.linear(z, w[:1])
        sums = torch.addmm(z[:, :2], z, w.mT[:, :2], beta=2, alpha=1j), torch.addmm(w[0, :2], z, w.mT[:, :2], beta=0), torch.baddbmm(z[None, :2, :2], z[None, :2], w.mT[None, :, :2])
        return *likes, *joined, *lines, *sums

    return of_complex(f)


@model
def complex_places():
    """Operators that move elements or choose among them, and comparisons."""

    def f(z, w):
        moved = z.roll(1, 1), z.repeat(2, 1), z.rot90(), z.tril(), z.movedim(0, 1), z.unfold(1, 2, 2), z[:, :2].diagonal(), torch.diag_embed(z[0]), torch.hstack([z, w]), z.flip(1)
        chosen = torch.where(z.real > 0, z, w), torch.where(w.imag > 0, z, 0), z.masked_fill(w.real > 0, 1 + 2j), z.gather(1, torch.tensor([[5, 0]])), z.repeat_interleave(2, 1), torch.full((2, 2), 1 - 3j) * z[:2, :2]
        summed = z.cumsum(1), torch.zeros_like(z).scatter_add(1, torch.zeros(1, 6, dtype=torch.int64), z[:1]), torch.ones_like(z) + w, torch.lerp(z, w, 0.3), torch.vdot(z[0], w[1]), torch.linalg.vecdot(z, w), z.mH @ w, z.var(1), z.std(0), torch.linalg.vector_norm(z, dim=1), z.norm()
        return *moved, *chosen, *summed, z == w, z.isfinite(), (z.clone() * 1).ne(z)

    return of_complex(f)


@model
def complex_writes():
    def f(z, w):
        a, b, c, d = z.clone(), z.clone(), z.clone(), z.clone()
        a[:, 1:3] = w[:, 2:4]
        a[0] = 1
        a[1, ::2] *= 1j
        b.real.mul_(2)
        b.imag.zero_()
        b.t()[0].copy_(w[:, 1])
        c[:, torch.tensor([4, 1])] = w[:, :2]
        c.masked_fill_(w.real > 1, 0)
        d.diagonal().fill_(2 - 1j)
        d.view(-1)[3:5].add_(w.view(-1)[:2])
        return a, b, c, d

    return of_complex(f)


@model
def spectra_of_any_length():
    """Transforms of all kinds along dims whose lengths move, in all norms."""

    def f(x, y):
        z = torch.fft.rfft(x)
        whole = torch.fft.fftn(y, dim=(1, 2), norm="ortho")
        back = torch.fft.ifft2(whole * whole.conj())
        longer = torch.fft.fft(x, n=2 * x.shape[1] + 1, norm="forward")
        images = torch.fft.irfft2(torch.fft.rfft2(y) * 2, s=y.shape[1:])
        return torch.view_as_real(z), torch.view_as_real(whole), back.real, longer.abs(), images, torch.fft.ihfft(x).imag, torch.fft.hfft(torch.fft.fft(x[:, :3]), n=4, norm="ortho")

    return Fn(f), (torch.randn(3, 12), torch.randn(2, 9, 10)), ({1: Dim("n", min=4, max=70)}, {1: Dim("h", min=2, max=33), 2: Dim("w", min=3, max=32)})


@model
def complex_in_and_out():
    """Complex inputs (one written in place), results and a number, of both widths, beside real ones."""

    def f(z, w, x):
        z.mul_(1j)
        y = z * w.conj() + x
        return y, torch.fft.fft(y, norm="ortho"), torch.fft.rfft(x.double()), y.sum(), y.real, w[:0]

    return Fn(f), (torch.randn(3, 5, dtype=torch.cfloat), torch.randn(5, dtype=torch.cfloat), torch.randn(3, 5)), ({0: Dim("n", min=1, max=40)}, None, {0: Dim("n", min=1, max=40)})


@model
def products_along_dims():
    """Products of complex numbers over all, over dims of any length, running ones."""

    def f(z, w):
        return z.prod(), z.prod(0), z.prod(1, keepdim=True), z.cumprod(0), w.cumprod(-1), torch.prod(w, 1, dtype=torch.complex128), z[:1].prod(0), z[0, 0].prod(), z[:, :0].prod(1)

    n, m = Dim("n", min=1, max=40), Dim("m", min=0, max=9)
    return Fn(f), (torch.randn(6, 5, dtype=torch.cfloat), torch.randn(2, 3, 4, dtype=torch.cdouble)), ({0: n}, {1: m})
