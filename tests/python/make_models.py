#!/usr/bin/env python3
"""make_models.py AOTC OUT: small models of every kind that aotc_runtime has to carry, built, with inputs and eager's outputs as .npy beside
them (bfloat16 as its bits): OUT/NAME.so, OUT/NAME.in0.npy, OUT/NAME.out0.npy."""
import subprocess
import sys
from pathlib import Path

import numpy
import torch
from torch import nn
from torch.export import Dim

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Mixed(nn.Module):
    def forward(self, x, mask, gain):
        return torch.where(mask, x.to(torch.int32) * gain, -1), mask.logical_not(), x + 1


class Halves(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.line = nn.Linear(24, 8).to(dtype)

    def forward(self, x, y):
        return self.line(x), x * 2 - y


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x.sum(0))
        return self.total * 2


class Above(nn.Module):
    """Reads what Counter writes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, limit, scale):
        return torch.nonzero(self.total > limit), self.total * scale


class Found(nn.Module):
    def forward(self, x):
        return torch.nonzero(x), x.sum()


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 6)

    def forward(self, rows):
        return self.table(rows)


class Slow(nn.Module):
    def forward(self, x):
        for _ in range(8):
            x = torch.tanh(x @ x)
        return x


def bits(t):
    t = t.detach().contiguous()
    return t.view(torch.uint16).numpy() if t.dtype == torch.bfloat16 else t.numpy()


def main():
    aotc, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    rows, cols = Dim("rows", min=1, max=64), Dim("cols", min=1, max=32)
    mask = torch.rand(5, 7) > 0.5
    models = {
        "net": (Net(), (torch.randn(5, 16),), ({0: rows},)),
        "bf16": (Halves(torch.bfloat16), (torch.randn(3, 24).bfloat16(), torch.randn(24).bfloat16()), ({0: rows}, None)),
        "f16": (Halves(torch.float16), (torch.randn(3, 24).half(), torch.randn(24).half()), ({0: rows}, None)),
        "mixed": (Mixed(), (torch.randint(-100, 100, (5, 7), dtype=torch.int8), mask, torch.tensor(3, dtype=torch.int32)),
                  ({0: rows, 1: cols}, {0: rows, 1: cols}, None)),
        "counter": (Counter(), (torch.randn(3, 4),), ({0: rows},)),
        "found": (Found(), (mask.float(),), None),
        "lookup": (Lookup(), (torch.tensor([3, 1, 9]),), ({0: rows},)),
        "slow": (Slow(), (torch.randn(384, 384) / 20,), None),
    }
    for name, (module, inputs, shapes) in models.items():
        program = torch.export.export(module.eval(), inputs, dynamic_shapes=shapes)
        torch.export.save(program, out / f"{name}.pt2")
        subprocess.run([aotc, "build", out / f"{name}.pt2", "-o", out / f"{name}.so", "--quiet"], check=True)
        got = module(*inputs)
        for i, t in enumerate(inputs):
            numpy.save(out / f"{name}.in{i}.npy", bits(t))
        for i, t in enumerate(got if isinstance(got, tuple) else (got,)):
            numpy.save(out / f"{name}.out{i}.npy", bits(t))
    torch.export.save(torch.export.export(Above(), (torch.tensor(1.0), torch.tensor([2.0, 1.0, 1.0, 1.0]))), out / "above.pt2")
    subprocess.run([aotc, "build", f"count={out}/counter.pt2", f"above={out}/above.pt2", "-o", out / "methods.so", "--quiet"], check=True)
    tuned, x = Net(), models["net"][1][0]
    torch.export.save(torch.export.export(tuned.eval(), (x,), dynamic_shapes=({0: rows},)), out / "tuned.pt2")
    subprocess.run([aotc, "weights", out / "tuned.pt2", "--for", out / "net.so", "-o", out / "tuned.weights", "--quiet"], check=True)
    numpy.save(out / "tuned.out0.npy", bits(tuned(x)))


main()
