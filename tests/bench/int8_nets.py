"""Quantised programs beside ONNX Runtime and OpenVINO, in turns: python int8_nets.py --aotc BIN --work DIR [--threads 1,2] [--rounds 3] [--prefix "..."] [net ...]

Needs torch, torchao, onnx, onnxscript, onnxruntime and openvino. Every net is quantised twice from the same float32 weights on the same
samples: by torchao's X86InductorQuantizer through PyTorch's export (u8 activations, i8 weights with a scale a channel; static, or dynamic for
names with "dynamic"), which aotc builds, and by onnxruntime.quantization to the same types (QDQ, or dynamic), which both peers run. For
every round: least time of a call in microseconds, the peers' over aotc's.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from conv_nets import InvertedNet


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o))
        self.side = nn.Identity() if stride == 1 and i == o else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.side(x))


class Bottleneck(nn.Module):
    def __init__(self, i, inner, stride):
        super().__init__()
        o = 4 * inner
        self.body = nn.Sequential(nn.Conv2d(i, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, inner, 3, stride, 1, bias=False),
                                  nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, o, 1, bias=False), nn.BatchNorm2d(o))
        self.side = nn.Identity() if stride == 1 and i == o else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.body(x) + self.side(x))


def residual_net(block, counts, grows):
    layers, c = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, count in zip((64, 128, 256, 512), counts):
        for i in range(count):
            layers.append(block(c, width, 2 if i == 0 and width > 64 else 1))
            c = width * grows
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))


class EncoderBlock(nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        parts = [f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v)]
        x = self.n1(x + self.o(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)))
        return self.n2(x + self.down(F.gelu(self.up(x))))


def mlp(width):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))


IMAGE = (1, 3, 224, 224)
NETS = {
    "mlp_1024_b1": (lambda: mlp(1024), (1, 1024)),
    "mlp_1024_b32": (lambda: mlp(1024), (32, 1024)),
    "mlp_1024_b128": (lambda: mlp(1024), (128, 1024)),
    "mlp_2048_b1": (lambda: mlp(2048), (1, 2048)),
    "mlp_dynamic_1024_b1": (lambda: mlp(1024), (1, 1024)),
    "mlp_dynamic_1024_b32": (lambda: mlp(1024), (32, 1024)),
    "block_dynamic_s128": (EncoderBlock, (1, 128, 768)),
    "residual18": (lambda: residual_net(Residual, (2, 2, 2, 2), 1), IMAGE),
    "residual50": (lambda: residual_net(Bottleneck, (3, 4, 6, 3), 4), IMAGE),
    "inverted": (InvertedNet, IMAGE),
}


def settled(net):
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    return net.eval()


def samples(shape):
    g = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=g) for _ in range(8)]


def export(name, base):
    """base.pt2, base.onnx (quantised)."""
    from onnxruntime import quantization as q
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    torch.manual_seed(0)
    make, shape = NETS[name]
    dynamic, net, data = "dynamic" in name, settled(make()), samples(shape)
    with torch.no_grad():
        quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=dynamic))
        prepared = prepare_pt2e(torch.export.export(net, (data[0],)).module(), quantizer)
        for x in data:
            prepared(x)
        torch.export.save(torch.export.export(convert_pt2e(prepared), (data[0],)), base + ".pt2")
        torch.onnx.export(net, (data[0],), base + ".f32.onnx", dynamo=True, external_data=False, verbose=False, input_names=["x"])
    if dynamic:
        return q.quantize_dynamic(base + ".f32.onnx", base + ".onnx", per_channel=True, weight_type=q.QuantType.QInt8)

    class Reader(q.CalibrationDataReader):
        left = iter([{"x": x.numpy()} for x in data])

        def get_next(self):
            return next(self.left, None)

    from onnxruntime.quantization.shape_inference import quant_pre_process
    quant_pre_process(base + ".f32.onnx", base + ".pre.onnx", skip_symbolic_shape=True)
    q.quantize_static(base + ".pre.onnx", base + ".onnx", Reader(), quant_format=q.QuantFormat.QDQ, per_channel=True, activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)


def least_us(run, seconds):
    for _ in range(3):
        run()
    best, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        t = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - t)
    return best * 1e6


def peer_us(peer, path, shape, threads, seconds):
    x = samples(shape)[0].numpy()
    if peer == "onnxruntime":
        import onnxruntime as ort

        so = ort.SessionOptions()
        so.intra_op_num_threads, so.inter_op_num_threads = threads, 1
        s = ort.InferenceSession(path, so, providers=["CPUExecutionProvider"])
        return least_us(lambda: s.run(None, {"x": x}), seconds)
    import openvino as ov

    compiled = ov.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1})
    request = compiled.create_infer_request()
    request.set_input_tensor(ov.Tensor(x))
    return least_us(request.infer, seconds)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--threads", default="1,2")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--prefix", default="", help="of every measuring command")
    p.add_argument("--peer", help=argparse.SUPPRESS)  # the worker: a time on stdout
    p.add_argument("nets", nargs="*", default=list(NETS))
    o = p.parse_args()
    if o.peer:
        print(peer_us(o.peer, os.path.join(o.work, o.nets[0] + ".onnx"), NETS[o.nets[0]][1], int(o.threads), o.seconds))
        return
    os.makedirs(o.work, exist_ok=True)
    for name in o.nets:
        base = os.path.join(o.work, name)
        if not os.path.exists(base + ".onnx"):
            export(name, base)
        for threads in o.threads.split(","):
            artifact = f"{base}.{threads}.so"
            subprocess.run([o.aotc, "build", base + ".pt2", "-o", artifact, "--threads", threads, "--quiet"], check=True)
            pinned = [*o.prefix.split(), "taskset", "-c", "1" if threads == "1" else f"0-{int(threads) - 1}"]
            best = {}
            for _ in range(o.rounds):
                bench = [o.aotc, "bench", artifact, "--threads", threads, "--seconds", str(o.seconds), "--json"]
                now = {"aotc": json.loads(subprocess.run(pinned + bench, check=True, capture_output=True).stdout)["min_us"]}
                for peer in ("onnxruntime", "openvino"):
                    worker = [sys.executable, "-W", "ignore", __file__, "--aotc", o.aotc, "--work", o.work, "--threads", threads, "--seconds", str(o.seconds), "--peer", peer, name]
                    now[peer] = float(subprocess.run(pinned + worker, check=True, capture_output=True).stdout.splitlines()[-1])
                best = {k: min(v, best.get(k, v)) for k, v in now.items()}
            print(f"{name:22} {threads} threads  " + "  ".join(f"{k} {v:.0f}" for k, v in best.items()) + f"  ratios {best['onnxruntime'] / best['aotc']:.2f} {best['openvino'] / best['aotc']:.2f}", flush=True)


if __name__ == "__main__":
    main()
