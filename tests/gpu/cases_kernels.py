"""Whole-tensor algorithms, fused loops and nets for the GPU tests. The cases join CASES of cases.py."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from cases import CASES, Dim, INTS, OPTIONS, R, REDUCED, RI, TYPES, case, case_of, each


# ---- whole-tensor algorithms
def same_values(t, *d):
    return RI(0, 9, d).to(t) if t != torch.bool else RI(0, 2, d).bool()


def sorting(name, t):
    case_of(f"sort_{name}", lambda x: (*torch.sort(x, dim=1, stable=True), *torch.sort(x, dim=0, descending=True, stable=True)), lambda: (same_values(t, 5, 37),))


each({**TYPES, **INTS, "bool": torch.bool}, sorting)
case_of("sort_long", lambda x: (*torch.sort(x, dim=-1, stable=True), torch.argsort(x[:, :3000], descending=True, stable=True)), lambda: (R(2, 70000),))
case_of("sort_experts", lambda x: (*torch.sort(torch.topk(x, 3)[1].flatten(), stable=True), *torch.sort(torch.topk(x, 3)[1] - 40000, dim=0, descending=True, stable=True)),
        lambda: (R(300, 16),))
case_of("sort_nan", lambda x: (*torch.sort(x, stable=True), *torch.sort(x, descending=True, stable=True)),
        lambda: (torch.tensor([3.0, float("nan"), -0.0, 0.0, float("inf"), -1.0, float("nan"), -float("inf")]),))
case_of("sort_dynamic", lambda x: tuple(torch.sort(x, stable=True)), *[lambda n=n: (R(3, n),) for n in (20, 1, 1000)], dims=({1: Dim("n", min=1)},))
for name, t in {**TYPES, "i64": torch.int64, "i32": torch.int32, "i8": torch.int8}.items():
    case_of(f"topk_{name}", lambda x: (torch.topk(x, 5)[0], torch.topk(x, 7, dim=0, largest=False)[0], torch.topk(x, x.shape[1])[0]),
            lambda t=t: ((R(9, 333) * 50).to(t),))


# ---- sizes that a run finds in its data
def found_of(sign):
    return lambda: (sign(R(11, 4)), sign(R(11)))


def found_rows(x, s):
    keep = s > 0
    rows, scores = x[keep], s[keep]
    order = torch.argsort(scores, descending=True, stable=True)
    i, j = torch.where(x > 0)
    y = torch.zeros_like(x).index_add(0, torch.nonzero(keep).squeeze(1), rows * 2)
    return rows[order], scores[order], torch.nonzero(x > 0), i * 4 + j, torch.softmax(scores, 0), rows.sum(0), torch.cat([scores, s]), rows @ rows.t(), y


case_of("found_rows", found_rows, *map(found_of, (lambda x: x, torch.abs, lambda x: -x.abs())), lambda: (R(1, 4), R(1)), lambda: (R(3000, 4), R(3000)),
        dims=({0: Dim("n", min=1, max=4000)},) * 2)
case_of("found_distinct", lambda x: (*torch.unique(x, return_inverse=True, return_counts=True), *torch.unique_consecutive(x, return_counts=True)),
        *[lambda n=n: (RI(0, 9, (n,)),) for n in (20, 1, 700)], dims=({0: Dim("n", min=1)},))


def found_check(x, k):
    n = k.item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    return x[:n] + 1, torch.arange(n)


case_of("found_check", found_check, *[lambda n=n: (R(12, 3), torch.tensor(n)) for n in (5, 0, 12)], dims=({0: Dim("n", min=2, max=40)}, None))


def positive(*dims, dtype=torch.float32):
    x = R(*dims, dims[-1], dtype=dtype)
    return x @ x.mT / dims[-1] + torch.eye(dims[-1], dtype=dtype)


def factored(x, b):
    l, u = torch.linalg.cholesky(x), torch.linalg.cholesky(x, upper=True)
    failed = torch.linalg.cholesky_ex(x - 4 * torch.eye(x.shape[-1], dtype=x.dtype)).info
    return (l, u, failed, torch.cholesky_solve(b, l), torch.cholesky_solve(b, u, upper=True), torch.cholesky_inverse(l),
            torch.linalg.solve_triangular(u, b, upper=True), torch.linalg.solve_triangular(l, b, upper=False, unitriangular=True),
            torch.linalg.solve_triangular(l, b.mT, upper=False, left=False))


N = Dim("n", min=2, max=256)
case_of("cholesky_small", factored, lambda: (positive(40, 5), R(40, 5, 3)))
case_of("cholesky_f64", factored, lambda: (positive(70, dtype=torch.float64), R(70, 40, dtype=torch.float64)))
case_of("cholesky_dynamic", factored, *[lambda n=n: (positive(2, n), R(2, n, 1)) for n in (9, 2, 33, 100)], dims=({1: N, 2: N}, {1: N}))


def rows_in_turn(x, product):
    """Each row takes what the rows before it were made, as in chunks of gated delta nets."""
    a = x.clone()
    for i in range(1, a.shape[-1]):
        row, square = a[..., i, :i].clone(), a[..., :i, :i].clone()
        a[..., i, :i] = row + (row.unsqueeze(-2) @ square).squeeze(-2) if product else row + (row.unsqueeze(-1) * square).sum(-2)
    return a


def broken(*dims, dtype=torch.float32):
    x = R(*dims, dims[-1], dtype=dtype) / dims[-1]
    x[..., 5, 2], x[..., 4, 7], x[..., 8, 1] = float("nan"), 3, float("inf")
    return x


case_of("triangle_rows_f32", lambda x, y: (rows_in_turn(x, False), rows_in_turn(y.tril(-1), True) + torch.eye(y.shape[-1])), lambda: (broken(3, 40), R(2, 2, 11, 11) / 11))
case_of("triangle_rows_f64", lambda x, y: (rows_in_turn(x, True), torch.linalg.solve_triangular(y.triu() + 3 * torch.eye(33, dtype=y.dtype), y, upper=True)),
        lambda: (broken(9, dtype=torch.float64), R(5, 33, 33, dtype=torch.float64)))


def systems(x, b):
    sign, size = torch.linalg.slogdet(x)
    p, l, u = torch.linalg.lu(x)
    return (torch.linalg.solve(x, b), torch.linalg.solve(x, b.mT, left=False), torch.linalg.inv(x), torch.det(x / x.shape[-1]), sign, size, p, l, u)


def well(*dims, dtype=torch.float32):
    return R(*dims, dims[-1], dtype=dtype) / dims[-1] + 3 * torch.eye(dims[-1], dtype=dtype).flip(0)


case_of("lu_small", systems, lambda: (well(40, 5), R(40, 5, 3)))
case_of("lu_wide", lambda x: (*torch.linalg.lu(x), *torch.linalg.lu(x.mT)), lambda: (R(3, 20, 45),))
case_of("lu_dynamic", systems, *[lambda n=n: (well(2, n), R(2, n, 1)) for n in (9, 2, 33, 100)], dims=({1: N, 2: N}, {1: N}))


def reflections(x, y):
    q, r = torch.linalg.qr(x)
    whole, _ = torch.linalg.qr(x, mode="complete")
    return (q, r, whole, *torch.geqrf(x.mT), torch.ormqr(*torch.geqrf(x), y, transpose=True), *torch.linalg.qr(torch.triu(x * 1e30)), *torch.geqrf(x * 0))


case_of("qr_small", reflections, lambda: (R(40, 5, 3), R(40, 5, 2)))
case_of("qr_large", reflections, lambda: (R(2, 70, 40), R(2, 70, 3)))
case_of("qr_dynamic", lambda x: (*torch.linalg.qr(x),), *[lambda n=n: (R(2, n, n),) for n in (9, 2, 33, 100)], dims=({1: N, 2: N},))
def spectra(x):
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    values, vectors = torch.linalg.eigh(x @ x.mT)
    full, _, _ = torch.linalg.svd(x[..., :2])
    zeros = torch.linalg.svdvals(x * 0)
    return s, u @ (s[..., None] * vh), u @ vh, values, vectors @ (values[..., None] * vectors.mT), full @ full.mT, zeros, torch.linalg.pinv(x)


case_of("svd_small", spectra, lambda: (R(40, 5, 3),))
case_of("svd_large", spectra, lambda: (R(3, 20, 45),))
case_of("svd_dynamic", spectra, *[lambda n=n: (R(n, 19, 6),) for n in (9, 1, 33)], dims=({0: Dim("batch", min=1, max=256)},))
case_of("topk_short", lambda x: (*torch.topk(x, 4), *torch.topk(x, 40, dim=0, largest=False), *torch.topk(x, x.shape[1])),
        lambda: (torch.randperm(300 * 17).view(300, 17).float() - 900,))
case_of("topk_indices", lambda x: (*torch.topk(x, 13), *torch.topk(x, 3, dim=0, largest=False), x.kthvalue(4)[0]), lambda: (torch.randperm(5 * 4001).view(5, 4001).float() - 9000,))
case_of("topk_nan", lambda x: torch.topk(x, 4)[0], lambda: (torch.tensor([3.0, float("nan"), -0.0, 0.0, float("inf"), -1.0, 7.0]),))


def scattering(name, t):
    make = (lambda *d: R(*d).to(t)) if t.is_floating_point else lambda *d: RI(-5, 5, d).to(t)
    case_of(f"scatter_{name}", lambda x, i, s: (x.scatter(1, i, s), x.scatter_add(0, i % 6, s), *(x.scatter_reduce(1, i, s, r, include_self=k) for r in
                                                ("sum", "prod", "amax", "amin", "mean") for k in (True, False))),
            lambda: (make(6, 11), torch.stack([torch.randperm(9) for _ in range(4)]), make(5, 10)))


each({"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32}, scattering)
case_of("scatter_repeated", lambda x, i, s: (x.scatter_add(1, i, s), x.scatter_reduce(0, i[:, :9] % 5, s, "amax"), x.scatter_reduce(1, i, s, "mean")),
        lambda: (R(5, 9), RI(0, 9, (5, 40)), R(5, 40)))
case_of("scatter_rows", lambda x, i, s: (x.index_add(0, i, s), torch.zeros_like(x).scatter_add(0, i.unsqueeze(1).expand(-1, 33), s)), lambda: (R(50, 33), RI(0, 50, (300,)), R(300, 33)))
case_of("scatter_point", lambda x, i: x.scatter(0, i, x * 2), lambda: (torch.tensor(3.0), torch.tensor(0)))
def put_columns(x, j, w):
    y = x.clone()
    y[(slice(None), *(j if isinstance(j, tuple) else (j,)))] += w
    return y


case_of("index_put", lambda x, i, j, v, w, u: (torch.index_put(x, (i, j), v), torch.index_put(x, (i,), w, accumulate=True), put_columns(x, j, u)),
        lambda: (R(6, 8), torch.tensor([0, 4, -1, 2, 3]), torch.tensor([1, -2, 7, 0, 3]), R(5), R(5, 8), R(6, 5)))
case_of("index_put_types", lambda x, y, b, i: (torch.index_put(x, (i,), x[:4], accumulate=True), torch.index_put(y, (i,), y[:4], accumulate=True), torch.index_put(b, (i,), ~b[:4])),
        lambda: (RI(-9, 9, (7, 3)), R(7, 3).double(), RI(0, 2, (7, 3)).bool(), torch.tensor([2, 2, -1, 0])[[0, 2, 3, 1]]))
case_of("index_put_middle", lambda x, i, v: put_columns(x, (i, i + 0), v), lambda: (R(3, 5, 5, 4), torch.tensor([4, 0, 2]), R(3, 3, 4)))


# Small steps after one another, which are one launch: what is chosen is taken away, rows and products of a few elements.
def chosen(x, w):
    picked, weights = [], x
    for _ in range(6):
        at = x.argmax(0, keepdim=True)
        weights = torch.softmax(weights + w[at] * x, 0)
        x = x.scatter(0, at, -1000.0)
        picked.append(at)
    return torch.cat(picked), weights, x, torch.topk(weights, 5)[0]


case_of("joined_chosen", chosen, lambda: (torch.randperm(150).float(), R(150)))
case_of("joined_dynamic", chosen, *[lambda n=n: (torch.randperm(n).float(), R(n)) for n in (100, 31, 250)],
        dims=({0: Dim("n", min=8, max=256)}, {0: Dim("n", min=8, max=256)}))


def filtered(x, p, a):
    for _ in range(5):
        p = a @ p @ a.mT + 0.1 * p
        x = torch.tanh(p @ x) + x.cumsum(0)
        x = x.index_add(0, torch.tensor([3, 1, 3]), x[:3])
    return x, p


for name in ("f16", "f32"):
    case_of(f"joined_filter_{name}", filtered, lambda t=TYPES[name]: ((R(16, 24) / 4).to(t), (R(16, 16) / 8).to(t), (R(16, 16) / 8).to(t)))


@case
def cache_update():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(1, 2, 32, 16))

        def forward(self, x, at):
            self.k[:, :, at] = x
            return F.scaled_dot_product_attention(x, self.k, self.k)

    return Cache(), [(R(1, 2, 3, 16), torch.tensor([4, 5, 6]))], None

@case
def cache_pairs():
    """What three neighbouring calls of one kernel write is one launch; what needs the first one's result is another."""

    class Caches(nn.Module):
        def __init__(self):
            super().__init__()
            for name in "kvwz":
                self.register_buffer(name, torch.zeros(2, 3, 40, 16, dtype=torch.bfloat16))

        def forward(self, x, y, at):
            self.k.index_copy_(2, at, x)
            self.v.index_copy_(2, at, y)
            self.w.index_copy_(2, at, x + y)
            self.z.index_copy_(2, at, self.k[:, :, :5] * 2)
            return self.k.sum((0, 1)), self.v.sum((0, 1)), self.w.sum((0, 1)), self.z.sum((0, 1))

    half = lambda: R(2, 3, 5, 16).to(torch.bfloat16)
    return Caches(), [(half(), half(), torch.tensor([4, 5, 38, 0, 7]))], None



