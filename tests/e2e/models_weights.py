"""Weights that several operators read, in one storage or in several."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from models import MODELS, STORED_ONCE, Dim, Fn, model


class Tied(nn.Module):
    """Embedding and head share their weight; `direct`: the head takes the embedding's rows as they come."""

    def __init__(self, words=1024, d=64, direct=False):
        super().__init__()
        self.direct = direct
        self.emb, self.norm, self.mix = nn.Embedding(words, d), nn.LayerNorm(d), nn.Linear(d, d)
        self.head = nn.Linear(d, words, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        x = self.emb(ids)
        return self.head(x if self.direct else x + F.gelu(self.mix(self.norm(x))))


def tied(dtype, direct):
    def make():
        return Tied(direct=direct).to(dtype), (torch.randint(0, 1024, (2, 9)),), ({1: Dim("t", min=1, max=64)},)

    return make


for _dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    for _direct in (False, True):
        _name = f"tied_{'direct_' if _direct else ''}{str(_dtype)[6:]}"
        MODELS[_name] = tied(_dtype, _direct)
        STORED_ONCE.add(_name)


@model
def tied_twice():
    """Two heads on one weight, one of them the other way round, and the weight among the values too."""
    w = torch.randn(96, 96) * 0.1
    return Fn(lambda i, w: ((F.embedding(i, w) @ w).relu() @ w.t() + w[:1], w.sum(0)), w=w), (torch.randint(0, 96, (40,)),), None


@model
def weight_read_by_its_own_product():
    """Results and left operands that hold the right operand itself."""
    w = torch.randn(33, 33) * 0.2
    return Fn(lambda x, w: (x @ w + w, x @ w.t() * w, torch.cat([x, w]) @ w, w[:7] @ w, (x[:7] + w[:7]) @ w), w=w), (torch.randn(33, 33),), None


@model
def weight_read_by_its_own_convolution():
    w = torch.randn(4, 3, 3, 3) * 0.2
    return Fn(lambda x, w: F.conv2d(x, w) * w[:, 0, 0, 0].view(1, 4, 1, 1), w=w), (torch.randn(2, 3, 8, 9),), None


@model
def equal_weights():
    """Layers that hold the same numbers in storages of their own."""
    a, b = nn.Linear(200, 200), nn.Linear(200, 200)
    b.load_state_dict({k: v.clone() for k, v in a.state_dict().items()})
    return nn.Sequential(a, nn.ReLU(), b), (torch.randn(5, 200),), None
