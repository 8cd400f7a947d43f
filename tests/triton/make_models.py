"""Makes the model repository that server_test.py serves, and what eager answers.

    make_models.py --aotc BIN --work DIR [--gpu]    DIR/models, DIR/other (a second artifact of `net`), DIR/expected.npz; with --gpu DIR/gpu_models and
                                                    DIR/gpu_kernels.so, for the emulated GPU, where there is NVRTC
"""
import argparse
import os
import subprocess
import sys

import numpy
import torch
from torch import nn


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


def main(o):
    torch.manual_seed(5)
    os.makedirs(o.work, exist_ok=True)
    expected = {}

    def archive(name, module, args, dims=None):
        path = os.path.join(o.work, name + ".pt2")
        torch.export.save(torch.export.export(module.eval(), args, dynamic_shapes=dims, strict=False), path)
        return path

    def build(out, archives):
        os.makedirs(os.path.dirname(out), exist_ok=True)
        r = subprocess.run([o.aotc, "build", *archives, "-o", out, "--cpu", "portable", "--quiet"], capture_output=True, text=True)
        assert r.returncode == 0, r.stdout + r.stderr

    def serve(name, config="", *archives, version=1):
        folder = os.path.join(o.work, "models", name)
        os.makedirs(os.path.join(folder, str(version)), exist_ok=True)
        with open(os.path.join(folder, "config.pbtxt"), "w") as f:
            f.write('backend: "aotc"\n' + config)
        if archives:
            build(os.path.join(folder, str(version), "model.so"), archives)

    def keep(name, values):
        for i, v in enumerate(values):
            expected[f"{name}.{i}"] = v.detach().float().numpy() if v.dtype == torch.bfloat16 else v.detach().numpy()

    def serve_on_gpu(path):
        """An artifact for GPUs alone, and its kernels compiled for the CPU."""
        sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
        import emulate

        folder, kept = os.path.join(o.work, "gpu_models", "net"), os.path.join(o.work, "gpu_keep")
        os.makedirs(os.path.join(folder, "1"), exist_ok=True)
        env = dict(os.environ)
        env.setdefault("VIRTUAL_ENV", sys.prefix)  # where aotc looks for NVRTC
        r = subprocess.run([o.aotc, "build", path, "-o", os.path.join(folder, "1", "model.so"), "--cuda", "sm_90", "--keep", kept, "--quiet"],
                           capture_output=True, text=True, env=env)
        if r.returncode and "NVRTC" in r.stdout + r.stderr:
            return print("there is no NVRTC: no models for GPUs")
        assert r.returncode == 0, r.stdout + r.stderr
        with open(os.path.join(folder, "config.pbtxt"), "w") as f:
            f.write('backend: "aotc"\ninstance_group { count: 1 kind: KIND_MODEL }\n')  # the server itself sees no GPU
        emulate.compile_host(os.path.join(kept, "kernels.cu"), os.path.join(o.work, "gpu_host"), os.path.join(o.work, "gpu_kernels.so"), "c++")

    Dim = torch.export.Dim
    batch, seq = Dim("batch", min=1, max=16), Dim("seq", min=1, max=32)
    x = torch.randn(16, 32)
    for name in ("net", "other"):
        net = Net()
        path = archive(name, net, (x[:4],), ({0: batch},))
        if name == "net":
            serve("net", "", path)
            if o.gpu:
                serve_on_gpu(path)
        else:
            build(os.path.join(o.work, "other.so"), [path])
        keep(name, [x, net(x)])
    shared = 'parameters { key: "artifact" value { string_value: "../net/1/model.so" } }\n'
    wait = "dynamic_batching { preferred_batch_size: [ %d ] max_queue_delay_microseconds: %d }\n"
    serve("net_eights", shared + "max_batch_size: 8\n" + wait % (8, 60000000))
    serve("net_late", shared + "max_batch_size: 16\n" + wait % (16, 4000000))
    serve("net_whole", shared + 'input { name: "x" data_type: TYPE_FP32 dims: [ -1, 32 ] }\n')
    several = "instance_group { count: %d kind: KIND_CPU }\n" + "".join(f'parameters {{ key: "{k}" value {{ string_value: "{v}" }} }}\n' for k, v in (("threads", "1"), ("spread", "always")))
    serve("net_threads", shared + several % 2)
    serve("net_spread", shared + several % 3 + "max_batch_size: 8\n" + wait % (8, 60000000))
    serve("versions", 'version_policy { all {} }\n', archive("v1", Net(), (x[:4],), ({0: batch},)))
    build(os.path.join(o.work, "models", "versions", "2", "model.so"), [os.path.join(o.work, "other.pt2")])

    text = Text()
    ids, mask = torch.randint(0, 100, (6, 9)), torch.ones(6, 9, dtype=torch.int64)
    mask[:, 7:] = 0
    serve("text", "max_batch_size: 8\n" + wait % (3, 60000000), archive("text", text, (ids, mask), ({0: Dim("rows", min=1, max=8), 1: seq},) * 2))
    serve("text_spread", 'parameters { key: "artifact" value { string_value: "../text/1/model.so" } }\n' + several % 2 + "max_batch_size: 8\n" + wait % (4, 60000000))
    r = text(ids, mask)
    keep("text", [ids, mask, r["pooled"], r["scores"], r["length"]])
    mixing, rows = Mixing(), torch.randn(7, 8)
    serve("mixing", "", archive("mixing", mixing, (rows,), ({0: seq},)))
    keep("mixing", [rows, mixing(rows)])
    serve("counter", "", archive("counter", Counter(), (torch.ones(4),)))
    y = torch.tensor([[1.0, -2, 3, -4], [0, 5, -1, 2]])
    serve("found", "", archive("found", Found(), (y,)))
    keep("found", [y, *Found()(y)])
    args = (torch.tensor([True, False, True]), torch.tensor([1, 2, 3], dtype=torch.int8), torch.tensor([1.0, 2.5], dtype=torch.float16),
            torch.tensor([1.0, 2.0, 4.0]), torch.tensor(3.0))
    serve("types", "", archive("types", Types(), args))
    keep("types", [*args, *Types()(*args)])

    teller, prompt = Teller(), torch.tensor([3, 1, 4, 1, 5])
    tellers = [f"{name}={archive(name, teller, (prompt[:n],), dims)}" for name, n, dims in (("tell", 5, ({0: seq},)), ("again", 1, None))]
    parameter = 'parameters { key: "%s" value { string_value: "%s" } }\n'
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
    two = "instance_group { count: 2 kind: KIND_CPU }\n"
    serve("speakers", one + two + patient % 4 + "".join(parameter % p for p in (("artifact", "../speaker/1/model.so"), ("sequences", "4"))))

    serve("long", "max_batch_size: 0\n" + parameter % ("threads", "1"), archive("long", Long(), (torch.ones(1),)))

    step, data, target = Step(), torch.randn(4, 6), torch.randn(4)
    serve("train", parameter % ("states", "instance"), archive("train", step, (data, target)))
    step.w.fill_(0.5)
    keep("train", [data, target, torch.stack([step(data, target) for _ in range(5)])])
    numpy.savez(os.path.join(o.work, "expected.npz"), **expected)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--aotc", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--gpu", action="store_true")
    main(parser.parse_args())
