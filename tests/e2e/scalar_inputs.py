"""Python numbers as inputs of a model, beside ep.module(): integers that torch.export keeps symbolic are inputs (int64, rank 0) with the archive's
range, and constants are told of.

    scalar_inputs.py --aotc BIN --work DIR
"""
import json
import os
import subprocess
import sys
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(HERE, "..", "gpu")]
import arguments
import binding
from run_exact import Session, equal

DYNAMIC = torch.export.Dim.DYNAMIC
X = torch.arange(12.0).reshape(4, 3)


class Net(torch.nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.run = forward

    def forward(self, x, n):
        return self.run(x, n)


class Two(torch.nn.Module):
    def forward(self, n, x, k):
        return x[:, : x.shape[1]] * n - k, torch.full((2,), 1.0) * (n + k)


class Fixed(torch.nn.Module):
    def forward(self, x, n, scale, flag, name=None):
        y = x * scale + n
        return y if flag else -y


def bounded(x, n):
    torch._check(n <= 9)
    return torch.zeros(n) + x.sum(), x * n


NUMBERS = (-3, -1, 0, 1, 2, 3, 4, 5, 9, 10, 1 << 40)
# (model, example, dynamic shapes, calls)
CASES = {
    "factor": (Net(lambda x, n: x * n), (X, 3), (None, DYNAMIC), [(X, n) for n in NUMBERS]),
    "sum": (Net(lambda x, n: x.sum() * n + n // 2), (X, 3), (None, DYNAMIC), [(X, n) for n in NUMBERS]),
    "length": (Net(lambda x, n: x.narrow(0, 0, n)), (X, 3), (None, DYNAMIC), [(X, n) for n in NUMBERS]),
    "place": (Net(lambda x, n: x.select(0, n)), (X, 3), (None, DYNAMIC), [(X, n) for n in NUMBERS]),
    "bounded": (Net(bounded), (X, 3), (None, DYNAMIC), [(X, n) for n in NUMBERS]),
    "multiple": (Net(lambda x, n: (x + 1 if n % 3 == 0 else x) * n), (X, 3), (None, DYNAMIC), [(X, n) for n in NUMBERS]),
    "length that is a multiple": (Net(lambda x, n: (x[:n] if n % 2 == 0 else x) * n), (X, 2), (None, DYNAMIC), [(X, n) for n in NUMBERS]),
    "beside a size": (Net(lambda x, n: x * n + x.shape[0]), (X, 4), ({0: DYNAMIC}, DYNAMIC), [(X, 4), (X, 7), (X[:2], 0), (X[:3], -2)]),
    "two": (Two(), (3, X, 5), (DYNAMIC, {0: DYNAMIC}, DYNAMIC), [(3, X, 5), (5, X[:2], 3), (0, X[:3], -4)]),
}


def aotc(o, *words, code=0):
    r = subprocess.run([o.aotc, *words], capture_output=True, text=True)
    if r.returncode != code:
        raise AssertionError(f"aotc {' '.join(words)}: exit {r.returncode}\n{r.stdout}{r.stderr}"[:3000])
    return r.stdout + r.stderr


def saved(o, name, model, example, shapes=None):
    path = os.path.join(o.work, name.replace(" ", "_") + ".pt2")
    torch.export.save(torch.export.export(model, example, dynamic_shapes=shapes), path)
    return path


def check(o, name):
    model, example, shapes, calls = CASES[name]
    pt2 = saved(o, name, model, example, shapes)
    so = pt2[:-4] + ".so"
    aotc(o, "build", pt2, "-o", so, "--quiet")
    module = torch.export.load(pt2).module()
    session, taken = Session(so), 0
    for call in calls:
        try:
            want = module(*call)
            want = list(want) if isinstance(want, tuple) else [want]
        except Exception:
            want = None
        try:
            got = session([torch.tensor(v) if isinstance(v, int) else v.contiguous() for v in call])
        except binding.Failure as e:
            got, why = None, str(e)
        numbers = [v for v in call if isinstance(v, int)]
        if want is None:
            assert got is None, f"{numbers}: the archive refuses, the artifact does not"
            continue
        assert got is not None, f"{numbers}: {why}"
        taken += 1
        for g, w in zip(got, want):
            g = g[tuple(slice(n) for n in w.shape)]  # what a run finds the sizes of is as large as it can be
            assert g.shape == w.shape and g.dtype == w.dtype and bool(equal(g, w).all()), f"{numbers}: {g} for {w}"
    session.close()
    assert taken, "no call was right"
    aotc(o, "verify", so, "--against", pt2)
    return taken


def constants(o):
    pt2 = saved(o, "fixed", Fixed(), (X, 3, 0.5, True, "hi"))
    told = aotc(o, "inspect", pt2)
    for text in ("n = 3", "scale = 0.5", "flag = True", 'name = "hi"'):
        assert any(line.startswith("fixed") and text in line for line in told.splitlines()), told
    fixed = json.loads(aotc(o, "inspect", pt2, "--json"))["fixed"]
    assert [f["name"] for f in fixed] == ["n", "scale", "flag", "name"], fixed
    so = pt2[:-4] + ".so"
    aotc(o, "build", pt2, "-o", so, "--quiet")
    session = Session(so)
    assert bool((session([X])[0] == X * 0.5 + 3).all())
    session.close()


def unbounded(o):
    """A size that nothing bounds is refused with what to state."""
    pt2 = saved(o, "unbounded", Net(lambda x, n: torch.zeros(n) + x.sum()), (X, 3), (None, DYNAMIC))
    told = aotc(o, "build", pt2, "-o", pt2[:-4] + ".so", "--quiet", code=4)
    assert "n_value" in told and "torch._check(n <= 64)" in told, told


def main():
    o = arguments.parse()
    failed = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, run in [*((n, lambda o, n=n: check(o, n)) for n in CASES), ("constants", constants), ("unbounded", unbounded)]:
            try:
                run(o)
                print("ok  ", name, flush=True)
            except Exception as e:
                failed += 1
                print("FAIL", name, f"{type(e).__name__}: {e}"[:2000], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
