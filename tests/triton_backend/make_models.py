"""Makes the model repository that server_test.py serves, and what eager answers.

    make_models.py --aotc BIN --work DIR [--gpu HOST_NVRTC | --cuda sm_90a]    DIR/models, DIR/other (a second artifact of `net`), DIR/expected.npz; with
                                                    --gpu DIR/gpu_models, for the emulated GPU (tests/cuda/host_nvrtc.c compiles their kernels)

With --cuda all artifacts are for GPUs of that kind, and there is one more model, `faulty`, whose kernel takes the GPU from its process where a number is
negative.
"""
import argparse
import json
import os
import subprocess
import sys

import numpy
import torch
from torch import nn


HERE = os.path.dirname(os.path.abspath(__file__))
PARAMETER = 'parameters { key: "%s" value { string_value: "%s" } }\n'


class Net(nn.Module):
    def __init__(self, width=32, out=8):
        super().__init__()
        self.a, self.b = nn.Linear(width, 64), nn.Linear(64, out)

    def forward(self, x):
        return self.b(self.a(x).relu()).softmax(-1)


class Text(nn.Module):
    """Two inputs, two outputs, two dimensions with ranges; ids index a table."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(100, 16), nn.Linear(16, 5)

    def forward(self, ids, mask):
        m = mask[..., None].float()
        pooled = (self.embed(ids) * m).sum(1) / m.sum(1).clamp(min=1)
        return {"pooled": pooled, "scores": self.out(pooled), "length": mask.sum(1)}


class Mixing(nn.Module):
    """The first dimension is a sequence: rows see each other."""

    def forward(self, x):
        return (x @ x.t()).softmax(-1) @ x


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total += x
        return self.total * 1.0


class Found(nn.Module):
    def forward(self, x):
        return x[x > 0], torch.nonzero(x)


class Types(nn.Module):
    def forward(self, flag, small, half, wide, scalar):
        return ~flag, small + 1, half * 2, torch.complex(wide, wide * scalar), (wide.sum() * scalar).to(torch.bfloat16)


class Teller(nn.Module):
    """Says the next token from all before; the same program for a prompt of many and for one more."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 24), nn.Linear(24, 50)
        self.register_buffer("past", torch.zeros(24))

    def forward(self, ids):
        self.past.mul_(0.7)
        self.past += self.embed(ids).sum(0)
        token = self.head(torch.sin(3 * self.past)).argmax(-1, keepdim=True)
        return {"token": token, "ended": token == 51}


