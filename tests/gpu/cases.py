"""Small models for the GPU tests. CASES: name -> make(); make() gives (module, [example args, more args ..], dynamic shapes or None)."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "e2e"))
from models import Fn

CASES = {}
OPTIONS = {}  # name -> further options of aotc build
SPREADING = set()  # names whose eager CPU kernels hand infinities and NaN on to results that have none: those in float64 are right
REDUCED = {}  # name -> the precision of which eager's error is allowed, where that is not the model's own
Dim = torch.export.Dim
R, RI = torch.randn, torch.randint
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
ALL = tuple(TYPES)
INTS = {"i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}


def case(f):
    CASES[f.__name__] = f
    return f


def each(types, f):
    for name, t in types.items():
        f(name, t)


def case_of(name, fn, *samples, dims=None):
    CASES[name] = lambda: (Fn(fn), [s() for s in samples], dims)


def odd_numbers(*d):
    """Among others infinities, NaN of two kinds, the largest numbers and zeros; few enough that most of a product's results are numbers."""
    x = R(*d)
    odd = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, 3.4028235e38, -3.4028235e38, 1.0, 1e-30])
    odd = torch.cat([odd, torch.tensor([0x7FFFFFFF, 0x7F800001], dtype=torch.int32).view(torch.float32)])
    x.view(-1)[:: x.numel() // 10 + 1] = odd[: x.view(-1)[:: x.numel() // 10 + 1].numel()]
    return x


@case
def mlp_dynamic():
    m = nn.Sequential(nn.Linear(40, 72), nn.ReLU(), nn.Linear(72, 33), nn.GELU(), nn.Linear(33, 5))
    return m, [(R(n, 40),) for n in (6, 1, 17, 33, 64)], ({0: Dim("batch", min=1, max=64)},)


@case
def mlp_f16_wide():
    m = nn.Sequential(nn.Linear(130, 260), nn.SiLU(), nn.Linear(260, 66)).to(torch.float16)
    return m, [(R(n, 130).half(),) for n in (6, 1, 65)], ({0: Dim("batch", min=1, max=100)},)


@case
def mlp_bf16():
    m = nn.Sequential(nn.Linear(128, 256), nn.GELU(approximate="tanh"), nn.Linear(256, 64)).to(torch.bfloat16)
    return m, [(R(40, 128).bfloat16(),)], None


case_of("pointwise_chain", lambda x: (x.relu() + x.relu() * 2, torch.tanh(x) * torch.sigmoid(x), x.abs().sqrt().rsqrt()), lambda: (R(1000, 37),))
case_of("pointwise_dynamic", lambda x, y: x * y + torch.exp(-x.abs()), *[lambda n=n: (R(n, 5), R(1, 5)) for n in (7, 1, 1023, 4097)],
        dims=({0: Dim("rows", min=1, max=5000)}, None))
case_of("pointwise_f64", lambda x: torch.erf(x) + x.log1p().cos(), lambda: (torch.rand(331, 3, dtype=torch.float64),))
case_of("pointwise_half", lambda x, y: (x * y + 1, torch.sin(y), x.float() + y.float()), lambda: (R(77, 19).half(), R(77, 19).bfloat16()))
case_of("math_wide", lambda x: (torch.lgamma(x), torch.digamma(x), torch.erfinv(x / 8), torch.expm1(x), torch.atan2(x, x + 1), torch.pow(x, 2.5),
                                torch.round(x), torch.floor(x), torch.trunc(x), torch.fmod(x, 0.7), torch.remainder(x, -0.7)),
        lambda: (torch.rand(513) * 6 + 0.1,))
case_of("integers", lambda a, b: (a // b, a % b, a & b, a | b, a ^ 5, (a > b) | (a == 3), (a * b).sum(1), (a > 0).any(1), (a > -9).all(1),
                                  a.float().mean(), a.prod(1), a.clamp(-2, 5), a << 2, a.abs(), -a, a.max(1).values, a.min()),
        lambda: (torch.randint(-9, 9, (6, 11)), torch.randint(1, 7, (6, 11))))
case_of("small_integers", lambda a, b: (a + b, a.to(torch.int32) * 300, a.to(torch.uint8), b.float().to(torch.int16), a.bool() & b.bool()),
        lambda: (torch.randint(-9, 9, (133,), dtype=torch.int8), torch.randint(-9, 9, (133,), dtype=torch.int8)))
case_of("arg_reductions", lambda x: (x.argmax(1), x.argmin(0), x.argmax(), x.max(1).values, x.amin(0)), lambda: (R(37, 301),))
case_of("reductions", lambda x: (x.sum(), x.mean(0), x.var(1), x.amax((0, 2)), x.logsumexp(-1), x.norm(dim=1), x.prod(2), x.std()),
        lambda: (R(5, 23, 129),))
def booleans_by_windows(x, mask):
    at = torch.where(mask, True, torch.as_strided(x, (2, 6, 3), (1, 5, 2), 1))
    return at, at.sum((0, 1)), at.any(1)


# NVRTC must take the loop of a sum that goes round once, over what a condition picks.
case_of("reduce_picked_booleans", booleans_by_windows, lambda: (R(7, 5) > 0, R(2, 6, 3) > 0))
case_of("reduce_odd_rows", lambda x: (torch.softmax(x, -1), F.layer_norm(x, (x.shape[-1],)), torch.log_softmax(x, 0)),
        lambda: (R(17, 123),), lambda: (R(3, 1),), lambda: (R(5, 1025),), lambda: (R(1, 2048),),
        dims=({0: Dim("rows", min=1, max=64), 1: Dim("columns", min=1, max=2048)},))
case_of("rows_wide", lambda x: (torch.softmax(x * 0.5, -1) + x, F.layer_norm(x, (1536,)), x.argmax(-1), x.argmin(-1), x.std(-1), x.logsumexp(1)),
        lambda: (R(33, 1536),))
case_of("rows_wide_bf16", lambda x, w: (F.rms_norm(x, (1000,), w), torch.softmax(x, -1)), lambda: (R(29, 1000).bfloat16(), R(1000).bfloat16()))
case_of("rows_wide_f16", lambda x: F.layer_norm(torch.softmax(x / 8, -1) + x, (1024,)), lambda: (R(19, 1024).half(),))
case_of("rows_wide_dynamic", lambda x: F.layer_norm(torch.softmax(x, -1) + x, (x.shape[-1],)), *[lambda n=n, r=r: (R(r, n),) for r, n in ((9, 64), (1, 8), (5, 2048))],
        dims=({0: Dim("rows", min=1, max=64), 1: 4 * Dim("quarter", min=1, max=512)},))
case_of("rows_two_inner", lambda x: (x - x.mean((1, 2), keepdim=True)) / x.var((1, 2), keepdim=True), lambda: (R(11, 6, 64),))
case_of("flat_wide", lambda x, y, z: (x * y + z, (x > y), x.double() * 2, (x + 1).half(), x.t() + 1, x[:, 4:72] * 3, x.flip(1)),
        lambda: (R(64, 128), R(128), R(64, 1)))
case_of("flat_wide_small", lambda a, b: (a ^ b, a.bool(), a.to(torch.int16) + 1), lambda: (torch.randint(-9, 9, (100, 16), dtype=torch.int8), torch.randint(-9, 9, (100, 16), dtype=torch.int8)))
case_of("row_large", lambda x: F.layer_norm(torch.softmax(x, -1) + x, (20000,)), lambda: (R(9, 20000),))
case_of("softmax_bf16", lambda x: torch.softmax(x * 0.5, -1) + x, lambda: (R(33, 515).bfloat16(),))
case_of("cumulative", lambda x: (x.cumsum(1), x.cumsum(0), x.cummax(1).values, x.cumprod(1)), lambda: (R(9, 65) * 0.9,))
case_of("strided", lambda x, y: (x.transpose(0, 1) + y, x[:, ::2] * 2, x[1:-1, 3:].contiguous(), x.flip(1), x.roll(3, 1), x.t() @ y.t()),
        lambda: (R(31, 18), R(18, 31)))
case_of("matmul_layouts", lambda a, b, c: (a @ b, a.transpose(1, 2) @ c, torch.einsum("bij,bkj->bik", a, b.transpose(1, 2)), a.sum(0) @ b[0] + 1),
        lambda: (R(3, 65, 33), R(3, 33, 70), R(3, 65, 9)))
case_of("matmul_batch4", lambda q, k: torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1), lambda: (R(2, 4, 19, 16), R(2, 4, 23, 16)))
case_of("matmul_bf16", lambda a, b: (a @ b, torch.relu(a @ b).float()), lambda: (R(130, 72).bfloat16(), R(72, 50).bfloat16()))
case_of("matmul_aligned", lambda a, b: (a @ b.t(), a @ b.t().contiguous()), lambda: (R(128, 256), R(192, 256)))
# Products as tensor maps take them: every order of the operands, edges that are no multiple of a tile, batches of strided matrices, several
# products of one operand, epilogues of several elements and of one.
for kind in (torch.float16, torch.bfloat16):
    tag = str(kind)[6:]
    case_of(f"wide_layouts_{tag}", lambda a, b, c, d: (a @ b, a @ c.t(), d.t() @ b, torch.relu(d.t() @ c.t()) + 1),
            lambda kind=kind: (R(200, 136).to(kind), R(136, 72).to(kind), R(72, 136).to(kind), R(136, 200).to(kind)))
    case_of(f"wide_large_{tag}", lambda a, w, b, r: F.gelu(F.linear(a, w, b)) + r, *[
        lambda kind=kind, m=m: (R(m, 520).to(kind), (R(776, 520) / 23).to(kind), R(776).to(kind), R(m, 776).to(kind)) for m in (1576, 1, 33, 129, 257)],
            dims=({0: Dim("rows", min=1, max=2000)}, None, None, {0: Dim("rows", min=1, max=2000)}))
