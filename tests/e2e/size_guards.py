"""Sizes far from the exported ones: what the artifact takes and gives beside ep.module().

Operators whose shape function has branches, exported with Dim.AUTO, are built twice: from the archive, which says what export assumed
(guards_code), and from the same archive without that, as older versions of torch write it. At many sizes
  - what ep.module() refuses, the artifact refuses at `run` with AOTC_STATUS_SHAPE_MISMATCH, outputs untouched;
  - what both take has the same shapes and values; the second artifact is compared with the plain module instead;
  - what ep.module() takes, the first artifact takes (sizes of 1 apart, which are outside of the exported range).

    size_guards.py --aotc BIN --work DIR [--sizes N] [name ...]
"""
import argparse
import ctypes
import itertools
import json
import os
import random
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "gpu"))
import binding

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import thirds

Dim = torch.export.Dim
AUTO = Dim.AUTO
scan = torch._higher_order_ops.scan
SHAPE_MISMATCH = 2
POOL = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 20, 21, 24, 31, 32, 33, 48, 64]


def W(*shape):
    return torch.sin(torch.arange(1.0, 1.0 + torch.Size(shape).numel())).reshape(shape)


def padded_chunks(x):
    """Chunks of 4 rows of a sequence that is padded to whole ones, put together again without taking the padding off."""
    n = x.shape[1]
    y = F.pad(x, (0, 0, 0, (4 - n % 4) % 4)).reshape(x.shape[0], -1, 4, x.shape[2])
    y = y.cumsum(2) + y.sum(2, keepdim=True)
    return y.reshape(x.shape[0], -1, x.shape[2]).reshape(x.shape[0], n, -1) * 2


