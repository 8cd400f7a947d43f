#!/usr/bin/env python3
"""Gradients of random calls of every family with a backward operator, traced below autograd so that the backward operators stand in the program as
such, against what PyTorch computes.

  gradients.py export DIR [--families conv,pool] [--seed 0] [--count 8] [--dynamic] [--dtype float32]   programs and manifest.json
  gradients.py test DIR --check DECOMPOSE_CHECK [...]                                                   the same, then run; exit 1 on a failure

A program holds `count` calls of one family. decompose_check runs each stage's interpreter on it (tests/e2e/decompose_check.cpp).
"""
import argparse, json, os, random, subprocess, sys, warnings

import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, os.path.dirname(__file__))
from opinfo_sweep import describe

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import thirds

warnings.filterwarnings("ignore")
FAMILIES = {}


def family(f):
    FAMILIES[f.__name__] = f
    return f


def rand(*dims): return torch.randn(*dims)


@family
def activation(r):
    x = rand(r.randint(1, 4), 2 * r.randint(1, 9)) * 4
    slope, alpha = r.uniform(-1, 1), r.uniform(0.1, 2)
    fn = r.choice([
        torch.sigmoid, torch.tanh, F.silu, F.mish, F.hardswish, F.hardsigmoid, F.relu, F.relu6, F.logsigmoid, F.softplus, F.glu, F.selu, F.softsign,
        F.gelu, lambda x: F.gelu(x, approximate="tanh"), lambda x: F.hardtanh(x, -alpha, alpha), lambda x: F.leaky_relu(x, slope),
        lambda x: F.elu(x, alpha), lambda x: F.celu(x, alpha), lambda x: F.threshold(x, slope, alpha), lambda x: F.softshrink(x, alpha),
        lambda x: F.hardshrink(x, alpha), lambda x: F.softplus(x, alpha, 3.0), lambda x: torch.logit(torch.sigmoid(x), 0.1),
        lambda x: torch.logit(torch.sigmoid(x)), lambda x: F.rrelu(x, 0.1, 0.3), lambda x: F.relu(x.clone(), inplace=True)])
    return fn, [x]


@family
def prelu(r):
    c = r.randint(2, 5)
    return F.prelu, [rand(2, c, 3), rand(r.choice([1, c]))]


@family
def loss(r):
    how = r.choice(["mean", "sum", "none"])
    x, y = rand(3, r.randint(2, 6)), rand(1, 1)
    y = rand(*x.shape)
    beta = r.choice([0.0, 0.3, 1.0])
    fn = r.choice([
        F.mse_loss, F.l1_loss, lambda a, b, reduction: F.smooth_l1_loss(a, b, beta=beta, reduction=reduction),
        lambda a, b, reduction: F.huber_loss(a, b, delta=beta + 0.2, reduction=reduction), lambda a, b, reduction: F.soft_margin_loss(a, b.detach(), reduction=reduction),
        lambda a, b, reduction: F.binary_cross_entropy(torch.sigmoid(a), torch.sigmoid(b), reduction=reduction),
        lambda a, b, reduction: F.binary_cross_entropy(torch.sigmoid(a), torch.sigmoid(b.detach()), b.detach().abs(), reduction=reduction),
        lambda a, b, reduction: F.binary_cross_entropy_with_logits(a, torch.sigmoid(b), pos_weight=b.detach()[0].abs(), reduction=reduction),
        lambda a, b, reduction: F.kl_div(F.log_softmax(a, 1), F.softmax(b, 1), reduction=reduction)])
    return lambda a, b: fn(a, b, reduction=how), [x, y]


