"""What verify says of artifacts that are right and of such that are not: artifacts of one program beside the archive of another.

    verdicts.py --aotc BIN --work DIR
"""
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import arguments
import thirds


class Fn(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


class Tool:
    def __init__(self, o):
        self.o = o

    def at(self, *names):
        return os.path.join(self.o.work, *names)

    def run(self, *words):
        return subprocess.run([self.o.aotc, *words], capture_output=True, text=True, timeout=300)

    def built(self, name, f, *args, dims=None, example=True):
        pt2, so = self.at(name + ".pt2"), self.at(name + ".so")
        program = torch.export.export(Fn(f), args, dynamic_shapes=(dims,) if dims else None, strict=False)
        if not example:
            program.example_inputs = None
        torch.export.save(program, pt2)
        r = self.run("build", pt2, "-o", so, "--quiet")
        assert r.returncode == 0, r.stderr
        return so, pt2

    def verdict(self, so, pt2, *words):
        """Whether it passes, and the rows; the program beside it may be another."""
        r = self.run("verify", so, "--against", pt2, "--json", *words)
        assert r.returncode in (0, 1), r.stderr
        told = json.loads(r.stdout)
        assert told["pass"] == (r.returncode == 0)
        return told["pass"], told["outputs"]


def overflow(t, dtype, factor):
    """Where eager is infinite or NaN, an artifact is right that has what fp64 or eager has, and none that has anything else."""
    x = torch.randn(4, 8).to(dtype).abs() + 1
    cases = {"beyond": lambda x: x * factor * factor, "back": lambda x: x * factor * factor / factor / factor,
             "none": lambda x: x * factor * factor - x * factor * factor,
             "partly": lambda x: torch.cat([x[:2] * factor * factor, x[2:]])}
    others = {"seven": lambda x: torch.full_like(x, 7), "infinite": lambda x: torch.full_like(x, -float("inf")), "nan": lambda x: x * float("nan")}
    made = {n: t.built(f"{n}_{dtype}", f, x) for n, f in {**cases, **others}.items()}
    for name in cases:
        passed, rows = t.verdict(*made[name])
        assert passed and all(r["limit"] < 1 for r in rows), (name, dtype, rows)
        for other in others:
            if (name, other) == ("none", "nan"):
                continue  # what eager has
            passed, rows = t.verdict(made[other][0], made[name][1])
            assert not passed, f"{other} passes for {name} in {dtype}: {rows}"
    print("ok   where eager overflows", dtype)


def assertions(t):
    """Inputs are drawn again where the model refuses them: by its own assertions, by indices out of range."""
    def checked(x):
        torch._check(x.min().item() > 0.5)
        return x.log()

    def between(i):
        torch._check((i >= 1000).all().item())
        torch._check((i < 1004).all().item())
        return i * 2.0

    def never(x):
        torch._check((x[0] == 123.25).item())
        return x + 1

    def levels(x):
        """An image's histogram: numbers outside of 0 to 1 are indices out of range."""
        return torch.zeros(256).scatter_add(0, (x * 255).long().flatten(), torch.ones(x.numel()))

    n = torch.export.Dim("n", min=1, max=30)
    for name, f, x in (("checked", checked, torch.rand(4, 6) + 1), ("between", between, torch.randint(1000, 1004, (9,))), ("levels", levels, torch.rand(4, 6))):
        for dims in (None, ({0: n},)):
            so, pt2 = t.built(f"{name}_{bool(dims)}", f, x, dims=dims, example=False)
            passed, rows = t.verdict(so, pt2)
            assert passed and len(rows) == 3, rows
    x = torch.full((5,), 123.25)
    so, pt2 = t.built("never", never, x, dims=({0: n},))
    r = t.run("verify", so, "--against", pt2)
    assert r.returncode == 1 and "random sets of inputs" in r.stderr and "--inputs DIR" in r.stderr, r.stderr
    folder = t.at("files")
    shutil.rmtree(folder, ignore_errors=True)
    name = json.loads(t.run("inspect", so, "--json").stdout)["inputs"][0]["name"]
    for part in ("a", "b"):
        os.makedirs(os.path.join(folder, part))
        np.save(os.path.join(folder, part, name + ".npy"), np.full((7 if part == "a" else 2,), 123.25, np.float32))
    passed, rows = t.verdict(so, pt2, "--inputs", folder)
    assert passed and len(rows) == 2, rows
    passed, rows = t.verdict(so, pt2, "--inputs", os.path.join(folder, "a"))
    assert passed and len(rows) == 1, rows
    np.save(os.path.join(folder, "b", name + ".npy"), np.zeros(2, np.float32))
    r = t.run("verify", so, "--against", pt2, "--inputs", folder)
    assert r.returncode == 1 and "the model refuses" in r.stderr, r.stderr
    r = t.run("verify", so, "--against", pt2, "--inputs", t.at("absent"))
    assert r.returncode == 6, r.stderr
    print("ok   inputs that the model refuses")


def examples(t):
    """The archive's own example inputs are among the samples, at their own sizes."""
    n = torch.export.Dim("n", min=2, max=100)
    so, pt2 = t.built("example", lambda x: x.sin(), torch.randn(17, 3), dims=({0: n},))
    passed, rows = t.verdict(so, pt2, "--samples", "2")
    assert passed and [r["sizes"].split("=")[-1] for r in rows] == ["the archive's example inputs", "2", "100"], rows
    print("ok   example inputs")


def main():
    o = arguments.parse()
    torch.manual_seed(3)
    t = Tool(o)
    tests = {"overflow of float16": lambda: overflow(t, torch.float16, 300.0), "overflow of bfloat16": lambda: overflow(t, torch.bfloat16, 1e25),
             "overflow of float32": lambda: overflow(t, torch.float32, 1e25), "assertions": lambda: assertions(t), "examples": lambda: examples(t)}
    for name in thirds.some(tests, "tests of verdicts"):
        tests[name]()


main()
