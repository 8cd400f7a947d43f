"""More models for the GPU tests, kernel kind by kernel kind: see cases.py, whose CASES they join."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from cases import CASES, OPTIONS, REDUCED, SPREADING, R, Dim, case, case_of

RI = torch.randint
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
INTS = {"i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}


def each(types, f):
    for name, t in types.items():
        f(name, t)


# ---- products
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


def odd_numbers(*d):
    """Among others infinities, NaN of two kinds, the largest numbers and zeros; few enough that most of a product's results are numbers."""
    x = R(*d)
    odd = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, 3.4028235e38, -3.4028235e38, 1.0, 1e-30])
    odd = torch.cat([odd, torch.tensor([0x7FFFFFFF, 0x7F800001], dtype=torch.int32).view(torch.float32)])
    x.view(-1)[:: x.numel() // 10 + 1] = odd[: x.view(-1)[:: x.numel() // 10 + 1].numel()]
    return x


case_of("product_odd_f32", lambda a, b: (a @ b, (a * 0.25) @ b[:, :5], a[:1] @ b), lambda: (odd_numbers(45, 300), R(300, 34).round()), lambda: (R(45, 300) * 1e-3, odd_numbers(300, 34)),
        lambda: (odd_numbers(45, 300).abs(), odd_numbers(300, 34).abs()))
case_of("product_none_dynamic", lambda a, b: F.linear(a, b), *[lambda n=n: (R(n, 5), R(17, 5)) for n in (8, 0)], dims=({0: Dim("n")}, None))


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


def rotated(name, t):
    k = 56 if t == torch.float64 else 520
    for rows, channels in ((1, 64), (3, 34)):
        CASES[f"product_rotated_{rows}_{channels}_{name}"] = lambda rows=rows, channels=channels: (
            Rotated(k, channels, rows == 1).to(t), [(R(rows, k).to(t), R(rows, channels).to(t), R(rows, channels).to(t), R(3, 2, channels).to(t))], None)
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


# ---- convolutions
class Convs(nn.Module):
    def __init__(self, *layers, after=F.relu):
        super().__init__()
        self.layers, self.after = nn.ModuleList(layers), after

    def forward(self, x):
        return [self.after(l(x)) for l in self.layers]


def conv_case(name, layers, *shapes, dims=None, types=("f32",), after=F.relu):
    for t in types:
        CASES[f"conv_{name}_{t}"] = lambda t=t: (Convs(*layers(), after=after).to(TYPES[t]), [(R(*s).to(TYPES[t]),) for s in shapes], dims)


ALL = ("f32", "f16", "bf16", "f64")
conv_case("plain", lambda: [nn.Conv2d(5, 37, 3, padding=1), nn.Conv2d(5, 8, 1, bias=False), nn.Conv2d(5, 70, (3, 5), stride=2)], (2, 5, 13, 17), types=ALL)
conv_case("deep", lambda: [nn.Conv2d(136, 24, 3, padding=1), nn.Conv2d(136, 40, 1, stride=2)], (1, 136, 7, 7), types=("f32", "bf16"))
conv_case("groups", lambda: [nn.Conv2d(12, 12, 3, groups=12, padding=1), nn.Conv2d(12, 24, 3, groups=3), nn.Conv2d(12, 36, 3, groups=12, stride=2)], (2, 12, 9, 11),
          types=("f32", "f16", "f64"))
conv_case("dilated", lambda: [nn.Conv2d(6, 9, 3, dilation=2, padding=(2, 3)), nn.Conv2d(6, 9, (4, 2), dilation=(1, 3), padding="same")], (1, 6, 12, 10))
conv_case("line", lambda: [nn.Conv1d(7, 20, 5, stride=3, padding=4), nn.Conv1d(7, 7, 3, groups=7)], (3, 7, 50), types=("f32", "bf16", "f64"))
conv_case("volume", lambda: [nn.Conv3d(3, 10, 3, padding=1), nn.Conv3d(3, 6, (1, 2, 3), stride=(1, 2, 1))], (1, 3, 5, 7, 6), types=("f32", "f16", "f64"))
conv_case("transposed", lambda: [nn.ConvTranspose2d(6, 10, 3, stride=2, padding=1, output_padding=1), nn.ConvTranspose2d(6, 9, (2, 4), stride=(3, 1), groups=3, dilation=(1, 2)),
                                 nn.ConvTranspose2d(6, 33, 3)], (2, 6, 5, 7), types=("f32", "bf16", "f64"))
conv_case("transposed_line", lambda: [nn.ConvTranspose1d(5, 6, 4, stride=2)], (2, 5, 11), types=("f32", "f16"))
conv_case("dynamic", lambda: [nn.Conv2d(4, 18, 3, padding=1)], (2, 4, 8, 12), (1, 4, 16, 8), (3, 4, 12, 20), types=("f32", "f64"),
          dims={"x": {0: Dim("batch", min=1, max=4), 2: 4 * Dim("rows", min=1, max=8), 3: 4 * Dim("columns", min=1, max=8)}})
# Windows as tensor maps copy them: channels in 16 bytes, on either side of 64, steps, holes, unequal padding, one to three dims.
class Last(Convs):
    """Images with their channels last, results too."""

    def forward(self, x):
        return [y.movedim(1, -1) for y in super().forward(x.movedim(-1, 1))]


def windows_case(name, layer, *shapes, dims=None, types=("f16",)):
    for t in types:
        CASES[f"conv_windows_{name}_{t}"] = lambda t=t: (Last(layer()).to(TYPES[t]), [(R(*s).to(TYPES[t]),) for s in shapes], dims)


windows_case("plain", lambda: nn.Conv2d(72, 40, 3, padding=1), (2, 11, 13, 72), types=("f16", "bf16"))
windows_case("steps", lambda: nn.Conv2d(72, 136, (3, 1), stride=(2, 1), padding=(2, 0)), (2, 11, 13, 72))
windows_case("holes", lambda: nn.Conv2d(64, 24, 3, dilation=2, padding=2), (2, 11, 13, 64))
windows_case("points", lambda: nn.Conv2d(136, 48, 1, stride=2, bias=False), (2, 11, 13, 136))
windows_case("line", lambda: nn.Conv1d(16, 24, 5, stride=3, padding=4), (3, 50, 16))
windows_case("volume", lambda: nn.Conv3d(8, 16, (2, 3, 3), padding=(0, 1, 1), stride=(1, 2, 1)), (2, 4, 7, 6, 8))
windows_case("odd_channels", lambda: nn.Conv2d(64, 37, 3, padding="same"), (1, 9, 9, 64))
windows_case("dynamic", lambda: nn.Conv2d(64, 64, 3, padding=1), (2, 8, 12, 64), (1, 16, 8, 64), (3, 8, 20, 64),
             dims={"x": {0: Dim("batch", min=1, max=4), 1: 4 * Dim("rows", min=1, max=8), 2: 4 * Dim("columns", min=1, max=8)}})


# Many short rows, each a warp's.
case_of("rows_short_f16", lambda x, w, b: (F.layer_norm(x, (768,), w, b), F.softmax(x[:, :520], -1), x.amax(-1)), lambda: (R(601, 768).half(), R(768).half(), R(768).half()))
case_of("rows_short_dynamic_f32", lambda x, w: F.rms_norm(x, (384,), w), *[lambda n=n: (R(n, 384), R(384)) for n in (700, 1, 3)], dims=({0: Dim("rows", min=1)}, None))


# Images of few channels whose channels become the last dim: a thread writes all of them.
case_of("few_channels_last_f16", lambda x, m: ((x - m[:, None, None]).movedim(1, -1).contiguous(), x.movedim(1, -1).contiguous()), lambda: (R(2, 3, 21, 40).half(), R(3).half()))
case_of("few_channels_last_dynamic_f32", lambda x: (x * 2).movedim(1, -1).contiguous(), *[lambda n=n: (R(n, 4, 5, 12),) for n in (3, 1)], dims=({0: Dim("n", min=1)},))


# Windows, edges and parts of images with their channels last, of which a thread takes several.
def pools(name, t):
    def f(x):
        y = x.movedim(-1, 1)
        ys = (F.max_pool2d(y, 3, 2, 1), F.avg_pool2d(y, 3, 2, 1, count_include_pad=False), F.pad(y, (1, 2, 0, 1), value=2.0), F.relu(y).amax((2, 3), True), torch.cat((y[:, :, 1:], y * 2), 2))
        return (*(z.movedim(1, -1) for z in ys), y.mean((2, 3)) + y[:, :, 0, 0])

    case_of(f"pools_last_{name}", f, lambda: (R(2, 9, 11, 24).to(t),))
    case_of(f"pools_last_dynamic_{name}", f, *[lambda n=n: (R(n, 9, 11, 24).to(t),) for n in (2, 1, 3)], dims=({0: Dim("batch", min=1)},))


each(TYPES, pools)


# Few channels, whose windows' columns become channels.
conv_case("narrow", lambda: [nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.Conv2d(3, 128, 8, stride=8), nn.Conv2d(3, 64, (3, 5), padding=(1, 2), dilation=(1, 2))],
          (2, 3, 64, 72), types=("f16", "bf16"))


# The same of images of few channels: odd sizes, steps, edges, and numbers that are none beside windows.
class Few(nn.Module):
    def __init__(self, *layers, odd=False):
        super().__init__()
        self.layers, self.odd = nn.ModuleList(layers), odd

    def forward(self, x):
        return [F.relu(layer(x.movedim(-1, 1))).movedim(1, -1) for layer in self.layers]


def few_image(t, *d):
    x = R(*d).to(TYPES[t])
    x[0, 9, 14], x[0, 20, 3, 0], x[-1, -1, -1] = float("inf"), float("nan"), -float("inf")
    return x


for t in ("f16", "bf16"):
    CASES[f"conv_few_{t}"] = lambda t=t: (Few(nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.Conv2d(3, 40, 3, padding=1), nn.Conv2d(3, 32, (5, 3), stride=(1, 2), padding=(0, 1), bias=False)).to(TYPES[t]),
                                          [(R(2, 205, 243, 3).to(TYPES[t]),)], None)
CASES["conv_few_odd_f16"] = lambda: (Few(nn.Conv2d(3, 64, 7, stride=2, padding=3)).half(), [(few_image("f16", 2, 205, 243, 3),)], None)
for t in ("f16", "bf16"):  # oneDNN's convolutions of bf16 give NaN beside windows that hold an infinity
    SPREADING.add(f"conv_few_infinite_{t}")
    CASES[f"conv_few_infinite_{t}"] = lambda t=t: (Few(nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(3, 24, 3), nn.Conv2d(3, 8, (2, 5), padding=(0, 2))).to(TYPES[t]), [(few_image(t, 2, 205, 243, 3),)], None)
CASES["conv_few_dynamic_bf16"] = lambda: (Few(nn.Conv2d(3, 64, 7, stride=2, padding=3)).bfloat16(), [(R(n, h, w, 3).bfloat16(),) for n, h, w in ((2, 208, 240), (1, 96, 48), (3, 32, 80))],
                                          {"x": {0: Dim("batch", min=1, max=4), 1: 16 * Dim("rows", min=2, max=16), 2: 16 * Dim("columns", min=2, max=16)}})


@case
def conv_windows_chain():
    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.Conv2d(128, 128, 3, padding=1)
            self.n, self.d, self.p = nn.BatchNorm2d(128), nn.Conv2d(64, 128, 1, stride=2), nn.Conv2d(128, 64, 1)

        def forward(self, x):
            x = x.movedim(-1, 1)
            return self.p(F.relu(self.b(F.silu(self.n(self.a(x)))) + self.d(x))).movedim(1, -1)

    return Chain().half(), [(R(2, 10, 10, 64).half(),)], None


case_of("conv_odd_f32", lambda x, w: F.conv2d(x, w), lambda: (odd_numbers(2, 5, 13, 17), R(37, 5, 3, 3).round()), lambda: (R(2, 5, 13, 17), odd_numbers(37, 5, 3, 3)))
case_of("conv_weights_computed", lambda x, w: F.conv2d(x, w * 2, padding=1) + x[:, :1], lambda: (R(2, 4, 6, 8), R(8, 4, 3, 3)))


@case
def conv_residual():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.n, self.b, self.p = nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 3, padding=1), nn.MaxPool2d(2)

        def forward(self, x):
            return self.p(F.relu(self.b(F.silu(self.n(self.a(x)))) + x))

    return Block(), [(R(2, 16, 10, 10),)], None