@family
def classes(r):
    c, how = r.randint(2, 7), r.choice(["mean", "sum", "none"])
    dims = r.choice([(), (3,), (4,), (2, 3, 2), (2, 2, 1)])
    x = rand(*(dims[:1] + (c,) + dims[1:]))
    t = torch.randint(0, c, dims)
    ignore = r.choice([-100, 1])
    w = r.choice([None, torch.rand(c) + 0.1])
    smooth = r.choice([0.0, 0.2])
    def weights(w): return None if w is None else w.detach()
    fn = r.choice([lambda x, t, w=None: F.cross_entropy(x, t, weights(w), ignore_index=ignore, reduction=how, label_smoothing=smooth),
                   lambda x, t, w=None: F.nll_loss(F.log_softmax(x, 1 if x.dim() > 1 else 0), t, weights(w), ignore_index=ignore, reduction=how)])
    if how == "mean" and (t == ignore).all(): t[...] = 0
    return fn, [x, t] + ([] if w is None else [w])


@family
def softmax(r):
    d = r.randint(-3, 2)
    return r.choice([lambda x: F.softmax(x, d), lambda x: F.log_softmax(x, d), lambda x: torch.logsumexp(x, d)]), [rand(3, 4, 5)]


@family
def norm(r):
    # Several elements are normalised together: of two, whatever they are, the gradient is rounding.
    n, c, groups = r.randint(3, 5), 4 * r.randint(1, 2), r.choice([1, 2])
    spatial = [r.randint(2, 4) for _ in range(r.randint(0, 3))]
    x = rand(n, c, *spatial)
    w, b = r.choice([(torch.rand(c) + 0.5, rand(c)), (None, None)])
    extra = [] if w is None else [w, b]
    stats = rand(c), torch.rand(c) + 0.3
    kind = r.choice(["batch", "eval", "group", "layer", "rms", "instance"])
    if kind == "batch": return lambda x, w=None, b=None: F.batch_norm(x, None, None, w, b, True), [x] + extra
    if kind == "eval": return lambda m, v, x, w=None, b=None: F.batch_norm(x, m.detach(), v.detach(), w, b, False), [*stats, x] + extra
    if kind == "group" and spatial: return lambda x, w=None, b=None: F.group_norm(x, groups, w, b), [x] + extra
    if kind == "instance" and len(spatial) > 1: return lambda x, w=None, b=None: F.instance_norm(x, None, None, w, b, True), [x] + extra
    k = r.randint(1, x.dim())  # of the last dims; 4 elements at least
    if k == 1: x = x.transpose(1, -1).contiguous()
    shape = list(x.shape[x.dim() - k:])
    w, b = torch.rand(shape) + 0.5, rand(*shape)
    if kind == "rms": return lambda x, w: F.rms_norm(x, shape, w), [x, w]
    return (lambda x, w, b: F.layer_norm(x, shape, w, b), [x, w, b]) if r.random() < 0.7 else (lambda x: F.layer_norm(x, shape), [x])


@family
def weight_norm(r):
    keep = r.choice([0, 2])
    v = rand(3, 2, 4)
    g = torch.rand([s if i == keep else 1 for i, s in enumerate(v.shape)]) + 0.1
    return lambda v, g: torch._weight_norm(v, g, keep), [v, g]


