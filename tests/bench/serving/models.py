"""The programs that serving.py serves, of the shapes that people serve but with weights of no meaning, so that a folder of them travels small: each
parameter repeats a few hundred numbers of its own.

    models.py --aotc BIN --work DIR [--cpu portable] [--cuda sm_90a] [--onnx] [name ...]    NAME.so, NAME.json, with --onnx NAME.onnx, with --cuda NAME.cuda.so

    minilm   all-MiniLM-L6-v2's encoder, mean pooling; a sentence of 32 tokens a request
    resnet50 an image a request
    decoder  8 layers as SmolLM2-135M has 30; the next token after a prompt of 32
    steps    the same layers one token at a time, with a cache of 128 positions in states: a request is a step of a sequence; no ONNX
    train    a training step of samples/train: 16 images and classes, the parameters are states; no ONNX
    mlp      three small layers: what a server itself costs. Only where it is named

NAME.json has the request's inputs in words: shapes, types, and the range of what is drawn. Needs torch and transformers; --onnx needs onnx and onnxscript.
"""
import argparse
import json
import os
import subprocess
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
ROWS = 32  # the largest batch


class Sentence(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertModel

        self.encoder = BertModel(BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536), add_pooling_layer=False)

    def forward(self, input_ids, attention_mask):
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize((hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9), p=2.0, dim=1)


class Layer(nn.Module):
    """A Llama layer: 9 heads of 64, 3 of them with keys and values of their own."""

    def __init__(self, width=576, inner=1536):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, n, bias=False) for n in (width, 192, 192, width))
        self.gate, self.up, self.down = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)
        self.n1, self.n2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)

    def forward(self, x, cos, sin, cache=None):
        b, t, w = x.shape
        y = self.n1(x)
        q, k, v = (f(y).view(b, t, -1, 64).transpose(1, 2) for f in (self.q, self.k, self.v))
        turn = lambda a: a * cos + torch.cat([-a[..., 32:], a[..., :32]], -1) * sin
        k, mask = turn(k), None
        if cache is not None:
            k, v, mask = cache(k, v)
        k, v = (a.repeat_interleave(3, 1) for a in (k, v))
        x = x + self.o(F.scaled_dot_product_attention(turn(q), k, v, attn_mask=mask, is_causal=mask is None).transpose(1, 2).reshape(b, t, w))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, layers=8, words=16384, width=576, most=32):
        super().__init__()
        self.embed, self.norm = nn.Embedding(words, width), nn.RMSNorm(width, eps=1e-5)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        angle = torch.outer(torch.arange(most), 1e5 ** (-torch.arange(0, 64, 2) / 64)).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return F.linear(self.norm(x[:, -1]), self.embed.weight).argmax(-1, keepdim=True)


class Cache(nn.Module):
    """Keys and values of one layer, as states."""

    def __init__(self, most):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 3, most, 64))
        self.register_buffer("values", torch.zeros(1, 3, most, 64))

    def update(self, k, v, at):
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        return self.keys, self.values, (torch.arange(self.keys.shape[2]) <= at)[None, None, None]


class Steps(Decoder):
    """One token a run, at the position behind the last. What is fed behind the cache's end overwrites its last position."""

    def __init__(self, layers=8, most=128):
        super().__init__(layers, most=most)
        self.caches = nn.ModuleList(Cache(most) for _ in self.layers)
        self.register_buffer("filled", torch.zeros(1, dtype=torch.int64))

    def forward(self, input_ids):
        at = self.filled.clamp(max=self.cos.shape[0] - 1)
        x, cos, sin = self.embed(input_ids), self.cos[at], self.sin[at]
        for layer, cache in zip(self.layers, self.caches, strict=True):
            x = layer(x, cos, sin, lambda k, v, cache=cache: cache.update(k, v, at))
        self.filled += 1
        return F.linear(self.norm(x[:, -1]), self.embed.weight).argmax(-1, keepdim=True)