# ---- attention
sdpa = F.scaled_dot_product_attention


def attention_case(name, f, q, kv, types=ALL, extra=lambda t: (), v=None):
    for t in types:
        case_of(f"attention_{name}_{t}", f, lambda t=t: (R(*q).to(TYPES[t]), R(*kv).to(TYPES[t]), R(*(v or kv)).to(TYPES[t]), *extra(TYPES[t])))


attention_case("plain", lambda q, k, v: sdpa(q, k, v), (2, 3, 70, 32), (2, 3, 130, 32))
attention_case("causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), (1, 2, 77, 64), (1, 2, 77, 64))
attention_case("odd", lambda q, k, v: sdpa(q, k, v, scale=0.3), (1, 2, 5, 23), (1, 2, 19, 23), v=(1, 2, 19, 41))
attention_case("bool", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), (2, 2, 17, 40), (2, 2, 45, 40), extra=lambda t: (torch.rand(2, 1, 17, 45) > 0.4,), types=("f32", "bf16", "f64"))
attention_case("float", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), (2, 2, 17, 40), (2, 2, 45, 40), extra=lambda t: (R(17, 45).to(t),), types=("f32", "f16", "f64"))
attention_case("gqa", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), (2, 6, 9, 64), (2, 2, 33, 64), types=("f32", "bf16"))
attention_case("decode", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), (1, 4, 1, 64), (1, 2, 700, 64), types=("f32", "f16"))
attention_case("wide", lambda q, k, v: sdpa(q, k, v), (1, 1, 18, 256), (1, 1, 40, 256), types=("f32", "bf16"))
attention_case("wider", lambda q, k, v: sdpa(q, k, v), (1, 1, 18, 300), (1, 1, 40, 300), types=("f32", "f16"))
attention_case("layout", lambda q, k, v: sdpa(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2).reshape(q.shape[0], q.shape[1], -1), (2, 21, 3, 32), (2, 37, 3, 32),
               types=("f32", "bf16"))