# name: (function of tensors, shapes of the example, why a build is refused or None)
CASES = {
    # pools
    "avg_pool_ceil": (lambda x: F.avg_pool2d(x, [1, 3], [3, 2], [0, 1], True, True), [(2, 3, 33, 33)]),
    "avg_pool1d_ceil": (lambda x: F.avg_pool1d(x, 3, 2, 1, True, False), [(2, 3, 9)]),
    "max_pool_ceil": (lambda x: F.max_pool2d(x, 3, 2, 1, 1, True), [(2, 2, 17, 20)]),
    "max_pool_ceil_dilated": (lambda x: F.max_pool1d(x, 2, 3, 1, 2, True), [(2, 2, 17)]),
    "max_pool_indices_ceil": (lambda x: F.max_pool2d(x, 2, 2, 0, 1, True, True), [(2, 2, 9, 8)]),
    "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1), [(2, 2, 9, 11)]),
    "adaptive_avg": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), [(2, 3, 9, 11)]),
    "adaptive_max": (lambda x: F.adaptive_max_pool1d(x, 4), [(2, 3, 9)]),
    "lp_pool_ceil": (lambda x: F.lp_pool1d(x, 2, 3, 2, True), [(2, 3, 10)]),
    # pieces
    "split_last": (lambda x: x.split(2, 1)[-1] * 2, [(3, 7)]),
    "split_all": (lambda x: [p + 1 for p in x.split(4, 0)], [(10, 3)]),
    "chunk": (lambda x: [p + 1 for p in x.chunk(3, 1)], [(3, 7)]),
    "chunk_even": (lambda x: x.chunk(2, 1)[0] * x.chunk(2, 1)[1], [(3, 8)]),
    "tensor_split": (lambda x: [p + 1 for p in x.tensor_split(3, 1)], [(4, 10)]),
    "tensor_split_at": (lambda x: [p + 1 for p in x.tensor_split([2, 5, -1], 1)], [(4, 10)]),
    "hsplit": (lambda x: [p + 1 for p in torch.hsplit(x, 2)], [(4, 10)]),
    "unbind": (lambda x: x.unbind(0)[1] + 1, [(3, 10)]),
    # slices
    "narrow": (lambda x: x[:, 3:9] + 1, [(4, 15)]),
    "from_end": (lambda x: x[:, -3:] + 1, [(4, 10)]),
    "up_to_end": (lambda x: x[:, :-2] + 1, [(4, 10)]),
    "step": (lambda x: x[:, 1::3] + 1, [(4, 10)]),
    "select_end": (lambda x: x[-2] + x[1], [(4, 10)]),
    "slice_by_other": (lambda x, y: x[:, y.shape[1] - 4:] + 1, [(4, 10), (4, 7)]),
    "slice_scatter": (lambda x: torch.slice_scatter(x, x[:, 2:6] * 2, 1, 2, 6), [(4, 10)]),
    "write_slice": (lambda x: written(x), [(4, 10)]),
    # reshapes
    "padded_chunks": (padded_chunks, [(2, 12, 8)]),
    "view": (lambda x: x.view(x.shape[0], -1, 4) + 1, [(3, 8)]),
    "reshape": (lambda x: x.reshape(-1, 6) + 1, [(4, 9)]),
    "unflatten": (lambda x: x.unflatten(1, (2, -1)) + 1, [(5, 6)]),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2) + 1, [(2, 8, 4, 5)]),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2) + 1, [(2, 3, 4, 6)]),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2) + 1, [(2, 4, 4, 6)]),
    "group_norm": (lambda x: F.group_norm(x, 2), [(2, 8, 4)]),
    "squeeze": (lambda x: (x[:, :1] + 1).squeeze(1).squeeze(0), [(4, 6)]),
    "unfold": (lambda x: x.unfold(1, 3, 2) + 1, [(2, 9)]),
    "im2col": (lambda x: F.unfold(x, 3, 1, 1, 2), [(2, 2, 7, 8)]),
    "repeat": (lambda x: x.repeat(2, 3) + 1, [(3, 4)]),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1) + 1, [(3, 4)]),
    "roll": (lambda x: x.roll(3, 1) + 1, [(3, 7)]),
    # diagonals and triangles
    "diagonal": (lambda x: torch.diagonal(x) + 1, [(4, 10)]),
    "diagonal_right": (lambda x: torch.diagonal(x, 2) + 1, [(4, 10)]),
    "diagonal_below": (lambda x: torch.diagonal(x, -1) + 1, [(8, 5)]),
    "diag": (lambda x: torch.diag(x, 1) + 1, [(4, 10)]),
    "diag_embed": (lambda x: torch.diag_embed(x, 1) + 1, [(4, 5)]),
    "tril": (lambda x: torch.tril(x, -1) + 1, [(4, 10)]),
    # resizing
    "bilinear": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), [(2, 2, 9, 11)]),
    "bilinear_down": (lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"), [(2, 2, 9, 11)]),
    "bilinear_1125": (lambda x: F.interpolate(x, scale_factor=1.125, mode="bilinear"), [(2, 2, 9, 11)]),
    "bilinear_corners": (lambda x: F.interpolate(x, scale_factor=0.75, mode="bilinear", align_corners=True), [(2, 2, 9, 11)]),
    "linear_1125": (lambda x: F.interpolate(x, scale_factor=1.125, mode="linear"), [(2, 2, 9)]),
    "nearest1d": (lambda x: F.interpolate(x, scale_factor=1.25, mode="nearest"), [(2, 2, 9)]),
    "nearest2d": (lambda x: F.interpolate(x, scale_factor=1.25, mode="nearest"), [(2, 2, 9, 11)]),
    "nearest2d_225": (lambda x: F.interpolate(x, scale_factor=2.25, mode="nearest"), [(2, 2, 9, 11)]),
    "nearest3d": (lambda x: F.interpolate(x, scale_factor=1.25, mode="nearest"), [(2, 2, 5, 6, 4)]),
    "nearest_exact": (lambda x: F.interpolate(x, scale_factor=1.25, mode="nearest-exact"), [(2, 2, 9, 11)]),
    "nearest_recomputed": (lambda x: F.interpolate(x, scale_factor=1.5, mode="nearest", recompute_scale_factor=True), [(2, 2, 9, 11)]),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=1.125, mode="bicubic"), [(2, 2, 9, 11)]),
    "antialias": (lambda x: F.interpolate(x, size=(5, 7), mode="bilinear", antialias=True), [(2, 2, 9, 11)]),
    "antialias_bicubic_like": (lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bicubic", antialias=True), [(2, 2, 9, 11), (2, 2, 5, 13)]),
    "antialias_corners": (lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear", antialias=True, align_corners=True), [(2, 2, 9, 11), (2, 2, 5, 13)]),
    "nearest_size": (lambda x: F.interpolate(x, size=(5, 7), mode="nearest"), [(2, 2, 9, 11)]),
    "bilinear_like": (lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear"), [(2, 2, 9, 11), (2, 2, 5, 13)]),
    # convolutions and pads
    "conv": (lambda x: F.conv2d(x, W(2, 2, 3, 3), stride=2), [(2, 2, 9, 11)]),
    "conv_same": (lambda x: F.conv1d(x, W(2, 2, 4), padding="same", dilation=2), [(2, 2, 11)]),
    "conv_transpose": (lambda x: F.conv_transpose2d(x, W(2, 2, 3, 3), padding=2), [(2, 2, 4, 6)]),
    "conv_transpose_stride": (lambda x: F.conv_transpose1d(x, W(2, 3, 3), stride=2, padding=4, output_padding=1), [(2, 2, 9)]),
    "fold": (lambda x: F.fold(x, (4, 5), 2), [(2, 8, 12)]),
    "pad": (lambda x: F.pad(x, (2, 3), value=1.5) * 2, [(3, 9)]),
    "pad_cut": (lambda x: F.pad(x, (-2, -3)) * 2, [(3, 9)]),
    "pad_quarter": (lambda x: F.pad(x, (-(x.shape[1] // 4), 0)) * 2, [(3, 9)]),
    "pad_multiple": (lambda x: F.pad(x, (0, -(x.shape[1] % 4))) * 2, [(3, 10)]),
    "pad_multiple_2d": (lambda x: F.pad(x, (0, -(x.shape[2] % 4), -(x.shape[1] // 3), 0), value=1.5) * 2, [(2, 5, 10)]),
    "pad_up_to": (lambda x: F.pad(x, (1, 8 - x.shape[1]), value=-1.5) * 2, [(3, 5)]),
    "pad_around": (lambda x: F.pad(x, (x.shape[0] - 6, 6 - x.shape[0], 2 - x.shape[0] % 5, 1)) * 2, [(4, 9)]),
    "pad_like": (lambda x, y: F.pad(x, (0, y.shape[1] - x.shape[1])) * y, [(3, 9), (3, 7)]),
    "pad_reflect_cut": (lambda x: F.pad(x, (1, -(x.shape[1] % 3)), "reflect"), [(3, 10)]),
    "pad_circular_cut": (lambda x: F.pad(x, (2, -(x.shape[2] % 3)), "circular"), [(2, 3, 10)]),
    "slice_quarter": (lambda x: x[:, -(x.shape[1] // 4):] + 1, [(3, 9)]),
    "slice_up_to_rest": (lambda x: x[:, :-(x.shape[1] % 4)] + 1, [(3, 10)]),
    "select_by_size": (lambda x: x[:, -(x.shape[1] % 4)] + 1, [(3, 10)]),
    "pad_reflect": (lambda x: F.pad(x, (2, 3), "reflect"), [(3, 9)]),
    "pad_circular": (lambda x: F.pad(x, (2, 3), "circular"), [(2, 3, 9)]),
    "pad_replicate": (lambda x: F.pad(x, (2, 3), "replicate"), [(2, 3, 9)]),
    # sizes as numbers, branches of the model
    "branch": (lambda x: x * 2 if x.shape[0] % 3 == 1 and x.shape[1] > 5 else x * 3, [(4, 9)]),
    "branch_or": (lambda x: x * 2 if x.shape[0] % 3 == 1 or x.shape[1] > 5 else x * 3, [(4, 9)]),
    "branch_ne": (lambda x: x * 2 if x.shape[0] != 7 else x * 3, [(4, 9)]),
    "arange": (lambda x: x + torch.arange(0, 2 * x.shape[1], 2), [(4, 9)]),
    "arange_back": (lambda x: torch.arange(x.shape[1], 0, -3) + x.sum().to(torch.int64), [(4, 9)]),
    "smallest": (lambda x: x.new_zeros(min(x.shape[0], x.shape[1], 5)) + x.sum(), [(4, 6)]),
    "largest": (lambda x: x.new_ones(max(x.shape[0], x.shape[1])) + x.sum(), [(4, 6)]),
    "root": (lambda x: x.new_ones(int(x.shape[0] ** 0.5)) + x.sum(), [(10, 6)]),
    "half": (lambda x: x.new_ones(int(x.shape[0] / 2 + 0.5)) + x.sum(), [(5, 6)]),
    "linspace": (lambda x: x * torch.linspace(0, 1, 6), [(5, 6)]),
    "eye": (lambda x: x + torch.eye(x.shape[0], x.shape[1]), [(5, 6)]),
    "topk": (lambda x: x.topk(3)[0], [(5, 6)]),
    "mean_of_window": (lambda x: x.unfold(0, 4, 4).mean(-1), [(12, 3)]),
    # more than one input
    "broadcast": (lambda x, y: x + y, [(3, 4), (1, 4)]),
    "equal": (lambda x, y: x * y, [(3, 4), (3, 4)]),
    "matmul": (lambda x, y: x @ y, [(3, 5), (5, 4)]),
    "cat": (lambda x, y: torch.cat([x, y]) * 2, [(3, 5), (2, 5)]),
    "einsum": (lambda x, y: torch.einsum("bij,bjk->bik", x, y), [(2, 5, 6), (2, 6, 3)]),
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k, scale=0.5), [(2, 4, 8, 16), (2, 4, 5, 16)]),
}
# The same with dims of their own: sizes that others make, rounds over as many rows as there are.
DIMS = {
    "odd": (lambda x: (x[:, : x.shape[1] // 2] * x[:, x.shape[1] // 2 + 1 :], x[:, x.shape[1] // 2]), [(4, 9)], [(AUTO, 2 * Dim("half", min=0, max=30) + 1)]),
    "rounds": (lambda x: rounds(x), [(5, 3)], [(AUTO(max=24), None)]),
    "rounds_back": (lambda x: scan(lambda c, v: (c * v + 1, c - v), torch.ones(3), x, reverse=True), [(5, 3)], [(Dim("rows", min=2, max=16), None)]),
}
# The model's own Python depends on sizes: an archive without guards cannot say so, which the build warns of.
OWN = {"branch", "branch_or", "branch_ne", "root", "half"}
# A slice for the suite: one of each kind.
QUICK = ["avg_pool_ceil", "max_pool_indices_ceil", "split_all", "chunk", "tensor_split_at", "slice_by_other", "squeeze", "diagonal_right", "nearest2d_225",
         "bilinear_1125", "conv_transpose", "branch_or", "root", "cat", "nested", "odd", "rounds",
         "pad_quarter", "pad_multiple_2d", "pad_around"]


def rounds(x):
    def step(carried, row):
        i, h = carried
        h = torch.tanh(h * 0.5 + row + W(24, 3).index_select(0, i.view(1))[0])
        return (i + 1, h), (h * row, i.view(1) * 2)

    (i, h), every = scan(step, (torch.zeros((), dtype=torch.int64), torch.zeros(3)), x)
    return i.view(1), h, *every


def written(x):
    y = x.clone()
    y[:, 2:7:2] = 0.5
    return y


class Of(torch.nn.Module):
    """A module whose forward has as many named arguments as `f`."""

    def __init__(self, f):
        super().__init__()
        self.f = f


def module_of(f):
    names = f.__code__.co_varnames[:f.__code__.co_argcount]
    scope = {"Of": Of}
    exec(f"class M(Of):\n    def forward(self, {', '.join(names)}): return self.f({', '.join(names)})", scope)
    return scope["M"](f)


class Nested(torch.nn.Module):
    """Inputs in containers and keywords, whose guards name their paths."""

    def forward(self, a, b, *rest, k=None):
        return a["p"].reshape(-1, 6) + 1, b[1][0][:, -3:] + 1, [p + 1 for p in rest[0].chunk(3, 1)], k.chunk(2, 1)[1] + 1


def nested(tensors):
    a, b, c, d = tensors
    return ({"p": a}, (1, [b]), c), {"k": d}


def cases():
    for name, (f, shapes) in CASES.items():
        yield name, module_of(f), shapes, lambda ts: (tuple(ts), {}), False, None
    for name, (f, shapes, dims) in DIMS.items():
        yield name, module_of(f), shapes, lambda ts: (tuple(ts), {}), False, tuple(dims)
    for strict in (False, True):
        yield "nested" + ("_strict" if strict else ""), Nested(), [(4, 9), (4, 10), (3, 7), (3, 6)], nested, strict, None


def tensors_of(shapes, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(s, generator=g) for s in shapes]


def without_guards(source, target):
    with zipfile.ZipFile(source) as z, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as out:
        for info in z.infolist():
            data = z.read(info)
            if info.filename.endswith("models/model.json"):
                model = json.loads(data)
                del model["guards_code"]
                data = json.dumps(model).encode()
            out.writestr(info.filename, data)


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in flat(v)]


def call(module, args, kwargs):
    """The outputs, or why not."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            return [t.contiguous() for t in flat(module(*args, **kwargs))], ""
        except Exception as e:  # noqa: BLE001: every refusal counts
            return None, str(e)


class Runner:
    def __init__(self, path):
        self.artifact = binding.Artifact(path).create()
        self.context = self.artifact.context()
        self.dtypes = [i.dtype for i in self.artifact.io(0)]

    def run(self, tensors, expected):
        """Outputs, or the message of a refusal. A refused run must have the right status and leave the outputs as they are."""
        arrays = [np.ascontiguousarray(t.numpy()) for t in tensors]
        inputs = binding.tensors(arrays, self.dtypes)
        try:
            outputs = self.context.output_arrays(inputs)
        except binding.Failure as e:
            assert e.status == SHAPE_MISMATCH, e
            infos = self.context.out_infos
            like = [np.empty(tuple(t.shape), binding.CODES[i.dtype]) for t, i in zip(expected, infos)] if expected else \
                   [np.empty([4] * i.rank, binding.CODES[i.dtype]) for i in infos]
            for o in like:
                ctypes.memset(o.ctypes.data, 0x5a, o.nbytes)
            try:
                self.context.run(inputs, binding.tensors(like, [i.dtype for i in infos]))
            except binding.Failure as failure:
                assert failure.status == SHAPE_MISMATCH, failure
                assert all((o.view(np.uint8) == 0x5a).all() for o in like if o.nbytes), "a refused run wrote an output"
                return None, str(failure)
            raise AssertionError("output_bounds refuses, run does not")
        self.context.run(inputs, binding.tensors(outputs, [i.dtype for i in self.context.out_infos]))
        return [torch.from_numpy(o) for o in outputs], ""


def same(got, want):
    if len(got) != len(want):
        return f"{len(got)} outputs, not {len(want)}"
    for g, w in zip(got, want):
        if tuple(g.shape) != tuple(w.shape):
            return f"shape {tuple(g.shape)}, not {tuple(w.shape)}"
        if w.dtype == torch.bool:
            w = w.to(torch.uint8)
        if not torch.allclose(g.to(torch.float64), w.to(torch.float64), rtol=1e-5, atol=1e-5, equal_nan=True):
            return f"values differ by {(g.to(torch.float64) - w.to(torch.float64)).abs().max().item():g}"
    return ""


def size_sets(placeholders, count, seed):
    """Shapes of the inputs: each symbol drawn on its own, the first ones small, and symbols that must agree set apart at times."""
    rng = random.Random(seed)
    symbols = sorted({str(d) for p in placeholders for d in p if not isinstance(d, int)})
    grid = list(itertools.islice(itertools.product(POOL, repeat=len(symbols)), 200000)) if len(symbols) <= 3 else None
    picked = grid if grid and len(grid) <= count else [tuple(rng.choice(POOL) for _ in symbols) for _ in range(count)]
    for values in picked:
        at = dict(zip(symbols, values))
        shapes = [tuple(d if isinstance(d, int) else at[str(d)] for d in p) for p in placeholders]
        if rng.random() < 0.1:  # one dimension, fixed or not, is another
            i = rng.randrange(len(shapes))
            if shapes[i]:
                d = rng.randrange(len(shapes[i]))
                shapes[i] = shapes[i][:d] + (rng.choice(POOL),) + shapes[i][d + 1:]
        yield shapes


def build(o, pt2, so, states_guards):
    r = subprocess.run([o.aotc, "build", pt2, "-o", so], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"build of {os.path.basename(pt2)}: exit {r.returncode}\n{r.stderr}")
    assert states_guards != ("does not say what export assumed" in r.stderr), f"build of {os.path.basename(pt2)} says\n{r.stderr}"


def check(o, name, module, shapes, arguments, strict, dims):
    args, kwargs = arguments(tensors_of(shapes))
    dynamic = torch.utils._pytree.tree_map(lambda t: (AUTO,) * t.dim() if isinstance(t, torch.Tensor) else None, (args, kwargs))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if isinstance(module, Nested):
            spec = {"a": dynamic[0][0], "b": dynamic[0][1], "rest": dynamic[0][2:], "k": dynamic[1]["k"]}
        else:
            spec = dims or dynamic[0]
        ep = torch.export.export(module, args, kwargs, dynamic_shapes=spec, strict=strict)
    path = os.path.join(o.work, name)
    torch.export.save(ep, path + ".pt2")
    without_guards(path + ".pt2", path + "_bare.pt2")
    counts = dict(both=0, refused=0, narrower=0, bare_both=0, bare_refused=0)
    given = set(ep.graph_signature.user_inputs)
    users = [n.meta["val"].shape for n in ep.graph.nodes if n.op == "placeholder" and n.name in given and hasattr(n.meta.get("val"), "shape")]
    placeholders = [tuple(int(d) if isinstance(d, int) else d.node.expr for d in s) for s in users]
    placeholders = [tuple(int(d) if not isinstance(d, int) and d.is_number else d for d in p) for p in placeholders]
    checked = ep.module()
    build(o, path + ".pt2", path + ".so", True)
    build(o, path + "_bare.pt2", path + "_bare.so", False)
    guarded, bare = Runner(path + ".so"), Runner(path + "_bare.so")
    for number, sizes in enumerate(itertools.chain([shapes], size_sets(placeholders, o.sizes, name))):
        ts = tensors_of(sizes, number)
        a, k = arguments(ts)
        where = f"at {sizes}"
        want, why = call(checked, a, k)
        got, message = guarded.run(ts, want)
        if want is None:
            assert got is None, f"{where}: takes what ep.module() refuses: {why[:300]}"
            assert "input '" in message, f"{where}: the message names no input: {message}"
            counts["refused"] += 1
        elif got is None:
            counts["narrower"] += 1
            assert number > 0 and o.lenient, f"{where}: refuses what ep.module() takes: {message}"
        else:
            difference = same(got, want)
            assert not difference, f"{where}: {difference}"
            counts["both"] += 1
        if name in OWN and number > 0:
            continue
        want, why = call(module, a, k)
        got, message = bare.run(ts, want)
        if got is None:
            assert number > 0, f"{where}: without guards, refuses the exported sizes: {message}"
            counts["bare_refused"] += 1
            continue
        assert want is not None, f"{where}: without guards, takes what the module refuses: {why[:300]}"
        difference = same(got, want)
        assert not difference, f"{where}: without guards, {difference}"
        counts["bare_both"] += 1
    return counts


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--sizes", type=int, default=60, help="sets of sizes a case")
    p.add_argument("--quick", action="store_true", help="only the slice of cases for the suite")
    p.add_argument("--lenient", action="store_true", help="count, do not fail, where fewer sizes are taken than ep.module() takes")
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    failed, total, ran = [], {}, 0
    wanted = o.names or (thirds.some(QUICK, "operators at sizes far from the exported ones") if o.quick else None)
    for name, *case in cases():
        if wanted and name not in wanted:
            continue
        ran += 1
        try:
            counts = check(o, name, *case)
            for key, n in counts.items():
                total[key] = total.get(key, 0) + n
            print("ok  ", name, counts, flush=True)
        except Exception as e:  # noqa: BLE001: reported, and the run fails
            failed.append(name)
            print("FAIL", name, str(e)[:1500], flush=True)
    print(f"{ran - len(failed)} of {ran} operators; {total}; failed: {' '.join(failed) or 'none'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
