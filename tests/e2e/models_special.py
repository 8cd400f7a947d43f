"""Operators of PyTorch's own tests that few models have: functions of two arguments, segments, histograms, reflections, windows that are drawn."""
import torch
import torch.nn.functional as F
from torch.export import Dim

from models import Fn, model

N = Dim("n", min=2, max=40)


@model
def incomplete_gamma_functions():
    """Small, medium and large orders, on both sides of the maximum and far from it, the ends of the range, outside of it."""

    def f(a, x):
        return torch.igamma(a, x), torch.igammac(a, x), torch.special.gammainc(a.clamp(max=20).double(), x.clamp(max=30).double())

    inf, nan = float("inf"), float("nan")
    a = torch.cat([torch.rand(60) * 3, torch.rand(60) * 90, 100 + torch.rand(60) * 5000, torch.tensor([0.0, 0, 1, 0, inf, inf, 2, -1, 2, nan, 1])])
    x = torch.cat([torch.rand(60) * 6, a[60:120] * (0.5 + torch.rand(60)), a[120:180] + a[120:180].sqrt() * torch.randn(60) * 3,
                   torch.tensor([0.0, 1, 0, inf, 3, inf, inf, 1, -1, 1, nan])])
    return Fn(f), (a, x), ({0: Dim("n", min=2, max=400)}, {0: Dim("n", min=2, max=400)})


@model
def zeta_functions():
    """Right and left of 0, at poles, of whole and of other exponents, of numbers."""

    def f(s, q):
        return torch.special.zeta(s, q), torch.special.zeta(2.5, q.abs() + 0.1), torch.special.zeta(s.abs() + 1.5, 3.0)

    s = torch.cat([1 + torch.rand(40) * 8, torch.tensor([2.0, 3, 4, 5, 2, 3, 1, 0.5, 2.5, 300, 60])])
    q = torch.cat([torch.rand(40) * 20, torch.tensor([-0.25, -3.75, -10.5, -1.125, -2, 0, 1, 2, -0.5, 0.75, 40])])
    return Fn(f), (s, q), ({0: Dim("n", min=2, max=100)}, {0: Dim("n", min=2, max=100)})


@model
def polynomials_of_computed_orders():
    def f(x, n):
        p = torch.special
        return p.chebyshev_polynomial_t(x, n), p.legendre_polynomial_p(x, n.float())

    return Fn(f), (torch.randn(20) * 0.8, torch.arange(20) - 2), ({0: N}, {0: N})


@model
def reduced_segments():
    """Lengths and offsets, empty segments, what is in none, segments of each line, first values."""

    def f(x):
        to, some = torch.segment_reduce, (x[:4, 0] > 0).sum()
        lengths, offsets = torch.stack([some, some * 0, 5 - some, some * 0 + 5]), torch.stack([some * 0 + 1, some + 1, some + 1, some * 0 + 8, some * 0 + 9])
        each = torch.stack([some.expand(4), 4 - some.expand(4)], 1) // 2
        return (to(x, "sum", lengths=lengths, axis=0), to(x, "mean", lengths=lengths, axis=0), to(x, "max", lengths=lengths, axis=0, unsafe=True),
                to(x, "min", lengths=lengths, axis=0, initial=-0.5), to(x, "prod", lengths=lengths, axis=0, initial=2.0),
                to(x, "mean", offsets=offsets, axis=0, unsafe=True, initial=1.0), to(x[:4], "sum", lengths=each, axis=1, unsafe=True))

    return Fn(f), (torch.randn(10, 3),), None


@model
def histograms_of_points():
    """Points counted by the bins of each of their numbers: bins of one size between the data's bounds or given ones, edges that are given; values outside, on edges and all alike; lines without bounds."""

    def f(x, w, e, g):
        a, b = torch.histogramdd(x, [3, 4]), torch.histogramdd(x.round(), 3, range=[-2.0, 2.0, -1.0, 3.0])
        c = torch.histogramdd(torch.cat([x, x[:, :1]], 1), [e, g, e * 2], weight=w, density=True)
        d, k = torch.histogramdd(x.reshape(-1, 1, 2) * 0 + 3, 4), torch.histogramdd(x[:, :1], [5], weight=w, density=True)
        return (a[0], *a[1], b[0], *b[1], c[0], *c[1], d[0], *d[1], k[0], torch.histc(x, 7), torch.histc(x * 0 + 2, 3), torch.histc(x.round(), 5), torch.histc(x, 4, min=-1, max=1))

    return Fn(f), (torch.randn(50, 2), torch.rand(50), torch.linspace(-1, 1, 4), torch.tensor([-2.0, -0.5, 0.0, 1.0, 4.0])), None


@model
def ranges_of_float_steps():
    """Ranges that step by decimal numbers to an end that moves: their counts are those of float64's rounded quotients (10.5 / 0.7 is above 15)."""

    def f(x):
        n = x.shape[0]
        return tuple(torch.arange(a, e, s, dtype=torch.float64) for a, e, s in ((0, n, 0.3), (0, n, 0.7), (0.5, 2 * n, 0.7), (0.25, 3 * n, 1.1), (n, 0, -0.3), (0, n, 0.1), (-0.5, n, 0.6)))

    return Fn(f), (torch.zeros(15),), ({0: Dim("n", min=1, max=400)},)