# A row whose every key is hidden by the lowest number attends to all alike; one that sees no key gives zeros, or NaN as a softmax.
attention_case("lowest", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), (1, 2, 4, 16), (1, 2, 20, 16), types=("f32",),
               extra=lambda t: (torch.full((4, 20), torch.finfo(torch.float32).min) * torch.tensor([[1.0], [0.0], [1.0], [0.0]]),))


attention_case("nowhere", lambda q, k, v, m: (sdpa(q, k, v, attn_mask=m), torch.softmax(q @ k.mT * 0.25 + torch.where(m, 0.0, -torch.inf).to(q.dtype), -1) @ v),
               (1, 2, 4, 16), (1, 2, 20, 16), types=("f32", "bf16", "f64"), extra=lambda t: (torch.arange(4).view(4, 1) > torch.arange(20) / 3,))


# Views of one projection, keys hidden for all rows alike, by bool and by number; several blocks of keys, long and short rows.
each({"f16": torch.float16, "bf16": torch.bfloat16}, lambda name, t: case_of(f"attention_together_{name}", lambda x: sdpa(*(t.transpose(1, 2) for t in x.unbind(2))).transpose(1, 2).flatten(2),
                                              lambda: (R(2, 150, 3, 2, 64).to(t),)))
attention_case("keys_bool", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), (2, 2, 100, 64), (2, 2, 300, 64), extra=lambda t: (torch.rand(2, 1, 1, 300) > 0.4,), types=("f16",))
attention_case("keys_float", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), (2, 2, 100, 64), (2, 2, 300, 64), extra=lambda t: (R(2, 1, 1, 300).to(t),), types=("bf16",))
attention_case("channels", lambda q, k, v: sdpa(q, k, v), (1, 2, 70, 80), (1, 2, 90, 80), v=(1, 2, 90, 136), types=("f16",))
attention_case("causal_long", lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), (2, 4, 500, 128), (2, 2, 500, 128), types=("bf16",))
# More tiles than processors have blocks of two warpgroups: three of them, in turns.
attention_case("many", lambda q, k, v: sdpa(q, k, v), (2, 66, 190, 16), (2, 66, 190, 16), types=("f16",))