def recurrent(name, make, state=1, t=torch.float32, batch=3, steps=7):
    def f():
        m = make().to(t)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.m = m

            def forward(self, x):
                y, s = self.m(x)
                return [y, *(s if isinstance(s, tuple) else [s])]

        return Net(), [(R(steps, batch, 10).to(t),)], None

    CASES[f"recurrence_{name}"] = f


recurrent("lstm", lambda: nn.LSTM(10, 45, num_layers=2, bidirectional=True))
recurrent("lstm_f64", lambda: nn.LSTM(10, 33), t=torch.float64)
recurrent("lstm_bf16", lambda: nn.LSTM(10, 64), t=torch.bfloat16, batch=5)
recurrent("lstm_projected", lambda: nn.LSTM(10, 40, proj_size=12, bidirectional=True), batch=6)
recurrent("gru", lambda: nn.GRU(10, 70, bidirectional=True), batch=1)
recurrent("gru_f16", lambda: nn.GRU(10, 24), t=torch.float16)
recurrent("tanh", lambda: nn.RNN(10, 31))
recurrent("relu", lambda: nn.RNN(10, 31, nonlinearity="relu"), batch=9)
recurrent("lstm_batch_first", lambda: nn.LSTM(10, 40, num_layers=2, bidirectional=True, batch_first=True), batch=9, steps=11)
recurrent("gru_batch_first_f64", lambda: nn.GRU(10, 24, batch_first=True), t=torch.float64, batch=10, steps=12)
recurrent("lstm_long", lambda: nn.LSTM(10, 96), steps=60)

