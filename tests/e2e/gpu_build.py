"""GPU artifacts on a machine without a GPU: cases of tests/gpu build with --cuda, pass the link gate (libcuda is no dependency), give the same
bytes twice, are shown by inspect and explain, and their probe refuses politely. Exits with 77 (skipped) where NVRTC is not installed.

    gpu_build.py --aotc BIN --work DIR --gate LINK_GATE [case ...]
"""
import argparse
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "gpu"))
import make_cases
from binding import Artifact, Failure

CASES = ["pointwise_dynamic", "reduce_odd_rows", "mlp_dynamic", "mlp_bf16", "embedding_dynamic", "wide_segments"]
INCOMPATIBLE, DEVICE = 3, 7


def run(*cmd):
    r = subprocess.run(cmd, capture_output=True, text=True)
    assert r.returncode == 0, f"{cmd}: exit {r.returncode}\n{r.stderr}"
    return r.stdout


def probe(path):
    artifact = Artifact(path)
    try:
        artifact.probe(0)
    except Failure as f:
        assert f.status in (INCOMPATIBLE, DEVICE) and ("CUDA" in str(f) or "GPU" in str(f)), str(f)
        return str(f)
    return "this machine can run it"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--gate", required=True)
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    o.out, o.sm, o.keep = o.work, "sm_90a", False
    os.makedirs(o.work, exist_ok=True)
    os.environ.setdefault("VIRTUAL_ENV", sys.prefix)  # where aotc looks for NVRTC
    failed = 0
    for name in o.names or CASES:
        try:
            make_cases.make(o, name)
            so = os.path.join(o.work, name + ".so")
            first = open(so, "rb").read()
            gate = subprocess.run([o.gate, so], capture_output=True, text=True)
            assert gate.returncode == 0, gate.stderr
            refusal = probe(so)
            told = run(o.aotc, "inspect", so)
            assert "sm_90a" in told and "kernel" in told, told
            assert "steps" in run(o.aotc, "explain", so)
            make_cases.build(o, so[:-3])
            assert open(so, "rb").read() == first, "two builds differ"
            print(f"ok   {name}: {refusal}", flush=True)
        except Exception as e:
            if "NVRTC was not found" in str(e):
                print("skipped:", e)
                sys.exit(77)
            failed += 1
            print("FAIL", name, str(e)[:2000], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
