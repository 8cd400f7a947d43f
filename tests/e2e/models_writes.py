"""Models that write into tensors that exist."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim

from models import Fn, decomposed, model


@model
def positions_added_in_place():
    """Rows of images of any number, reshaped from what lies in another order, are written."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.positions, self.out = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 12, 8)), nn.Linear(8, 5)

        def forward(self, x):
            y = self.patches(x)
            x = y.permute(0, 2, 3, 1).reshape(y.shape[0], 12, 8)
            x += self.positions
            return self.out(x), y

    return Net(), (torch.randn(2, 3, 12, 16),), ({0: Dim("batch", min=1, max=9)},)


@model
def results_put_into_tensors():
    """Arguments named out."""

    def f(x, y):
        buffer, half = torch.zeros(5, 4), torch.zeros(5, 4)
        torch.minimum(x, y, out=buffer)
        torch.add(buffer, y, alpha=2, out=half)
        torch.sum(x, 0, keepdim=True, out=buffer[:1])
        torch.mul(x[:, :2], 3.0, out=half[:, 2:])
        return torch.exp(half, out=half), buffer + torch.maximum(x, y, out=torch.empty(5, 4))

    return Fn(f), (torch.randn(5, 4), torch.randn(5, 4)), None


@model
def heads_scaled_in_place():
    """Whether the reshape is a view depends on sizes; nobody reads what it would be a view of after the writes."""
    split = nn.Linear(8, 24)

    def f(x):
        q = split(x).unflatten(-1, (3, 8)).permute(0, 2, 1, 3).reshape(x.shape[0] * 3, x.shape[1], 8)
        first = q[:, 0]
        q *= 0.3
        q[:, -1] += 1
        return (q @ q.mT).softmax(-1), first + 1

    return Fn(f), (torch.randn(2, 5, 8),), ({0: Dim("batch", min=1, max=4), 1: Dim("seq", min=1, max=12)},)


@model
def embeddings_of_bounded_rows():
    """Rows of a table that are longer than allowed are scaled where they are looked up, which the table keeps."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.bag = nn.Embedding(10, 6, max_norm=1.5), nn.EmbeddingBag(9, 5, max_norm=2, norm_type=1, mode="sum")

        def forward(self, i, j):
            first = self.table(i)
            return first, self.table(j) * 2, self.table.weight + 1, self.bag(i % 9)

    return Net(), (torch.randint(0, 10, (2, 5)), torch.randint(0, 10, (3,))), ({0: Dim("batch", min=1, max=9)}, None)


@model
def steps_of_sizes():
    """Slices whose steps are sizes of other tensors, read and written through."""

    def f(x, y):
        k = y.shape[0]
        z, w = x.clone(), x.clone()
        z[:, ::k] = 1
        z[:, 1::k].mul_(2)
        w[1:-1:k] += 1
        return x[:, ::k], x[:, 2 : x.shape[1] - 1 : k + 1].sum(1), x[:: k + 2], z, w, torch.slice_scatter(x, x[::k] * 2, step=k), x.flip(1)[:, ::k]

    n, m, k = Dim("n", min=6, max=20), Dim("m", min=6, max=20), Dim("k", min=2, max=4)
    return Fn(f), (torch.randn(7, 11), torch.randn(3)), ({0: n, 1: m}, {0: k})


@decomposed
def parts_of_memory_written():
    """as_strided_scatter into slices that begin within their memory, with a place of their own or that of the slice; also what writes through such views come apart into."""

    def f(x):
        src = x[0, :2].expand(2, 2)
        y, z = x.clone(), x.clone()
        part = y[1:]
        part.resize_(2, 2)
        part.add_(1)
        turned = z[1:]
        turned.t_()
        turned.resize_(2, 3)
        turned.mul_(2)
        return (torch.as_strided_scatter(x[1:], src, (2, 2), (2, 1)), torch.as_strided_scatter(x[1:], src, (2, 2), (2, 1), 4), torch.as_strided_scatter(x[:, 1:], src, (2, 2), (3, 1)),
                torch.as_strided_scatter(x.t()[1:], src, (2, 2), (3, 1)), F.dropout(x[1:], 0.5, False).as_strided((2, 2), (1, 2)), part * 1, y, turned * 1, z)

    return Fn(f), (torch.randn(4, 3),), None
