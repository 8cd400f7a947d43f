"""Convolutional nets, and convolutions of every kind."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from models import Dim, Fn, model


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Hardswish(), nn.Conv2d(16, 24, 1))
        self.skip = nn.Conv2d(16, 24, 1)
        self.grouped = nn.Conv2d(24, 24, 3, 1, 2, dilation=2, groups=3)
        self.norm = nn.GroupNorm(4, 24)
        self.head = nn.Linear(24, 10)

    def forward(self, x):
        x = self.stem(x)
        x = self.depthwise(x) + self.skip(x)
        x = F.silu(self.norm(self.grouped(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), F.interpolate(x, scale_factor=2, mode="bilinear")


@model
def filters_bf16():
    """3x3 convolutions of bf16 whose channels allow minimal filtering, over images that its tiles do not fill."""
    net = nn.Sequential(nn.Conv2d(16, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 40, 3), nn.SiLU(), nn.Conv2d(40, 16, 1), nn.Conv2d(16, 33, 3, padding=2))
    return net.bfloat16(), (torch.randn(2, 16, 13, 18).bfloat16(),), ({0: Dim("batch", max=4)},)


@model
def causal_convolutions():
    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv1d(12, 40, 3, dilation=4), nn.Conv1d(40, 24, 5, stride=2)

        def forward(self, x):
            return self.b(nn.functional.pad(torch.relu(self.a(nn.functional.pad(x, (8, 0)))), (4, 1)))

    return Causal(), (torch.randn(3, 12, 75),), None


@model
def conv_net():
    return ConvNet(), (torch.randn(2, 3, 33, 35),), None


@model
def conv_1d_3d_transposed():
    a, b, c = nn.Conv1d(4, 6, 5, padding=2), nn.Conv3d(2, 3, 3), nn.ConvTranspose2d(3, 5, 4, stride=2, padding=1)
    return (
        Fn(lambda x, y, z: (a(x), b(y), c(z))),
        (torch.randn(2, 4, 21), torch.randn(1, 2, 5, 6, 7), torch.randn(2, 3, 7, 9)),
        None,
    )


@model
def conv_transposed_strides():
    nets = [
        nn.ConvTranspose1d(6, 5, 7, stride=3, padding=2, output_padding=1),
        nn.ConvTranspose1d(4, 6, 2, stride=5, groups=2),  # phases without taps
        nn.ConvTranspose2d(4, 33, 3, stride=2, padding=1, output_padding=1, dilation=2),
        nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1, groups=4),
        nn.ConvTranspose3d(3, 4, (2, 3, 4), stride=(2, 1, 2), padding=(0, 1, 1)),
    ]
    x1, x1b, x2, x3 = torch.randn(2, 6, 11), torch.randn(2, 4, 9), torch.randn(2, 4, 7, 9), torch.randn(1, 3, 3, 5, 4)
    w = torch.randn(4, 3, 4, 4)

    def f(a, b, c, d, w):
        given = F.conv_transpose2d(c, w, stride=2, padding=1)  # a weight that is no constant
        return nets[0](a).relu(), nets[1](b) + 1, nets[2](c), nets[3](c), nets[4](d), given

    return Fn(f), (x1, x1b, x2, x3, w), None
