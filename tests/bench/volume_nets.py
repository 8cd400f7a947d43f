"""Nets of 3-d convolutions, of our own making, of the usual kinds: a small classifier of volumes, video by windows of 1x1x1 and 3x3x3 whose branches are
joined, video by bottlenecks, video by windows of space and of time in turn, encoders and decoders of volumes by transposed convolutions and instance norms
or by trilinear upsampling and group norms, and one of channels by depthwise windows. VOLUME_NETS: by name the net and its input's dims."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_norm(i, o, kernel, stride=1, act=True, groups=1):
    kernel = (kernel,) * 3 if isinstance(kernel, int) else kernel
    layers = [nn.Conv3d(i, o, kernel, stride, tuple(k // 2 for k in kernel), groups=groups, bias=False), nn.BatchNorm3d(o)]
    return nn.Sequential(*layers, *([nn.ReLU()] if act else []))


class Plain(nn.Sequential):
    def __init__(self):
        two = lambda i, o: [nn.Conv3d(i, o, 3, padding=1), nn.ReLU()]
        layers = [nn.Conv3d(1, 16, 3, padding=1), nn.BatchNorm3d(16), nn.ReLU(), nn.MaxPool3d(2), *two(16, 32), nn.MaxPool3d(2), *two(32, 64)]
        super().__init__(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(64, 2))


class Branches(nn.Module):
    def __init__(self, i, a, b0, b, c0, c, d):
        super().__init__()
        self.a, self.b = conv_norm(i, a, 1), nn.Sequential(conv_norm(i, b0, 1), conv_norm(b0, b, 3))
        self.c, self.d = nn.Sequential(conv_norm(i, c0, 1), conv_norm(c0, c, 3)), nn.Sequential(nn.MaxPool3d(3, 1, 1), conv_norm(i, d, 1))

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x), self.c(x), self.d(x)], 1)


class Inflated(nn.Module):
    def __init__(self):
        super().__init__()
        first = [conv_norm(3, 64, 7, 2), nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)), conv_norm(64, 64, 1), conv_norm(64, 192, 3)]
        rows = [nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)), Branches(192, 64, 96, 128, 16, 32, 32), Branches(256, 128, 128, 192, 32, 96, 64)]
        last = [nn.MaxPool3d(3, 2, 1), Branches(480, 192, 96, 208, 16, 48, 64), Branches(512, 160, 112, 224, 24, 64, 64)]
        self.body, self.head = nn.Sequential(*first, *rows, *last), nn.Linear(512, 400)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3, 4)))


class Bottleneck(nn.Module):
    def __init__(self, i, h, o, kernel, stride, groups=1):
        super().__init__()
        self.body = nn.Sequential(conv_norm(i, h, 1), conv_norm(h, h, kernel, stride, groups=groups), conv_norm(h, o, 1, act=False))
        self.skip = conv_norm(i, o, 1, stride, act=False) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.skip(x) + self.body(x))


class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        layers, i = [conv_norm(3, 64, (1, 7, 7), (1, 2, 2)), nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))], 64
        for h, kernel, stride in ((32, (1, 3, 3), 1), (64, (1, 3, 3), (1, 2, 2)), (128, 3, (1, 2, 2)), (256, 3, (1, 2, 2))):
            for k in range(2):
                layers.append(Bottleneck(i, h, 4 * h, kernel, stride if k == 0 else 1))
                i = 4 * h
        self.body, self.head = nn.Sequential(*layers), nn.Linear(i, 400)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3, 4)))


class Thin(nn.Module):
    """Bottlenecks whose windows are depthwise."""

    def __init__(self):
        super().__init__()
        layers, i = [conv_norm(3, 24, (1, 3, 3), (1, 2, 2)), conv_norm(24, 24, (5, 1, 1), groups=24)], 24
        for h, o in ((54, 24), (108, 48), (216, 96), (432, 192)):
            for k in range(2):
                layers.append(Bottleneck(i, h, o, 3, (1, 2, 2) if k == 0 else 1, h))
                i = o
        self.body, self.head = nn.Sequential(*layers, conv_norm(192, 432, 1)), nn.Linear(432, 400)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3, 4)))


def factored(i, o, stride=1):
    middle = (i * o * 27) // (i * 9 + 3 * o)
    return nn.Sequential(conv_norm(i, middle, (1, 3, 3), (1, stride, stride)), conv_norm(middle, o, (3, 1, 1), (stride, 1, 1), act=False))


class FactoredBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.body = nn.Sequential(factored(i, o, stride), nn.ReLU(), factored(o, o))
        self.skip = conv_norm(i, o, 1, stride, act=False) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.skip(x) + self.body(x))


class Factored(nn.Module):
    def __init__(self):
        super().__init__()
        first = [conv_norm(3, 45, (1, 7, 7), (1, 2, 2)), conv_norm(45, 64, (3, 1, 1))]
        self.body, self.head = nn.Sequential(*first, FactoredBlock(64, 64, 1), FactoredBlock(64, 128, 2), FactoredBlock(128, 256, 2)), nn.Linear(256, 400)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3, 4)))


class Volume(nn.Module):
    """Encoder and decoder with skips. `learned`: upsampled by transposed convolutions, instance norms and leaky ReLUs; else trilinear and group norms."""

    def __init__(self, learned, widths=(16, 32, 64)):
        super().__init__()
        norm = (lambda c: nn.InstanceNorm3d(c, affine=True)) if learned else (lambda c: nn.GroupNorm(8, c))
        act = lambda: nn.LeakyReLU(0.01) if learned else nn.ReLU()
        one = lambda i, o, s=1: [nn.Conv3d(i, o, 3, s, 1), norm(o), act()]
        steps = list(zip((1,) + widths, widths))
        self.learned = learned
        self.down = nn.ModuleList(nn.Sequential(*one(i, o, 2 if learned and k else 1), *one(o, o)) for k, (i, o) in enumerate(steps))
        self.up = nn.ModuleList(nn.ConvTranspose3d(2 * o, o, 2, 2) if learned else nn.Upsample(scale_factor=2, mode="trilinear") for o in widths[-2::-1])
        self.merge = nn.ModuleList(nn.Sequential(*one(2 * o if learned else 3 * o, o), *one(o, o)) for o in widths[-2::-1])
        self.last = nn.Conv3d(widths[0], 3, 1)

    def forward(self, x):
        kept = []
        for k, d in enumerate(self.down):
            x = d(x if self.learned or not k else F.max_pool3d(x, 2))
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, kept[-2::-1]):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.last(x)


VOLUME_NETS = {"plain3d": (Plain, (1, 32, 48, 48)), "inflated": (Inflated, (3, 8, 112, 112)), "slow": (Slow, (3, 8, 112, 112)), "thin3d": (Thin, (3, 8, 112, 112))}
VOLUME_NETS |= {"factored": (Factored, (3, 8, 56, 56)), "volume": (lambda: Volume(True), (1, 32, 48, 48)), "volume_up": (lambda: Volume(False), (1, 32, 48, 48))}