case_of("wide_odd_columns", lambda a, w, b, r: torch.sigmoid(F.linear(a, w, b) + r),
        lambda: (R(70, 128).half(), (R(33, 128) / 11).half(), R(33).half(), R(70, 33).half()))
case_of("wide_deep", lambda a, w: (a @ w.t(), torch.tanh(a @ w.t()).float()), lambda: (R(24, 4104).bfloat16(), (R(96, 4104) / 64).bfloat16()))
case_of("wide_dynamic_k", lambda a, b: a @ b.t(), *[lambda m=m, k=k: (R(m, k).half(), R(48, k).half()) for m, k in ((40, 64), (1, 16), (65, 1024), (7, 200))],
        dims=({0: Dim("m", min=1, max=100), 1: 8 * Dim("eighth", min=1, max=128)}, {1: 8 * Dim("eighth", min=1, max=128)}))


@case
def wide_heads():
    def f(x, w, v):
        q, k, u = (F.linear(x, t).view(2, 40, 4, 32).transpose(1, 2) for t in (w, w * 0.5, v))
        return q @ k.transpose(-1, -2) * 0.125, (q @ k.transpose(-1, -2) * 0.125).softmax(-1) @ u, x @ x.transpose(1, 2)

    return Fn(f), [(R(2, 40, 128).bfloat16(), (R(128, 128) / 11).bfloat16(), (R(128, 128) / 11).bfloat16())], None


