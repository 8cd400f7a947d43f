"""Convolutional models whose layouts hang on norms of groups of channels and on first convolutions of few channels."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from models import Dim, Fn, model


class GroupNorms(nn.Module):
    """Images of few channels; norms of groups between convolutions, one before a residual, one's rows read as they stand too."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 24, 5, 2, 2), nn.Conv2d(24, 24, 3, padding=1)
        self.third, self.last = nn.Conv2d(24, 32, 3, padding=1), nn.Conv2d(32, 16, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(4, 24), nn.GroupNorm(1, 24), nn.GroupNorm(8, 32)])

    def forward(self, x):
        x = F.relu(self.norms[0](self.first(x)))
        x = x + F.silu(self.norms[1](self.second(x)))
        x = self.norms[2](self.third(x))
        return self.last(x), x.reshape(x.shape[0], 8, 4 * x.shape[2] * x.shape[3]).amax(2)


@model
def group_norms():
    return GroupNorms(), (torch.randn(2, 3, 45, 70) + 1,), ({0: Dim("batch", max=4)},)


@model
def group_norms_of_any_image():
    """How many elements a group has is known at run time only."""
    return GroupNorms(), (torch.randn(2, 3, 45, 70) + 1,), ({0: Dim("batch", max=4), 2: Dim("height", min=8, max=64), 3: Dim("width", min=8, max=72)},)


class Volumes(nn.Module):
    """Volumes of one channel: a first convolution, norms of groups, windows that are one wide along depth, trilinear upsampling."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv3d(1, 16, 3, padding=1), nn.Conv3d(16, 32, (3, 3, 5), padding=(1, 1, 2))
        self.merge, self.a, self.b = nn.Conv3d(48, 16, 3, padding=1), nn.GroupNorm(8, 16), nn.GroupNorm(4, 32)

    def forward(self, x):
        x = F.relu(self.a(self.first(x)))
        y = F.relu(self.b(self.second(F.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1)))))
        up = F.interpolate(F.max_pool3d(y, 3, 1, 1), scale_factor=(1, 2, 2), mode="trilinear")
        return self.merge(torch.cat([x, up], 1))


@model
def volumes_group_norms():
    return Volumes(), (torch.randn(1, 1, 6, 22, 26),), None


@model
def volumes_group_norms_bf16():
    return Volumes().bfloat16(), (torch.randn(1, 1, 6, 22, 26).bfloat16(),), None


@model
def norm_of_channels_that_pixels_became():
    """The parameters' size equals a quotient of the image's, and that is 4."""
    d = torch.export.Dim.AUTO
    return Fn(lambda x, m, v, w, b: F.batch_norm(F.pixel_unshuffle(x, 2), m, v.abs() + 1, w, b)), (torch.randn(3, 1, 8, 6), *[torch.randn(4) for _ in range(4)]), ({0: d, 2: d, 3: d}, *[{0: d}] * 4)
