"""Models of torchvision and transformers beside ONNX Runtime and OpenVINO: python library_nets.py --aotc BIN --work DIR [--threads 1] [--rounds 4] [--seconds 0.7] [--prefix "chrt -f 50 taskset -c 0"] [NAME ...]

Needs torch, torchvision, transformers, onnx, onnxscript, onnxruntime and openvino. Random weights, float32; one image of 224x224 or 128 tokens. aotc
builds with its defaults (nothing is searched), OpenVINO computes in float32. Engines take turns within a round; of each the least and the least median
of a round count. Prints the peers' least time over aotc's (of medians in brackets), and the geometric mean of the better peer's.
"""
import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import time

IMAGES = ("mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "mnasnet1_0", "shufflenet_v2_x1_0", "regnet_y_400mf", "densenet121", "resnet18", "resnet50",
          "convnext_tiny", "swin_t", "vit_b_16")
TEXTS = ("bert_base", "gpt2")


def make(name):
    import torch

    torch.manual_seed(0)
    if name in IMAGES:
        import torchvision

        m = getattr(torchvision.models, name)(weights=None).eval()
        for b in m.modules():
            if isinstance(b, torch.nn.BatchNorm2d):
                b.running_mean.normal_(0, 0.1)
                b.running_var.uniform_(0.5, 1.5)
        return m, (torch.randn(1, 3, 224, 224),)
    import transformers

    class Alone(torch.nn.Module):
        def __init__(self, model, result):
            super().__init__()
            self.model, self.result = model, result

        def forward(self, ids):
            return getattr(self.model(ids, use_cache=False), self.result)

    ids = (torch.randint(0, 30000, (1, 128)),)
    if name == "gpt2":
        return Alone(transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False)), "logits").eval(), ids
    return Alone(transformers.BertModel(transformers.BertConfig()), "last_hidden_state").eval(), ids


def export(name, base):
    import numpy as np
    import torch

    m, args = make(name)
    with torch.no_grad():
        torch.export.save(torch.export.export(m, args), base + ".pt2")
        torch.onnx.export(m, args, dynamo=True, verbose=False).save(base + ".onnx", external_data=True)
    np.savez(base + ".npz", *[a.numpy() for a in args])


def worker(engine, base, threads):
    """Prints "ready", then for every line of input, which is a number of seconds, the times of the calls in it."""
    import numpy as np

    data = np.load(base + ".npz")
    ins = [data[f"arr_{i}"] for i in range(len(data))]
    if engine == "ort":
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        s = ort.InferenceSession(base + ".onnx", options, providers=["CPUExecutionProvider"])
        feed = {i.name: x for i, x in zip(s.get_inputs(), ins)}
        call = lambda: s.run(None, feed)  # noqa: E731
    else:
        import openvino as ov

        core = ov.Core()
        hints = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
        r = core.compile_model(core.read_model(base + ".onnx"), "CPU", hints).create_infer_request()
        tensors = [ov.Tensor(x) for x in ins]
        for k, t in enumerate(tensors):
            r.set_input_tensor(k, t)
        call = lambda: r.infer(share_outputs=True)  # noqa: E731
    call(), call()
    print("ready", flush=True)
    for line in sys.stdin:
        times, end = [], time.perf_counter() + float(line)
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
        print(json.dumps([min(times), statistics.median(times)]), flush=True)


def measure(o, base):
    """{engine: [(least, median) of each round]}, in microseconds."""
    prefix, out, workers = shlex.split(o.prefix), {"aotc": [], "ort": [], "ov": []}, {}
    for engine in ("ort", "ov"):
        command = prefix + [sys.executable, __file__, "--worker", engine, base, "--threads", str(o.threads), "--aotc", "-", "--work", "-"]
        w = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if w.stdout.readline().strip() == "ready":
            workers[engine] = w
        else:
            print(f"{os.path.basename(base)}: {engine} does not run it", flush=True)
    for _ in range(o.rounds):
        r = subprocess.run(prefix + [o.aotc, "bench", base + ".so", "--threads", str(o.threads), "--seconds", str(o.seconds), "--json"], capture_output=True, text=True,
                           check=True)
        j = json.loads(r.stdout)
        out["aotc"].append((j["min_us"], j["p50_us"]))
        for engine, w in workers.items():
            w.stdin.write(f"{o.seconds}\n")
            w.stdin.flush()
            out[engine].append(tuple(json.loads(w.stdout.readline())))
    for w in workers.values():
        w.stdin.close()
        w.wait()
    return {k: v for k, v in out.items() if v}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--seconds", type=float, default=0.7)
    p.add_argument("--prefix", default="")
    p.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    if o.worker:
        return worker(*o.worker, o.threads)
    os.makedirs(o.work, exist_ok=True)
    best = []
    for name in o.names or IMAGES + TEXTS:
        base = os.path.join(o.work, name)
        if not os.path.exists(base + ".npz"):
            export(name, base)
        subprocess.run([o.aotc, "build", base + ".pt2", "-o", base + ".so", "--threads", str(o.threads), "--quiet"], check=True)
        rounds = measure(o, base)
        least, median = ({k: min(r[i] for r in v) for k, v in rounds.items()} for i in (0, 1))
        ratios = {k: least[k] / least["aotc"] for k in least if k != "aotc"}
        best.append(min(ratios.values()))
        peers = "  ".join(f"{k} {r:.2f} ({median[k] / median['aotc']:.2f})" for k, r in ratios.items())
        print(f"{name:20} {least['aotc']:9.0f} us  {peers}", flush=True)
    print(f"the better peer's time over aotc's, geometric mean: {math.exp(sum(map(math.log, best)) / len(best)):.3f}")


if __name__ == "__main__":
    main()
