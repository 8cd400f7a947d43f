"""Convolutional nets beside OpenVINO, in turns: python conv_nets.py --aotc BIN --work DIR [--threads 1,2] [--rounds 3] [--precision bf16] [--prefix "chrt -f 10"] [net ...]

Needs torch and openvino. The nets are of our own making, of the usual kinds: inverted residuals with depthwise convolutions (and with gates of
their channels' means and SiLU, or with hard sigmoids and swishes, or with depthwise 5x5), an encoder and decoder with skips, depthwise 7x7 with
layer norms, dense blocks, grouped bottlenecks of 4 and of 24 channels a group, blocks whose channels are shuffled, blocks half of whose channels
are made of the other half; of volumes and video those of volume_nets.py. For every round: least and median time of a call in
microseconds, and OpenVINO's over aotc's.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from volume_nets import VOLUME_NETS


def conv_norm(i, o, kernel, stride=1, groups=1, act=nn.ReLU):
    layers = [nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Inverted(nn.Module):
    def __init__(self, i, o, stride, expand):
        super().__init__()
        h = i * expand
        first = [conv_norm(i, h, 1, act=nn.ReLU6)] if expand > 1 else []
        self.body = nn.Sequential(*first, conv_norm(h, h, 3, stride, h, nn.ReLU6), conv_norm(h, o, 1, act=None))
        self.residual = stride == 1 and i == o

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class InvertedNet(nn.Module):
    ROWS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]

    def __init__(self):
        super().__init__()
        layers, i = [conv_norm(3, 32, 3, 2, act=nn.ReLU6)], 32
        for expand, o, n, stride in self.ROWS:
            for k in range(n):
                layers.append(Inverted(i, o, stride if k == 0 else 1, expand))
                i = o
        self.body = nn.Sequential(*layers, conv_norm(320, 1280, 1, act=nn.ReLU6))
        self.head = nn.Linear(1280, 1000)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Gate(nn.Module):
    """Channels scaled by what two products make of their means."""

    def __init__(self, c, reduced, act, gate):
        super().__init__()
        self.a, self.b, self.act, self.gate = nn.Conv2d(c, reduced, 1), nn.Conv2d(reduced, c, 1), act(), gate()

    def forward(self, x):
        return x * self.gate(self.b(self.act(self.a(F.adaptive_avg_pool2d(x, 1)))))


class GatedInverted(nn.Module):
    """Inverted residual: expand, depthwise, a gate where `gated` is its width, project."""

    def __init__(self, i, h, o, kernel, stride, act, gated, gate):
        super().__init__()
        layers = [conv_norm(i, h, 1, act=act)] if h != i else []
        layers.append(conv_norm(h, h, kernel, stride, h, act))
        if gated:
            layers.append(Gate(h, gated, nn.SiLU if gate is nn.Sigmoid else nn.ReLU, gate))
        self.body = nn.Sequential(*layers, conv_norm(h, o, 1, act=None))
        self.residual = stride == 1 and i == o

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class GatedNet(nn.Module):
    """Compound-scaled: SiLU, a gate in every block, depthwise 3x3 and 5x5. Rows: expansion, channels, blocks, stride, kernel."""

    ROWS = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]

    def __init__(self):
        super().__init__()
        layers, i = [conv_norm(3, 32, 3, 2, act=nn.SiLU)], 32
        for expand, o, n, stride, kernel in self.ROWS:
            for k in range(n):
                layers.append(GatedInverted(i, i * expand, o, kernel, stride if k == 0 else 1, nn.SiLU, max(1, i // 4), nn.Sigmoid))
                i = o
        self.body, self.head = nn.Sequential(*layers, conv_norm(320, 1280, 1, act=nn.SiLU)), nn.Linear(1280, 1000)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class HardNet(nn.Module):
    """Searched for phones: ReLU first, hard swish later, gates by hard sigmoids in some blocks. Rows: kernel, hidden, channels, gated, act, stride."""

    ROWS = [(3, 16, 16, 0, nn.ReLU, 1), (3, 64, 24, 0, nn.ReLU, 2), (3, 72, 24, 0, nn.ReLU, 1), (5, 72, 40, 24, nn.ReLU, 2)]
    ROWS += [(5, 120, 40, 32, nn.ReLU, 1)] * 2 + [(3, 240, 80, 0, nn.Hardswish, 2), (3, 200, 80, 0, nn.Hardswish, 1)]
    ROWS += [(3, 184, 80, 0, nn.Hardswish, 1)] * 2 + [(3, 480, 112, 120, nn.Hardswish, 1), (3, 672, 112, 168, nn.Hardswish, 1)]
    ROWS += [(5, 672, 160, 168, nn.Hardswish, 2)] + [(5, 960, 160, 240, nn.Hardswish, 1)] * 2

    def __init__(self):
        super().__init__()
        layers, i = [conv_norm(3, 16, 3, 2, act=nn.Hardswish)], 16
        for kernel, h, o, gated, act, stride in self.ROWS:
            layers.append(GatedInverted(i, h, o, kernel, stride, act, gated, nn.Hardsigmoid))
            i = o
        self.body = nn.Sequential(*layers, conv_norm(160, 960, 1, act=nn.Hardswish))
        self.head = nn.Sequential(nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class SearchedNet(nn.Module):
    """ReLU, depthwise 3x3 and 5x5, no gates. Rows: expansion, channels, blocks, stride, kernel."""

    ROWS = [(1, 16, 1, 1, 3), (3, 24, 3, 2, 3), (3, 40, 3, 2, 5), (6, 80, 3, 2, 5), (6, 96, 2, 1, 3), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]

    def __init__(self):
        super().__init__()
        layers, i = [conv_norm(3, 32, 3, 2)], 32
        for expand, o, n, stride, kernel in self.ROWS:
            for k in range(n):
                layers.append(GatedInverted(i, i * expand, o, kernel, stride if k == 0 else 1, nn.ReLU, 0, None))
                i = o
        self.body, self.head = nn.Sequential(*layers, conv_norm(320, 1280, 1)), nn.Linear(1280, 1000)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Skips(nn.Module):
    def __init__(self, c=64):
        super().__init__()
        two = lambda i, o: nn.Sequential(conv_norm(i, o, 3), conv_norm(o, o, 3))
        widths = [c, 2 * c, 4 * c, 8 * c]
        self.down = nn.ModuleList(two(i, o) for i, o in zip([3] + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * o, o, 2, 2) for o in widths[2::-1])
        self.merge = nn.ModuleList(two(2 * o, o) for o in widths[2::-1])
        self.last = nn.Conv2d(c, 21, 1)

    def forward(self, x):
        kept = []
        for i, d in enumerate(self.down):
            x = d(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, kept[2::-1]):
            x = merge(torch.cat([up(x), skip], 1))
        return self.last(x)


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class WideBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(d, d, 7, padding=3, groups=d), nn.LayerNorm(d)
        self.a, self.b, self.scale = nn.Linear(d, 4 * d), nn.Linear(4 * d, d), nn.Parameter(torch.full((d,), 0.1))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.b(F.gelu(self.a(y))) * self.scale).permute(0, 3, 1, 2)


class WideNet(nn.Module):
    def __init__(self, dims=(48, 96, 192, 384), depths=(2, 2, 4, 2)):
        super().__init__()
        layers = [nn.Conv2d(3, dims[0], 4, 4), ChannelNorm(dims[0])]
        for k, d in enumerate(dims):
            if k:
                layers += [ChannelNorm(dims[k - 1]), nn.Conv2d(dims[k - 1], d, 2, 2)]
            layers += [WideBlock(d) for _ in range(depths[k])]
        self.body, self.head = nn.Sequential(*layers), nn.Linear(dims[-1], 1000)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class DenseLayer(nn.Module):
    def __init__(self, i, growth=32):
        super().__init__()
        self.n1, self.c1 = nn.BatchNorm2d(i), nn.Conv2d(i, 4 * growth, 1, bias=False)
        self.n2, self.c2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.c2(F.relu(self.n2(self.c1(F.relu(self.n1(x))))))], 1)


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
        for k, n in enumerate((4, 6, 8)):
            for _ in range(n):
                layers.append(DenseLayer(c))
                c += 32
            if k < 2:
                layers += [nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c // 2, 1, bias=False), nn.AvgPool2d(2, 2)]
                c //= 2
        self.body, self.head = nn.Sequential(*layers), nn.Linear(c, 1000)

    def forward(self, x):
        return self.head(F.relu(self.body(x)).mean((2, 3)))


class GroupedNet(nn.Module):
    def __init__(self):
        super().__init__()
        block = lambda: nn.Sequential(conv_norm(64, 128, 1), conv_norm(128, 128, 3, groups=32), conv_norm(128, 64, 1, act=None))
        self.first, self.blocks = conv_norm(3, 64, 7, 2), nn.ModuleList(block() for _ in range(3))

    def forward(self, x):
        x = F.max_pool2d(self.first(x), 3, 2, 1)
        for b in self.blocks:
            x = F.relu(x + b(x))
        return F.interpolate(F.adaptive_avg_pool2d(x, 7), scale_factor=2, mode="bilinear")


class Shuffled(nn.Module):
    """Half of the channels through 1x1, depthwise 3x3, 1x1, then both halves' channels taken in turn; with stride 2 both halves see all."""

    def __init__(self, i, o, stride):
        super().__init__()
        h = o // 2
        j = i if stride == 2 else i // 2
        self.stride, self.skip = stride, nn.Sequential(conv_norm(i, i, 3, 2, i, None), conv_norm(i, h, 1)) if stride == 2 else nn.Identity()
        self.body = nn.Sequential(conv_norm(j, h, 1), conv_norm(h, h, 3, stride, h, None), conv_norm(h, h, 1))

    def forward(self, x):
        a, b = (x, x) if self.stride == 2 else x.chunk(2, 1)
        y = torch.cat([self.skip(a), self.body(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class ShuffledNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, i = [conv_norm(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)], 24
        for o, n in ((116, 4), (232, 8), (464, 4)):
            for k in range(n):
                layers.append(Shuffled(i, o, 2 if k == 0 else 1))
                i = o
        self.body, self.head = nn.Sequential(*layers, conv_norm(464, 1024, 1)), nn.Linear(1024, 1000)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Doubled(nn.Module):
    """Half of the results by 1x1, the other half of those by depthwise 3x3."""

    def __init__(self, i, o, act):
        super().__init__()
        self.first, self.cheap = conv_norm(i, o // 2, 1, act=act), conv_norm(o // 2, o // 2, 3, 1, o // 2, act)

    def forward(self, x):
        y = self.first(x)
        return torch.cat([y, self.cheap(y)], 1)


class DoubledBlock(nn.Module):
    def __init__(self, i, h, o, kernel, stride):
        super().__init__()
        middle = [conv_norm(h, h, kernel, stride, h, None)] if stride > 1 else []
        self.body = nn.Sequential(Doubled(i, h, nn.ReLU), *middle, Doubled(h, o, None))
        self.skip = nn.Identity() if stride == 1 and i == o else nn.Sequential(conv_norm(i, i, kernel, stride, i, None), conv_norm(i, o, 1, act=None))

    def forward(self, x):
        return self.skip(x) + self.body(x)


class DoubledNet(nn.Module):
    ROWS = [(16, 16, 3, 1), (48, 24, 3, 2), (72, 24, 3, 1), (72, 40, 5, 2), (120, 40, 5, 1), (240, 80, 3, 2), (200, 80, 3, 1), (184, 80, 3, 1)]
    ROWS += [(480, 112, 3, 1), (672, 112, 3, 1), (672, 160, 5, 2), (960, 160, 5, 1), (960, 160, 5, 1)]

    def __init__(self):
        super().__init__()
        layers, i = [conv_norm(3, 16, 3, 2)], 16
        for h, o, kernel, stride in self.ROWS:
            layers.append(DoubledBlock(i, h, o, kernel, stride))
            i = o
        self.body, self.head = nn.Sequential(*layers, conv_norm(160, 960, 1)), nn.Linear(960, 1000)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class WideGroups(nn.Module):
    """1x1, 3x3 of 24 channels a group, 1x1, residual."""

    def __init__(self, i, o, stride):
        super().__init__()
        self.body = nn.Sequential(conv_norm(i, o, 1), conv_norm(o, o, 3, stride, o // 24), conv_norm(o, o, 1, act=None))
        self.skip = nn.Identity() if stride == 1 and i == o else conv_norm(i, o, 1, stride, act=None)

    def forward(self, x):
        return F.relu(self.skip(x) + self.body(x))


class WideGroupsNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, i = [conv_norm(3, 32, 3, 2)], 32
        for o, n in ((48, 1), (120, 3), (336, 4), (888, 2)):
            for k in range(n):
                layers.append(WideGroups(i, o, 2 if k == 0 else 1))
                i = o
        self.body, self.head = nn.Sequential(*layers), nn.Linear(888, 1000)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


NETS = {"inverted": (InvertedNet, 224), "gated": (GatedNet, 224), "hard": (HardNet, 224), "searched": (SearchedNet, 224)}
NETS |= {"skips": (Skips, 128), "wide": (WideNet, 224), "dense": (DenseNet, 224), "grouped": (GroupedNet, 224)}
NETS |= {"shuffled": (ShuffledNet, 224), "doubled": (DoubledNet, 224), "wide_groups": (WideGroupsNet, 224)}
NETS = {name: (kind, (3, size, size)) for name, (kind, size) in NETS.items()} | VOLUME_NETS


def export(name, path):
    torch.manual_seed(0)
    kind, dims = NETS[name]
    net, x = kind(), torch.randn(1, *dims)
    for m in net.modules():
        if isinstance(m, (nn.BatchNorm2d, nn.BatchNorm3d)):
            m.momentum = None  # statistics of real data, not of nothing
    with torch.no_grad():
        net(torch.randn(2, *dims))
    torch.export.save(torch.export.export(net.eval(), (x,)), path)


def openvino_times(path, threads, seconds, precision):
    import numpy as np
    import openvino as ov

    program = torch.export.load(path)
    inputs = program.example_inputs[0]
    model = ov.convert_model(program)
    model.reshape({i: list(t.shape) for i, t in enumerate(inputs)})
    hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
    request = ov.Core().compile_model(model, "CPU", hints).create_infer_request()
    for i, t in enumerate(inputs):
        request.set_input_tensor(i, ov.Tensor(np.ascontiguousarray(t.numpy())))
    for _ in range(3):
        request.infer()
    times, end = [], time.time() + seconds
    while time.time() < end:
        start = time.perf_counter()
        request.infer()
        times.append(1e6 * (time.perf_counter() - start))
    times.sort()
    return times[0], times[len(times) // 2]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--threads", default="1,2")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--precision", choices=("f32", "bf16"), default="f32", help="of both")
    p.add_argument("--prefix", default="", help="a command before each measurement, as: chrt -f 10")
    p.add_argument("--openvino", help=argparse.SUPPRESS)  # the worker: an archive, times on stdout
    p.add_argument("nets", nargs="*", default=list(NETS))
    o = p.parse_args()
    if o.openvino:
        print(json.dumps(openvino_times(o.openvino, int(o.threads), o.seconds, o.precision)))
        return
    os.makedirs(o.work, exist_ok=True)
    for name in o.nets:
        archive = name if os.path.exists(name) else os.path.join(o.work, name + ".pt2")
        if not os.path.exists(archive):
            export(name, archive)
        for threads in o.threads.split(","):
            artifact = os.path.join(o.work, f"{os.path.basename(archive)[:-4]}.{threads}.{o.precision}.so")
            subprocess.run([o.aotc, "build", archive, "-o", artifact, "--threads", threads, "--precision", o.precision, "--quiet"], check=True)
            pinned = shlex.split(o.prefix) + ["taskset", "-c", f"0-{int(threads) - 1}"]
            for _ in range(o.rounds):
                bench = [o.aotc, "bench", artifact, "--threads", threads, "--seconds", str(o.seconds), "--json"]
                ours = json.loads(subprocess.run(pinned + bench, check=True, capture_output=True).stdout)
                worker = [sys.executable, "-W", "ignore", __file__, "--aotc", o.aotc, "--work", o.work, "--threads", threads, "--seconds", str(o.seconds), "--precision", o.precision, "--openvino", archive]
                least, p50 = json.loads(subprocess.run(pinned + worker, check=True, capture_output=True).stdout.splitlines()[-1])
                print(f"{os.path.basename(archive)[:-4]:16} {threads} threads  aotc {ours['min_us']:.0f} {ours['p50_us']:.0f}  OpenVINO {least:.0f} {p50:.0f}  ratio {least / ours['min_us']:.2f} {p50 / ours['p50_us']:.2f}", flush=True)


if __name__ == "__main__":
    main()