@case
def wide_segments():
    class Three(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(256, 256), nn.Linear(256, 72), nn.Linear(256, 40)

        def forward(self, x):
            return F.gelu(self.q(x)), self.k(x).relu(), self.v(x)

    return Three().half(), [(R(n, 256).half(),) for n in (100, 5, 300)], ({0: Dim("rows", min=1, max=300)},)


@case
def wide_tf32():
    OPTIONS["wide_tf32"], REDUCED["wide_tf32"] = ["--f32-matmul", "high"], torch.bfloat16
    m = nn.Sequential(nn.Linear(132, 260), nn.ReLU(), nn.Linear(260, 68))
    return m, [(R(n, 132),) for n in (6, 1, 65, 300)], ({0: Dim("batch", min=1, max=300)},)


case_of("cat_slice", lambda x, y: (torch.cat([x, y * 2, x[:, :3]], 1), torch.stack([x[:, 1], y[:, 0]]), F.pad(x, (1, 2, 0, 3)), x.repeat(2, 3)),
        lambda: (R(7, 11), R(7, 5)))
case_of("gather_ops", lambda x, i, m: (x[:, i], x.index_select(1, i), x.gather(1, i.unsqueeze(0).expand(x.shape[0], -1)), x.masked_fill(m, -1.0),
                                       torch.where(m, x, -x)),
        lambda: (R(5, 12), torch.tensor([3, 0, 11, 7]), torch.rand(5, 12) > 0.5))
case_of("empty_and_scalar", lambda x, s: (x * s, x.sum() + s, x[:0] + 1), lambda: (R(4, 3), torch.tensor(2.5)))


@case
def embedding_dynamic():
    e = nn.Embedding(50, 16)
    f = lambda ids: (e(ids).sum(1), F.one_hot(ids % 7, 7).to(torch.float32))
    m = Fn(f)
    m.e = e
    return m, [(torch.randint(0, 50, (n, 9)),) for n in (3, 1, 8)], ({0: Dim("batch", min=1, max=8)},)


@case
def kv_cache_state():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 8))

        def forward(self, x):
            self.cache.mul_(0.5).add_(x)
            return self.cache.sum(0) + x.mean(0)

    return Cache(), [(R(4, 8),)], None


@case
def mlp_block():
    class Block(nn.Module):
        def __init__(self, d=72):
            super().__init__()
            self.ln, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
            nn.init.normal_(self.ln.weight), nn.init.normal_(self.ln.bias)

        def forward(self, x):
            return x + self.down(F.gelu(self.up(self.ln(x))))

    dims = ({0: Dim("batch", min=1, max=4), 1: Dim("seq", min=1, max=64)},)
    return Block(), [(R(b, s, 72),) for b, s in ((2, 19), (1, 1), (4, 64))], dims
