"""Programs whose sizes depend on data: what is selected, unequal, counted or read out of a tensor, and what is computed with that."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim

from models import Fn, model

N = Dim("n", min=2, max=40)


@model
def found_places():
    """Places of what is true: of a vector, of a matrix, as columns, twice of one mask."""

    def f(x, m):
        rows = torch.nonzero(x > 0)
        i, j = torch.where(x > 0.5)
        return rows * 2, i + j, torch.argwhere(m), x[i, j] + 1, torch.nonzero(m).sum(0)

    return Fn(f), (torch.randn(7, 5), torch.rand(7) > 0.4), ({0: N}, {0: N})


@model
def selected_rows():
    """Rows and elements that are selected leave the model, two of one number, with reductions of them."""

    def f(x, s, ids):
        keep = s > 0
        rows, scores, chosen = x[keep], s[keep], ids[keep]
        return (rows * 2 + 1, scores.exp(), chosen % 3, rows.sum(0), rows.mean(1), torch.softmax(scores, 0), torch.cumsum(scores, 0), rows.shape[0] * 2,
                rows @ rows.t(), rows.t() @ rows, torch.masked_select(x, x > 0.2).sigmoid(), (chosen > 2).sum(), F.layer_norm(rows, (4,)))

    return Fn(f), (torch.randn(9, 4), torch.randn(9), torch.randint(0, 9, (9,))), ({0: N}, {0: N}, {0: N})


@model
def sorted_boxes():
    """What follows a detector: boxes above a score, the best first."""

    def f(boxes, scores):
        keep = scores > 0.3
        b, s = boxes[keep], scores[keep]
        order = torch.argsort(s, descending=True, stable=True)
        b, s = b[order], s[order]
        area = (b[:, 2:] - b[:, :2]).clamp(min=0).prod(1)
        top_left, bottom_right = torch.maximum(b[:, None, :2], b[None, :, :2]), torch.minimum(b[:, None, 2:], b[None, :, 2:])
        both = (bottom_right - top_left).clamp(min=0).prod(2)
        iou = both / (area[:, None] + area[None] - both + 1e-6)
        return b, s, iou, torch.flip(s, (0,)), s.unsqueeze(0) + 1

    return Fn(f), (torch.rand(11, 4), torch.rand(11)), ({0: N}, {0: N})


@model
def routed_tokens():
    """A mixture of experts: each expert's tokens are found, computed and added back."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(6, 3)
            self.experts = nn.ModuleList(nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)) for _ in range(3))

        def forward(self, x):
            weight, best = torch.softmax(self.gate(x), -1).topk(2, dim=-1)
            y = torch.zeros_like(x)
            for e, expert in enumerate(self.experts):
                token, slot = torch.where(best == e)
                y.index_add_(0, token, expert(x[token]) * weight[token, slot, None])
            return y

    return Net(), (torch.randn(10, 6),), ({0: N},)


