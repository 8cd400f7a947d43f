"""Writes indexing.pt2, a seed of archive_fuzz: reads and writes by index and mask, a linear layer.

    python -c "exec(compile(open('make_indexing.py').read(), 'make_indexing.py', 'exec'))"     # no path in the archive's stack traces
"""
import torch
from torch import nn


class Indexing(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(5, 4)), nn.Parameter(torch.randn(5))

    def forward(self, x, i, v, m):
        y = torch.index_put(x, (i,), v)
        z = nn.functional.linear(y, self.w, self.b)
        q = torch.where(m, z[:, :4], x).masked_fill(m, 0.5).index_add(0, i, v)
        g = torch.gather(q, 0, i[:, None].expand(3, 4))
        s = q.scatter(0, i[:, None].expand(3, 4), v)
        s[m] = 2.0
        return g + q[i], s.index_select(0, i), z


torch.manual_seed(0)
n = torch.export.Dim("n", min=8, max=40)
args = (torch.randn(10, 4), torch.tensor([1, 3, 7]), torch.randn(3, 4), torch.rand(10, 4) > 0.5)
torch.export.save(torch.export.export(Indexing().eval(), args, dynamic_shapes=({0: n}, None, None, {0: n})), "indexing.pt2")
