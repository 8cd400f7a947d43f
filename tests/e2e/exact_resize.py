"""Resizing of images down to one column, one row, one element."""
import torch
import torch.nn.functional as F

from exact import Case, suite


def matrix(n, m, dtype, **how):
    """How the height of an image three wide goes from n to m: there eager is right."""
    images = torch.eye(n, dtype=dtype).view(n, 1, n, 1).expand(n, 1, n, 3).contiguous()
    return F.interpolate(images, size=[m, 3], **how)[:, 0, :, 1]


def by_products(x, size, **how):
    """Both dims by matrices: eager repeats a row where the result is one element wide (and another one with more threads)."""
    y = torch.einsum("nchw,hp,wq->ncpq", x.double(), matrix(x.shape[2], size[0], torch.float64, **how), matrix(x.shape[3], size[1], torch.float64, **how))
    return y.to(x.dtype)


@suite
def antialiased_resizing():
    cases = []
    for mode in ("bilinear", "bicubic"):
        for corners in (False, True):
            how = {"mode": mode, "antialias": True, "align_corners": corners}
            for dtype in (torch.float32, torch.float64):
                for n, (h, w) in enumerate([(2, 2), (3, 2), (5, 2), (16, 2), (4, 1), (1, 2), (2, 5)]):
                    for size in ([2, 1], [1, 1], [3, 1], [1, 2], [2, 2], [1, 3])[n % 2 :: 2] if dtype == torch.float64 else ([2, 1], [1, 1], [3, 1], [1, 2], [2, 2]):
                        x = torch.randn(1 + n % 2, 3, h, w, dtype=dtype)
                        cases.append(Case(f"{mode} {corners} {dtype} {h}x{w} to {size}", lambda x, size=size, how=how: F.interpolate(x, size=size, **how), [x],
                                          close=True, right=lambda x, size=size, how=how: by_products(x, size, **how)))
    x = torch.randn(2, 3, 5, 7)
    x[0, 1, 2, 3], x[1, 2, 0, 6] = torch.inf, torch.nan
    for mode in ("bilinear", "bicubic"):  # an axis that stays as long is passed over: its neighbours at factor 0 are not looked at
        cases += [Case(f"{mode} of infinities to {size}", lambda x, size=size, mode=mode: F.interpolate(x, size=size, mode=mode, antialias=True), [x], close=True) for size in ([5, 4], [5, 7])]
    return cases


@suite
def resizing_of_bytes():
    """PyTorch rounds to bytes between the two passes, in fixed point."""
    cases = []
    for n, (mode, antialias, corners) in enumerate((m, a, c) for m in ("bilinear", "bicubic") for a in (False, True) for c in (False, True)):
        how = {"mode": mode, "antialias": antialias, "align_corners": corners}
        sizes = [{"size": s} for s in ([70, 84], [40, 44], [33, 20], [50, 30], [25, 60], [1, 3])] + [{"scale_factor": (1.3, 0.7)}, {"scale_factor": 2.0}]
        for m, size in enumerate(sizes):
            x = torch.randint(0, 256, (2, (1, 3, 4, 5)[(n + m) % 4], 50, 60), dtype=torch.uint8)
            cases.append(Case(f"{mode} {how} of bytes, {size}", lambda x, how=how, size=size: F.interpolate(x, **how, **size), [x]))
        x = torch.randint(0, 256, (1, 3, 1, 4), dtype=torch.uint8)
        cases.append(Case(f"{mode} {how} of four bytes", lambda x, how=how: F.interpolate(x, size=[6, 9], **how), [x]))
    return cases