@model
def rows_split_by_counts():
    """A mixture of experts: rows sorted by their expert, split by how many each has, put together and added back."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.into, self.out = nn.Linear(6, 4), nn.Parameter(torch.randn(4, 6, 8)), nn.Parameter(torch.randn(4, 8, 6))

        def forward(self, images):
            x = images.reshape(-1, 6)
            weight, best = torch.softmax(self.gate(x), -1).topk(2, dim=-1)
            order = best.flatten().argsort(stable=True)
            counts = F.one_hot(best.flatten(), 4).sum(0).tolist()
            parts = [(rows @ self.into[e]).relu() for e, rows in enumerate(x[order // 2].split(counts))]
            parts = [rows @ self.out[e] for e, rows in enumerate(torch.cat(parts).split(counts))]
            return torch.zeros_like(x).index_add(0, order // 2, torch.cat(parts) * weight.flatten()[order][:, None])

    return Net(), (torch.randn(3, 5, 6),), ({0: Dim("images"), 1: Dim("rows")},)


@model
def joined_selections():
    """Selections of different numbers behind each other, turned, padded, sliced."""

    def f(x, y):
        a, b = x[x[:, 0] > 0], y[y[:, 0] > 0.2]
        return torch.cat([a, b, x]), torch.cat([a.t(), b.t()], 1), F.pad(a, (0, 0, 0, 2), value=3.0), torch.stack([a[:, 0], a[:, 1]]), a.reshape(-1), a.t().reshape(-1)

    return Fn(f), (torch.randn(8, 3), torch.randn(6, 3)), ({0: Dim("p", min=2, max=20)}, {0: Dim("q", min=2, max=20)})


@model
def distinct_values():
    """torch.unique with what it can tell, of integers, floats and bools; runs of equal elements."""

    def f(i, x):
        u, inverse, counts = torch.unique(i, return_inverse=True, return_counts=True)
        v = torch.unique(torch.round(x))
        runs, of, lengths = torch.unique_consecutive(i.flatten(), return_inverse=True, return_counts=True)
        return u, inverse, counts, v + 1, runs, of, lengths, torch.unique(i > 2), u[inverse]

    return Fn(f), (torch.randint(0, 6, (5, 4)), torch.randn(7) * 2), ({0: N}, {0: Dim("m", min=1, max=30)})


@model
def counted_and_repeated():
    """Sizes that only torch._check bounds."""

    def f(i, x, k):
        i, k = i % 9, k % (x.shape[0] + 1)
        counts = torch.bincount(i)
        torch._check(counts.shape[0] <= 16)
        repeated = torch.repeat_interleave(x, i, dim=0)
        torch._check(repeated.shape[0] <= 12 * x.shape[0])
        n = k.item()
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        return counts * 2, repeated + 1, x[:n] - 1, torch.arange(n), x.new_zeros(n, 2) + n, x.narrow(0, 0, n).sum(0)

    return Fn(f), (torch.randint(0, 9, (6,)), torch.randn(6, 3), torch.tensor(4)), ({0: N}, {0: N}, None)


@model
def slices_in_read_steps():
    """Every kth row or column, where k, and where the slice begins or ends, are read out of a tensor; what of a copy is written so."""

    def f(x, k):
        start, step = (k % torch.tensor([10, 4]) + torch.tensor([0, 1])).unbind()
        start, step = start.item(), step.item()
        torch._check(start >= 0)
        torch._check(start <= 9)
        torch._check(step >= 1)
        torch._check(step <= 4)
        y = x + 1
        y[:, 1::step].mul_(2)
        return x[::step] * 2, x[start::step].sum(0), x[:start:step].cumsum(0), x[-2::step], x[:, 1:3:step].exp(), y

    return Fn(f), (torch.randn(7, 5), torch.tensor([2, 3])), ({0: N}, None)


@model
def between_two_numbers():
    """Rows from one number that is read up to another, of which the program says their order and where the last one ends."""

    def f(x, i, j):
        rows = x.shape[0]
        a, b = (torch.stack([i, j]) % (rows + 1)).sort()[0].tolist()
        torch._check(a >= 0)
        torch._check(b >= a)
        torch._check(b <= rows)
        part = x[a:b]
        return part * 2, torch.arange(b - a), torch.cat([part, x[:a]]).sum(0), x.new_ones(a).sum() + b, b - a

    return Fn(f), (torch.randn(7, 3), torch.tensor(2), torch.tensor(5)), ({0: N}, None, None)


@model
def chained_selections():
    """A selection of a selection; writes through what is found."""

    def f(x):
        a = x[x > -0.5]
        b = a[a < 0.8]
        i = torch.nonzero(b > 0).squeeze(1)
        y = torch.zeros_like(x)
        y[torch.nonzero(x > 0.3).squeeze(1)] = 2.0
        w = x.clone()
        at = torch.nonzero(x < 0).squeeze(1)
        w[at] = w[at] * 3
        return b, i, b[i], y, w, y.masked_scatter(x > -0.5, a * 2), torch.cat([b, x[:1]]).max(), torch.cat([b, x[:1]]).argmax(), b.var(), b.norm()

    return Fn(f), (torch.randn(16),), ({0: N},)


@model
def found_matrices():
    """Factors and solutions of matrices whose size is how many rows are selected; windows and slices of what is selected."""

    def f(x, s):
        y = x[s > 0]
        n = y.shape[0]
        a = y @ y.t() + torch.eye(n)
        factor = torch.linalg.cholesky(a)
        return (factor, torch.linalg.solve(a, y), torch.linalg.det(a), torch.linalg.slogdet(a)[1], torch.linalg.inv(a), torch.cholesky_solve(y, factor),
                F.pad(y, (0, 0, 3, 0)).unfold(0, 3, 1), F.pad(y, (0, 0, n, 1)), torch.cat([y, x]).roll(n, 0))

    return Fn(f), (torch.randn(6, 4), torch.randn(6)), ({0: N}, {0: N})


@model
def pixels_to_channels_of_any_size():
    """Sizes of the archive are quotients by quotients of sizes."""
    size = torch.export.Dim.AUTO
    return Fn(lambda x: F.pixel_unshuffle(x, 2)), (torch.randn(5, 1, 2, 10),), ({0: size, 2: size, 3: size},)


@model
def largest_of_turned_rows_read_flat():
    """What is the largest lies dense, in the order of its own dims."""
    return Fn(lambda x: x[torch.topk(x.T, 6)[1].view(-1) % x.shape[0]] * torch.topk(x.T, 6)[0].view(-1, 1)), (torch.randn(12, 4),), None
