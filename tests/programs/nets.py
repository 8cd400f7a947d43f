"""Random nets of layers whose sizes move, by seed: lines of text over named values, kept where they run at every set of sizes; each net is
exported with named dims (or Dim.AUTO where those do not export), built, and run at the ends of the ranges and between them.

    nets.py --aotc BIN --runner RUN_TWICE --work DIR --seeds 0:100 [--flags "--precision bf16"]     exit 1 when there is a fault

What the exported program takes the artifact must take, with eager's results: as near to fp64 as eager's own within a wide factor, for what is
looked for here are wrong elements and sizes, not the last bits (generator.py has those).
"""
import argparse
import contextlib
import copy
import io
import logging
import math
import os
import random
import shutil
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import pack as packs
import thirds

ENV = {"torch": torch, "nn": nn, "F": F, "math": math}
MOST = 150000  # elements of a value
SYMBOLS = "BTSHW"


class Net(nn.Module):
    """Lines over the inputs; self.m are the layers, self.t0, t1 .. the tables."""

    def __init__(self, inputs, lines, outputs, layers, tables):
        super().__init__()
        self.m = nn.ModuleList(layers)
        for i, t in enumerate(tables):
            self.register_buffer(f"t{i}", t)
        self.source = "\n".join([f"def forward(self, {', '.join(inputs)}):", *("    " + line for line in lines), f"    return {', '.join(outputs)},"])
        env = dict(ENV)
        exec(compile(self.source, "net", "exec"), env)
        self.run = env["forward"]


def module(net, inputs):
    """The net as one of a class whose forward names the inputs, as torch.export asks for."""
    env, names = {"Net": Net}, ", ".join(inputs)
    exec(f"class Module(Net):\n    def forward(self, {names}):\n        return self.run(self, {names})", env)
    net.__class__ = env["Module"]
    return net.eval().requires_grad_(False)


def finite(v):
    return not v.is_floating_point() or bool(v.isfinite().all()) and float(v.abs().max()) <= 1e4