def plain(net):
    """Each parameter: 251 numbers again and again, of the size that makes deep nets behave."""
    g = torch.Generator().manual_seed(1)
    for name, p in [*net.named_parameters(), *net.named_buffers()]:
        if not p.is_floating_point() or name in ("cos", "sin") or name.startswith("caches."):
            continue
        if name.endswith("running_var") or (p.dim() == 1 and name.endswith("weight")):
            p.data.fill_(0.7)  # one number, so that what is multiplied with it still repeats
            continue
        few = torch.randn(251, generator=g) * (0.05 if p.dim() < 2 else p[0].numel() ** -0.5)
        p.data.copy_(few.repeat(p.numel() // 251 + 1)[:p.numel()].view(p.shape))
    return net.eval().requires_grad_(False)


def resnet50():
    from int8_nets import Bottleneck, residual_net

    return residual_net(Bottleneck, (3, 4, 6, 3), 4)


IDS = {"dtype": "INT64", "shape": [1, 32]}
NETS = {
    "minilm": (Sentence, {"input_ids": dict(IDS, below=30000), "attention_mask": dict(IDS, below=1, least=1)}),
    "resnet50": (resnet50, {"input": {"dtype": "FP32", "shape": [1, 3, 224, 224]}}),
    "mlp": (lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), {"input": {"dtype": "FP32", "shape": [1, 64]}}),
    "decoder": (Decoder, {"input_ids": dict(IDS, below=16000)}),
    "steps": (Steps, {"input_ids": {"dtype": "INT64", "shape": [1, 1], "below": 16000}}),
}
TRAIN = {"images": {"dtype": "FP32", "shape": [16, 3, 16, 16]}, "classes": {"dtype": "INT64", "shape": [16], "below": 10}}


def drawn(inputs, rows):
    return tuple(torch.randn(rows, *i["shape"][1:]) if i["dtype"] == "FP32" else torch.randint(i.get("least", 0), max(i["below"], i.get("least", 0) + 1), (rows, *i["shape"][1:]))
                 for i in inputs.values())


def exported(name, o, base):
    if name == "train":
        folder = os.path.join(o.work, "train.export")
        subprocess.run([sys.executable, os.path.join(HERE, "..", "..", "..", "samples", "train", "export.py"), folder, "conv", "1"], check=True, capture_output=True)
        return os.replace(os.path.join(folder, "conv.pt2"), base + ".pt2"), TRAIN
    make, inputs = NETS[name]
    stateful = name == "steps"
    net, args, batch = plain(make(layers=o.layers) if name in ("decoder", "steps") else make()), drawn(inputs, 1 if stateful else 2), torch.export.Dim("batch", min=1, max=ROWS)
    dims = [None if stateful else {0: batch} for _ in args]
    torch.export.save(torch.export.export(net, args, dynamic_shapes=tuple(dims), strict=False), base + ".pt2")
    if o.onnx and not stateful:
        torch.onnx.export(net, args, base + ".onnx", dynamo=True, external_data=False, verbose=False, input_names=list(inputs), dynamic_shapes=tuple(dims))
    return None, inputs


def main(o):
    warnings.filterwarnings("ignore")
    os.makedirs(o.work, exist_ok=True)
    for name in o.names or [n for n in (*NETS, "train") if n != "mlp"]:
        torch.manual_seed(0)
        base = os.path.join(o.work, name)
        _, inputs = exported(name, o, base)
        with open(base + ".json", "w") as f:
            json.dump({"inputs": inputs, "batch": name not in ("train", "steps"), "steps": 100 if name == "steps" else 0}, f)
        for suffix, target in ((".so", ["--cpu", o.cpu]), (".cuda.so", ["--cuda", o.cuda, "--mode", "reduce-overhead"])):
            if target[1] and (suffix == ".so" or name in o.on_gpu.split(",")):
                subprocess.run([o.aotc, "build", base + ".pt2", *target, "--quiet", "-o", base + suffix], check=True)
        print(name, {s: os.path.getsize(base + s) for s in (".so", ".cuda.so", ".onnx") if os.path.exists(base + s)}, flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="name")
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--cpu", default="native")
    p.add_argument("--cuda", help="also for this GPU")
    p.add_argument("--on-gpu", default="minilm,resnet50,decoder,steps,train", help="those that --cuda is for")
    p.add_argument("--layers", type=int, default=8, help="of decoder and steps")
    p.add_argument("--onnx", action="store_true")
    main(p.parse_args())
