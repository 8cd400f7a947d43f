"""Fourier transforms of real and complex lines."""
import torch
import torch.nn.functional as F

from models import Dim, Fn, model


@model
def short_transforms():
    def f(x, window):
        a = torch.stft(x, 32, 12, 24, window, center=True, return_complex=True)
        b = torch.stft(x[0], 16, center=False, normalized=True, onesided=False, return_complex=True, window=torch.ones(16))
        return a.abs(), b.real, b.imag

    return Fn(f), (torch.randn(2, 200), torch.hann_window(24)), None


@model
def spectrum_filtered_and_back():
    """Complex spectra: scaled, padded along time and frequency, and back to a signal."""

    def f(x, window, gain):
        z = torch.stft(x, 64, 16, window=window, return_complex=True) * gain
        z = F.pad(F.pad(z, (2, 1)), (-1, -2))
        return torch.istft(z, 64, 16, window=window, length=900), torch.view_as_real(F.pad(torch.fft.rfft(x), (1, 3, 1, 0)))

    return Fn(f, window=torch.hann_window(64), gain=torch.rand(33, 1)), (torch.randn(2, 1000),), None


@model
def transforms_by_factors():
    """Lengths that are summed factor by factor: of frames of any number, of real and complex numbers, cut, filled up, odd and with a large factor."""

    def f(x, z, y):
        frames = torch.stft(x, 400, 160, window=torch.hann_window(400), return_complex=True)
        signal = torch.istft(frames * 0.5, 400, 160, window=torch.hann_window(400))
        spectrum = torch.fft.fft2(torch.view_as_complex(z))
        half, odd, filled = torch.fft.rfft(y, dim=0), torch.fft.rfft(y[:315], dim=0), torch.fft.rfft(y, 1024, dim=0)
        back = torch.fft.irfft(half, 700, dim=0), torch.fft.irfft(odd, 315, dim=0), torch.fft.irfft(filled[:400], 1024, dim=0)
        return frames.abs(), signal, torch.view_as_real(torch.fft.ifft(spectrum, dim=0)), torch.view_as_real(half), filled.abs(), *back

    return Fn(f), (torch.randn(2, 8000), torch.randn(144, 206, 2), torch.randn(700, 3)), ({0: Dim("batch", min=1, max=16)}, None, None)


@model
def transforms_of_many_lines():
    """Enough lines to fill the lanes: along the last and an inner dim, odd and even lengths, cut and filled up, both ways, with a prime factor that is too large, in both types."""

    def f(x, d):
        last, inner = torch.fft.rfft(x), torch.fft.rfft(x, 128, dim=1)
        both = torch.fft.fft2(torch.complex(x, x.flip(2)))
        whole = torch.fft.fft(x[..., :105]).abs(), torch.fft.ifft(both, 81, dim=1, norm="ortho").real
        back = torch.fft.irfft(last, 192), torch.fft.irfft(last[..., :40], 105), torch.fft.irfft(inner, 128, dim=1)
        wide = torch.fft.irfft(torch.fft.rfft(d, 240) * torch.fft.rfft(d.flip(0), 240), 240)
        return *whole, *back, both.abs(), wide, torch.fft.rfft(d, 134).abs()

    return Fn(f), (torch.randn(3, 90, 192), torch.randn(40, 130, dtype=torch.float64)), ({0: Dim("batch", min=1, max=8)}, None)


@model
def long_transform():
    return Fn(lambda x: torch.fft.irfft(torch.fft.rfft(x, 12288) * 2, 12288)[..., :6000]), (torch.randn(2, 6000),), None


@model
def spectra_that_are_real():
    """What is in the middle of a symmetric signal, cosine transforms, and correlations from power spectra: real numbers where complex ones are taken, of integers and of any length, too."""

    def f(x, i):
        n = x.shape[1]
        correlation = torch.fft.irfft(torch.fft.rfft(x, n=2 * n).abs() ** 2, n=2 * n)[:, :n]
        power = torch.fft.rfft2(x).abs()
        pairs = torch.stft(x, 16, 4, window=torch.ones(16), return_complex=True).abs().square()
        return correlation / correlation[:, :1], torch.fft.irfft2(power), torch.fft.irfftn(power, dim=(1,)), torch.fft.hfft(x[:, :9]), torch.fft.irfft(i), torch.fft.irfft(pairs, dim=1), torch.fft.hfft(i, 12, norm="ortho")

    return Fn(f), (torch.randn(3, 40), torch.randint(0, 9, (2, 11))), ({0: Dim("batch", min=1, max=8), 1: Dim("n", min=20, max=90)}, None)
