"""Programs of many kinds beside eager, and ONNX Runtime and OpenVINO: python kinds.py --aotc BIN --work DIR [--threads 1] [--seconds 0.4] [--rounds 1] [--prefix "taskset -c 1"] [--peers] [--precision bf16] [NAME ...]

Needs torch; --peers needs onnx, onnxscript, onnxruntime and openvino. The nets are of our own making (kinds_sequences.py, kinds_others.py, kinds_streams.py, kinds_fields.py, kinds_decoding.py, kinds_served.py, kinds_exported.py, kinds_shipped.py, kinds_waves.py), in sizes that are run; some in float64 and
bfloat16, too. For each: the least time of a call in microseconds, and the others' least over it; in the end all of them, the smallest ratio first. NAME is a part of a row's name.
OpenVINO computes float64 in float32. --precision: of float32 programs, by `aotc build --precision` and OpenVINO's INFERENCE_PRECISION_HINT; the others
stay as they are.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import time

import torch

import kinds_decoding  # noqa: F401
import kinds_exported  # noqa: F401
import kinds_fields  # noqa: F401
import kinds_others  # noqa: F401
import kinds_sequences  # noqa: F401
import kinds_served  # noqa: F401
import kinds_shipped  # noqa: F401
import kinds_streams  # noqa: F401
import kinds_waves  # noqa: F401
from kinds_nets import NETS


def f64(name):
    m, a = NETS[name]()
    return m.double(), tuple(x.double() if x.is_floating_point() else x for x in a)


def bf16(name):
    m, a = NETS[name]()
    return m.bfloat16(), tuple(x.bfloat16() if x.is_floating_point() else x for x in a)


for n in ("lstm_b32_t64_h256", "conformer", "gp_posterior", "nbeats", "cholesky_b", "solve_b", "schnet_pairs", "log_mel"):
    NETS[n + "_f64"] = lambda n=n: f64(n)
for n in ("conformer", "wavenet", "tcn", "swin_block", "vit_small", "nbeats", "two_tower", "wide_deep", "mixer", "upsample_bilinear", "group_norm_res", "conv3d_net", "hifigan", "lstm_b1_t64_h256", "lstm_b32_t64_h256", "gru_b32_t64_h128", "mpnn_edges", "deepfm", "wav2vec_front"):
    NETS[n + "_bf16"] = lambda n=n: bf16(n)


def timed(f, seconds):
    f(), f()
    every, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(every) < 3:
        start = time.perf_counter()
        f()
        every.append(time.perf_counter() - start)
    return min(every) * 1e6


def peers_worker(o):
    """Prints {peer: least us} of the ONNX file and the inputs."""
    import numpy as np
    data = dict(np.load(o.worker + ".npz"))
    ins = [data[f"arr_{i}"] for i in range(len(data))]
    out = {}
    try:
        import onnxruntime as ort
        so = ort.SessionOptions()
        so.intra_op_num_threads = o.threads
        so.inter_op_num_threads = 1
        s = ort.InferenceSession(o.worker + ".onnx", so, providers=["CPUExecutionProvider"])
        feed = {i.name: x for i, x in zip(s.get_inputs(), ins)}
        out["ort"] = timed(lambda: s.run(None, feed), o.seconds)
        del s
    except Exception as e:
        out["ort_error"] = str(e)[:200]
    try:
        import openvino as ov
        core = ov.Core()
        mod = core.read_model(o.worker + ".onnx")
        c = core.compile_model(mod, "CPU", {"INFERENCE_NUM_THREADS": o.threads, "INFERENCE_PRECISION_HINT": o.precision, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1})
        r = c.create_infer_request()
        for k, x in enumerate(ins):
            r.set_input_tensor(k, ov.Tensor(x))
        out["ov"] = timed(r.infer, o.seconds)
    except Exception as e:
        out["ov_error"] = str(e)[:200]
    print("PEERS" + json.dumps(out))


def onnx_export(m, args, base):
    import numpy as np
    np.savez(base + ".npz", *[a.numpy() for a in args])
    with open(os.devnull, "w") as null:
        old = os.dup(1)
        os.dup2(null.fileno(), 1)
        try:
            torch.onnx.export(m, args, base + ".onnx", dynamo=True, external_data=False, verbose=False)
        finally:
            os.dup2(old, 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seconds", type=float, default=0.4)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--prefix", default="")
    p.add_argument("--peers", action="store_true")
    p.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    p.add_argument("--prepare", action="store_true", help="export only")
    p.add_argument("--out")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    if o.worker:
        return peers_worker(o)
    os.makedirs(o.work, exist_ok=True)
    prefix = shlex.split(o.prefix)
    rows = []
    for name, make in NETS.items():
        if o.names and not any(part in name for part in o.names):
            continue
        base = os.path.join(o.work, name)
        row = {"name": name}
        try:
            if not os.path.exists(base + ".pt2") or (o.peers and not os.path.exists(base + ".npz") and "bf16" not in name):
                torch.manual_seed(0)
                m, args = make()
                m.eval()
                with torch.no_grad():
                    m(*args)
                    if not os.path.exists(base + ".pt2"):
                        torch.export.save(torch.export.export(m, args), base + ".pt2")
                    if o.peers and "bf16" not in name:
                        try:
                            onnx_export(m, args, base)
                        except Exception as e:
                            row["onnx_error"] = str(e)[:200]
                del m
        except Exception as e:
            print(f"{name:28} cannot be exported: {type(e).__name__} {str(e)[:300]}", flush=True)
            continue
        if o.prepare:
            continue
        b = subprocess.run([o.aotc, "build", base + ".pt2", "-o", base + ".so", "--threads", str(o.threads), "--precision", o.precision, "--quiet"], capture_output=True, text=True)
        if b.returncode:
            print(f"{name:28} not built: {b.stderr[:400]}", flush=True)
            continue
        least = {}
        for _ in range(o.rounds):
            r = subprocess.run(prefix + [o.aotc, "bench", base + ".so", "--against", base + ".pt2", "--threads", str(o.threads), "--seconds", str(o.seconds), "--json"], capture_output=True, text=True)
            if r.returncode:
                print(f"{name:28} not run: {r.stderr[:400]}", flush=True)
                break
            j = json.loads(r.stdout)
            least["aotc"] = min(least.get("aotc", 1e30), j["min_us"])
            least["eager"] = min(least.get("eager", 1e30), j["eager"]["min_us"])
            if o.peers and os.path.exists(base + ".onnx"):
                w = subprocess.run(prefix + [sys.executable, __file__, "--aotc", "-", "--work", "-", "--threads", str(o.threads), "--seconds", str(o.seconds), "--precision", o.precision, "--worker", base], capture_output=True, text=True)
                for line in w.stdout.splitlines():
                    if line.startswith("PEERS"):
                        for k, v in json.loads(line[5:]).items():
                            if isinstance(v, float):
                                least[k] = min(least.get(k, 1e30), v)
                            else:
                                row[k] = v
        if "aotc" not in least:
            continue
        row.update(least)
        rows.append(row)
        ratios = {k: v / least["aotc"] for k, v in least.items() if k != "aotc"}
        row["least"] = min(ratios.values())
        print(f"{name:28} {least['aotc']:10.1f} us  " + "  ".join(f"{k} {v:6.2f}" for k, v in ratios.items()) + ("   <<<<" if row["least"] < 1 else ""), flush=True)
        if o.out:
            with open(o.out, "a") as f:
                f.write(json.dumps(row) + "\n")
    print()
    for row in sorted(rows, key=lambda r: r["least"]):
        print(f"{row['name']:28} {row['aotc']:10.1f} us  " + "  ".join(f"{k} {row[k] / row['aotc']:6.2f}" for k in ("eager", "ort", "ov") if k in row))


if __name__ == "__main__":
    main()
