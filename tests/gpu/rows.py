"""Models of the size that decides: builds each with several compilers and modes, checks it by the rule of run_cases.py and times all of them in
turns, as graphs, beside eager PyTorch replayed as a graph. Needs a GPU, torch with CUDA, NVRTC.

    rows.py --work DIR --build old=BIN --build tuned=BIN,--mode,max-autotune [--json FILE] [name ...]
"""
import argparse
import copy
import json
import os
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import cases
import make_cases
import run_cases
from binding import Cuda

R = torch.randn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(768), nn.Linear(768, 3072), nn.Linear(3072, 768)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


def mlp(dtype):
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1024)).to(dtype)


class Product(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(R(n, n).bfloat16() / n**0.5)

    def forward(self, x):
        return x @ self.w


class Gelu(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.fc = nn.Linear(k, n)

    def forward(self, x):
        return F.gelu(self.fc(x))


class Residual(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.fc = nn.Linear(k, n)

    def forward(self, x, r):
        return self.fc(x) + r


def bf16(module, *shapes):
    return lambda: (module().bfloat16(), [tuple(R(*s).bfloat16() for s in shapes)], None)


ROWS = {
    "mlp_f32_b32": lambda: (mlp(torch.float32), [(R(32, 1024),)], None),
    "mlp_tf32_b32": lambda: (mlp(torch.float32), [(R(32, 1024),)], None),
    "mlp_f16_b32": lambda: (mlp(torch.float16), [(R(32, 1024).half(),)], None),
    "block_f16_4096": lambda: (Block().half(), [(R(32, 128, 768).half(),)], None),
    **{f"product_bf16_{n}": lambda n=n: (Product(n), [(R(n, n).bfloat16(),)], None) for n in (1024, 2048, 4096)},
    "gelu_bf16_4096x3072x768": bf16(lambda: Gelu(768, 3072), (4096, 768)),
    "linear_bf16_4096x2304x768": bf16(lambda: nn.Linear(768, 2304), (4096, 768)),
    "residual_bf16_4096x768x3072": bf16(lambda: Residual(3072, 768), (4096, 3072), (4096, 768)),
    "residual_bf16_4096x768x768": bf16(lambda: Residual(768, 768), (4096, 768), (4096, 768)),
    "gelu_bf16_128x3072x768": bf16(lambda: Gelu(768, 3072), (128, 768)),
    "residual_bf16_128x768x3072": bf16(lambda: Residual(3072, 768), (128, 3072), (128, 768)),
    "softmax_norm_f16": lambda: (cases.Fn(lambda x: F.layer_norm(torch.softmax(x / 8, -1) + x, (4096,))), [(R(4096, 4096).half(),)], None),
}


# Built with other options, and compared with eager as it then is.
cases.OPTIONS["mlp_tf32_b32"], cases.REDUCED["mlp_tf32_b32"] = ["--f32-matmul", "high"], torch.bfloat16


def eager_us(name):
    """Microseconds of eager PyTorch as a graph."""
    torch.backends.cuda.matmul.allow_tf32 = name in cases.OPTIONS
    torch.manual_seed(1)
    module, samples, _ = ROWS[name]()
    module = module.eval().cuda()
    args = [a.cuda() for a in samples[0]]
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            module(*args)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            module(*args)
        times = []
        for _ in range(5):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(stream)
            for _ in range(200):
                graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / 200)
    return sorted(times)[2]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--work", required=True)
    p.add_argument("--build", action="append", required=True, help="label=path of aotc[,option...]")
    p.add_argument("--json")
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    cases.CASES.update(ROWS)
    builds = [(b.split("=", 1)[0], b.split("=", 1)[1].split(",")) for b in o.build]
    cuda, results = Cuda(), {}
    for name in o.names or ROWS:
        row, built = {"eager graph": eager_us(name)}, []
        for label, command in builds:
            out = os.path.join(o.work, label)
            os.makedirs(out, exist_ok=True)
            path = os.path.join(out, name)

            def build(_, path):
                r = subprocess.run([command[0], "build", path + ".pt2", "--cuda", "sm_90a", "-o", path + ".so", "--quiet"] + cases.OPTIONS.get(name, []) + command[1:],
                                   capture_output=True, text=True)
                if r.returncode:
                    raise RuntimeError(f"exit {r.returncode}: {r.stderr.strip()[:800]}")

            make_cases.build = build
            begin = time.time()
            try:
                make_cases.make(argparse.Namespace(out=out, aotc=command[0], sm="sm_90a"), name)
                case = run_cases.Case(path, cuda, argparse.Namespace(once=False, time=False))
                row[label + " error"] = round(case.check(), 3)
                row[label + " build s"] = round(time.time() - begin, 1)
                built.append((label, case))
            except Exception as e:
                row[label] = f"{type(e).__name__}: {str(e)[:500]}"
        times = {label: [] for label, _ in built}
        for _ in range(3):
            for label, case in built:
                times[label].append(case.time(100)[1])
        for label, t in times.items():
            row[label] = round(min(t), 2)
        row["eager graph"] = round(min(row["eager graph"], eager_us(name)), 2)
        results[name] = row
        print(name, json.dumps(row), flush=True)
    if o.json:
        json.dump(results, open(o.json, "w"), indent=1)


if __name__ == "__main__":
    main()
