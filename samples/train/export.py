"""A training program and the same training by PyTorch, for train.c.

    export.py OUTDIR [conv|transformer] [STEPS]     writes NAME.pt2, NAME.batches and NAME.eager (the loss of each step)

The data is made up: images of a few shapes under noise, and sequences that count.
"""
import os
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export.experimental import _export_forward_backward

RATE = 0.05
BATCH = 16


class ConvNet(nn.Module):
    """Convolutions, batch norm with running statistics, pooling."""

    def __init__(self):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.c2, self.n2 = nn.Conv2d(16, 32, 3, stride=2, padding=1, groups=2), nn.BatchNorm2d(32)
        self.head = nn.Linear(32, 10)

    def forward(self, images, classes):
        x = F.max_pool2d(F.relu(self.n1(self.c1(images))), 2)
        x = F.adaptive_avg_pool2d(F.relu(self.n2(self.c2(x))), 1).flatten(1)
        return F.cross_entropy(self.head(x), classes)


class Transformer(nn.Module):
    """An embedding and one block with causal attention, predicting the next token."""

    def __init__(self, tokens=32, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embed, self.place = nn.Embedding(tokens, width), nn.Parameter(torch.randn(24, width) * 0.1)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, tokens)

    def forward(self, ids, following):
        x = self.embed(ids) + self.place
        b, t, w = x.shape
        q, k, v = (s.view(b, t, self.heads, w // self.heads).transpose(1, 2) for s in self.qkv(self.n1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w))
        x = x + self.down(F.gelu(self.up(self.n2(x))))
        return F.cross_entropy(self.head(x).flatten(0, 1), following.flatten())


def images():
    shapes = torch.randn(10, 3, 16, 16)
    while True:
        classes = torch.randint(0, 10, (BATCH,))
        yield shapes[classes] + 0.5 * torch.randn(BATCH, 3, 16, 16), classes


def counting():
    while True:
        start, by = torch.randint(0, 32, (BATCH, 1)), torch.randint(1, 4, (BATCH, 1))
        ids = (start + by * torch.arange(25)) % 32
        yield ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


MODELS = {"conv": (ConvNet, images), "transformer": (Transformer, counting)}


def main(out, name="conv", steps="100"):
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    os.makedirs(out, exist_ok=True)
    make, data = MODELS[name]
    model, batches = make().train(), data()
    batches = [next(batches) for _ in range(int(steps))]
    program = _export_forward_backward(torch.export.export(model, batches[0], strict=False))
    torch.export.save(program, os.path.join(out, name + ".pt2"))
    with open(os.path.join(out, name + ".batches"), "wb") as f:
        for batch in batches:
            for tensor in batch: f.write(tensor.numpy().tobytes())
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    with open(os.path.join(out, name + ".eager"), "w") as f:
        for batch in batches:
            optimizer.zero_grad()
            loss = model(*batch)
            loss.backward()
            optimizer.step()
            f.write(f"{loss.item():.9g}\n")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4: sys.exit(__doc__)
    main(*sys.argv[1:])
