"""Products of matrices for the GPU tests: every type and shape of operands, epilogues, few rows, 8-bit floats. They join CASES of cases.py."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from cases import CASES, Dim, INTS, R, RI, TYPES, case, case_of, each, odd_numbers
from grouped_mm import grouped_mm_fallback  # cases.py says where it is


def products(name, t):
    make = (lambda *d: R(*d).to(t)) if t.is_floating_point else lambda *d: RI(0 if t == torch.uint8 else -9, 9, d).to(t)
    case_of(f"product_{name}", lambda a, b, c: (a @ b, a @ c.transpose(0, 1), torch.bmm(a.reshape(5, 9, 21), b.reshape(21, 2, 17).permute(1, 0, 2)[:1].expand(5, 21, 17))),
            lambda: (make(45, 21), make(21, 34), make(70, 21)))


each({"f64": torch.float64, **INTS}, products)


@case
def product_f64_linear():
    m = nn.Sequential(nn.Linear(33, 65), nn.GELU(), nn.Linear(65, 7)).double()
    return m, [(R(n, 33, dtype=torch.float64),) for n in (5, 1, 70)], ({0: Dim("rows", min=1, max=100)},)


case_of("product_f64_computed", lambda x, y: (torch.sin(x) * 2) @ (y + y.sum(0)), lambda: (R(37, 19, dtype=torch.float64), R(19, 23, dtype=torch.float64)))
case_of("product_no_depth", lambda x, y: (x @ y + 1, x.double() @ y.double()), lambda: (R(5, 0), R(0, 7)))


case_of("product_odd_f32", lambda a, b: (a @ b, (a * 0.25) @ b[:, :5], a[:1] @ b), lambda: (odd_numbers(45, 300), R(300, 34).round()), lambda: (R(45, 300) * 1e-3, odd_numbers(300, 34)),
        lambda: (odd_numbers(45, 300).abs(), odd_numbers(300, 34).abs()))
# What every product loses to sums that are cut off adds up in a row of them.
class Chain(nn.Module):
    def __init__(self, width, products):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(R(width, width) * (2 / width) ** 0.5) for _ in range(products)])

    def forward(self, x):
        for w in self.weights:
            x = torch.relu(x @ w)
        return x


@case
def product_chain_f32():
    return Chain(64, 36), [(R(64, 64),)], None


# Sums of whole numbers are exact as long as float32's are.
case_of("product_whole_f32", lambda a, b: (a @ b).floor().to(torch.int64), lambda: (RI(-120000, 120000, (70, 96)).float(), RI(-9, 9, (96, 128)).float()))


case_of("product_none_dynamic", lambda a, b: F.linear(a, b), *[lambda n=n: (R(n, 5), R(17, 5)) for n in (8, 0)], dims=({0: Dim("n")}, None))


# Sums over products of broadcast tensors: products of matrices, with groups that share an operand and weights that are computed heads last.
def broadcast_sums(name, t):
    def f(c, b, l, x):
        b, c = (v.repeat_interleave(3, dim=2) for v in (b, c))
        scores = (c[:, :, None] * b[:, None]).sum(-1)
        return scores, ((scores * l.permute(0, 2, 3, 1))[..., None] * x[:, None]).sum(2), (b[..., None, :] * x[..., None]).sum(1)

    case_of(f"product_broadcast_sums_{name}", f, lambda: (R(2, 17, 2, 40).to(t), R(2, 65, 2, 40).to(t), R(2, 6, 17, 65).to(t), R(2, 65, 6, 16).to(t)), dims=({0: Dim("batch")},) * 4)


each({"f32": torch.float32, "bf16": torch.bfloat16}, broadcast_sums)

# Epilogues that are computed where the sums are: columns' and rows' operands, one that lies as the result does, edges of tiles.
class Finished(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(k, n), nn.Linear(k, n), nn.Linear(k, 96, bias=False)
        self.scale = nn.Parameter(R(n))

    def forward(self, x, r, rows):
        y = F.gelu(self.a(x))
        return y, F.silu(self.b(y[:, : x.shape[1]]) * self.scale + r), self.c(x).float().mul(rows).to(x.dtype)


for t in ("f16", "bf16"):
    CASES[f"product_finished_{t}"] = lambda t=t: (Finished(192, 264).to(TYPES[t]), [(R(n, 192).to(TYPES[t]), R(n, 264).to(TYPES[t]), R(n, 1)) for n in (300, 70, 1000)],
                                                  ({0: Dim("rows", min=1, max=2000)},) * 3)


# Few tiles of long k: blocks of a cluster share k and hand each other their sums; whole runs of 8 and others.
class Shared(nn.Module):
    def __init__(self, k, n, m):
        super().__init__()
        self.a, self.b = nn.Linear(k, n), nn.Linear(k, m)

    def forward(self, x, y, r):
        return self.a(x) + r, F.gelu(self.b(y))


for t in ("f16", "bf16"):
    CASES[f"product_shared_{t}"] = lambda t=t: (Shared(1536, 520, 516).to(TYPES[t]), [(R(330, 1536).to(TYPES[t]), R(330, 1536).to(TYPES[t]), R(330, 520).to(TYPES[t]))], None)


# Tiles of 96 columns that two warpgroups share, of which 64 and 32 are finished at once; the last ones reach over the edges.
class Columns(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.fc = nn.Linear(k, n)

    def forward(self, x, r):
        return F.gelu(self.fc(x)) + r


for t in ("f16", "bf16"):
    CASES[f"product_columns_{t}"] = lambda t=t: (Columns(128, 3064).to(TYPES[t]), [(R(380, 128).to(TYPES[t]), R(380, 3064).to(TYPES[t]))], None)


# Tiles whose left operand are the weights, in one block and in clusters, of rows and columns that reach over their edges.
class Turned(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.a, self.b = nn.Linear(k, n), nn.Linear(k, n, bias=False)

    def forward(self, x, r):
        return F.gelu(self.a(x)), self.b(x) + r


for t in ("f16", "bf16"):
    CASES[f"product_turned_{t}"] = lambda t=t: (Turned(512, 776).to(TYPES[t]), [(R(28, 512).to(TYPES[t]), R(28, 776).to(TYPES[t]))], None)
    CASES[f"product_turned_dynamic_{t}"] = lambda t=t: (Turned(128, 200).to(TYPES[t]), [(R(n, 128).to(TYPES[t]), R(n, 200).to(TYPES[t])) for n in (9, 24, 50)],
                                                        ({0: Dim("rows", min=9, max=60)},) * 2)


# Few rows: weights and results of other kernels, several products of one operand, batches, any number of rows up to eight.
class FewRows(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(k, 37), nn.Linear(k, 24, bias=False), nn.Linear(k, k)

    def forward(self, x, w):
        return F.silu(self.a(x)), self.b(x), self.c(x) + x, x @ w.mT, (x * 2).unsqueeze(1) @ w.unflatten(0, (1, -1)).mT


def few_rows(name, t):
    k = 52 if t == torch.float64 else 520
    CASES[f"product_vector_{name}"] = lambda: (FewRows(k).to(t), [(R(n, k).to(t), R(19, k).to(t)) for n in (5, 1, 8)], ({0: Dim("rows", min=1, max=8)}, None))
    CASES[f"product_vector_one_{name}"] = lambda: (FewRows(k).to(t), [(R(1, k).to(t), R(19, k).to(t))], None)


each(TYPES, few_rows)


# A gated layer of few rows between norms: gate and up are twins, and rows that products read alone are computed in them.
class Gated(nn.Module):
    def __init__(self, k, hidden, norm):
        super().__init__()
        self.before, self.after = norm(k), norm(k)
        self.gate, self.up, self.down, self.head = nn.Linear(k, hidden, bias=False), nn.Linear(k, hidden), nn.Linear(hidden, k, bias=False), nn.Linear(k, 37)

    def forward(self, x):
        y = self.before(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return x, self.head(self.after(x))


def gated(name, t):
    k, norm = (56, nn.LayerNorm) if t == torch.float64 else (520, nn.RMSNorm if t != torch.float32 else nn.LayerNorm)
    CASES[f"product_gated_{name}"] = lambda: (Gated(k, 3000 if t == torch.bfloat16 else 72, norm).to(t), [(R(1, k).to(t),)], None)
    CASES[f"product_gated_three_{name}"] = lambda: (Gated(k, 72, norm).to(t), [(R(3, k).to(t),)], None)


each(TYPES, gated)


# Many rows: a thread of Hopper's products has both sums. Edges of rows and columns, biases, an odd number of columns, other gates, a residual.
class GatedRows(nn.Module):
    def __init__(self, k, other, hidden):
        super().__init__()
        self.gate, self.up = nn.Linear(k, hidden, bias=False), nn.Linear(k, hidden)
        self.soft, self.line = nn.Linear(other, hidden), nn.Linear(other, hidden, bias=False)

    def forward(self, x, y, r):
        return F.silu(self.gate(x)) * self.up(x), F.relu(self.soft(y)) * self.line(y) + r


def gated_rows(hidden, t, rows, dynamic):
    inputs = [(R(n, 256).to(t), R(n, 136).to(t), R(n, hidden).to(t)) for n in rows]
    return GatedRows(256, 136, hidden).to(t), inputs, ({0: Dim("rows", min=65, max=300)},) * 3 if dynamic else None


for t in ("f16", "bf16"):
    for hidden in (488, 301):
        CASES[f"product_gated_rows_{hidden}_{t}"] = lambda t=t, hidden=hidden: gated_rows(hidden, TYPES[t], (200,), False)
    CASES[f"product_gated_rows_dynamic_{t}"] = lambda t=t: gated_rows(200, TYPES[t], (65, 130, 250), True)


# Queries and keys of few rows, rotated by positions: columns of a product that are finished in pairs.
class Rotated(nn.Module):
    def __init__(self, k, channels, bias):
        super().__init__()
        self.channels, self.norm = channels, nn.LayerNorm(k)
        self.q, self.k, self.v = (nn.Linear(k, heads * channels, bias=bias) for heads in (5, 3, 3))

    def forward(self, x, cos, sin, keys):
        def rotated(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat((-b, a), -1) * sin

        y = self.norm(x)
        q, k, v = (f(y).unflatten(-1, (-1, self.channels)).transpose(-3, -2) for f in (self.q, self.k, self.v))
        return rotated(q), torch.cat((keys, rotated(k)), -2), v


class Cached(Rotated):
    """What a row computes goes to its place in caches: rotated keys, values, keys with a norm; one cache's old content is read, too."""

    def __init__(self, k):
        super().__init__(k, 32, True)
        self.own = nn.RMSNorm(32)
        for i, cache in enumerate(("keys", "values", "normed", "moved")):
            self.register_buffer(cache, R(1, 3, 5, 32) + i)

    def forward(self, x, cos, sin, at):
        q, k, v = super().forward(x, cos, sin, torch.zeros(1, 3, 0, 32, dtype=x.dtype))
        self.keys.index_copy_(2, at % 5, k)
        self.values[:, :, at] = v
        self.normed[torch.zeros_like(at), :, at] = self.own(q)[:, 1:4, 0]
        old = self.moved.sum(2)
        self.moved[:, :, at] = q[:, 2:]
        seen = F.scaled_dot_product_attention(q[:, :3], self.keys, self.values)
        return seen, self.keys * 1, self.values * 1, self.normed * 1, self.moved + old[:, :, None]


