"""Artifacts whose kernels have large tables and panels run on a thread with the stack that runtime/README.md promises to be enough, and no
function of them has a frame above 16 KB.

    small_stack.py --aotc BIN --check ARTIFACT_CHECK --gate LINK_GATE.SH --work DIR
"""
import argparse
import os
import subprocess
import sys
import warnings

import torch
import torch.nn as nn

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import thirds


def linear(n, dtype):
    return nn.Sequential(nn.Linear(n, 300), nn.GELU(), nn.Linear(300, 70)).to(dtype), torch.randn(40, n, dtype=dtype)


class Of(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *x):
        return self.fn(*x)


def models():
    conv = nn.Conv2d(8, 40, 3, padding=1, stride=2)
    x = torch.randn(2, 8, 19, 19)
    yield "conv", conv, (x,)
    yield "conv_bf16", nn.Conv2d(8, 40, 3, padding=1).bfloat16(), (x.bfloat16(),)
    yield "conv_f16", nn.Conv2d(8, 40, 3, padding=1).half(), (x.half(),)
    yield "conv_f64", nn.Conv2d(8, 40, 3, padding=1).double(), (x.double(),)
    yield "conv_wide", nn.Conv1d(6, 12, 70, groups=3, padding=35), (torch.randn(5, 6, 9),)  # more pieces times taps than tables have room for
    yield "conv_narrow", nn.Conv2d(4, 9, (40, 40)), (torch.randn(33, 4, 40, 40),)
    yield "conv_volume", nn.Conv3d(3, 10, (5, 4, 3), stride=(2, 1, 3), padding=1), (torch.randn(2, 3, 9, 8, 7),)
    yield "conv_transposed", nn.ConvTranspose2d(6, 20, 3, stride=2, padding=1), (torch.randn(2, 6, 11, 13),)
    yield "conv_made", Of(lambda x, w: nn.functional.conv2d(x, w, padding=2)), (x, torch.randn(24, 8, 5, 5))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        net, rows = linear(500, dtype)
        yield f"linear_{str(dtype)[6:]}", net, (rows,)
    square = torch.randn(3, 90, 90, dtype=torch.float64)
    small = torch.randn(11, 14, 14)
    for name, a in (("large", square), ("small", small)):
        yield f"svd_{name}", Of(torch.linalg.svdvals), (a,)
        yield f"lu_{name}", Of(torch.linalg.inv), (a,)
        yield f"cholesky_{name}", Of(lambda a: torch.linalg.cholesky(a @ a.mT + 90 * torch.eye(a.shape[-1], dtype=a.dtype))), (a,)
    yield "attention", Of(nn.functional.scaled_dot_product_attention), tuple(torch.randn(1, 4, 70, 32) for _ in range(3))
    yield "lstm", nn.LSTM(20, 30), (torch.randn(80, 3, 20),)
    yield "sort", Of(lambda x: tuple(torch.sort(x, -1))), (torch.randn(5, 3000),)
    yield "fft", Of(lambda x: torch.fft.rfft(x).abs()), (torch.randn(9, 1024),)


def main():
    p = argparse.ArgumentParser()
    for name in ("aotc", "check", "gate", "work"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--only", default="")
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    torch.manual_seed(0)
    failed = 0
    made = {name: what for name, *what in models()}
    for name in [n for n in made if o.only in n] if o.only else thirds.some(made, "models on a small stack"):
        module, inputs = made[name]
        pt2, so = (os.path.join(o.work, name + end) for end in (".pt2", ".so"))
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.export.save(torch.export.export(module.eval(), inputs), pt2)
        subprocess.run([o.aotc, "build", pt2, "-o", so, "--quiet"], check=True)
        gate = subprocess.run([o.gate, so], capture_output=True, text=True)
        check = subprocess.run([o.check, so, "--runs", "1"], capture_output=True, text=True)
        good = gate.returncode == 0 and check.returncode == 0 and "a stack of 64 KB" in check.stdout
        print("ok  " if good else "FAIL", name, "" if good else f"exit {check.returncode}\n{gate.stderr}{check.stdout}{check.stderr}", flush=True)
        failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
