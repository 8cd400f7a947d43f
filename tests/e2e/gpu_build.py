"""GPU artifacts on a machine without a GPU: cases of tests/gpu build with --cuda, pass the link gate (libcuda is no dependency), give the same
bytes twice, are shown by inspect and explain, and their probe refuses politely. Exits with 77 (skipped) where NVRTC is not installed.

    gpu_build.py --aotc BIN --work DIR --gate LINK_GATE [case ...]
"""
import glob
import json
import os
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "gpu"))
import arguments
import make_cases
from binding import Artifact, Failure

CASES = ["pointwise_dynamic", "reduce_odd_rows", "mlp_dynamic", "mlp_bf16", "embedding_dynamic", "wide_segments"]
INCOMPATIBLE, DEVICE = 3, 7
RUNS = "this machine can run it"


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
    return RUNS


def several(o):
    """One artifact for two GPU architectures, later GPUs and CPUs: all of it is shown, what is stored alike stands once, and a machine without a
    GPU runs it, with the results of an artifact for CPUs alone."""
    pt2, so, alone = (os.path.join(o.work, n) for n in ("mlp_dynamic.pt2", "several.so", "alone.so"))
    report = json.loads(run(o.aotc, "build", pt2, "--cpu", "avx2", "--cuda", "sm_80,sm_90a", "--ptx", "--mode", "reduce-overhead", "-o", so, "--json"))
    assert report["target"] == "sm_80,sm_90a,compute_90,avx2", report["target"]
    assert [p["target"] for p in report["parts"]] == ["sm_90a", "compute_90", "avx2"], report["parts"]
    each = [report["weights_bytes"]] + [p["weights_bytes"] for p in report["parts"]]
    assert max(each) <= report["blob_bytes"] < 3 * max(each), (each, report["blob_bytes"])
    told = run(o.aotc, "inspect", so)
    for text in ("sm_80,sm_90a,compute_90,avx2", "sm_90a: weights", "avx2: weights", "avx2 for a CPU with", "graphs          true"):
        assert text in told, (text, told)
    told = run(o.aotc, "explain", so)
    for text in ("==== sm_80 ====", "==== sm_90a ====", "==== compute_90 ====", "==== avx2 ===="):
        assert text in told, text
    gate = subprocess.run([o.gate, so], capture_output=True, text=True)
    assert gate.returncode == 0, gate.stderr
    run(o.aotc, "build", pt2, "--cpu", "avx2", "-o", alone, "--quiet")
    verified = json.loads(run(o.aotc, "verify", so, "--against", pt2, "--json"))
    assert verified["pass"], verified
    apart = json.loads(run(o.aotc, "verify", alone, "--against", pt2, "--json"))
    if probe(os.path.join(o.work, "mlp_dynamic.so")) != RUNS:  # else it was the GPU's code
        assert [x["err_aotc"] for x in verified["outputs"]] == [x["err_aotc"] for x in apart["outputs"]], (verified, apart)
    print(f"ok   several targets: {each} bytes of weights in {report['blob_bytes']}", flush=True)


def cubins_are_cached(o):
    """Machine code of kernels is kept one by one, an architecture each: what is there is not compiled again, what is lost or damaged is, and the
    artifact is the same."""
    pt2, so, cache = (os.path.join(o.work, n) for n in ("mlp_dynamic.pt2", "cached.so", "cache"))
    shutil.rmtree(cache, ignore_errors=True)

    def build(sms="sm_80,sm_90", jobs="2"):
        command = [o.aotc, "build", pt2, "--cuda", sms, "-o", so, "--jobs", jobs, "--json"]
        r = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, XDG_CACHE_HOME=cache))
        assert r.returncode == 0, r.stderr
        return json.loads(r.stdout)["objects"], open(so, "rb").read()

    objects, cold = build()
    pieces = objects["compiled"]  # the tables and the kernels of each architecture
    assert objects["cached"] == 0 and pieces >= 1 + 2 * 2, objects
    objects, warm = build()
    assert objects == {"compiled": 0, "cached": pieces} and warm == cold, objects
    entries = sorted(glob.glob(os.path.join(cache, "aotc", "objects", "*.o")), key=os.path.getsize)
    os.remove(entries[0])
    with open(entries[1], "r+b") as f:
        f.write(b"damaged!")
    objects, mended = build(jobs="1")
    assert objects["compiled"] == 2 and mended == cold, objects
    print(f"ok   cubins are cached: {pieces - 1} kernels of two architectures", flush=True)


def several_precisions(o):
    """--precision auto settles each part by its own estimate: a Hopper GPU multiplies bf16 where AVX2 keeps float32."""
    pt2, so = (os.path.join(o.work, n) for n in ("mlp_dynamic.pt2", "several_auto.so"))
    report = json.loads(run(o.aotc, "build", pt2, "--precision", "auto", "--max-error", "0.5", "--cpu", "avx2", "--cuda", "sm_90a", "-o", so, "--json"))
    assert [p["target"] for p in report["parts"]] == ["avx2"], report["parts"]
    gpu, cpu = ({s["why"] for s in r["precision"]["steps"]} for r in (report, report["parts"][0]))
    assert gpu <= {"faster", "bf16 is not faster"} and cpu == {"bf16 is not faster"}, (gpu, cpu)
    assert json.loads(run(o.aotc, "inspect", so, "--json"))["precision"] == {"mode": "auto", "max_error": 0.5}
    assert run(o.aotc, "explain", so).count("precision auto: ") == 2
    verified = json.loads(run(o.aotc, "verify", so, "--against", pt2, "--json"))
    assert verified["pass"], verified
    print(f"ok   several targets, --precision auto: {gpu} on the GPU", flush=True)


def main():
    o = arguments.parse("gate", names="names")
    o.out, o.sm, o.keep = o.work, "sm_90a", False
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
    if not o.names:
        for check in (several, several_precisions, cubins_are_cached):
            try:
                check(o)
            except AssertionError as e:
                failed += 1
                print("FAIL", check.__name__, str(e)[:2000], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