def rotated(name, t):
    k = 56 if t == torch.float64 else 520
    for rows, channels in ((1, 64), (3, 34)):
        CASES[f"product_rotated_{rows}_{channels}_{name}"] = lambda rows=rows, channels=channels: (
            Rotated(k, channels, rows == 1).to(t), [(R(rows, k).to(t), R(rows, channels).to(t), R(rows, channels).to(t), R(3, 2, channels).to(t))], None)
    for at in (0, 3, -1):
        CASES[f"product_cached_{at}_{name}"] = lambda at=at: (Cached(k).to(t), [(R(1, 1, k).to(t), R(1, 32).to(t), R(1, 32).to(t), torch.tensor([at]))], None)
    CASES[f"product_rotated_images_{name}"] = lambda: (
        Rotated(k, 32, True).to(t), [(R(2, 1, k).to(t), R(1, 1, 1, 32).to(t), R(1, 1, 1, 32).to(t), R(2, 3, 2, 32).to(t))], None)


each(TYPES, rotated)


# ---- 8-bit floats: casts, which are rounded to nearest even and (e4m3fn) held to the largest number, and scaled products of them.
E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2


def between_floats8():
    """Every number of both types, what lies halfway between neighbours and beside that, numbers beyond, infinities and NaN."""
    out = [torch.tensor([449.0, 464, 465, 480, 1e9, 57344, 61439, 61440, 65536, 1e30, torch.inf, torch.nan, 2.0**-10, 2.0**-17, 2.0**-18, 0])]
    for t in (E4, E5):
        v = torch.arange(256, dtype=torch.uint8).view(t).float()
        v = v[v.isfinite()].sort().values
        half = (v[1:] + v[:-1]) / 2
        out += [v, half, torch.nextafter(half, half + 1), torch.nextafter(half, half - 1)]
    out = torch.cat(out)
    return torch.cat([out, -out])


