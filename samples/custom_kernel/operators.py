"""Three operators of our own, in PyTorch's words: what the model is exported with, and what `aotc verify` compares the kernels with."""
import torch
from torch import Tensor


@torch.library.custom_op("samples::gated", mutates_args=())
def gated(x: Tensor, gate: Tensor, beta: float = 1.702) -> Tensor:
    """A fused activation: x * gate * sigmoid(beta * gate)."""
    return x * gate * torch.sigmoid(beta * gate)


@gated.register_fake
def _(x, gate, beta=1.702):
    return torch.empty_like(x)


@torch.library.custom_op("samples::lookup", mutates_args=())
def lookup(codes: Tensor, table: Tensor, scales: Tensor) -> Tensor:
    """A quantised lookup: each byte of codes [n, m] holds two codes of 4 bits, the low one first; table [16] has what they stand for, scales
    [n] a factor of each row."""
    both = torch.stack([codes & 15, codes >> 4], -1).reshape(codes.shape[0], -1)
    return table[both.long()] * scales[:, None]


@lookup.register_fake
def _(codes, table, scales):
    return table.new_empty(codes.shape[0], 2 * codes.shape[1])


@torch.library.custom_op("samples::ranked", mutates_args=())
def ranked(x: Tensor, k: int, descending: bool) -> tuple[Tensor, Tensor]:
    """The first k of each row of x [n, m] in order, equal ones as they stand, and their places."""
    values, places = torch.sort(x, dim=-1, descending=descending, stable=True)
    return values[:, :k].clone(), places[:, :k].clone()


@ranked.register_fake
def _(x, k, descending):
    return x.new_empty(x.shape[0], k), x.new_empty((x.shape[0], k), dtype=torch.int64)
