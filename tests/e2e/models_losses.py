"""Losses as outputs."""
import torch
import torch.nn.functional as F
from torch.export import Dim

from models import Fn, model


@model
def margins_of_classes():
    """One class or several a sample, one sample or many, every reduction, weights and powers."""

    def f(x, i, many, w):
        margins = [F.multi_margin_loss(x, i, p, 0.7, weight, reduction=how) for how in ("none", "mean", "sum") for p, weight in ((1, w), (2, None))]
        one = F.multi_margin_loss(x[0], i[0]), F.multilabel_margin_loss(x[0], many[0])
        return *margins, *one, *(F.multilabel_margin_loss(x, many, reduction=how) for how in ("none", "mean", "sum"))

    batch = {0: Dim("batch", min=1, max=9)}
    # Every sample has some targets before the first -1, one twice, and numbers behind it that say nothing.
    many = torch.tensor([[0, 4, -1, 2, 0], [3, 3, 1, -1, 4], [-1, 1, 2, 3, 4]])
    g = lambda x, w: f(x, x.argmin(1), many.index_select(0, (x.argmax(1) % 3)), w)
    return Fn(g), (torch.randn(4, 5), torch.rand(5)), (batch, None)


@model
def picked_of_computed():
    """A few elements of what is computed of many: of all dims, of fewer rows, of several types."""

    def f(x, t, y, i, z, k, j):
        whole = torch.where(z > 0, z, z.mean())
        return (F.cross_entropy(x, t), F.cross_entropy(x, t, reduction="none", label_smoothing=0.1), F.nll_loss(F.log_softmax(y, 1), i), torch.log_softmax(z, 0).gather(0, k),
                (z.exp() * 2 + z.sum(1, keepdim=True)).gather(1, j), (z > 0).gather(1, j), z.half().gather(1, j).float(), whole.gather(1, j), whole.sum())

    batch = {0: Dim("batch", min=1, max=9)}
    pick = lambda n, of, by: (torch.arange(n) * by % of)
    targets = pick(9, 501, 77).index_fill(0, torch.tensor([2]), -100)
    g = lambda x, y, z: f(x, targets[: x.shape[0]], y, pick(15, 40, 11).view(3, 5), z, pick(6, 300, 91).view(2, 3), pick(14, 44, 13).view(2, 7))
    return Fn(g), (torch.randn(4, 501), torch.randn(3, 40, 5), torch.randn(300, 44)), (batch, None, None)
