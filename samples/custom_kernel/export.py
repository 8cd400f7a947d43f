"""Exports a net that uses the three operators: python export.py [net.pt2]. Any batch from 1 to 256."""
import sys

import torch
from torch import nn

import operators  # noqa: F401  registers them


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randint(0, 256, (96, 32), dtype=torch.uint8))
        self.register_buffer("table", torch.linspace(-1, 1, 16))
        self.register_buffer("scales", torch.rand(96) / 4 + 0.05)
        self.gate = nn.Linear(64, 96)

    def forward(self, x):
        weight = torch.ops.samples.lookup(self.codes, self.table, self.scales)
        y = torch.ops.samples.gated(x @ weight.T, self.gate(x)).tanh()
        best, places = torch.ops.samples.ranked(x, 5, True)
        return y, best, places


torch.manual_seed(0)
batch = torch.export.Dim("batch", min=1, max=256)
program = torch.export.export(Net().eval(), (torch.randn(3, 64),), dynamic_shapes=({0: batch},))
torch.export.save(program, sys.argv[1] if len(sys.argv) > 1 else "net.pt2")