class Maker:
    """The net in the making: its values at every set of sizes."""

    def __init__(self, seed):
        self.r = r = random.Random(seed)
        torch.manual_seed(seed)
        self.lines, self.layers, self.tables, self.values, self.inputs = [], [], [], [], []
        self.range = {"B": (r.choice([1, 1, 2]), r.choice([5, 9, 33])), "T": (r.choice([1, 2, 3, 4, 8]), r.choice([17, 40, 70])), "S": (r.choice([1, 2, 5]), r.choice([11, 30])),
                      "H": (r.choice([4, 7, 8]), r.choice([17, 32, 41])), "W": (r.choice([4, 6, 8]), r.choice([16, 27, 40]))}
        middle = {k: r.randint(max(lo, 3), max(hi // 2, 5, lo)) for k, (lo, hi) in self.range.items()}
        self.sizes = [middle, {k: v[0] for k, v in self.range.items()}, {k: v[1] for k, v in self.range.items()}, {k: r.randint(*v) for k, v in self.range.items()}, {k: r.choice(v) for k, v in self.range.items()}]
        self.moving = {k for k in SYMBOLS if r.random() < 0.8}
        for s in self.sizes[1:]:
            s.update({k: middle[k] for k in SYMBOLS if k not in self.moving})
        self.envs = [dict(ENV) for _ in self.sizes]

    def leaf(self, name, dims, make=lambda shape, sizes: torch.randn(shape)):
        self.inputs.append((name, dims))
        for s, e in zip(self.sizes, self.envs):
            e[name] = make([s.get(d, d) for d in dims], s)
        self.values.append(name)

    def begin(self):
        r = self.r
        d = r.choice([4, 8, 12, 16, 24, 30, 32])
        kinds = [["x"], ["x"], ["x", "lens"], ["x", "y"], ["x", "y", "lens"], ["img"], ["img"], ["img", "x"], ["img", "v"], ["ids"], ["ids", "lens"], ["ids", "y"], ["x", "v"], ["img", "img2"], ["ids", "img"]]
        for k in r.choice(kinds):
            if k == "x":
                self.leaf(k, ["B", "T", d])
            elif k == "y":
                self.leaf(k, [r.choice(["B", "B", "B", 1]), "S", r.choice([d, d, 5, 16])])
            elif k == "v":
                self.leaf(k, ["B", r.choice([d, 6])])
            elif k == "img":
                self.leaf(k, ["B", r.choice([1, 3, 4, 8, 16]), "H", "W"])
            elif k == "img2":
                self.leaf(k, ["B", r.choice([1, 3, 4, 8]), r.choice(["H", "T"]), r.choice(["W", "S"])])
            elif k == "lens":
                self.leaf(k, ["B"], lambda shape, sizes: torch.randint(1, sizes["T"] + 1, shape))
            else:
                self.leaf(k, ["B", "T"], lambda shape, sizes: torch.randint(0, 50, shape))

    def attempt(self, text, layers=(), tables=()):
        """Keeps the line if it runs at every set of sizes; @m0, @t0 .. are its own layers and tables."""
        for i in range(len(layers)):
            text = text.replace(f"@m{i}", f"self.m[{len(self.layers) + i}]")
        for i in range(len(tables)):
            text = text.replace(f"@t{i}", f"self.t{len(self.tables) + i}")
        state = type("State", (), {f"t{i}": t for i, t in enumerate(self.tables + list(tables))})
        state.m = self.layers + [layer.eval().requires_grad_(False) for layer in layers]
        name, made = f"a{len(self.lines)}", []
        try:
            for e in self.envs:
                with torch.no_grad():
                    v = eval(text, {**e, "self": state})
                if not isinstance(v, torch.Tensor) or v.is_complex() or not 0 < v.numel() <= MOST or v.dim() > 5 or not finite(v):
                    return False
                made.append(v)
        except Exception:  # not a line for these values
            return False
        if len({v.dim() for v in made}) != 1:
            return False
        for e, v in zip(self.envs, made):
            e[name] = v
        self.lines.append(f"{name} = {text}")
        self.layers += layers
        self.tables += tables
        self.values.append(name)
        return True

    def pick(self, rank=None):
        """A float value, late ones more often."""
        own = [v for v in self.values if (rank is None or self.envs[0][v].dim() == rank) and self.envs[0][v].is_floating_point()]
        return None if not own else own[-1] if self.r.random() < 0.6 else self.r.choice(own[-4:])

    def shape(self, v):
        return self.envs[0][v].shape

    def net(self):
        names = [n for n, _ in self.inputs]
        return module(Net(names, self.lines, self.outputs, copy.deepcopy(self.layers), [t.clone() for t in self.tables]), names)

    def arguments(self, k):
        return [self.envs[k][n].clone() for n, _ in self.inputs]

    def dims(self, dim):
        """dynamic_shapes, a symbol's by dim(symbol, least, most)."""
        made = {s: dim(s, *self.range[s]) for s in SYMBOLS}
        return tuple({d: made[s] for d, s in enumerate(dims) if s in self.moving} or None for _, dims in self.inputs)


def make(seed):
    from net_rows import ROWS

    m = Maker(seed)
    m.begin()
    want, tries = m.r.randint(2, 8), 0
    while len(m.lines) < want and tries < 60:
        tries += 1
        with contextlib.suppress(Exception):  # a row that has no operands here
            m.r.choice(ROWS)(m)
    made = [v for v in m.values if v.startswith("a")]
    read = {v for v in made for line in m.lines if v in line.split(" = ", 1)[1].replace("(", " ").replace(",", " ").replace(".", " ").replace("[", " ").replace(")", " ").split()}
    m.outputs = [v for v in made if v not in read or m.r.random() < 0.2]
    return m


def distance(a, t):
    return float((a - t).norm() / t.norm().clamp_min(1e-30))


def difference(a, e, t, tolerance):
    """What is wrong with `a`, or None: eager has `e`, fp64 has `t`."""
    if a.shape != e.shape or a.dtype != e.dtype:
        return f"{a.dtype} {tuple(a.shape)}, not {e.dtype} {tuple(e.shape)}"
    if not e.is_floating_point():
        return None if torch.equal(a, e) else f"{int((a != e).sum())} of {a.numel()} integers differ"
    a, e, t = a.double(), e.double(), t.double()
    if not torch.equal(a.isfinite(), e.isfinite()):
        return "finite elsewhere"
    both = e.isfinite() & t.isfinite()
    a, e, t = a[both], e[both], t[both]
    floor = 1e-9 * a.numel() ** 0.5  # what is left of differences of equal numbers
    if not a.numel() or float((a - e).norm()) <= max(1e-5 * float(e.norm()), floor):
        return None
    if distance(a, t) > (tolerance or 10 * distance(e, t) + 2e-5):
        return f"error {distance(a, t):.3g}, eager {distance(e, t):.3g}"
    most = float((a - t).abs().max())
    if not tolerance and most > 20 * float((e - t).abs().max()) + 1e-4 * float(t.abs().max()):
        return f"an error of {most:.3g}, eager {float((e - t).abs().max()):.3g}"
    return None


def export(m, net, path):
    """The exported program's module, and whether its dims begin at 2 (Dim.AUTO)."""
    named, auto = m.dims(lambda s, lo, hi: torch.export.Dim(s, min=lo, max=hi)), m.dims(lambda s, lo, hi: torch.export.Dim.AUTO(min=lo, max=hi))
    for dims in (named, auto):
        try:
            with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                ep = torch.export.export(net, tuple(m.arguments(0)), dynamic_shapes=dims, strict=False)
                torch.export.save(ep, path)
                return ep.module(), dims is auto
        except Exception:  # not with these dims
            continue
    return None, False


class Doubles(torch.utils._python_dispatch.TorchDispatchMode):
    """What a net itself casts to float32, or makes in it, is float64."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        return op(*args, **{k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()})


def in_doubles(net, arguments):
    torch.set_default_dtype(torch.float64)
    try:
        with Doubles():
            return copy.deepcopy(net).double()(*[a.double() if a.is_floating_point() else a for a in arguments])
    finally:
        torch.set_default_dtype(torch.float32)


def sets(m, net, exported, auto):
    """For each set of sizes that the exported program takes as eager does: its number, eager's and fp64's results."""
    out = []
    for k, sizes in enumerate(m.sizes):
        if auto and any(sizes[s] < 2 for s in m.moving):
            continue
        want = net(*m.arguments(k))
        try:
            got = exported(*m.arguments(k))
        except Exception:  # its guards, or views of other strides than eager has
            continue
        if all(difference(g, w, w, 1e-3) is None for g, w in zip(got, want)):
            out.append((k, want, in_doubles(net, m.arguments(k))))
    return out


def one(seed, o, work, tolerance):
    """(verdict, why, the net)."""
    m = make(seed)
    if not m.lines:
        return "empty", "", m
    net, path, so = m.net(), os.path.join(work, f"{seed}.pt2"), os.path.join(work, f"{seed}.so")
    exported, auto = export(m, net, path)
    if not exported:
        return "not exported", "", m
    with torch.no_grad():
        taken = sets(m, net, exported, auto)
    code, text = packs.aotc(o.aotc, "build", path, "-o", so, "-q", "-j", "1", *o.flags.split())
    if code:
        return ("refused" if code == 4 else "build failed"), text[:900], m
    results, code, why = packs.run_calls(o.runner, so, [m.arguments(k) for k, _, _ in taken], work)
    faults = [f"died at {m.sizes[taken[len(results)][0]]}: {code} {why}"] if len(results) < len(taken) else []
    for (k, want, truth), result in zip(taken, results):
        if result.status:
            faults.append(f"refuses {m.sizes[k]}: {result.text[:300]}")
            continue
        for name, (_, a), e, t in zip(m.outputs, result.runs[0]["outputs"], want, truth):
            wrong = difference(a, e, t, tolerance)
            if wrong:
                faults.append(f"{name} at {m.sizes[k]}: {wrong}")
    if not faults:
        for f in os.listdir(work):
            os.unlink(os.path.join(work, f))
    return ("wrong" if faults else "correct"), "; ".join(faults)[:1500], m


def main():
    parser = argparse.ArgumentParser()
    for option in ("--aotc", "--runner", "--work", "--seeds"):
        parser.add_argument(option, required=True)
    parser.add_argument("--flags", default="")
    parser.add_argument("--thirds", action="store_true", help="of the seeds the third that the commit takes (tests/thirds.py)")
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False  # its kernels of recurrences have no double
    tolerance = 6e-2 if "bf16" in o.flags or "int8" in o.flags else 0
    shutil.rmtree(o.work, ignore_errors=True)
    counts = {}
    first, last = map(int, o.seeds.split(":"))
    if o.thirds:
        first, last = thirds.seeds(first, last, "random nets")
    for seed in range(first, last):
        work = os.path.join(o.work, str(seed))
        os.makedirs(work)
        verdict, why, m = one(seed, o, work, tolerance)
        counts[verdict] = counts.get(verdict, 0) + 1
        if verdict in ("wrong", "refused", "build failed"):
            print(f"{verdict}: seed {seed}: {why}\n  inputs {m.inputs}\n  " + "\n  ".join(m.lines) + f"\n  outputs {m.outputs}", flush=True)
    print(", ".join(f"{n} {k}" for k, n in sorted(counts.items())))
    return 1 if counts.get("wrong") or counts.get("build failed") else 0


if __name__ == "__main__":
    sys.exit(main())