def far_scores(name, t, size, scale=0.5):
    """Scores far beyond what exponents by base 2 hold, exact in every order: one key has all the weight, or equal ones share it."""
    whole = lambda *d: RI(-9, 9, d).to(TYPES[t])
    case_of(f"attention_far_{name}_{t}", lambda q, k, v: (F.scaled_dot_product_attention(q, k, v, scale=scale), F.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=True)),
            lambda: (whole(2, 3, 70, 64) * size, whole(2, 3, 70, 64), R(2, 3, 70, 64).to(TYPES[t])), lambda: (-whole(2, 3, 70, 64).abs() * size, whole(2, 3, 70, 64).abs() + 1, R(2, 3, 70, 64).to(TYPES[t])))


case_of("attention_overflow_f32", lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        lambda: (R(2, 2, 9, 64).sign() * 2.0**122, torch.ones(2, 2, 17, 64) * torch.arange(1, 18)[:, None] / 16, R(2, 2, 17, 64)))
for t, sizes in {"f32": (512, 2.0**114), "bf16": (256, 2.0**114), "f16": (256,), "f64": (2.0**100,)}.items():
    for size, name in zip(sizes, ("", "huge")):
        far_scores(name or "large", t, size)
    far_scores("scaled", t, 256 if t == "f16" else 2.0**60, 0.3)  # products by the scale are rounded
