"""Row operations beside eager and a copy: python row_ops.py --aotc BIN --work DIR [--threads 1] [--seconds 0.4] [--rounds 3] [--prefix "taskset -c 1"] [NAME ...]

Needs torch. Sums, norms, scans, selections, transpositions, concatenations and casts of tensors in L2, in L3 and far beyond it. For each: the least time
of a call in microseconds, the bytes that go in and out by that time, eager's least time (`aotc bench --against`) over it, and of that a copy of as many bytes by
torch into a tensor that is there already. NAME is a part of a row's name.
"""
import argparse
import json
import os
import shlex
import subprocess
import time

import torch

SIZES = {"l2": (128, 512), "l3": (1024, 1024), "far": (4096, 4096)}
OPS = {
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax_0": lambda x: torch.softmax(x, 0),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:], None, None),
    "rms_norm": lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:], None, 1e-6),
    "sum": lambda x: x.sum(-1),
    "sum_0": lambda x: x.sum(0),
    "sum_all": lambda x: x.sum(),
    "sum_middle": lambda x: x.view(x.shape[0] // 32, 32, -1).sum(1),
    "max": lambda x: x.amax(-1),
    "max_0": lambda x: x.amax(0),
    "var": lambda x: x.var(-1),
    "argmax": lambda x: x.argmax(-1),
    "argmax_0": lambda x: x.argmax(0),
    "cumsum": lambda x: x.cumsum(-1),
    "cumsum_0": lambda x: x.cumsum(0),
    "transpose": lambda x: x.t().contiguous(),
    "heads": lambda x: x.view(x.shape[0] // 16, 16, -1, 64).transpose(1, 2).contiguous(),
    "channels_last": lambda x: x.view(x.shape[0] // 32, 32, -1).transpose(1, 2).contiguous(),
    "interleave": lambda x: x.view(x.shape[0], -1, 2).transpose(1, 2).contiguous(),
    "cat": lambda x: torch.cat([x[:, ::1] * 2, x], -1),
    "cat_0": lambda x: torch.cat([x, x], 0),
    "copy": lambda x: x + 1,
    "gelu": lambda x: torch.nn.functional.gelu(x),
    "flip": lambda x: x.flip(-1),
    "other_type": lambda x: x.to(torch.bfloat16 if x.dtype == torch.float32 else torch.float32),
    "to_int8": lambda x: (x * 10).to(torch.int8),
    "to_int64": lambda x: (x * 10).to(torch.int64),
    "greater": lambda x: x > 0,
}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Net(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x):
        return self.op(x)


def copy_us(n_bytes, seconds):
    """The least time of a copy that reads half of the bytes and writes the others."""
    a, b = torch.ones(max(64, n_bytes // 2), dtype=torch.int8), torch.ones(max(64, n_bytes // 2), dtype=torch.int8)
    best, end = 1e30, time.time() + seconds
    while time.time() < end:
        start = time.perf_counter()
        b.copy_(a)
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seconds", type=float, default=0.4)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--prefix", default="")
    p.add_argument("--copy", type=int, help=argparse.SUPPRESS)  # the worker: bytes, microseconds on stdout
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    if o.copy is not None:
        print(copy_us(o.copy, o.seconds))
        return
    os.makedirs(o.work, exist_ok=True)
    prefix, copies = shlex.split(o.prefix), {}
    run = lambda command: subprocess.run(prefix + command, check=True, capture_output=True, text=True).stdout
    for size, (m, n) in SIZES.items():
        for op, f in OPS.items():
            for t, dtype in TYPES.items():
                name = f"{op}.{t}.{size}"
                if o.names and not any(part in name for part in o.names):
                    continue
                torch.manual_seed(0)
                x = torch.randn(m, n).to(dtype)
                archive, artifact = os.path.join(o.work, name + ".pt2"), os.path.join(o.work, name + ".so")
                if not os.path.exists(archive):
                    torch.export.save(torch.export.export(Net(f), (x,)), archive)
                subprocess.run([o.aotc, "build", archive, "-o", artifact, "--threads", str(o.threads), "--quiet"], check=True)
                y = f(x)
                moved = x.numel() * x.element_size() + y.numel() * y.element_size()
                best, eager = 1e30, 1e30
                for _ in range(o.rounds):
                    bench = [o.aotc, "bench", artifact, "--against", archive, "--threads", str(o.threads), "--seconds", str(o.seconds), "--json"]
                    j = json.loads(run(bench))
                    best, eager = min(best, j["min_us"]), min(eager, j["eager"]["min_us"])
                if moved not in copies:
                    worker = [os.sys.executable, __file__, "--aotc", "-", "--work", "-", "--threads", str(o.threads), "--seconds", str(o.seconds), "--copy", str(moved)]
                    copies[moved] = float(run(worker))
                print(f"{name:24} {best:9.1f} us {moved / best / 1e3:7.1f} GB/s  eager/aotc {eager / best:5.2f}  copy/aotc {copies[moved] / best:5.2f}", flush=True)


if __name__ == "__main__":
    main()
