"""Models that compute with what a mask selects, where the number of it is not needed."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim

from models import Fn, model


@model
def selected_tokens():
    """A layer for the tokens that a mask selects; their sums, means and losses."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(8, 12), nn.Linear(12, 8)

        def forward(self, x, mask):
            y = x.clone()
            y[mask] = self.down(F.gelu(self.up(x[mask])))
            rest = ~mask
            y[rest] *= 0.5
            return y, x[mask].sum(0), x[mask].mean(0), y[mask].mean(), F.mse_loss(x[mask], y[mask]), F.l1_loss(x[rest], y[rest], reduction="sum")

    n = {0: Dim("batch", min=2, max=5), 1: Dim("length", min=2, max=19)}
    return Net(), (torch.randn(3, 7, 8), torch.rand(3, 7) > 0.4), (n, n)


@model
def selected_elements():
    """Elements, columns and integers; what is selected is changed in place before it is put back."""

    def f(x, i):
        y, z = x.clone(), x.clone()
        part = y[x > 0.3]
        part.add_(1).clamp_(max=2)
        chosen = i[:, 0] > 3
        z[chosen] = torch.log(x[chosen].abs() + 1) - x.mean(0)
        columns = (i[0] % 2) == 0
        w = x[:, columns] * 2
        v = z.clone()
        v[:, columns] = w + z[:, columns]
        positive = x > 0.3
        y[positive] = y[positive] * 2 + x[positive]
        return part.sum(), y, z, v, w.mean((0, 1)), i[i > 2].sum(), (i > 4)[i > 2].sum(), torch.masked_select(x, positive).exp().mean(), z[chosen].sum(1).exp().sum()

    return Fn(f), (torch.randn(6, 4), torch.randint(0, 9, (6, 4))), None


@model
def folds_of_selected():
    """Reductions of x[mask] other than sums: what is not selected is what leaves them as they are."""

    def f(x, ids, mask):
        mask = mask | (torch.arange(x.shape[0]) == 0)[:, None]  # PyTorch has no largest one of none
        rows, ints, small = x[mask[:, 0]], ids[mask], ids[mask].to(torch.int8)
        return (x[mask].max(), x[mask].amin(), rows.amax(0), rows.amin((0, 1), keepdim=True), rows.amax(1).sum(), (rows * 2).prod(0), x[mask].norm(),
                torch.linalg.vector_norm(rows, 3, dim=0), torch.linalg.vector_norm(x[mask], torch.inf), ints.max(), ints.min(), small.max(), small.min(), (ints > 3).any(), (rows > -9).all(), x[mask].relu().count_nonzero(),
                mask[mask].all(), ids.to(torch.uint8)[mask].min())

    return Fn(f), (torch.randn(5, 12), torch.randint(-9, 9, (5, 12)), torch.rand(5, 12) > 0.5), ({0: Dim("rows", min=3, max=50)},) * 3


@model
def spreads_of_selected():
    """Variances, medians and what is scaled by them: how many are selected counts, and is never a size."""

    def f(x, mask):
        mask = mask | (torch.arange(x.shape[0]) < 3)[:, None]
        rows, chosen = mask[:, 0], x[mask]
        z = (x[rows] - x[rows].mean(0, keepdim=True)) / x[rows].std(0, keepdim=True)
        return (chosen.std(), chosen.var(unbiased=False), x[rows].var(0), x[rows].double().std((0, 1)), x[:, rows[:12]].var(1, keepdim=True), x[rows].std(1).sum(),
                chosen.median(), x[rows].median(), (chosen / chosen.max()).sum(), z.square().sum(), torch.where(mask, (x - chosen.mean()) / chosen.std(), 0.0))

    return Fn(f), (torch.randn(12, 12), torch.rand(12, 12) > 0.5), None


@model
def lines_of_selected():
    """Running sums and softmaxes along what is selected and along its rows, layers of rows, put back."""

    def f(x, mask, w):
        out = []
        for change in (lambda s: s.cumsum(0), lambda s: s.softmax(0), lambda s: s.log_softmax(1).cumsum(-1), lambda s: s.cumprod(0) + s.logcumsumexp(0), lambda s: F.layer_norm(s, (6,), w).nan_to_num()):
            y = x.clone()
            y[mask] = change(x[mask])
            out.append(y)
        return (*out, x[mask].cumsum(0).max())

    rows = {0: Dim("rows", min=2, max=40)}
    return Fn(f), (torch.randn(9, 6), torch.rand(9) > 0.4, torch.randn(6)), (rows, rows, None)


@model
def keys_in_parts():
    """One and three queries of heads that share one key head, over many keys of which a mask shows some or none: threads divide the keys."""

    def f(q, r, k, v, n):
        shown = (torch.arange(k.shape[2]) <= n)[None]
        one = F.scaled_dot_product_attention(q, k, v, attn_mask=shown, enable_gqa=True)
        three = F.scaled_dot_product_attention(r, k, v, attn_mask=shown & (torch.arange(3) != 1)[:, None], enable_gqa=True)
        half = F.scaled_dot_product_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), enable_gqa=True, scale=0.3)
        return one, three.nan_to_num(3.0), half

    keys = Dim("keys", min=2, max=2000)
    inputs = torch.randn(1, 4, 1, 64), torch.randn(1, 2, 3, 64), torch.randn(1, 1, 1500, 64), torch.randn(1, 1, 1500, 40), torch.tensor(700)
    return Fn(f), inputs, (None, None, {2: keys}, {2: keys}, None)
