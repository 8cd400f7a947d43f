"""The bytes of an artifact for a named target are the same whatever machine builds it: on one processor, on two, and on one whose C library does
not know its vector instructions. With --cpu native they follow the processors. Exits with 77 (skipped) on a machine of one processor.

    same_bytes.py --aotc BIN --work DIR --fake-nvrtc LIBRARY
"""
import argparse
import os
import subprocess
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

TARGETS = {
    "portable": ["--cpu", "portable"],
    "bf16": ["--cpu", "amx"],
    "int8": ["--cpu", "avx2", "--weights", "int8"],
    "gpu": ["--cpu", "avx512", "--cuda", "sm_80,sm_90a"],
}


class Net(nn.Module):
    """Of what choices depend on: convolutions, products of few and of many rows, attention, long rows; and constants that are computed."""

    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 64, 1))
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.wide, self.narrow = nn.Linear(64, 1000), nn.Linear(1000, 10)

    def forward(self, image):
        x = self.convs(image).flatten(2).transpose(1, 2)
        place = torch.arange(x.shape[1], dtype=torch.float32)[:, None] * torch.exp(torch.arange(64.0) * -0.173)
        x = x + torch.sin(place) * torch.tanh(place * 0.01) + torch.log1p(place).pow(0.3)
        x = x + self.attention(x, x, x)[0]
        return self.narrow(F.gelu(self.wide(x))).softmax(-1).mean(1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--fake-nvrtc", required=True)
    o = p.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        print("same_bytes: not run here: a second processor")
        sys.exit(77)
    os.makedirs(o.work, exist_ok=True)
    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Net().eval(), (torch.randn(1, 3, 24, 24),)), os.path.join(o.work, "net.pt2"))

    def build(where, processors, options, settings={}):
        folder = os.path.join(o.work, where)
        os.makedirs(folder, exist_ok=True)
        env = {**os.environ, "AOTC_NVRTC": o.fake_nvrtc, "XDG_CACHE_HOME": os.path.join(folder, "cache"), **settings}
        subprocess.run([o.aotc, "build", os.path.join(o.work, "net.pt2"), "-o", os.path.join(folder, "net.so"), "--quiet", *options], check=True,
                       env=env, preexec_fn=lambda: os.sched_setaffinity(0, processors))
        return open(os.path.join(folder, "net.so"), "rb").read()

    plain_libm = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"}
    for name, options in TARGETS.items():
        two = build("two", cpus[:2], options)
        assert build("one", cpus[:1], options) == two, f"{name}: other bytes on one processor"
        assert build("plain", cpus[:1], options, plain_libm) == two, f"{name}: other bytes where the C library has no vector instructions"
        print("ok  ", name, flush=True)
    assert build("one", cpus[:1], ["--cpu", "native"]) != build("two", cpus[:2], ["--cpu", "native"]), "native: the processors do not count"
    print("ok   native")


main()
