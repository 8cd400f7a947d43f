"""Programs of many kinds on a GPU beside eager PyTorch: the nets of tests/bench (kinds_*.py, conv_nets.py), as they are and in float16. Each is built
with --cuda, checked by the rule of run_cases.py and timed in turns with eager (float32 without TF32) replayed as a graph, or called where it cannot be captured.

    kinds.py --work DIR --aotc BIN [--part K/N] [--prepare] [--json FILE] [PART_OF_NAME ...]      --prepare: exports, builds and computes the references only

Prints the least time of a run in microseconds, queued back to back, and eager's over it; in the end all of them, the smallest ratio first. Needs what rows.py needs.
"""
import argparse
import json
import os
import subprocess
import sys

import torch

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import cases
import conv_nets
import kinds_decoding  # noqa: F401
import kinds_fields  # noqa: F401
import kinds_others  # noqa: F401
import kinds_sequences  # noqa: F401
import kinds_served  # noqa: F401
import kinds_streams  # noqa: F401
import make_cases
import rows
import run_cases
from binding import Cuda
from kinds_nets import NETS

ROUNDS = 3


def half(make):
    def made():
        module, samples, dims = make()
        with torch.no_grad():  # what becomes of a buffer that was computed from parameters is a leaf
            module = module.half()
        return module, [tuple(a.half() if a.is_floating_point() else a for a in args) for args in samples], dims

    return made


def conv(kind, dims, batch):
    return lambda: (kind(), [(torch.randn(batch, *dims),)], None)


def programs():
    all = {}
    for name, make in NETS.items():
        all[name] = lambda make=make: (lambda module, args: (module, [tuple(args)], None))(*make())
    for name, (kind, dims) in conv_nets.NETS.items():
        for batch in (1, 8):
            all[f"conv_{name}_{batch}"] = conv(kind, dims, batch)
    return all | {name + "_f16": half(make) for name, make in all.items() if not name.endswith("_f64")}


def eager_of(name, work):
    """A stream, a function that runs eager once, whether it is a graph, and what has to live as long."""
    try:
        return (*rows.peer_graph(name, "eager", work)[:2], True, None)
    except Exception:
        torch.cuda.synchronize()
    torch.manual_seed(1)
    module, samples, _ = rows.ROWS[name]()
    module, args, stream = module.eval().cuda(), tuple(a.cuda() for a in samples[0]), torch.cuda.Stream()

    def run():
        with torch.no_grad(), torch.device("cuda"):
            module(*args)

    with torch.cuda.stream(stream):
        run()
    return stream, run, False, (module, args)


def build(aotc):
    def built(_, path):
        r = subprocess.run([aotc, "build", path + ".pt2", "--cuda", "sm_90a", "-o", path + ".so", "--quiet"], capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(f"exit {r.returncode}: {r.stderr.strip()[:800]}")

    return built


def prepare(o, name):
    path = os.path.join(o.work, name)
    if not os.path.exists(path + ".json"):
        make_cases.make(argparse.Namespace(out=o.work, aotc=o.aotc, sm="sm_90a"), name)
    return path


def timed(o, cuda, name):
    path = prepare(o, name)
    case = run_cases.Case(path, cuda, argparse.Namespace(once=False, time=False, graphs=False))
    row = {"error": round(case.check(), 3)}
    stream, replay = run_cases.captured(cuda, case, case.sample(0)[0])
    contenders = {"aotc": (torch.cuda.ExternalStream(stream.value), replay)}
    try:
        *eager, row["graph"], kept = eager_of(name, o.work)
        contenders["eager"] = eager
    except Exception as e:
        row["eager_error"] = f"{type(e).__name__}: {str(e)[:200]}"
        torch.cuda.synchronize()
    least = {}
    for _ in range(ROUNDS):
        for label, (stream, run) in contenders.items():
            once = rows.microseconds(stream, [run], 3)
            least[label] = min(least.get(label, 1e30), rows.microseconds(stream, [run], max(3, min(200, int(4e3 / once)))))
    return row | {k: round(v, 2) for k, v in least.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", required=True)
    p.add_argument("--aotc", required=True)
    p.add_argument("--part", default="0/1")
    p.add_argument("--prepare", action="store_true")
    p.add_argument("--json")
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    torch.backends.cudnn.allow_tf32 = False  # float32 is float32 on both sides
    cases.CASES.update(programs())
    rows.ROWS.update(programs())
    make_cases.build = build(o.aotc)
    part, parts = map(int, o.part.split("/"))
    cuda, results = None if o.prepare else Cuda(), {}
    for name in list(programs())[part::parts]:
        if o.names and not any(n in name for n in o.names):
            continue
        try:
            if o.prepare:
                prepare(o, name)
                continue
            results[name] = timed(o, cuda, name)
        except Exception as e:
            results[name] = {"failed": f"{type(e).__name__}: {str(e)[:500]}"}
        if not o.prepare or "failed" in results.get(name, {}):
            print(name, json.dumps(results[name]), flush=True)
    if o.json:
        json.dump(results, open(o.json, "w"), indent=1)
    ratios = sorted((r["eager"] / r["aotc"], n) for n, r in results.items() if "eager" in r)
    for ratio, name in ratios:
        r = results[name]
        print(f"{name:32} {r['aotc']:10.1f} us  eager {ratio:7.2f}{'' if r['graph'] else ' (no graph)'}  error {r['error']}")


if __name__ == "__main__":
    main()