class Speaker(nn.Module):
    """A decoder of one layer with a static cache of 24 positions: logits of the last of `ids`, which stand behind all that came before."""

    def __init__(self, words=40, width=32, heads=2, most=24):
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(most, width)
        self.qkv, self.out, self.head = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, words)
        self.heads, self.most = heads, most
        self.register_buffer("keys", torch.zeros(heads, most, width // heads))
        self.register_buffer("values", torch.zeros(heads, most, width // heads))
        self.register_buffer("filled", torch.zeros(1, dtype=torch.int64))

    def forward(self, ids):
        at = self.filled + torch.arange(ids.shape[0])
        x = self.embed(ids) + self.place(at)
        q, k, v = (a.view(-1, self.heads, x.shape[1] // self.heads).transpose(0, 1) for a in self.qkv(x).chunk(3, -1))
        self.keys.index_copy_(1, at, k)
        self.values.index_copy_(1, at, v)
        seen = torch.arange(self.most)[None] <= at[:, None]
        y = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        x = x + self.out(y.transpose(0, 1).reshape(x.shape))
        self.filled += ids.shape[0]
        return {"logits": self.head(x[-1]), "filled": self.filled * 1}


class Sums(nn.Module):
    """Three slots of 16 positions, by names of its own: the sum of all that a sequence was fed, times a number of the request. Sums from 100 on fail, when
    states are written already."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(3, 8192))
        self.register_buffer("table", torch.arange(100.0))

    def forward(self, ids, which, at, count, seen, end, scale):
        place = torch.minimum(torch.arange(ids.shape[1])[None], count[:, None] - 1)
        self.kept[which[:, None], at[:, None] + place] = ids.gather(1, place).float()
        behind = seen[None, None] <= (at[:, None] + place)[:, :, None]
        sums = (self.kept[which][:, None, :seen.shape[0]] * behind).sum(-1)
        return {"sum": (self.table[sums.long()] * scale[:, None]).reshape(-1)[end]}


class Long(nn.Module):
    """Seconds of one thread: half of 10^12 operations in 250 steps."""

    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.randn(1024, 1024) / 32)

    def forward(self, x):
        y = self.w * x
        for _ in range(250):
            y = torch.tanh(y @ self.w)
        return y.sum(0)


class Step(nn.Module):
    """A training step: its parameters are states."""

    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.full((6,), 0.5))

    def forward(self, x, y):
        error = (x * self.w).sum(-1) - y
        self.w -= 0.1 * (error[:, None] * x).mean(0)
        return error.square().mean()


FAULTY = """#include "aotc/own_kernel.h"
__device__ void faulty(const aotc_op_args* a) {
  const float* x = static_cast<const float*>(a->in[0].data);
  float* y = static_cast<float*>(a->out[0].data);
  for (int64_t i = threadIdx.x; i < a->in[0].dims[0] * a->in[0].dims[1]; i += blockDim.x) {
    if (x[i] < 0) __trap();
    y[i] = x[i] + 1;
  }
}
"""
FAULTY_KERNEL = {"schema": "tests::faulty(Tensor x) -> Tensor", "inputs": {"x": {"dtype": "float32", "rank": 2}}, "results": [{"dtype_of": "x", "shape": ["x.0", "x.1"]}],
                 "cuda": {"source": "faulty.cu", "function": "faulty", "grid": "1", "block": 128}}


@torch.library.custom_op("tests::faulty", mutates_args=())
def faulty(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@faulty.register_fake
def _(x):
    return torch.empty_like(x)


class Faulty(nn.Module):
    def forward(self, x):
        return torch.ops.tests.faulty(x)


def slots(stored, serve, keep, kind):
    """A decoder of samples/llm, 6 sequences of up to 47 positions, 8 tokens a row: sequences and their logits at each place, of the model by itself."""
    sys.path.append(os.path.join(HERE, "..", "..", "samples", "llm"))
    import slots
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                         max_position_embeddings=64)).eval()
    for i in range(24):
        tokens = torch.randint(0, 96, (5 + (7 * i) % 37,))
        with torch.no_grad():
            keep(f"talker.{i}", [tokens, model(tokens[None], use_cache=False).logits[0]])
    program = stored("talker", slots.export(slots.SlotDecoder(model, slots=6, cache=48), chunk=8))
    shared, several = PARAMETER % ("artifact", "../talker/1/model.so"), f"instance_group {{ count: %d kind: {kind} }}\n"
    serve("talker", PARAMETER % ("threads", "1"), program)
    serve("talkers", shared + several % 3)
    rows, dim = torch.export.Dim("rows", min=1, max=3), lambda name, most: torch.export.Dim(name, min=1, max=most)
    example = torch.zeros(2, 2, dtype=torch.long), torch.arange(2), torch.tensor([1, 0]), torch.tensor([2, 1]), torch.arange(3), torch.tensor([1, 2]), torch.ones(2)
    dims = {0: rows, 1: dim("tokens", 4)}, {0: rows}, {0: rows}, {0: rows}, {0: dim("context", 15)}, {0: dim("answers", 3)}, {0: rows}
    serve("sums", PARAMETER % ("slots", "tokens=ids, slot=which, position=at, length=count, span=seen, last=end"),
          stored("sums", torch.export.export(Sums().eval(), example, dynamic_shapes=dims, strict=False)))
    # Four sequences wait for each other at each step.
    serve("talker_fours", shared + "max_batch_size: 6\nsequence_batching { max_sequence_idle_microseconds: 600000000 oldest { max_candidate_sequences: 6 preferred_batch_size: [ 4 ] "
                                   "max_queue_delay_microseconds: 60000000 } }\n")
    # The server gives a sequence a place of the batch, and runs the others' with what stands in its place.
    serve("talker_direct", shared + several % 2 + "sequence_batching { max_sequence_idle_microseconds: 600000000 direct { } }\n")


def main(o):
    torch.manual_seed(5)
    os.makedirs(o.work, exist_ok=True)
    expected = {}
    built_for, kind = (["--cuda", o.cuda], "KIND_GPU") if o.cuda else (["--cpu", "portable"], "KIND_CPU")
    env = dict(os.environ)
    env.setdefault("VIRTUAL_ENV", sys.prefix)  # where aotc looks for NVRTC

    def stored(name, exported):
        path = os.path.join(o.work, name + ".pt2")
        torch.export.save(exported, path)
        return path

    def archive(name, module, args, dims=None):
        return stored(name, torch.export.export(module.eval(), args, dynamic_shapes=dims, strict=False))

    def build(out, archives, *more):
        os.makedirs(os.path.dirname(out), exist_ok=True)
        r = subprocess.run([o.aotc, "build", *archives, "-o", out, *built_for, *more, "--quiet"], capture_output=True, text=True, env=env)
        assert r.returncode == 0, r.stdout + r.stderr

    def serve(name, config="", *archives, more=()):
        folder = os.path.join(o.work, "models", name)
        os.makedirs(os.path.join(folder, "1"), exist_ok=True)
        with open(os.path.join(folder, "config.pbtxt"), "w") as f:
            f.write('backend: "aotc"\n' + config)
        if archives:
            build(os.path.join(folder, "1", "model.so"), archives, *more)

    def keep(name, values):
        for i, v in enumerate(values):
            expected[f"{name}.{i}"] = v.detach().float().numpy() if v.dtype == torch.bfloat16 else v.detach().numpy()

    def serve_on_gpu(name, config, path=None):
        """An artifact for GPUs alone, whose kernels are compiled for the CPU."""
        if not o.gpu:
            return
        folder = os.path.join(o.work, "gpu_models", name)
        os.makedirs(os.path.join(folder, "1"))
        with open(os.path.join(folder, "config.pbtxt"), "w") as f:
            f.write('backend: "aotc"\n' + config)
        if path:
            host = {"AOTC_NVRTC": o.gpu, "AOTC_EMULATED_COMPILER": f"{sys.executable} {HERE}/../gpu/emulated_compiler.py", "XDG_CACHE_HOME": os.path.join(o.work, "gpu_cache")}
            r = subprocess.run([o.aotc, "build", path, "-o", os.path.join(folder, "1", "model.so"), "--cuda", "sm_90", "--quiet"], capture_output=True, text=True, env=env | host)
            assert r.returncode == 0, r.stdout + r.stderr

    Dim = torch.export.Dim
    parameter = PARAMETER
    batch, seq = Dim("batch", min=1, max=16), Dim("seq", min=1, max=32)
    x, nets = torch.randn(16, 32), {}
    for name in ("net", "other"):
        net = nets[name] = Net()
        path = archive(name, net, (x[:4],), ({0: batch},))
        if name == "net":
            serve("net", "", path)
            serve_on_gpu("net", "instance_group { count: 1 kind: KIND_MODEL }\n", path)  # the server itself sees no GPU
            serve_on_gpu("beside", "instance_group { count: 2 }\n" + "".join(parameter % p for p in (("artifact", "../net/1/model.so"), ("device", "0"), ("graphs", "on"))))
        else:
            build(os.path.join(o.work, "other.so"), [path])
        keep(name, [x, net(x)])
    shared = parameter % ("artifact", "../net/1/model.so")
    wait = "dynamic_batching { preferred_batch_size: [ %d ] max_queue_delay_microseconds: %d }\n"
    serve("net_eights", shared + "max_batch_size: 8\n" + wait % (8, 60000000))
    serve("net_late", shared + "max_batch_size: 16\n" + wait % (16, 4000000))
    serve("net_whole", shared + 'input { name: "x" data_type: TYPE_FP32 dims: [ -1, 32 ] }\n')
    several = f"instance_group {{ count: %d kind: {kind} }}\n" + "".join(parameter % p for p in (("threads", "1"), ("spread", "always")))
    serve("net_four", shared + f"instance_group {{ count: 4 kind: {kind} }}\n")
    for name, count in (("net_limited", 1), ("net_greedy", 2)):
        serve(name, shared + f'instance_group {{ count: 2 kind: {kind} rate_limiter {{ resources {{ name: "turns" global: true count: {count} }} }} }}\n')
    serve("net_threads", shared + several % 2)
    serve("net_spread", shared + several % 3 + "max_batch_size: 8\n" + wait % (8, 60000000))
    serve("versions", 'version_policy { all {} }\n', archive("v1", Net(), (x[:4],), ({0: batch},)))
    build(os.path.join(o.work, "models", "versions", "2", "model.so"), [os.path.join(o.work, "other.pt2")])

    text = Text()
    ids, mask = torch.randint(0, 100, (6, 9)), torch.ones(6, 9, dtype=torch.int64)
    mask[:, 7:] = 0
    serve("text", "max_batch_size: 8\n" + wait % (3, 60000000), archive("text", text, (ids, mask), ({0: Dim("rows", min=1, max=8), 1: seq},) * 2))
    serve("text_spread", parameter % ("artifact", "../text/1/model.so") + several % 2 + "max_batch_size: 8\n" + wait % (4, 60000000))
    r = text(ids, mask)
    keep("text", [ids, mask, r["pooled"], r["scores"], r["length"]])
    mixing, rows = Mixing(), torch.randn(7, 8)
    serve("mixing", "", archive("mixing", mixing, (rows,), ({0: seq},)))
    keep("mixing", [rows, mixing(rows)])
    counter = archive("counter", Counter(), (torch.ones(4),))
    serve("counter", "", counter)
    serve_on_gpu("counter", parameter % ("device", "0"), counter)
    y = torch.tensor([[1.0, -2, 3, -4], [0, 5, -1, 2]])
    serve("found", "", archive("found", Found(), (y,)))
    keep("found", [y, *Found()(y)])
    args = (torch.tensor([True, False, True]), torch.tensor([1, 2, 3], dtype=torch.int8), torch.tensor([1.0, 2.5], dtype=torch.float16),
            torch.tensor([1.0, 2.0, 4.0]), torch.tensor(3.0))
    serve("types", "", archive("types", Types(), args))
    keep("types", [*args, *Types()(*args)])

    teller, prompt = Teller(), torch.tensor([3, 1, 4, 1, 5])
    tellers = [f"{name}={archive(name, teller, (prompt[:n],), dims)}" for name, n, dims in (("tell", 5, ({0: seq},)), ("again", 1, None))]
    serve("teller", "".join(parameter % p for p in (("method", "tell"), ("next_method", "again"), ("feedback", "ids=token"), ("max_steps", "40"))), *tellers)
    serve("teller_stops", "".join(parameter % p for p in (("artifact", "../teller/1/model.so"), ("method", "tell"), ("next_method", "again"), ("feedback", "ids=token"),
                                                          ("stop", "ended=0"))))
    serve("teller_forever", "".join(parameter % p for p in (("artifact", "../teller/1/model.so"), ("method", "again"), ("feedback", "ids=token"),
                                                            ("max_steps", "1000000000"))))
    serve("tell", "".join(parameter % p for p in (("artifact", "../teller/1/model.so"), ("method", "tell"))))
    teller.past.zero_()
    tokens, token = [], prompt
    for _ in range(40):
        token = teller(token)["token"]
        tokens.append(token)
    keep("teller", [prompt, torch.cat(tokens)])

    one = parameter % ("threads", "1")
    patient = "sequence_batching { max_sequence_idle_microseconds: 600000000 oldest { max_candidate_sequences: %d } }\n"
    serve("speaker", one + patient % 3 + parameter % ("sequences", "3"), archive("speaker", Speaker(), (prompt,), ({0: Dim("tokens", min=1, max=8)},)))
    serve("speakers", one + f"instance_group {{ count: 4 kind: {kind} }}\n" + patient % 2 + "".join(parameter % p for p in (("artifact", "../speaker/1/model.so"), ("sequences", "2"))))

    slots(stored, serve, keep, kind)

    serve("long", "max_batch_size: 0\n" + parameter % ("threads", "1"), archive("long", Long(), (torch.ones(1),)))

    step, data, target = Step(), torch.randn(4, 6), torch.randn(4)
    train = archive("train", step, (data, target))
    serve("train", parameter % ("states", "instance"), train)
    serve_on_gpu("train", parameter % ("states", "instance") + parameter % ("device", "0"), train)
    step.w.fill_(0.5)
    keep("train", [data, target, torch.stack([step(data, target) for _ in range(5)])])
    # Two models one behind the other, by the server.
    wide = Net(8, 32)
    archives = os.path.join(o.work, "net.pt2"), archive("wide", wide, (torch.randn(4, 8),), ({0: batch},))
    serve("wide", "", archives[1])
    names = [torch.export.load(path).graph_signature for path in archives]
    step = "{ model_name: \"%s\" model_version: -1 input_map { key: \"%s\" value: \"%s\" } output_map { key: \"%s\" value: \"%s\" } }"
    steps = [step % (name, n.user_inputs[0], a, n.user_outputs[0], b) for (name, a, b), n in zip((("net", "x", "y"), ("wide", "y", "z")), names, strict=True)]
    os.makedirs(os.path.join(o.work, "models", "chain", "1"), exist_ok=True)
    with open(os.path.join(o.work, "models", "chain", "config.pbtxt"), "w") as f:
        f.write('platform: "ensemble"\nmax_batch_size: 16\ninput { name: "x" data_type: TYPE_FP32 dims: [ 32 ] }\noutput { name: "z" data_type: TYPE_FP32 dims: [ 32 ] }\n'
                f"ensemble_scheduling {{ step [ {', '.join(steps)} ] }}\n")
    keep("chain", [x, wide(nets["net"](x))])
    if o.cuda:
        for name, text in (("faulty.cu", FAULTY), ("faulty.json", json.dumps({"kernels": [FAULTY_KERNEL]}))):
            with open(os.path.join(o.work, name), "w") as f:
                f.write(text)
        serve("faulty", "", archive("faulty", Faulty(), (x[:4],), ({0: batch},)), more=["--kernels", os.path.join(o.work, "faulty.json")])
    numpy.savez(os.path.join(o.work, "expected.npz"), **expected)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--aotc", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--gpu", default="")
    parser.add_argument("--cuda", help="the kind of GPU")
    main(parser.parse_args())