# ---- fused loops: long rows, scans
case_of("scan_long", lambda x: (x.cumsum(1), x.cumsum(0), x[:, :700].cumprod(1), x.logcumsumexp(1)), lambda: (R(3, 5001) * 0.01 + 1,))
case_of("scan_across", lambda x, m, s: (s * torch.where(m, x[..., None].expand(-1, -1, 45), 0.0).cumsum(-2).masked_fill(~m, float("-inf")).exp(), s.cumsum(0)),
        lambda: (R(300, 45), torch.ones(45, 45).tril(-1).bool(), R(300, 45, 45)))
case_of("scan_pieces", lambda x, y, z: (x.cumsum(1), y.cummax(0)[0], (z + 1).cumprod(1), (x * 2).logcumsumexp(1)), lambda: (R(3, 100, 45), R(130, 70), R(2, 65, 33) / 9),
        lambda: (R(3, 100, 45), R(130, 70), R(2, 65, 33) / 9))
case_of("scan_pieces_dynamic", lambda x: (x.cumsum(0), x.cummin(0)[0]), *[lambda n=n: (R(n, 45),) for n in (300, 65, 64, 3, 1)], dims=({0: Dim("n", min=1, max=4096)},))
case_of("product_few_terms", lambda a, b, c: (torch.exp(a) @ b, (b.mT @ a.mT).relu(), c @ b[0, :, :5]), lambda: (R(40, 2, 3), R(40, 3, 130), R(70, 3)))
case_of("scan_indices", lambda x, y: (*x.cummax(1), *x.cummin(0), *y.cummax(1)), lambda: (R(5, 700), RI(0, 50, (4, 300))))
case_of("scan_kept", lambda x: (x.cumsum(1) / x.cumsum(1).amax(1, keepdim=True), torch.softmax(x.cumsum(1), 1)), lambda: (torch.rand(3, 900),))
case_of("scan_types", lambda x, y: (x.cumsum(1), y.cumsum(1), y.bool().cumsum(0), (x + 1).cumsum(0)), lambda: (R(5, 65).double(), RI(-9, 9, (6, 77))))
case_of("scan_dynamic", lambda x: x.cumsum(1) - x.sum(1, keepdim=True), *[lambda n=n: (R(2, n),) for n in (30, 1, 777)], dims=({1: Dim("n", min=1)},))
case_of("vocabulary", lambda x: (x.argmax(-1), torch.softmax(x, -1), torch.log_softmax(x, -1)[:, :10], x.logsumexp(-1)), lambda: (R(2, 128256),))
case_of("row_unbounded", lambda x: (torch.softmax(torch.sin(x) * x.exp(), -1), F.layer_norm(torch.tanh(x), x.shape[-1:])), *[lambda n=n: (R(3, n),) for n in (100, 1, 3001)],
        dims=({1: Dim("n", min=1)},))
