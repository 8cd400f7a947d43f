"""Models of the size that decides: builds each with several compilers and modes, checks it by the rule of run_cases.py and times all of them in
turns, as graphs, beside PyTorch replayed as graphs: hot (a launch after another) and cold (after reads that fill the second cache). Needs a GPU, torch
with CUDA, NVRTC; the compiled peers need Triton and a C++ compiler.

    rows.py --work DIR --build old=BIN --build tuned=BIN,--mode,max-autotune [--peers eager,compile,max-autotune,aoti] [--json FILE] [name ...]
      --prepare  builds, compiles and computes the references only; a later call on the same folder finds them
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
import nets
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


class Attention(nn.Module):
    """Of views of one projection, [batch, positions, 3, heads, channels] where `together`, else of [batch, heads, positions, channels]."""

    def __init__(self, together=False, **how):
        super().__init__()
        self.together, self.how = together, how

    def forward(self, q, k=None, v=None):
        q, k, v = (x.transpose(1, 2) for x in q.unbind(2)) if self.together else (q, k, v)
        y = F.scaled_dot_product_attention(q, k, v, **self.how)
        return y.transpose(1, 2).flatten(2) if self.together else y


def attention(b, h, kv, s, d, **how):
    return lambda: (Attention(enable_gqa=h != kv, **how), [tuple(R(b, n, s, d).half() for n in (h, kv, kv))], None)


def llama(batch, positions):
    def make():
        caches, angles = ([R(*shape).half() for _ in range(2)] for shape in ((4, batch, 8, positions - 1, 64), (1, 1, 1, 64)))
        return nets.Llama().half(), [(torch.randint(0, 32000, (batch, 1)), *caches, *angles)], None

    return make


def bf16(module, *shapes):
    return lambda: (module().bfloat16(), [tuple(R(*s).bfloat16() for s in shapes)], None)


ROWS = {
    "mlp_f32_b32": lambda: (mlp(torch.float32), [(R(32, 1024),)], None),
    "mlp_tf32_b32": lambda: (mlp(torch.float32), [(R(32, 1024),)], None),
    "mlp_f16_b32": lambda: (mlp(torch.float16), [(R(32, 1024).half(),)], None),
    **{f"product_f32_{n}": lambda n=n: (Product(n).float(), [(R(n, n),)], None) for n in (1024, 4096)},
    "bert_f32_b8": lambda: (nets.Bert(), [(torch.randint(1, 30000, (8, 128)),)], None),
    "resnet50_f32_b8": lambda: (nets.ResNet50(), [(R(8, 3, 224, 224),)], None),
    "block_f16_4096": lambda: (Block().half(), [(R(32, 128, 768).half(),)], None),
    **{f"product_bf16_{n}": lambda n=n: (Product(n), [(R(n, n).bfloat16(),)], None) for n in (1024, 2048, 4096, 8192)},
    **{f"gelu_bf16_{m}x3072x768": bf16(lambda: Gelu(768, 3072), (m, 768)) for m in (32, 128, 512, 1576, 4096)},
    "linear_bf16_4096x2304x768": bf16(lambda: nn.Linear(768, 2304), (4096, 768)),
    **{f"residual_bf16_{m}x768x3072": bf16(lambda: Residual(3072, 768), (m, 3072), (m, 768)) for m in (32, 128, 512, 1576, 4096)},
    "residual_bf16_4096x768x768": bf16(lambda: Residual(768, 768), (4096, 768), (4096, 768)),
    "attention_f16_d128_s2048_b4": attention(4, 32, 32, 2048, 128),
    "attention_f16_d128_s2048_causal_gqa": attention(1, 32, 8, 2048, 128, is_causal=True),
    "attention_f16_d64_s2048_b4": attention(4, 16, 16, 2048, 64),
    "attention_f16_d64_s1536_causal": attention(2, 16, 16, 1536, 64, is_causal=True),
    "attention_f16_bert_b32": lambda: (Attention(True), [(R(32, 128, 3, 12, 64).half(),)], None),
    "attention_f16_vit_b8": lambda: (Attention(True), [(R(8, 197, 3, 12, 64).half(),)], None),
    "bert_f16_b1": lambda: (nets.Bert().half(), [(torch.randint(1, 30000, (1, 128)),)], None),
    "bert_f16_b1_masked": lambda: (nets.Bert(True).half(), [(torch.randint(0, 3, (1, 128)),)], None),
    "bert_f16_b32": lambda: (nets.Bert().half(), [(torch.randint(1, 30000, (32, 128)),)], None),
    "vit_f16_b8": lambda: (nets.ViT().half(), [(R(8, 3, 224, 224).half(),)], None),
    "resnet50_f16_b1": lambda: (nets.ResNet50().half(), [(R(1, 3, 224, 224).half(),)], None),
    "resnet50_f16_b32": lambda: (nets.ResNet50().half(), [(R(32, 3, 224, 224).half(),)], None),
    "llama_f16_kv512": llama(1, 512),
    "llama_f16_b4_kv512": llama(4, 512),
    "llama_f16_b8_kv2048": llama(8, 2048),
    "llama_f16_kv4096": llama(1, 4096),
    "relu_f32_64m": lambda: (cases.Fn(lambda x: x.relu() + x.relu() * 2), [(R(64 << 20),)], None),
    "softmax_norm_f16_16384": lambda: (cases.Fn(lambda x: F.layer_norm(torch.softmax(x / 8, -1) + x, (4096,))), [(R(16384, 4096).half(),)], None),
    "softmax_norm_f16": lambda: (cases.Fn(lambda x: F.layer_norm(torch.softmax(x / 8, -1) + x, (4096,))), [(R(4096, 4096).half(),)], None),
}


# Built with other options, and compared with eager as it then is.
cases.OPTIONS["mlp_tf32_b32"], cases.REDUCED["mlp_tf32_b32"] = ["--f32-matmul", "high"], torch.bfloat16


# What runs in PyTorch's place, of a module, its arguments and a file that may be kept; each is captured into a CUDA graph (`compile` is then what
# torch.compile calls reduce-overhead).
def aoti(module, args, kept):
    if not os.path.exists(kept):
        program = torch.export.export(module, args, strict=False)
        torch._inductor.aoti_compile_and_package(program, package_path=kept, inductor_configs={"max_autotune": True})
    return torch._inductor.aoti_load_package(kept)


def alone(module, *_):
    """The product of a module that has one, without what is fused into it: cuBLAS by itself."""
    (linear,) = [m for m in module.modules() if isinstance(m, nn.Linear)]
    product = nn.Linear(linear.in_features, linear.out_features, bias=False, dtype=linear.weight.dtype, device="cuda")
    product.weight = linear.weight
    return lambda x, *_: product(x)


PEERS = {
    "eager": lambda module, *_: module,
    "compile": lambda module, *_: torch.compile(module),
    "max-autotune": lambda module, *_: torch.compile(module, mode="max-autotune-no-cudagraphs"),
    "aoti": aoti,
    "alone": alone,
}


def peer_graph(name, peer, work):
    """A peer as a graph: its stream, a function that launches it, and what has to live as long. What compiles keeps what it made, in `work` or in
    PyTorch's own cache."""
    torch.backends.cuda.matmul.allow_tf32 = name in cases.OPTIONS
    torch.manual_seed(1)
    torch._dynamo.reset()
    module, samples, _ = ROWS[name]()
    module = module.eval().cuda()
    args = tuple(a.cuda() for a in samples[0])
    if any(isinstance(m, nn.Conv2d) for m in module.modules()):
        module, args = module.to(memory_format=torch.channels_last), tuple(a.contiguous(memory_format=torch.channels_last) for a in args)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.device("cuda"):  # what a program makes as it runs is made there
        os.makedirs(os.path.join(work, peer), exist_ok=True)
        run = PEERS[peer](module, args, os.path.join(work, peer, name + ".pt2"))
        with torch.cuda.stream(stream):
            for _ in range(3):
                run(*args)
            stream.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                run(*args)
    return stream, graph.replay, (module, args, run)


