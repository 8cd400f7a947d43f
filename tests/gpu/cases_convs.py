"""More models for the GPU tests: convolutions whose windows are read out of patches, transposed ones that are products, products whose rows are
filled up, sums over channels-last images. They join CASES of cases.py."""
import torch.nn as nn
import torch.nn.functional as F

from cases import CASES, SPREADING, R, Dim
from cases_kernels import TYPES, Few


def patches(name, sample, *layers, types=("f16", "bf16")):
    for t in types:
        CASES[f"conv_patch_{name}_{t}"] = lambda t=t: (Few(*[make() for make in layers]).to(TYPES[t]), [(R(*sample).to(TYPES[t]),)], None)


# Windows of one to three dims, steps, gaps, channels that are no whole slots, outputs that are no whole columns.
patches("volume", (2, 9, 19, 21, 16), lambda: nn.Conv3d(16, 16, 3, padding=1), lambda: nn.Conv3d(16, 40, 3, stride=2, padding=1, bias=False), lambda: nn.Conv3d(16, 8, (1, 3, 3), dilation=(1, 2, 1)))
patches("one", (2, 9, 19, 21, 1), lambda: nn.Conv3d(1, 16, 3, padding=1), lambda: nn.Conv3d(1, 24, (3, 1, 5)))
patches("eight", (2, 37, 41, 8), lambda: nn.Conv2d(8, 32, 3, padding=1), lambda: nn.Conv2d(8, 16, (2, 3), stride=(1, 2)), types=("f16",))
patches("odd", (2, 37, 41, 11), lambda: nn.Conv2d(11, 19, 3, padding=1), lambda: nn.Conv2d(11, 16, 5, dilation=2), types=("bf16",))
patches("groups", (2, 37, 41, 64), lambda: nn.Conv2d(64, 64, 3, padding=1, groups=16), lambda: nn.Conv2d(64, 128, 3, stride=2, groups=32), lambda: nn.Conv2d(64, 64, 3, padding=1, groups=4))
patches("line", (2, 300, 24), lambda: nn.Conv1d(24, 24, 7, padding=3), lambda: nn.Conv1d(24, 48, 3, stride=2, groups=3), types=("f16",))


def infinite(t, *d):
    x = R(*d).to(TYPES[t])
    x[0, 9, 14, 3], x[0, 20, 3, 0], x[-1, -1, -1, 7] = float("inf"), float("nan"), -float("inf")
    return x


SPREADING.add("conv_patch_infinite_bf16")
for t in ("f16", "bf16"):
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