case_of("casts_float8", lambda x: (x.to(E4).float(), x.to(E5).float(), x.to(E4).to(E5).half(), x.half().to(E4).bfloat16().float(), F.pad(x.to(E5).view(2, -1), (1, 2)).float()),
        lambda: (between_floats8(),))


class Scaled(nn.Module):
    """Rows of 8 bits by such weights, with a scale each or one for all; in float64 the same by hand."""

    def __init__(self, k, n, by_row, out=torch.bfloat16, types=(E4, E4)):
        super().__init__()
        self.by_row, self.out, self.types = by_row, out, types
        self.register_buffer("w", (R(n, k) * 60).to(types[1]))
        self.register_buffer("scale", torch.rand(1, n) / 100 if by_row else torch.tensor(0.01))
        self.register_buffer("bias", R(n))

    def forward(self, x):
        x = x.float()
        scale = (x.abs().amax(-1, keepdim=True) if self.by_row else x.abs().amax()) / 448
        q = (x / scale).to(self.types[0])
        if self.w.dtype == torch.float64:
            return ((q.double() @ self.w.t()) * scale * self.scale + self.bias.to(torch.bfloat16)).relu()
        return torch._scaled_mm(q, self.w.t(), scale, self.scale, self.bias.to(torch.bfloat16), out_dtype=self.out).relu()