@family
def conv(r):
    k, groups = r.randint(1, 3), r.choice([1, 1, 2, 3])
    cin, cout = groups * r.randint(1, 3), groups * r.randint(1, 3)
    kernel = [r.randint(1, 3) for _ in range(k)]
    stride, dilation = [r.randint(1, 3) for _ in range(k)], [r.randint(1, 2) for _ in range(k)]
    padding = [r.randint(0, 2) for _ in range(k)]
    bias = r.random() < 0.5
    if r.random() < 0.5:
        size = [max(1, d * (s - 1) + 1 - 2 * p) + r.randint(0, 6) for s, d, p in zip(kernel, dilation, padding)]
        args = [rand(r.randint(1, 3), cin, *size), rand(cout, cin // groups, *kernel)] + ([rand(cout)] if bias else [])
        op = [F.conv1d, F.conv2d, F.conv3d][k - 1]
        return lambda x, w, b=None: op(x, w, b, stride, padding, dilation, groups), args
    extra = [r.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation)]
    size = [r.randint(1, 4) + (2 * p) // s for s, p in zip(stride, padding)]
    size = [n + 1 if (n - 1) * s - 2 * p + d * (q - 1) + e + 1 < 1 else n for n, s, p, d, q, e in zip(size, stride, padding, dilation, kernel, extra)]
    args = [rand(r.randint(1, 3), cin, *size), rand(cin, cout // groups, *kernel)] + ([rand(cout)] if bias else [])
    op = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][k - 1]
    return lambda x, w, b=None: op(x, w, b, stride, padding, extra, groups, dilation), args


@family
def pool(r):
    k = r.choice([1, 2, 2, 3])
    kernel = [r.randint(1, 4) for _ in range(k)]
    stride = [r.randint(1, 3) for _ in range(k)]
    padding = [r.randint(0, q // 2) for q in kernel]
    dilation = [r.randint(1, 2) for _ in range(k)]
    ceil = r.random() < 0.5
    size = [d * (q - 1) + 1 + r.randint(0, 6) for q, d in zip(kernel, dilation)]
    x = rand(*([2] if r.random() < 0.8 or k == 1 else []), 3, *size)
    if r.random() < 0.5:
        op = [F.max_pool1d, F.max_pool2d, F.max_pool3d][k - 1]
        return lambda x: op(x, kernel, stride, padding, dilation, ceil), [x]
    op, inside = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][k - 1], r.random() < 0.5
    more = {} if k == 1 or r.random() < 0.7 else {"divisor_override": 3}
    return lambda x: op(x, kernel, stride, padding, ceil, inside, **more), [x]


@family
def adaptive_pool(r):
    k = r.choice([1, 2, 2, 3])
    out = [r.randint(1, 5) for _ in range(k)]
    x = rand(2, 3, *[o * r.randint(1, 3) if r.random() < 0.4 else r.randint(1, 9) for o in out])
    ops = [F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d]
    op = ops[k - 1 + r.choice([0, 3])]
    return lambda x: op(x, out), [x]


@family
def resize(r):
    k = r.choice([1, 2, 3])
    size = [r.randint(1, 6) for _ in range(k)]
    to = [s * 2 if r.random() < 0.3 else r.randint(1, 9) for s in size]
    modes = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[k] + ["nearest", "nearest-exact"]
    mode = r.choice(modes)
    align = r.choice([True, False]) if "nearest" not in mode else None
    if r.random() < 0.5: return lambda x: F.interpolate(x, to, mode=mode, align_corners=align), [rand(2, 3, *size)]
    by, again = r.choice([0.7, 1.5, 2.0, 3.0]), r.choice([True, False])
    return lambda x: F.interpolate(x, scale_factor=by, mode=mode, align_corners=align, recompute_scale_factor=again), [rand(1, 2, *[s + 2 for s in size])]


@family
def pad(r):
    k = r.randint(1, 3)
    size = [r.randint(3, 5) for _ in range(k)]
    amount = [r.randint(0, 2) for _ in range(2 * k)]
    mode = r.choice(["reflect", "replicate", "constant", "circular"])
    return lambda x: F.pad(x, amount, mode), [rand(2, 2, *size)]


@family
def index(r):
    x = rand(4, 5, 6)
    i = torch.randint(0, 4, (r.randint(1, 6),))
    at = torch.randint(0, 5, (4, 3, 6))
    mask = torch.rand(4, 5, 6) < 0.5
    step, start = r.randint(1, 3), r.randint(0, 3)
    off, d = r.randint(-3, 3), r.randint(0, 2)
    return r.choice([
        lambda x, i, at, mask: x[i], lambda x, i, at, mask: x[:, start], lambda x, i, at, mask: x[:, -2], lambda x, i, at, mask: x[:, start::step],
        lambda x, i, at, mask: torch.index_select(x, d, i % x.shape[d]), lambda x, i, at, mask: torch.gather(x, 1, at),
        lambda x, i, at, mask: torch.diagonal(x, off, d, (d + 1) % 3), lambda x, i, at, mask: x.unfold(1, 3, step),
        lambda x, i, at, mask: torch.trace(x[0]), lambda x, i, at, mask: x.max(d)[0], lambda x, i, at, mask: x.median(d)[0],
        lambda x, i, at, mask: x.sort(d)[0], lambda x, i, at, mask: x.topk(2, d)[0], lambda x, i, at, mask: x.amax((0, 2)),
        lambda x, i, at, mask: x.cumsum(d), lambda x, i, at, mask: x.cumprod(d), lambda x, i, at, mask: x.cummax(d)[0],
        lambda x, i, at, mask: x.masked_fill(mask, 2.0), lambda x, i, at, mask: torch.where(mask, x, x * x), lambda x, i, at, mask: x.kthvalue(2, d)[0],
        lambda x, i, at, mask: torch.zeros_like(x).masked_scatter(mask, x), lambda x, i, at, mask: torch.index_add(x, 0, i, x[i] * 2),
        lambda x, i, at, mask: torch.scatter_add(x, 1, at, x[:, :3] * 2), lambda x, i, at, mask: x.flip(d).roll(2, d),
        lambda x, i, at, mask: torch.cat([x, x * 2], d).chunk(3, d)[1], lambda x, i, at, mask: x.prod(d), lambda x, i, at, mask: x.std(d),
        lambda x, i, at, mask: torch.take(x, i), lambda x, i, at, mask: torch.linalg.norm(x, dim=d), lambda x, i, at, mask: x.norm(3, d)]), [x, i, at, mask]


@family
def embedding(r):
    i = torch.randint(0, 7, (2, r.randint(1, 5)))
    padding, often = r.choice([None, 2]), r.random() < 0.5
    return lambda i, w: F.embedding(i, w, padding, scale_grad_by_freq=often), [i, rand(7, 4)]


@family
def bags(r):
    n, mode, last = r.randint(1, 9), r.choice(["sum", "mean", "max"]), r.random() < 0.3
    i, offsets = torch.randint(0, 7, (n,)), torch.tensor([0] + sorted(r.randint(0, n) for _ in range(3)) + [n] * last)
    padding = r.choice([None, 2])
    bag = lambda i, o, w, s=None: F.embedding_bag(i, w, o, mode=mode, padding_idx=padding, per_sample_weights=s, include_last_offset=last)
    return bag, [i, offsets, rand(7, 4)] + ([rand(n)] if mode == "sum" and r.random() < 0.5 else [])


@family
def attention(r):
    b, h, l, s, e = 2, 2, r.randint(1, 5), r.randint(2, 6), r.choice([2, 4])
    q, k, v = rand(b, h, l, e), rand(b, h, s, e), rand(b, h, s, e)
    causal = r.random() < 0.4
    mask = r.choice([None, rand(l, s), rand(b, 1, l, s), torch.rand(l, s) < 0.7])
    if mask is not None and mask.dtype == torch.bool: mask[:, 0] = True
    if causal: mask = None
    scale = r.choice([None, 0.3])
    return lambda q, k, v, m=None: F.scaled_dot_product_attention(q, k, v, m, is_causal=causal, scale=scale), [q, k, v] + ([mask] if mask is not None else [])


@family
def distance(r):
    p = r.choice([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
    if r.random() < 0.3: return lambda x: F.pdist(x, p), [rand(r.randint(2, 4), 3)]
    return lambda x, y: torch.cdist(x, y, p, "donot_use_mm_for_euclid_dist"), [rand(2, r.randint(1, 4), 3), rand(2, r.randint(1, 4), 3)]


@family
def grid_sample(r):
    k = r.choice([2, 2, 3])
    size, out = [r.randint(1, 5) for _ in range(k)], [r.randint(1, 4) for _ in range(k)]
    mode, padding, align = r.choice(["bilinear", "nearest"]), r.choice(["zeros", "border", "reflection"]), r.choice([True, False])
    return lambda x, g: F.grid_sample(x, g, mode, padding, align), [rand(2, 3, *size), rand(2, *out, k)]


class Program:
    """Calls and the inputs of all: their arguments, and the gradient of each result. Gives each call's gradients of its floating arguments."""

    def __init__(self, calls):
        self.calls, self.inputs = calls, []
        for fn, args in calls:
            with torch.no_grad(): y = fn(*[a.clone() for a in args])
            self.inputs += [a.clone() for a in args] + [torch.randn_like(y)]

    def __call__(self, *tensors):
        tensors, out = list(tensors), []
        for fn, args in self.calls:
            mine = [tensors.pop(0) for _ in args]
            g = tensors.pop(0)
            mine = [t.detach().requires_grad_() if t.is_floating_point() else t for t in mine]
            wanted = [t for t in mine if t.is_floating_point()]
            out += [x for x in torch.autograd.grad(fn(*mine), wanted, g, allow_unused=True) if x is not None]
        return out

    def shapes(self):
        """The dims of each call's first argument and result vary, but the last one of a matrix product."""
        out = []
        for fn, args in self.calls:
            for i, t in enumerate(args + self.inputs[len(out) + len(args):][:1]):
                vary = i in (0, len(args)) and t.dim() > 1
                fixed = 1 if len(args) > 2 and t.dim() == 4 and args[1].dim() == 4 else 0
                out.append({d: torch.export.Dim.AUTO for d in range(t.dim() - fixed) if t.shape[d] > 1} if vary else None)
        return tuple(out)

    def traced(self, dynamic):
        """Below autograd, where the backward operators are."""
        return make_fx(self, tracing_mode="symbolic" if dynamic else "fake")(*[t.clone() for t in self.inputs])


def export(o):
    torch.manual_seed(o.seed)
    os.makedirs(o.dir, exist_ok=True)
    manifest, dtype = [], getattr(torch, o.dtype)
    for name in o.families.split(",") if o.families else thirds.some(FAMILIES, "families of gradients") if o.verb == "test" else FAMILIES:
        r = random.Random(f"{name} {o.seed}")
        calls = [FAMILIES[name](r) for _ in range(o.count)]
        calls = [(fn, [a.to(dtype) if a.is_floating_point() else a for a in args]) for fn, args in calls]
        try:
            program = Program(calls)
            shapes = program.shapes() if o.dynamic else None
            want = [t.detach() for t in program(*[t.clone() for t in program.inputs])]
            graph = program.traced(o.dynamic)
            with torch.no_grad():
                ep = torch.export.export(graph, tuple(t.clone() for t in program.inputs), dynamic_shapes=shapes, strict=False)
        except Exception as e:
            print(f"{name}: not exported: {str(e)[:300]}", file=sys.stderr)
            continue
        stem = f"{name}_{o.seed}"
        torch.export.save(ep, os.path.join(o.dir, stem + ".pt2"))
        manifest.append({"name": stem, "pt2": stem + ".pt2", "inputs": describe(program.inputs, stem + ".in", o.dir), "outputs": describe(want, stem + ".out", o.dir)})
    json.dump(manifest, open(os.path.join(o.dir, "manifest.json"), "w"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("verb", choices=["export", "test"])
    p.add_argument("dir")
    p.add_argument("--families", default="")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--count", type=int, default=8)
    p.add_argument("--dynamic", action="store_true", help="every dimension above 1 is symbolic")
    p.add_argument("--dtype", default="float32")
    p.add_argument("--check", help="decompose_check")
    o = p.parse_args()
    export(o)
    if o.verb == "export": return
    report = os.path.join(o.dir, "report.jsonl")
    subprocess.run([o.check, os.path.join(o.dir, "manifest.json"), report], check=True)
    wrong = [l for l in map(json.loads, open(report)) if l["status"] != "ok"]
    for l in wrong: print(f"{l['name']}: {l['status']}: {l['why'][:600]}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
