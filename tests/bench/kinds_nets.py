"""What the nets of kinds.py are made with."""
import torch
import torch.nn as nn

NETS = {}


def net(make):
    NETS[make.__name__] = make
    return make


class Fn(nn.Module):
    """A function of the inputs, and the modules it uses."""

    def __init__(self, f, **parts):
        super().__init__()
        for k, v in parts.items():
            if isinstance(v, torch.Tensor):
                self.register_buffer(k, v)
            else:
                setattr(self, k, v)
        self.f = f

    def forward(self, *xs):
        return self.f(self, *xs)


def mlp(*dims, act=nn.ReLU, last=False):
    layers = []
    for i, o in zip(dims, dims[1:]):
        layers += [nn.Linear(i, o), act()]
    return nn.Sequential(*(layers if last else layers[:-1]))


R = torch.randn
I = lambda n, *s: torch.randint(0, n, s)