for name, make in {"tensor": lambda: Scaled(256, 264, False), "rows": lambda: Scaled(256, 264, True), "deep": lambda: Scaled(1536, 136, True), "f32": lambda: Scaled(160, 72, False, torch.float32),
                   "odd": lambda: Scaled(100, 33, False, torch.float16), "e5m2": lambda: Scaled(128, 96, True, torch.float16, (E5, E5)), "mixed": lambda: Scaled(128, 96, False, types=(E5, E4))}.items():
    CASES[f"product_scaled_{name}"] = lambda make=make: (make(), [(R(n, make().w.shape[1]).bfloat16(),) for n in (300, 5, 70)], ({0: Dim("rows", min=1, max=400)},))
# ---- float32 at its accuracy, both operands computed: the right one is taken apart in the kernel, as it lies in memory or turned
case_of("product_apart_along_f32", lambda x, y: (x @ y.mT, torch.relu(x[0] @ y[0].mT)), lambda: (R(3, 130, 72), R(3, 196, 72)))
case_of("product_apart_across_f32", lambda x, y: x @ y, lambda: (R(2, 140, 100), R(2, 100, 132)))
case_of("product_apart_left_f32", lambda x, y, z: (x.mT @ y, x.mT @ z.mT, torch.relu(x[0].mT @ y[0])), lambda: (R(2, 100, 140), R(2, 100, 132), R(2, 132, 100)))
case_of("product_apart_left_odd_f32", lambda x, y: x.mT @ y, lambda: (odd_numbers(64, 128), R(64, 128).round()), lambda: (R(64, 128).round(), odd_numbers(64, 128)))
case_of("product_apart_odd_f32", lambda x, y, z: (x @ y.mT, x @ z), lambda: (odd_numbers(128, 64), R(192, 64).round(), R(64, 128).round()), lambda: (R(128, 64).round(), odd_numbers(192, 64), odd_numbers(64, 128)))
case_of("distances", lambda x, y: (torch.cdist(x, y), torch.cdist(x[:, :9], y[:, :20]), torch.cdist(x, y, p=1.0)), lambda: (R(2, 40, 20), R(2, 33, 20)))