case_of("whole", lambda x: (x.sum(), x.argmax(), x.std(), x.amax(), (x > 0).any(), x.mean((0, 2))), lambda: (R(40, 50, 60) + 0.5,))
case_of("columns", lambda x: (x.sum(0), x.argmax(0), torch.softmax(x, 0), x.var(0)), lambda: (R(900, 9),))


# ---- nets of float32 that multiply bf16, whose residual streams are stored so
class Residuals(nn.Module):
    def __init__(self, c=64):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c)
        self.inner = nn.ModuleList(nn.Sequential(nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)) for _ in range(3))
        self.head = nn.Linear(c, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        for layer in self.inner:
            x = F.relu(layer(x) + x)
        return self.head(F.max_pool2d(x, 2).mean((-1, -2)))


@case
def streams_of_convolutions():
    OPTIONS["streams_of_convolutions"], REDUCED["streams_of_convolutions"] = ["--precision", "bf16"], torch.bfloat16
    return Residuals(), [(R(2, 3, 20, 28),)], None


@case
def streams_of_a_transformer():
    OPTIONS["streams_of_a_transformer"], REDUCED["streams_of_a_transformer"] = ["--precision", "bf16"], torch.bfloat16
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), [(R(2, 70, 128),)], None


# ---- models of the end-to-end tests whose kernels no case above has
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from models import MODELS  # noqa: E402


def of_the_models(name):
    module, args, dims = MODELS[name]()
    return module, [args], dims


def boxes_that_stay(boxes, scores, threshold):
    """torchvision's nms, for where its own is not loaded."""
    area, stay = (boxes[:, 2:] - boxes[:, :2]).prod(1), []
    for i in scores.argsort(descending=True, stable=True).tolist():
        both = (torch.minimum(boxes[i, 2:], boxes[stay, 2:]) - torch.maximum(boxes[i, :2], boxes[stay, :2])).clamp(min=0).prod(1)
        if not (both / (area[i] + area[stay] - both) > threshold).any():
            stay.append(i)
    return torch.tensor(stay, dtype=torch.int64)


if not torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CPU"):
    torch.library.impl("torchvision::nms", "CPU", func=boxes_that_stay)
for name in ("transforms_by_factors", "short_transforms", "grids_sampled", "embedding_bags_at_offsets", "boxes_apart"):
    CASES[f"model_{name}"] = lambda name=name: of_the_models(name)
