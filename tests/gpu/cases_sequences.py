"""Cases of recurrent layers of more steps than are unrolled, and of Fourier transforms."""
import torch
from torch import nn

from cases import CASES, case_of

R = torch.randn


def recurrent(name, make, t=torch.float32, batch=3, steps=12):
    def f():
        m = make().to(t)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.m = m

            def forward(self, x):
                y, s = self.m(x)
                return [y, *(s if isinstance(s, tuple) else [s])]

        return Net(), [(R(*((batch, steps) if m.batch_first else (steps, batch)), 10).to(t),)], None

    CASES[f"layer_{name}"] = f


recurrent("lstm_64", lambda: nn.LSTM(10, 64), batch=1, steps=40)
recurrent("lstm_45", lambda: nn.LSTM(10, 45, bidirectional=True), batch=5)
recurrent("lstm_128_f16", lambda: nn.LSTM(10, 128, bidirectional=True), t=torch.float16)
recurrent("lstm_256_bf16", lambda: nn.LSTM(10, 256), t=torch.bfloat16, batch=9, steps=10)
recurrent("lstm_70_f64", lambda: nn.LSTM(10, 70, bidirectional=True), t=torch.float64)
recurrent("lstm_projected", lambda: nn.LSTM(10, 40, proj_size=12, bidirectional=True), batch=6)
recurrent("lstm_wide", lambda: nn.LSTM(10, 600), batch=2, steps=9)
recurrent("gru_128", lambda: nn.GRU(10, 128, bidirectional=True, batch_first=True), batch=40, steps=11)
recurrent("gru_33_f64", lambda: nn.GRU(10, 33), t=torch.float64)
recurrent("gru_160_f16", lambda: nn.GRU(10, 160), t=torch.float16, batch=7)
recurrent("tanh_128", lambda: nn.RNN(10, 128, bidirectional=True), batch=8)
recurrent("relu_31", lambda: nn.RNN(10, 31, nonlinearity="relu", batch_first=True), batch=9)
recurrent("tanh_300", lambda: nn.RNN(10, 300), batch=2)


def transforms(name, fn, *dims, t=torch.float32):
    case_of(f"fourier_{name}", fn, lambda: tuple(R(*d).to(t) for d in dims))


def parts(f):
    return lambda re, im: torch.view_as_real(f(torch.complex(re, im)))


transforms("pairs_64", parts(lambda z: torch.fft.fft(z)), (5, 64), (5, 64))
transforms("pairs_4096", parts(lambda z: torch.fft.ifft(z)), (3, 4096), (3, 4096))
transforms("pairs_along", parts(lambda z: torch.fft.fft(z, dim=1)), (3, 60, 21), (3, 60, 21))
transforms("pairs_two", parts(lambda z: torch.fft.fft2(z)), (2, 32, 48), (2, 32, 48))
transforms("pairs_f64", parts(lambda z: torch.fft.ifft(z, n=128)), (4, 100), (4, 100), t=torch.float64)
transforms("real_pairs", lambda x: torch.view_as_real(torch.fft.fft(x)), (6, 56))
case_of("complex_in_and_out", lambda z, w, x: (z * w.conj() + x, torch.fft.fft(z), torch.fft.rfft(x.double()), z.sum()), lambda: (torch.complex(R(5, 64), R(5, 64)), torch.complex(R(64), R(64)), R(5, 64)))
transforms("half", lambda x: torch.view_as_real(torch.fft.rfft(x)), (7, 1024))
transforms("half_filled", lambda x: torch.view_as_real(torch.fft.rfft(x, n=256)), (7, 99))
transforms("half_1000", lambda x: torch.view_as_real(torch.fft.rfft(x)), (3, 1000))
transforms("half_odd", lambda x: torch.view_as_real(torch.fft.rfft(x, dim=0)), (11 * 13, 9))
transforms("half_prime_f64", lambda x: torch.view_as_real(torch.fft.rfft(x)), (5, 62), t=torch.float64)
transforms("line", lambda re, im: torch.fft.irfft(torch.complex(re, im)), (5, 129), (5, 129))
transforms("line_cut", lambda re, im: torch.fft.irfft(torch.complex(re, im), n=100), (5, 40), (5, 40))
transforms("line_odd", lambda re, im: torch.fft.irfft(torch.complex(re, im), n=45, dim=1), (2, 23, 18), (2, 23, 18))