# Few rows by constant weights that are worth streaming: a bias, an activation, a residual, gate and up; ends of rows, of columns and of k.
class Streamed(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.a, self.gate, self.up, self.down = nn.Linear(k, n), nn.Linear(k, n, bias=False), nn.Linear(k, n, bias=False), nn.Linear(n, k)

    def forward(self, x):
        return F.silu(self.a(x)), x + self.down(F.silu(self.gate(x)) * self.up(x))


for t in ("f16", "bf16"):
    CASES[f"product_streamed_{t}"] = lambda t=t: (Streamed(1096, 1416).to(TYPES[t]), [(R(n, 1096).to(TYPES[t]),) for n in (3, 20, 1, 8, 9, 32)],
                                                  ({0: Dim("rows", min=1, max=32)},))
    CASES[f"product_streamed_five_{t}"] = lambda t=t: (Streamed(1544, 1416).to(TYPES[t]), [(R(5, 1544).to(TYPES[t]),)], None)


# Rows in runs, each times a matrix of its own: empty runs, more runs than a warp has lanes, runs of a row, an epilogue of both halves of the columns.
class Runs(nn.Module):
    def __init__(self, t, runs, k, n, transposed):
        super().__init__()
        self.w = nn.Parameter((R(runs, n, k) if transposed else R(runs, k, n)).to(t) / k**0.5)
        self.transposed = transposed

    def forward(self, x, counts):
        w = self.w.transpose(1, 2) if self.transposed else self.w
        a, b = grouped_mm_fallback(x, w, counts.cumsum(0).to(torch.int32)).chunk(2, -1)
        return F.silu(a) * b


def counts(rows, runs, shape):
    of = torch.zeros(runs, dtype=torch.int64)
    if shape == "one":
        of[runs // 2] = rows
    else:
        of.index_add_(0, RI(0, runs, (rows,)), torch.ones(rows, dtype=torch.int64))
    return of


def runs(name, t):
    def add(what, number, k, n, transposed, sizes, most=300):
        CASES[f"runs_{what}_{name}"] = lambda: (Runs(t, number, k, n, transposed), [(R(rows, k).to(t), counts(rows, number, shape)) for rows, shape in sizes],
                                                ({0: Dim("rows", min=1, max=most)}, None))

    add("many", 70, 64, 96, True, [(150, "any"), (3, "any"), (300, "one")])
    add("few", 3, 128, 256, True, [(200, "any"), (1, "any"), (64, "one")])
    add("across", 9, 48, 64, False, [(100, "any"), (9, "one")])
    add("rows", 40, 192, 128, True, [(8, "any"), (5, "one")], most=16)


each({"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}, runs)
runs("f64", torch.float64)
