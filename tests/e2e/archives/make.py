"""Archives of the torch that runs this: make.py FOLDER writes torch_2_15.pt2 and torch_2_15_dynamic.pt2 there (by its version)."""
import os
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.n = nn.Linear(16, 24), nn.LayerNorm(24)
        self.register_buffer("st", torch.zeros(3))

    def forward(self, x):
        self.st.add_(1)
        return torch.softmax(self.n(F.gelu(self.l(x))), -1) + self.st.sum()


class Dynamic(nn.Module):
    """What archives write in ways of their own: states, a branch on data, conditions of sizes, nested inputs and outputs, computed constants,
    attention, optional arguments, half floats, a size that the run finds."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8)
        self.q, self.out = nn.Linear(8, 8), nn.Linear(8, 5, dtype=torch.bfloat16)
        self.table = nn.Embedding(11, 8)
        self.register_buffer("seen", torch.zeros(11))

    def forward(self, batch, scale=2.0):
        x, ids = batch["x"], batch["ids"]
        h = F.relu(self.bn(self.conv(x))).transpose(1, 2) + self.table(ids)
        h = h.reshape(x.shape[0], -1, 4, 8).mean(2)
        q = self.q(h).unflatten(-1, (2, 4)).transpose(1, 2)
        h = h + F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).flatten(2)
        self.seen.index_add_(0, ids[0], torch.ones(ids.shape[1]))
        total = h.sum()
        h = h + torch.cond(total > 0, lambda t: t * 0.5, lambda t: t - 1, (total,))
        logits = self.out(h.to(torch.bfloat16)).float() * scale + torch.tensor([0.5, -1.0, 0.0, 2.0, 1.0])
        values, places = logits.topk(2)
        return {"logits": logits, "best": (values, places), "common": torch.nonzero(self.seen > 0), "length": x.shape[2] // 4}


def save(model, args, shapes, path):
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model.eval(), args, dynamic_shapes=shapes), path)


def main():
    stem = os.path.join(sys.argv[1], "torch_" + "_".join(torch.__version__.split(".")[:2]))
    torch.manual_seed(0)
    save(Plain(), (torch.randn(2, 16),), None, stem + ".pt2")
    quarter = torch.export.Dim("quarter", min=1, max=16)
    example = {"x": torch.randn(3, 4, 12), "ids": torch.randint(0, 11, (3, 12))}
    shapes = ({"x": {0: torch.export.Dim("n", min=1, max=8), 2: 4 * quarter}, "ids": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}},)
    save(Dynamic(), (example,), shapes, stem + "_dynamic.pt2")


main()