@model
def histograms():
    """Bins of one size of a range and of what is there, edges that are given, weights, densities."""

    def f(x, edges, w):
        edges, w = edges.abs().cumsum(0) - 2, w.abs()
        a, b = torch.histogram(x, 5, range=(-2.0, 2.0)), torch.histogram(x, 7)
        c = torch.histogram(x, edges, weight=w, density=True)
        return a[0], a[1], b[0], b[1], c[0], torch.histogram(x * 0 + 3, 4)[0], torch.histogram(x.round(), 4, range=(-2.0, 2.0))[0]

    return Fn(f), (torch.randn(100), torch.tensor([-2.0, -1, 0, 0.5, 3]), torch.rand(100)), None


@model
def windows_that_are_drawn():
    def f(x, y, two, three):
        a = F.fractional_max_pool2d(x, (2, 3), output_size=(4, 3), _random_samples=two, return_indices=True)
        b = F.fractional_max_pool3d(y, 2, output_size=(2, 3, 1), _random_samples=three, return_indices=True)
        return *a, *b

    return Fn(f), (torch.randn(2, 3, 9, 10), torch.randn(2, 3, 5, 7, 6), torch.rand(2, 3, 2), torch.rand(2, 3, 3)), None


@model
def complex_convolutions():
    """With groups, steps, distances and a bias, of one dim and transposed, of real images."""

    def f(x, w, b, line, real):
        return (F.conv2d(x, w, b, stride=2, padding=1, groups=2), F.conv1d(x[0, :, 0][None], line, padding="same"), F.conv_transpose2d(x, w[:, :2], stride=2),
                F.conv2d(real.to(torch.complex64), w[:, :2], dilation=2))

    c = dict(dtype=torch.complex64)
    return Fn(f), (torch.randn(2, 4, 7, 6, **c), torch.randn(4, 2, 3, 3, **c), torch.randn(4, **c), torch.randn(3, 4, 3, **c), torch.randn(2, 2, 7, 7)), None


@model
def reflections():
    """QR factors of more than one panel, of few columns and any number of rows, complete ones; products with Q."""

    def f(x, tall, wide, c):
        q, r = torch.linalg.qr(x)
        few, upper = torch.linalg.qr(tall)
        packed, tau = torch.geqrf(wide.mT)
        whole = torch.linalg.qr(wide[0].mT, mode="complete")
        return (q, r, few, upper, packed, tau, torch.ormqr(packed, tau, c), torch.ormqr(packed, tau, c, transpose=True), torch.ormqr(packed, tau, c.mT, left=False),
                torch.linalg.householder_product(packed, tau), whole[0], whole[1], torch.linalg.qr(tall * 0 + 1)[1].abs()[0], torch.linalg.qr(wide, mode="r")[1])

    return Fn(f), (torch.randn(150, 40), torch.randn(200, 5), torch.randn(2, 5, 9), torch.randn(2, 9, 3)), (None, {0: Dim("rows", min=5, max=4000)}, None, None)


@model
def resized_in_place():
    def f(x, y):
        a = x.clone().resize_(3, 4)
        b = (x * 2).resize_(2, 2, 3)
        c = x[1:].clone().resize_as_(y)
        turned, same = x.clone(), x.clone()
        turned.t_().resize_(6, 4)
        same.t_().resize_as_(same).mul_(2)
        return a + 1, b, c * y, turned, same, x.clone().t_().resize_(4, 6)

    return Fn(f), (torch.randn(4, 6), torch.randn(5, 2)), None


@model
def split_at_computed_places():
    """Pieces whose sizes the run finds: of rows, overlapping ones, as many as a number says."""

    def f(x, at):
        a, b, c = torch.tensor_split(x, at)
        d, e, g = torch.tensor_split(x, torch.tensor(3), dim=1)
        return a * 2, b.sum(0), c, d, e + g

    return Fn(f), (torch.randn(8, 6), torch.tensor([2, 5])), None


@model
def differences_and_quotients_that_are_exact():
    """Differences of equal products are 0, what is divided by itself is 1: their signs and roots tell."""

    def f(x, y, z, i):
        p = torch.where(z > 0, y, x)
        equal = torch.where(z > 0, p * p - y * y, 0.0)
        count = torch.zeros(40, 1).index_add(0, i, torch.ones_like(x[:, :1])).clamp(min=1)
        mean, squares = torch.zeros(40, 6).index_add(0, i, x) / count, torch.zeros(40, 6).index_add(0, i, x * x) / count
        alone = torch.where(count == 1, squares - mean * mean, 0.0)
        return equal.sign(), alone.abs().sqrt(), torch.where(z > 0, x * p - y * x, 0.0).sign(), (x / x.abs().amax(1, keepdim=True)).abs().amax(1) == 1

    return Fn(f), (torch.randn(9, 6), torch.randn(9, 6), torch.randn(9, 6), torch.randint(0, 40, (9,))), ({0: N},) * 4


@model
def divided_by_sizes():
    """Whole numbers divided by a size that may be 0, where nothing is divided then."""

    def f(x):
        at, rows = torch.arange(x.shape[0]), torch.full((1,), x.shape[0])
        return x + (at % x.shape[0])[:, None], at // rows, torch.fmod(at + 1, rows.clamp(min=1))

    return Fn(f), (torch.randn(5, 3),), ({0: Dim("rows", min=0, max=30)},)
