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