class Flush:
    """Reads memory of a few times the second cache's size, so that nothing of a run is left in it. (Written lines would be written back under the run.)"""

    def __init__(self):
        self.memory = torch.ones(192 << 20, dtype=torch.uint8, device="cuda").view(torch.int64)
        self.memory.amax()  # what it needs is there before the capture
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.memory.amax()

    def __call__(self):
        self.graph.replay()


def microseconds(stream, work, repeats):
    """Of one call of the works in turn: the median of 5 groups, which follow each other without rests."""
    times = []
    with torch.cuda.stream(stream):
        for _ in range(5):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(stream)
            for _ in range(repeats):
                for w in work:
                    w()
            end.record(stream)
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / repeats)
    return sorted(times)[2]


def time_in_turns(contenders, flush):
    """label -> (microseconds of a launch after another, and of one after `flush`): the least of 4 rounds of 5 groups of about 10 ms, with rests between,
    the same for all: a card at its power limit is slower, whoever runs. Of the cold ones, which are differences, the second least."""
    first = contenders[0][1:3]
    replays = max(3, min(200, int(1e4 / microseconds(first[0], [first[1]], 3))))
    hot, cold = ({label: [] for label, *_ in contenders} for _ in range(2))
    for _ in range(4):
        for label, stream, replay, _ in contenders:
            time.sleep(0.2)
            hot[label].append(microseconds(stream, [replay], replays))
            few = min(replays, 40)
            cold[label].append(microseconds(stream, [flush, replay], few) - microseconds(stream, [flush], few))
    return {label: (round(min(hot[label]), 2), round(sorted(cold[label])[1], 2)) for label in hot}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--work", required=True)
    p.add_argument("--build", action="append", default=[], help="label=path of aotc[,option...]")
    p.add_argument("--peers", type=lambda s: s.split(","), default=["eager"])
    p.add_argument("--json")
    p.add_argument("--prepare", action="store_true")
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    cases.CASES.update(ROWS)
    builds = [(b.split("=", 1)[0], b.split("=", 1)[1].split(",")) for b in o.build]
    cuda, results, flush = Cuda(), {}, None if o.prepare else Flush()
    for name in o.names or ROWS:
        row, contenders = {}, []  # contenders: label, stream, a function that launches the graph, what it needs
        for peer in o.peers:
            try:
                contenders.append((peer, *peer_graph(name, peer, o.work)))
            except Exception as e:
                row[peer] = f"{type(e).__name__}: {str(e)[:300]}"
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
                if not os.path.exists(path + ".json"):
                    make_cases.make(argparse.Namespace(out=out, aotc=command[0], sm="sm_90a"), name)
                if o.prepare:
                    continue
                case = run_cases.Case(path, cuda, argparse.Namespace(once=False, time=False, graphs=False))
                row[label + " error"] = round(case.check(), 3)
                row[label + " build s"] = round(time.time() - begin, 1)
                stream, replay = run_cases.captured(cuda, case, case.sample(0)[0])
                contenders.append((label, torch.cuda.ExternalStream(stream.value), replay, case))
            except Exception as e:
                row[label] = f"{type(e).__name__}: {str(e)[:500]}"
        if o.prepare:
            continue
        for label, (hot, cold) in time_in_turns(contenders, flush).items() if contenders else ():
            row[label], row[label + " cold"] = hot, cold
        results[name] = row
        print(name, json.dumps(row), flush=True)
    if o.json:
        json.dump(results, open(o.json, "w"), indent=1)


if __name__ == "__main__":
    main()
