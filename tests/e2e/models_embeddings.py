"""Bags of embeddings."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from models import Dim, Fn, model


@model
def embedding_bag_of_tricks():
    e = nn.Embedding(50, 16)

    def f(ids):
        x = e(ids)
        onehot = F.one_hot(ids % 7, 7).to(x.dtype)
        return torch.cat([x, onehot], -1).sum(1), torch.einsum("bld,bmd->blm", x, x), x.flip(1).roll(1, 1), F.pad(x, (1, 2, 0, 3))

    return Fn(f), (torch.randint(0, 50, (3, 9)),), ({0: Dim("batch", min=1, max=8)},)


@model
def embedding_bags_at_offsets():
    rows, one = nn.ModuleList(nn.EmbeddingBag(40, 8, mode=m) for m in ("sum", "mean", "max")), nn.EmbeddingBag(40, 8, mode="sum", include_last_offset=True)

    def f(ids, offsets, more, ends):
        return torch.cat([bag(ids[i], offsets[i]) for i, bag in enumerate(rows)], 1), one(more, ends)

    n, bags = Dim("n", min=3, max=60), Dim("bags", min=3, max=20)
    args = torch.randint(0, 40, (3, 12)), torch.tensor([0, 3, 5, 9]).repeat(3, 1), torch.randint(0, 40, (7,)), torch.tensor([0, 2, 2, 7])
    return Fn(f), args, ({}, {}, {0: n}, {0: bags})


@model
def embedding_bags_weighted():
    bag, last = nn.EmbeddingBag(40, 70, mode="sum"), nn.EmbeddingBag(40, 8, mode="sum", include_last_offset=True)

    def f(ids, offsets, weights, ends):
        return bag(ids, offsets, per_sample_weights=weights), last(ids, ends, per_sample_weights=weights * 2)

    n, bags, more = Dim("n", min=3, max=60), Dim("bags", min=3, max=20), Dim("more", min=3, max=20)
    args = torch.randint(0, 40, (12,)), torch.tensor([0, 3, 5, 5, 9]), torch.randn(12), torch.tensor([0, 2, 2, 7])
    return Fn(f), args, ({0: n}, {0: bags}, {0: n}, {0: more})
