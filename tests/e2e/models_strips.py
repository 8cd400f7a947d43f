"""Convolutional models that run over strips of rows."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from models import Dim, model


class InvertedResiduals(nn.Module):
    """Activations of many channels that caches do not hold: a run over strips of rows (plan/strips.h)."""

    def __init__(self):
        super().__init__()
        block = lambda i, h, o, stride, gate: nn.Sequential(
            nn.Conv2d(i, h, 1), gate, nn.Conv2d(h, h, 3, stride, 1, groups=h), nn.Hardswish(), nn.Conv2d(h, o, 1))
        self.first, self.second = block(12, 72, 24, 2, nn.ReLU6()), block(24, 144, 24, 1, nn.SiLU())

    def forward(self, x):
        x = self.first(x)
        return x + self.second(x)


@model
def inverted_residuals():
    return InvertedResiduals(), (torch.randn(1, 12, 101, 90),), None


@model
def inverted_residuals_of_any_batch():
    return InvertedResiduals(), (torch.randn(2, 12, 112, 96),), ({0: Dim("batch", max=4)},)


class GatedResiduals(nn.Module):
    """Strips of rows whose kernels read a number an image and channel, with any number of rows and columns."""

    def __init__(self):
        super().__init__()
        self.stem, self.wide = nn.Conv2d(8, 16, 3, 2, 1), nn.Conv2d(16, 80, 1)
        self.depthwise, self.narrow = nn.Conv2d(80, 80, 3, 1, 2, dilation=2, groups=80), nn.Conv2d(80, 16, 1)

    def forward(self, x, gate):
        x = F.relu(self.stem(x))
        y = F.hardswish(self.depthwise(F.relu(self.wide(x))) * gate[:, :, None, None])
        return (x + self.narrow(y)).tanh().mean((2, 3))


@model
def gated_residuals_of_any_size():
    dims = {0: Dim("batch", max=3), 2: Dim("height", min=4, max=200), 3: Dim("width", min=34, max=200)}
    return GatedResiduals(), (torch.randn(2, 8, 130, 150), torch.randn(2, 80)), (dims, {0: dims[0]})
