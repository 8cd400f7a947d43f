"""bench --profile and --trace of a GPU artifact list kernels as CUPTI tells them: on the emulated GPU (tests/cuda) beside a stand-in for
libcupti that tells of each launch. Exits with 77 (skipped) where NVRTC is not installed.

    gpu_kernels.py --aotc BIN --device BIN --driver DIR_OF_LIBCUDA --cupti FILE --work DIR --cxx BIN
"""
import argparse
import json
import os
import subprocess
import sys

import torch
from torch import nn

here = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [here, os.path.join(os.path.dirname(here), "gpu")]
import emulate
import run_models

EVERY_US, US = 3, 2  # fake_cupti.c


def main():
    p = argparse.ArgumentParser()
    for name in ("aotc", "device", "driver", "cupti", "work", "cxx"):
        p.add_argument("--" + name, required=True)
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    pt2, so, trace = (os.path.join(o.work, name) for name in ("net.pt2", "net.so", "trace.json"))
    net = nn.Sequential(nn.Linear(24, 40), nn.LayerNorm(40), nn.GELU(), nn.Linear(40, 8), nn.Softmax(-1)).eval()
    torch.export.save(torch.export.export(net, (torch.randn(3, 24),)), pt2)
    env = dict(os.environ, VIRTUAL_ENV=os.environ.get("VIRTUAL_ENV", sys.prefix))
    r = subprocess.run([o.aotc, "build", pt2, "-o", so, "--cuda", "sm_90", "--keep", so + ".keep", "--quiet"], capture_output=True, text=True, env=env)
    if "NVRTC was not found" in r.stderr:
        sys.exit(77)
    assert r.returncode == 0, r.stderr
    emulate.compile_host(os.path.join(so + ".keep", "kernels.cu"), so + ".host", so + ".host.so", o.cxx)

    def bench(program, *words, cupti=o.cupti):
        where = dict(env, LD_LIBRARY_PATH=o.driver, AOTC_EMULATED_KERNELS=so + ".host.so", AOTC_CUPTI=cupti)
        r = subprocess.run([program, "bench", so, "--seconds", "0.05", *words], capture_output=True, text=True, env=where)
        assert r.returncode == 0, r.stderr
        return r.stdout

    code = open(so, "rb").read()
    for program in (o.aotc, o.device):
        result = json.loads(bench(program, "--profile", "--json", "--trace", trace))
        run_models.validate("bench", result)
        kernels = result["kernels"]
        assert kernels["by"] == "CUPTI 13.0" and kernels["runs"] == 20, kernels
        n = len(kernels["list"])
        assert n >= 1 and all(k["name"].encode() in code for k in kernels["list"]), kernels
        assert all(abs(k["us"] - US) < 1e-6 and k["registers"] == 32 and min(k["block"]) >= 1 for k in kernels["list"]), kernels
        assert abs(kernels["busy_us"] - n * US) < 1e-6 and abs(kernels["us"] - ((n - 1) * EVERY_US + US)) < 1e-6, kernels
        with open(trace) as f:
            events = [e for e in json.load(f)["traceEvents"] if e["pid"] == 2 and e["ph"] == "X"]
        assert [(e["name"], round(e["ts"]), e["tid"]) for e in events] == [(k["name"], i * EVERY_US, 7) for i, k in enumerate(kernels["list"])], events
        said = bench(program, "--profile")
        assert f"kernels by CUPTI 13.0 (20 runs): {(n - 1) * EVERY_US + US:.1f} us" in said and "32 registers" in said, said
        result = json.loads(bench(program, "--profile", "--json", cupti="/nowhere/libcupti.so"))
        run_models.validate("bench", result)
        assert "/nowhere/libcupti.so" in result["kernels"]["missing"] and result["profile"]["steps"], result["kernels"]
        assert "no times of theirs: libcupti is not installed" in bench(program, "--profile", cupti="/nowhere/libcupti.so")
        assert "kernels" not in json.loads(bench(program, "--json"))
    print("ok   times of kernels")


if __name__ == "__main__":
    main()
