"""Models with operators of higher order: branches on data and on sizes, rounds over the rows of a tensor."""
import torch
import torch.nn as nn
from torch.export import Dim

from models import Fn, model


@model
def branches():
    """Both sides of a branch on data, one of them with a branch of its own; one on a size; parameters and several results within."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 5), nn.Linear(6, 5)

        def forward(self, x):
            def inner(x):
                return torch.cond(x[0, 0] > 0.2, lambda x: self.a(x).sin(), lambda x: self.b(x) - 1, (x,))

            y = torch.cond(x.sum() > 0, lambda x: inner(x) * 2, lambda x: self.b(x).relu(), (x,))
            p, q = torch.cond(y.mean() > 0, lambda x, y: (x + 1, y.exp()), lambda x, y: (x - 1, y.tanh()), (x, y))
            return y, p, q, torch.cond(x.shape[0] > 4, lambda x: x * 3, lambda x: x / 3, (x,))

    return Net(), (torch.randn(5, 6),), ({0: Dim("n", min=2, max=9)},)


@model
def rounds_over_rows():
    """What is carried from row to row (scan), and each row on its own (map), with values from outside."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 4)

        def forward(self, x, w):
            def step(c, v):
                z = torch.sigmoid(self.gate(torch.cat([c, v], 1)))
                h = z * c + (1 - z) * v
                return h, h * 2

            last, every = torch._higher_order_ops.scan(step, torch.zeros(x.shape[1], 4), x)
            rows = torch._higher_order_ops.map(lambda v, w: v.sin() @ w, x, w)
            return last, every, rows

    return Net(), (torch.randn(6, 3, 4), torch.randn(4, 5)), ({1: Dim("n", min=2, max=9)}, None)


@model
def numbers_read_out():
    """Elements, rows and windows at places that the data say, read and written; arithmetic with numbers that are read out of tensors."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(2, 16, 4))

        def forward(self, x, i, at, scale):
            p = at.item()
            torch._check(p >= 0)
            torch._check(p < 13)
            self.seen[:, p : p + 1] = x[i, 1]
            self.seen[:, p + 1].mul_(scale.item()).add_(i.item())
            best = x[x.sum((1, 2)).argmax()]
            return x[i] * p + best, x[:, i + 1].sum(0), self.seen.narrow(1, p, 4), x.clamp(max=scale.item()) / best.max().item(), best[i] ** 2 + torch.arange(p, p + 4)

    inputs = torch.randn(5, 5, 4), torch.tensor(2), torch.tensor([7]), torch.tensor(0.7)
    return Net(), inputs, ({0: Dim("rows", min=4, max=9)}, None, None, None)
