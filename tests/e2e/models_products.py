"""Products whose operands are computed on the way in: prologues of every kind and type."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from grouped_mm import grouped_mm_fallback
from models import Dim, Fn, explained, model


@model
@explained(1, 1)
def scaled_and_placed_into_linear():
    linear = nn.Linear(40, 96)
    return Fn(lambda x, s, pos: torch.relu(linear(x * s + pos)), pos=torch.randn(7, 40)), (torch.randn(3, 7, 40), torch.rand(40)), ({0: Dim("batch", min=1, max=16)}, None)


@model
@explained(1, 1)
def scaled_and_placed_into_linear_bf16():
    linear = nn.Linear(40, 96).to(torch.bfloat16)
    x, s, pos = torch.randn(3, 7, 40).bfloat16(), torch.rand(40).bfloat16(), torch.randn(7, 40).bfloat16()
    return Fn(lambda x, s, pos: torch.relu(linear(x * s + pos)), pos=pos), (x, s), None


@model
@explained(1, 1)
def dequantised_into_linear():
    linear = nn.Linear(33, 200)
    return Fn(lambda q, s: linear(q.float() * s[:, None])), (torch.randint(-128, 128, (19, 33), dtype=torch.int8), torch.rand(19)), None


@model
def weights_of_bytes_with_scales():
    """The program widens them itself: scales of columns, none, and scales of groups of rows."""
    part = lambda *s: torch.randint(-127, 128, s, dtype=torch.int8)
    def f(x, q, p, s, g):
        h = x @ (q.to(x.dtype) * s[:, None]).T
        return h @ p.to(x.dtype).T, x @ (q.to(x.dtype).view(70, 2, 32) * g[..., None]).flatten(1).T
    return Fn(f, q=part(70, 64), p=part(33, 70), s=torch.rand(70) / 100, g=torch.rand(70, 2) / 100), (torch.randn(5, 64),), ({0: Dim("rows", min=1, max=40)},)


@model
def experts_by_batched_weights():
    """Constant matrices, one a product of the batch, stored in panels: of one dim and of two, some shared."""
    def f(x, y, a, b, c):
        return torch.bmm(F.silu(x @ a), b), y @ c, y @ c[:1]
    return Fn(f, a=torch.randn(3, 20, 70), b=torch.randn(3, 70, 33), c=torch.randn(2, 3, 24, 40)), (torch.randn(3, 17, 20), torch.randn(2, 3, 5, 24)), None


@model
def windows_of_the_whole_image():
    a, b, c = nn.Conv2d(24, 24, (7, 5), groups=24), nn.Conv2d(3, 24, 3, padding=1), nn.Conv1d(24, 24, 35, groups=24, bias=False)
    return Fn(lambda x: (a(torch.relu(b(x))), c(b(x).flatten(2)))), (torch.randn(2, 3, 7, 5),), None


@model
@explained(1, 1)
def embedding_into_linear():
    e, linear = nn.Embedding(50, 24), nn.Linear(24, 160)
    return Fn(lambda ids: linear(e(ids))), (torch.randint(0, 50, (4, 9)),), ({0: Dim("batch", min=1, max=8)},)


@model
@explained(1, 2)
def both_operands_computed():
    return Fn(lambda a, b, mask: (a + 1) @ (b * mask)), (torch.randn(3, 65, 70), torch.randn(3, 70, 130), (torch.rand(70, 130) > 0.5).float()), None


@model
@explained(1, 2)
def both_operands_computed_f16():
    a, b, mask = torch.randn(65, 70).half(), torch.randn(70, 130).half(), (torch.rand(70, 130) > 0.5).half()
    return Fn(lambda a, b, mask: (a + 1) @ (b * mask)), (a, b, mask), None


@model
@explained(1, 2)
def both_operands_computed_bf16():
    a, b, mask = torch.randn(65, 71).bfloat16(), torch.randn(71, 130).bfloat16(), (torch.rand(71, 130) > 0.5).bfloat16()
    return Fn(lambda a, b, mask: (a + 1) @ (b * mask)), (a, b, mask), None


@model
@explained(1, 2)
def both_operands_computed_f64():
    return Fn(lambda a, b: (a - 0.5) @ (b * 2)), (torch.randn(2, 33, 40).double(), torch.randn(2, 40, 64).double()), ({0: Dim("batch", min=1, max=4)}, {0: Dim("batch", min=1, max=4)})


@model
@explained(1, 2)
def integer_products_computed():
    return Fn(lambda a, b: (a + 1) @ (b * 2)), (torch.randint(-9, 9, (33, 40)), torch.randint(-9, 9, (40, 64))), None


@model
@explained(1, 1)
def joined_into_one_row():
    linear = nn.Linear(56, 300)
    return Fn(lambda x, y: F.silu(linear(F.relu(torch.cat([x, y], -1))))), (torch.randn(1, 40), torch.randn(1, 16)), None


@model
def few_terms():
    """Products of few terms and columns: points with shared matrices, small matrices each with its own, vectors, whole and in parts of lanes."""

    def f(points, turn, a, b, h, v, own, d):
        homogeneous = torch.cat([points, torch.ones_like(points[..., :1])], -1) @ turn.mT
        return (homogeneous, torch.relu(points @ turn[:, :, :3].mT + turn[:, None, :, 3]), a @ b, a.mT @ a, (h[:, None] @ v[..., None])[..., 0], own @ v[0, :, :, None],
                d @ d.mT, d @ d[:, :, :1], (d.sin() * d) @ d[0], d[:, :2, :2] @ d[:, 1:, 1:])

    n, c = Dim("n", min=1, max=500), Dim("c", min=1, max=200)
    args = torch.randn(2, 77, 3), torch.randn(2, 3, 4), torch.randn(70, 5, 7), torch.randn(70, 7, 8), torch.randn(3, 4, 4), torch.randn(3, 40, 4), torch.randn(40, 4, 4), torch.randn(90, 3, 3).double()
    return Fn(f), args, ({1: n}, None, {0: c}, {0: c}, None, None, None, None)


@model
def across_rows():
    """Reductions across rows whose results go along rows: steps of a hidden Markov model, extremes and sums, columns that both read."""

    def f(a, t, x):
        for _ in range(2):
            a = torch.logsumexp(a[:, :, None] + t, 1)
        return a[:, :, None] + t, x.amax(1)[:, :, None] + t, x.sum(1)[:, :, None] * x, x.softmax(1).mT, x.mean(2)[:, :, None] + t, x.std(1)[:, :, None] - x.mT

    return Fn(f), (torch.randn(4, 40), torch.randn(40, 40), torch.randn(4, 40, 40)), ({0: Dim("batch", min=1, max=9)}, None, {0: Dim("images", min=1, max=9)})


@model
def product_of_parts():
    """The example is a part of larger tensors, whose sizes export compared with its own; those of a call need not be."""
    n = Dim.AUTO(min=2, max=64)
    return Fn(lambda x, w: (x @ w.mT).relu() + x.sum(1, keepdim=True)), (torch.randn(2, 30)[:, :24], torch.randn(7, 40)[:, :24]), ({1: n}, {1: n})


class Experts(nn.Module):
    """As the mixtures of transformers have them: rows sorted by expert, in runs; the weights of a few experts a row."""

    def __init__(self, t, experts, top, hidden, inner):
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False).to(t)
        self.up = nn.Parameter(torch.randn(experts, 2 * inner, hidden).to(t) / hidden**0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, inner).to(t) / inner**0.5)
        self.top = top

    def forward(self, x):
        share, expert = torch.topk(torch.softmax(self.router(x).float(), -1), self.top)
        sorted_expert, order = expert.reshape(-1).sort(stable=True)
        ends = torch.histc(sorted_expert.float(), len(self.up), 0, len(self.up) - 1).cumsum(0).to(torch.int32)
        a, b = grouped_mm_fallback(x[order // self.top], self.up.transpose(1, 2), ends).chunk(2, -1)
        y = grouped_mm_fallback(F.silu(a) * b, self.down.transpose(1, 2), ends) * share.reshape(-1)[order].to(x.dtype)[:, None]
        place = torch.empty_like(order)
        place[order] = torch.arange(order.shape[0])
        return y[place].view(*expert.shape, -1).sum(1)


@model
def experts_in_runs():
    return Experts(torch.float32, 6, 2, 64, 48), (torch.randn(9, 64),), ({0: Dim("tokens", min=1, max=40)},)


@model
def experts_in_runs_bf16():
    return Experts(torch.bfloat16, 24, 3, 32, 40), (torch.randn(5, 32).bfloat16(),), ({0: Dim("tokens", min=1, max=70)},)


@model
def rows_in_runs_of_which_some_are_empty():
    def f(x, w, ends):
        return grouped_mm_fallback(x, w, torch.cat([ends, torch.full((1,), x.shape[0], dtype=torch.int32)]))
    w, ends = torch.randn(4, 20, 9, dtype=torch.float64), torch.tensor([2, 2, 5], dtype=torch.int32)
    return Fn(f, w=w, ends=ends), (torch.randn(7, 20, dtype=torch.float64),), ({0: Dim("rows", min=6, max=12)},)


@model
@explained(6, 0)
def sums_of_broadcast_products():
    """Each is a product of matrices: factors in either operand or beside the sum, dims in any order, means, several dims summed, a row that is the same for all."""

    def f(a, b, l, w):
        scores = (a[:, :, None] * b[:, None]).sum(-1)  # [batch, m, n, heads]
        return (scores, (a[:, :, None] * l[..., None] * b[:, None]).sum(-1, keepdim=True), ((scores.tanh() * l)[..., None] * b[:, None]).sum(2), (a[:, :, None] * b[:, None] * 0.5).mean((-1, -2)),
                (b[..., None] * w).sum(-2).permute(0, 2, 1, 3), (w[:, None] * w[..., None]).sum(1))

    args = torch.randn(2, 17, 3, 64), torch.randn(2, 70, 3, 64), torch.randn(2, 17, 70, 3), torch.randn(64, 32)
    batch, m = Dim("batch", min=1, max=4), Dim("m", min=1, max=40)
    return Fn(f), args, ({0: batch, 1: m}, {0: batch}, {0: batch, 1: m}, None)


class StateSpace(nn.Module):
    """The chunks of Mamba 2 as elementwise products and sums; `groups` of heads share b and c."""

    def __init__(self, t, heads, groups, chunk):
        super().__init__()
        self.t, self.heads, self.groups, self.chunk = t, heads, groups, chunk

    def forward(self, x, dt, b, c):
        x, dt, b, c = (v.to(self.t).unflatten(1, (-1, self.chunk)) for v in (x, dt, b, c))
        b, c = (v.repeat_interleave(self.heads // self.groups, dim=3) for v in (b, c))
        decay = (dt * -0.3).permute(0, 3, 1, 2).cumsum(-1)
        lower = torch.ones(self.chunk, self.chunk, dtype=torch.bool).tril()
        masked = torch.exp((decay[..., None] - decay[..., None, :]).masked_fill(~lower, -torch.inf))
        scores = (c[:, :, :, None] * b[:, :, None]).sum(-1)
        weights = (scores[..., None] * masked.permute(0, 2, 3, 4, 1)[..., None]).sum(-1)
        within = (weights[..., None] * x[:, :, None]).sum(3)
        states = ((b * torch.exp(decay[..., -1:] - decay).permute(0, 2, 3, 1)[..., None])[..., None, :] * x[..., None]).sum(2)
        return within + (c[..., None, :] * states[:, :, None]).sum(-1), states


def chunks(t, heads, groups, chunk, given=torch.float32):
    rows = (2, 2 * chunk)
    args = torch.randn(*rows, heads, 16), torch.rand(*rows, heads), torch.randn(*rows, groups, 40), torch.randn(*rows, groups, 40)
    return StateSpace(t, heads, groups, chunk), tuple(v.to(given) for v in args), tuple({0: Dim("batch", min=1, max=3)} for _ in args)


@model
def chunks_of_states():
    return chunks(torch.float32, 6, 2, 64)


@model
def chunks_of_states_one_group():
    return chunks(torch.float32, 5, 1, 64, torch.bfloat16)


@model
def chunks_of_states_bf16():
    return chunks(torch.bfloat16, 4, 2, 64)


@model
def chunks_of_states_f64():
    return chunks(torch.float64, 4, 4, 65)