# Rows of odd lengths, whose kernel is another one.
case_of("attention_far_odd_bf16", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
        lambda: (RI(-9, 9, (9, 7)).bfloat16() * 2.0**60, RI(-9, 9, (9, 7)).bfloat16(), R(9, 7).bfloat16()))
case_of("attention_no_channels_f32", lambda q, v: F.scaled_dot_product_attention(q, q, v), lambda: (torch.zeros(2, 3, 1, 0), R(2, 3, 1, 5)))
# What is read at indices is read again after the rows' maximum is known.
case_of("gather_twice_f16", lambda x, t: torch.logsumexp(F.nll_loss(x, t, reduction="none"), -1), lambda: (R(19, 7).half(), RI(0, 7, (19,))))


def edges(t):
    """Pairs of the numbers where integers run over."""
    least = torch.iinfo(t).min
    some = torch.tensor([least, least + 1, -5, -1, 0, 1, 7, -1 - least], dtype=t)
    return some.repeat(8), some.repeat_interleave(8)


for t in (torch.int8, torch.int16, torch.int32, torch.int64):
    case_of(f"integers_that_run_over_i{torch.iinfo(t).bits}",
            lambda x, y: (x.abs() % 5 + 1, torch.div(y, x.abs() % 5 + 1, rounding_mode="floor"), y % (x.abs() % 5 + 1), -x // 3, x * 3 // 7, x.abs() < 0,
                          x + 1 > x, (x - y) % 11), lambda t=t: edges(t))


