"""Rows in runs, each times a matrix of its own, as an operator that exports keep: declared as transformers declares it."""
import torch


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped_mm_fallback(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """input [rows, k], weight [runs, k, n], offs [runs]: where each run ends; the last one ends with the rows."""
    starts = [0, *offs.tolist()]
    return torch.cat([input[a:b] @ w for a, b, w in zip(starts, starts[1:], weight)])


@grouped_mm_fallback.register_fake
def _(input, weight, offs):
    return input.new_empty(input.shape[0], weight.shape[2])
