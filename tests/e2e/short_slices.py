"""Slices of a dim that may be shorter than they are long (Dim with min=0), of which torch.export says that they have their whole length: at every size
the artifact gives what ep.module() gives, or it refuses the size and the build has warned of that.

    short_slices.py --aotc BIN --work DIR
"""
import os
import subprocess
import sys
import warnings

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(HERE, "..", "gpu")]
import arguments
import binding
from run_exact import Session

SIZES = (0, 1, 2, 3, 6, 64)
W = torch.arange(15.0).reshape(5, 3)
# Taken at every size that ep.module() takes.
WHOLE = {
    "x[:1]": lambda x: x[:1] * 2, "x[:2]": lambda x: x[:2] + 1, "x[-1:]": lambda x: x[-1:] * 2, "the last": lambda x: x[x.shape[0] - 1 :] * 2,
    "sum": lambda x: x[:1].sum(0), "sum of two": lambda x: x[:2].sum(0), "mean": lambda x: x[:2].mean(0), "cat": lambda x: torch.cat([x[:1], x]),
    "gelu and cat": lambda x: torch.cat([F.gelu(x[:2]) * 2, x]), "softmax": lambda x: x[:2].softmax(1), "of columns": lambda x: x.t()[:, :2] * 3,
    "linear": lambda x: F.linear(x[:1], W), "sum that keeps the dim": lambda x: x[:1].neg().sum(0, keepdim=True),
}
# Taken where the slice is whole; the build says so.
PARTLY = {
    "beside the whole": lambda x: x - x[:1], "flip": lambda x: x[:2].flip(0) + 1, "written": lambda x: (lambda y: (y[:1].add_(5), y)[1])(x.clone()),
    "another slice": lambda x: x[:2] + x[:1], "reshape": lambda x: x[:1].reshape(-1) * 2, "ones_like": lambda x: torch.ones_like(x[:1]),
    "select": lambda x: x[0] * 2, "the last one": lambda x: x[-1] * 2, "narrow": lambda x: x.narrow(0, 0, 1) * 2, "narrow of the last": lambda x: x.narrow(0, -1, 1) * 2,
}


class Net(torch.nn.Module):
    def __init__(self, run):
        super().__init__()
        self.run = run

    def forward(self, x):
        return self.run(x)


def check(o, k, f, whole):
    pt2 = os.path.join(o.work, f"{'whole' if whole else 'partly'}{k}.pt2")
    ep = torch.export.export(Net(f), (torch.randn(6, 3),), dynamic_shapes=({0: torch.export.Dim("b", min=0, max=64)},))
    torch.export.save(ep, pt2)
    so = pt2[:-4] + ".so"
    r = subprocess.run([o.aotc, "build", pt2, "-o", so], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr[:2000]
    warned = "the archive takes 0 to 64" in r.stderr
    module, session, taken, refused = torch.export.load(pt2).module(), Session(so), 0, []
    for n in SIZES:
        x = torch.randn(n, 3)
        try:
            want = module(x.clone())
        except Exception:
            want = None
        try:
            got = session([x])[0]
        except binding.Failure:
            got = None
        if got is None and want is not None:
            refused.append(n)
        if got is None:
            continue
        assert want is not None, f"{n}: the archive refuses, the artifact does not"
        assert got.shape == want.shape and torch.allclose(got, want, rtol=1e-5, atol=1e-5, equal_nan=True), f"{n}: {got} for {want}"
        taken += 1
    session.close()
    assert taken > 2, f"taken at {taken} sizes"
    assert not refused or (not whole and warned), f"refused at {refused}" + (", without a warning" if not warned else "")


def main():
    o = arguments.parse()
    torch.manual_seed(1)
    failed = 0
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for cases, whole in ((WHOLE, True), (PARTLY, False)):
            for k, (name, f) in enumerate(cases.items()):
                try:
                    check(o, k, f, whole)
                    print("ok  ", name, flush=True)
                except Exception as e:
                    failed += 1
                    print("FAIL", name, f"{type(e).__name__}: {e}"[:1500], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