# A short row of doubles that a thread takes whole beside one of bytes, which is no multiple of the words that loads take.
for columns in (10, 20, 6):
    case_of(f"short_row_whole_{columns}", lambda x, m: F.softmax(F.unfold(x, 1, stride=2).masked_fill(m, -9.0) * 0.5, -3) + F.unfold(x, 1, stride=2).tanh(),
            lambda n=columns: (R(1, 3, 4, n).double(), R(1, 3, n) > 0))


def attention_lengths(name, t):
    def make():
        from models import Fn
        seq, past = Dim("seq", min=1, max=200), Dim("past", min=1, max=300)
        samples = [tuple(R(2, 2, n, 32).to(t) for n in (l, s, s)) for l, s in ((40, 70), (1, 300), (130, 5))]
        return Fn(lambda q, k, v: sdpa(q, k, v)), samples, ({2: seq}, {2: past}, {2: past})

    CASES[name] = make


attention_lengths("attention_dynamic", torch.float32)
attention_lengths("attention_dynamic_f16", torch.float16)


# ---- whole-tensor algorithms
def same_values(t, *d):
    return RI(0, 9, d).to(t) if t != torch.bool else RI(0, 2, d).bool()


def sorting(name, t):
    case_of(f"sort_{name}", lambda x: (*torch.sort(x, dim=1, stable=True), *torch.sort(x, dim=0, descending=True, stable=True)), lambda: (same_values(t, 5, 37),))


each({**TYPES, **INTS, "bool": torch.bool}, sorting)
case_of("sort_long", lambda x: (*torch.sort(x, dim=-1, stable=True), torch.argsort(x[:, :3000], descending=True, stable=True)), lambda: (R(2, 70000),))
case_of("sort_nan", lambda x: (*torch.sort(x, stable=True), *torch.sort(x, descending=True, stable=True)),
        lambda: (torch.tensor([3.0, float("nan"), -0.0, 0.0, float("inf"), -1.0, float("nan"), -float("inf")]),))
case_of("sort_dynamic", lambda x: tuple(torch.sort(x, stable=True)), *[lambda n=n: (R(3, n),) for n in (20, 1, 1000)], dims=({1: Dim("n", min=1)},))
for name, t in {**TYPES, "i64": torch.int64, "i32": torch.int32, "i8": torch.int8}.items():
    case_of(f"topk_{name}", lambda x: (torch.topk(x, 5)[0], torch.topk(x, 7, dim=0, largest=False)[0], torch.topk(x, x.shape[1])[0]),
            lambda t=t: ((R(9, 333) * 50).to(t),))
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
def systems(x, b):
    sign, size = torch.linalg.slogdet(x)
    p, l, u = torch.linalg.lu(x)
    return (torch.linalg.solve(x, b), torch.linalg.solve(x, b.mT, left=False), torch.linalg.inv(x), torch.det(x / x.shape[-1]), sign, size, p, l, u)


def well(*dims, dtype=torch.float32):
    return R(*dims, dims[-1], dtype=dtype) / dims[-1] + 3 * torch.eye(dims[-1], dtype=dtype).flip(0)


case_of("lu_small", systems, lambda: (well(40, 5), R(40, 5, 3)))
case_of("lu_wide", lambda x: (*torch.linalg.lu(x), *torch.linalg.lu(x.mT)), lambda: (R(3, 20, 45),))
case_of("lu_dynamic", systems, *[lambda n=n: (well(2, n), R(2, n, 1)) for n in (9, 2, 33, 100)], dims=({1: N, 2: N}, {1: N}))
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


@case
def cache_update():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(1, 2, 32, 16))

        def forward(self, x, at):
            self.k[:, :, at] = x
            return sdpa(x, self.k, self.k)

    return Cache(), [(R(1, 2, 3, 16), torch.tensor([4, 5, 6]))], None


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


for name in ("transforms_by_factors", "short_transforms", "grids_sampled", "embedding_bags_at_offsets"):
    CASES[f"model_{name}"] = lambda name=name: of_the_models(name)
