"""Operators of torchvision, which need not be installed: regions cut out of feature maps, convolutions whose taps are moved, boxes that do not overlap."""
import torch
import torch.nn as nn

from models import Dim, Fn, model

try:
    import torchvision.ops  # noqa: F401
except Exception:
    pass
if not hasattr(torch.ops.torchvision, "deform_conv2d"):
    LIBRARY = torch.library.Library("torchvision", "DEF")
    LIBRARY.define("roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor")
    LIBRARY.define("deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, "
                   "SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor")
    LIBRARY.define("roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)")
    LIBRARY.define("ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)")
    LIBRARY.define("ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)")
    LIBRARY.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    torch.library.register_fake("torchvision::nms", lambda dets, scores, threshold: dets.new_empty((torch.library.get_ctx().new_dynamic_size(),), dtype=torch.int64))
    torch.library.register_fake("torchvision::roi_align", lambda x, rois, scale, h, w, samples, aligned: x.new_empty(rois.shape[0], x.shape[1], h, w))
    def pooled(x, rois, h, w, parts=1):
        return tuple(x.new_empty(rois.shape[0], x.shape[1] // parts, h, w, dtype=t) for t in (x.dtype, torch.int32))

    torch.library.register_fake("torchvision::roi_pool", lambda x, rois, scale, h, w: pooled(x, rois, h, w))
    torch.library.register_fake("torchvision::ps_roi_pool", lambda x, rois, scale, h, w: pooled(x, rois, h, w, h * w))
    torch.library.register_fake("torchvision::ps_roi_align", lambda x, rois, scale, h, w, samples: pooled(x, rois, h, w, h * w))
    torch.library.register_fake("torchvision::deform_conv2d", lambda x, w, offset, *rest: x.new_empty(x.shape[0], w.shape[0], *offset.shape[2:]))

BATCH, SIDE = Dim("batch", min=1, max=4), [Dim(n, min=4, max=40) for n in ("h", "w")]


class Deformable(nn.Module):
    """One convolution says where the taps of another read and what they count."""

    def __init__(self, groups, shifts):
        super().__init__()
        self.groups, self.shifts = groups, shifts
        self.moves, self.counts = (nn.Conv2d(8, shifts * n, 3, stride=2, padding=1) for n in (18, 9))
        self.weight, self.bias = nn.Parameter(torch.randn(6, 8 // groups, 3, 3)), nn.Parameter(torch.randn(6))

    def forward(self, x):
        conv, unused = torch.ops.torchvision.deform_conv2d, x.new_zeros(x.shape[0], 1)
        return (conv(x, self.weight, 2 * self.moves(x), self.counts(x).sigmoid(), self.bias, 2, 2, 1, 1, 1, 1, self.groups, self.shifts, True),
                conv(x, self.weight, self.moves(x), unused, self.bias, 2, 2, 2, 2, 2, 2, self.groups, self.shifts, False))


@model
def deformable_convolution():
    return Deformable(1, 1), (torch.randn(2, 8, 12, 15),), ({0: BATCH, 2: SIDE[0], 3: SIDE[1]},)


@model
def deformable_convolution_in_groups():
    return Deformable(2, 4), (torch.randn(2, 8, 12, 15),), ({0: BATCH},)


@model
def regions_of_feature_maps():
    """Cells of a few samples, and of as many as they are long; regions that reach outside, one next to nothing."""

    def f(x, corner, size, image):
        begin = corner.sigmoid() * 50 - 10
        rois = torch.cat([(image % x.shape[0]).to(x.dtype)[:, None], begin, begin + size.sigmoid() * 20], 1)
        align = torch.ops.torchvision.roi_align
        return align(x, rois, 0.5, 3, 4, 2, True), align(x, rois, 0.5, 3, 2, 2, False), align(x, rois, 0.25, 3, 2, -1, False), align(x, rois, 0.5, 2, 2, 0, True)

    n = Dim("regions", min=1, max=30)
    args = (torch.randn(2, 5, 12, 15), torch.randn(7, 2), torch.randn(7, 2), torch.randint(0, 2, (7,)))
    return Fn(f), args, ({0: BATCH, 2: SIDE[0], 3: SIDE[1]}, {0: n}, {0: n}, {0: n})


@model
def pools_of_regions():
    """The largest of whole elements and where it lies, also among numbers that are none; means and samples of cells with channels of their own."""

    def f(x, corner, size, image):
        begin = corner.sigmoid() * 50 - 10
        rois = torch.cat([(image % x.shape[0]).to(x.dtype)[:, None], begin, begin + size.sigmoid() * 20], 1)
        ops, gaps = torch.ops.torchvision, torch.where(x > 1.5, float("nan"), torch.where(x > 1, -float("inf"), x))
        return (*ops.roi_pool(x, rois, 0.5, 4, 2), ops.roi_pool(gaps, rois, 0.25, 2, 4)[0].isfinite(), *ops.ps_roi_pool(x, rois, 0.5, 2, 4),
                *ops.ps_roi_align(x, rois, 0.5, 2, 4, 2), ops.ps_roi_align(x, rois, 0.25, 4, 2, -1)[0])

    n = Dim("regions", min=1, max=30)
    args = (torch.randn(2, 16, 12, 15), torch.randn(7, 2), torch.randn(7, 2), torch.randint(0, 2, (7,)))
    return Fn(f), args, ({0: BATCH, 2: SIDE[0], 3: SIDE[1]}, {0: n}, {0: n}, {0: n})


@model
def boxes_apart():
    """The best boxes of all and of each class, with what belongs to them."""

    def f(corner, size, scores, classes):
        boxes = torch.cat([corner * 10, corner * 10 + size.sigmoid() * 20], 1)
        best = torch.ops.torchvision.nms(boxes, scores, 0.3)
        apart = boxes + (classes % 3).to(boxes.dtype)[:, None] * (boxes.max() + 1)
        of_classes = torch.ops.torchvision.nms(apart, scores, 0.5)
        return best, boxes[best] * 2, scores[best].sum(), of_classes, classes[of_classes]

    n = Dim("boxes", min=1, max=200)
    return Fn(f), (torch.randn(40, 2), torch.randn(40, 2), torch.randn(40), torch.randint(0, 9, (40,))), ({0: n}, {0: n}, {0: n}, {0: n})
