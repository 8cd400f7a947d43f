"""Convolutions for the GPU tests: operands of every type, windows, steps and edges, windows that are read out of patches, transposed ones that
are products; also products whose rows are filled up, and sums over channels-last images. They join CASES of cases.py."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from cases import ALL, CASES, Dim, OPTIONS, R, REDUCED, SPREADING, TYPES, case, case_of, each, odd_numbers


class Convs(nn.Module):
    def __init__(self, *layers, after=F.relu):
        super().__init__()
        self.layers, self.after = nn.ModuleList(layers), after

    def forward(self, x):
        return [self.after(l(x)) for l in self.layers]


def conv_case(name, layers, *shapes, dims=None, types=("f32",), after=F.relu):
    for t in types:
        CASES[f"conv_{name}_{t}"] = lambda t=t: (Convs(*layers(), after=after).to(TYPES[t]), [(R(*s).to(TYPES[t]),) for s in shapes], dims)


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


# float32 by warpgroups: in three products of TF32 with weights in two parts, and, where the user allows it, in one.
def in_tf32(name):
    OPTIONS[name], REDUCED[name] = ["--f32-matmul", "high"], torch.bfloat16
    return name


windows_case("deep", lambda: nn.Conv2d(68, 72, 3, padding=1), (2, 35, 37, 68), types=("f32",))
windows_case("deep_steps", lambda: nn.Conv2d(32, 40, (3, 1), stride=(2, 1), padding=(2, 0), dilation=(1, 2)), (4, 43, 37, 32), types=("f32",))
windows_case("deep_volume", lambda: nn.Conv3d(64, 64, 3, padding=1, bias=False), (1, 6, 17, 19, 64), types=("f32",))
for name in ("deep", "deep_volume"):
    CASES[in_tf32(f"conv_windows_{name}_tf32")] = CASES[f"conv_windows_{name}_f32"]
conv_case("transposed_phases", lambda: [nn.ConvTranspose2d(16, 24, 4, stride=2, padding=1), nn.ConvTranspose2d(16, 9, (6, 2), stride=(3, 2), padding=(2, 0), output_padding=(1, 0))],
          (2, 16, 9, 12), types=("f32", "f16"))
conv_case("transposed_phases_line", lambda: [nn.ConvTranspose1d(32, 16, 16, stride=8, padding=4), nn.ConvTranspose1d(32, 40, 4, stride=4, padding=1)], (2, 32, 21), types=("bf16",))
conv_case("transposed_phases_volume", lambda: [nn.ConvTranspose3d(8, 5, 4, stride=2, padding=1)], (1, 8, 4, 5, 3))
for name in ("plain", "transposed", "groups"):
    CASES[in_tf32(f"conv_{name}_tf32")] = CASES[f"conv_{name}_f32"]


class Parts(nn.Module):
    """Products of float32 with weights that are stored in two parts, of any order; weights that are infinite or none, too. across: of rows that
    are columns in memory."""

    def __init__(self, odd=False, across=False):
        super().__init__()
        self.across = across
        self.a, self.b, self.c = nn.Linear(132, 260), nn.Linear(260, 72), nn.Parameter(R(132, 136) / 11)
        if odd:
            with torch.no_grad():
                self.a.weight[3, 5], self.a.weight[7, 0], self.a.weight[9, 1], self.c[2, 2] = float("inf"), float("nan"), 3.4e38, 1e-42

    def forward(self, x):
        if self.across:
            x = x.mT
        return self.b(F.gelu(self.a(x))), x @ self.c


CASES["product_parts_f32"] = lambda: (Parts(), [(R(n, 132),) for n in (1000, 1, 65, 2049)], ({0: Dim("rows", min=1, max=4096)},))
CASES["product_parts_left_f32"] = lambda: (Parts(False, across=True), [(R(132, 600),)], None)
CASES["product_parts_odd_f32"] = lambda: (Parts(True), [(odd_numbers(600, 132),)], None)
CASES["conv_windows_odd_f32"] = lambda: (Last(nn.Conv2d(64, 40, 3, padding=1)), [(few_image("f32", 2, 45, 43, 64),)], None)


# Many short rows, each a warp's.
case_of("rows_short_f16", lambda x, w, b: (F.layer_norm(x, (768,), w, b), F.softmax(x[:, :520], -1), x.amax(-1)), lambda: (R(601, 768).half(), R(768).half(), R(768).half()))
case_of("rows_short_kept_f32", lambda x, y: (F.softmax(x * 3, -1), F.softmax(y, -1) + y, F.softmax(x, -1) * F.softmax(y[:, :64], -1).amax(-1, keepdim=True)), lambda: (R(1201, 64), R(1201, 132)))
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


# ---- windows read out of patches
def patches(name, sample, *layers, types=("f16", "bf16")):
    for t in types:
        CASES[f"conv_patch_{name}_{t}"] = lambda t=t: (Few(*[make() for make in layers]).to(TYPES[t]), [(R(*sample).to(TYPES[t]),)], None)


# Windows of one to three dims, steps, gaps, channels that are no whole slots, outputs that are no whole columns.
patches("volume", (2, 9, 19, 21, 16), lambda: nn.Conv3d(16, 16, 3, padding=1), lambda: nn.Conv3d(16, 40, 3, stride=2, padding=1, bias=False), lambda: nn.Conv3d(16, 8, (1, 3, 3), dilation=(1, 2, 1)))
patches("one", (2, 9, 19, 21, 1), lambda: nn.Conv3d(1, 16, 3, padding=1), lambda: nn.Conv3d(1, 24, (3, 1, 5)))
patches("eight", (2, 37, 41, 8), lambda: nn.Conv2d(8, 32, 3, padding=1), lambda: nn.Conv2d(8, 16, (2, 3), stride=(1, 2)), types=("f16",))
patches("odd", (2, 37, 41, 11), lambda: nn.Conv2d(11, 19, 3, padding=1), lambda: nn.Conv2d(11, 16, 5, dilation=2), types=("bf16",))
patches("groups", (2, 37, 41, 64), lambda: nn.Conv2d(64, 64, 3, padding=1, groups=16), lambda: nn.Conv2d(64, 128, 3, stride=2, groups=32), lambda: nn.Conv2d(64, 64, 3, padding=1, groups=4))
patches("volume", (2, 9, 19, 21, 16), lambda: nn.Conv3d(16, 16, 3, padding=1), lambda: nn.Conv3d(16, 24, (1, 3, 3), stride=(1, 2, 1), dilation=(1, 2, 1)), lambda: nn.Conv3d(16, 16, (3, 1, 1), groups=4), types=("f32",))
patches("one", (2, 9, 19, 21, 1), lambda: nn.Conv3d(1, 16, 3, padding=1), lambda: nn.Conv3d(1, 24, (3, 1, 5)), types=("f32",))
patches("odd", (2, 37, 41, 11), lambda: nn.Conv2d(11, 19, 3, padding=1), lambda: nn.Conv2d(11, 16, 3, dilation=2), types=("f32",))
for name in ("volume", "odd"):
    CASES[in_tf32(f"conv_patch_{name}_tf32")] = CASES[f"conv_patch_{name}_f32"]
patches("line", (2, 300, 24), lambda: nn.Conv1d(24, 24, 7, padding=3), lambda: nn.Conv1d(24, 48, 3, stride=2, groups=3), types=("f16",))


def infinite(t, *d):
    x = R(*d).to(TYPES[t])
    x[0, 9, 14, 3], x[0, 20, 3, 0], x[-1, -1, -1, 7] = float("inf"), float("nan"), -float("inf")
    return x


SPREADING.add("conv_patch_infinite_bf16")
for t in ("f16", "bf16", "f32"):
    CASES[f"conv_patch_infinite_{t}"] = lambda t=t: (Few(nn.Conv2d(64, 64, 3, padding=1, groups=16)).to(TYPES[t]), [(infinite(t, 2, 37, 41, 64),)], None)
CASES["conv_patch_dynamic_f16"] = lambda: (Few(nn.Conv2d(16, 16, 3, padding=1)).half(), [(R(n, h, w, 16).half(),) for n, h, w in ((2, 37, 41), (1, 5, 9), (3, 60, 16))],
                                           {"x": {0: Dim("batch", min=1, max=4), 1: Dim("rows", min=2, max=64), 2: Dim("columns", min=2, max=64)}})


# Transposed convolutions whose windows lie side by side, alone and between convolutions.
class Spread(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.up, self.b = nn.Conv2d(32, 64, 3, padding=1), nn.ConvTranspose2d(64, 32, 2, 2), nn.Conv2d(64, 16, 3, padding=1)
        self.volume, self.line = nn.ConvTranspose3d(16, 24, (2, 3, 1), (2, 3, 1)), nn.ConvTranspose1d(16, 40, 4, 4, bias=False)

    def forward(self, x, v, line):
        y = F.relu(self.up(F.relu(self.a(x))))
        return self.b(F.pad(y, (0, 0, 0, 0, 32, 0))), self.volume(v), self.line(line)


for t in ("f16", "f32"):
    CASES[f"conv_spread_{t}"] = lambda t=t: (Spread().to(TYPES[t]), [(R(2, 32, 21, 24).to(TYPES[t]), R(2, 16, 5, 7, 12).to(TYPES[t]), R(2, 16, 65).to(TYPES[t]))], None)


# Products of 16 bits whose rows are no multiples of 16 bytes: k odd, even, the left operand across k.
class Unaligned(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(429, 429), nn.Linear(429, 40), nn.Linear(196, 64)

    def forward(self, x, y):
        return self.b(x * self.a(x) + x), F.gelu(self.c(y.transpose(1, 2)))


CASES["product_unaligned_f16"] = lambda: (Unaligned().half(), [(R(40, 429).half(), R(2, 196, 72).half())], None)


# Norms over the pixels of channels-last images, of channels and of groups of them.
class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(16, 16, 3, padding=1), nn.InstanceNorm2d(16, affine=True), nn.Conv2d(16, 32, 3, padding=1)
        self.d, self.e = nn.GroupNorm(8, 32), nn.Conv2d(32, 8, 3)

    def forward(self, x):
        return self.e(F.relu(self.d(self.c(F.relu(self.b(self.a(x)))))))


for t in ("f16", "f32"):
    CASES[f"norms_last_{t}"] = lambda t=t: (Norms().to(TYPES[t]), [(R(2, 16, 48, 64).to(TYPES[t]),)], None)
