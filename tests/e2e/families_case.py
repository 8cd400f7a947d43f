"""What the files of hand-written nets share: each adds its cases to CASES, NAME -> () -> (module, example inputs, dims), as in families_hf.py."""
import torch.nn as nn

CASES = {}
BATCH = {0: (1, 4)}


def case(f):
    CASES[f.__name__] = f
    return f


class Fn(nn.Module):
    """A function of its inputs and modules as a module."""

    def __init__(self, fn, *modules, **buffers):
        super().__init__()
        self.fn, self.modules_ = fn, nn.ModuleList(modules)
        for k, v in buffers.items():
            self.register_buffer(k, v)

    def forward(self, *a):
        return self.fn(self, *a)
