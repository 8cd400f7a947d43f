"""Weights of one archive in the artifact of another (aotc weights). The oracle is the artifact that is built of that archive: artifacts of one
program with other weights, be they zeros, equal ones or trained, have the same code, tables and plans, and each gives the other's answers, to the
bit, with the other's weights file. What is another program is refused, and the first weight or node that differs is named.

    exchange.py --aotc BIN --work DIR
"""
import glob
import json
import os
import re
import subprocess
import sys
import time

import numpy
import torch
from torch import nn

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import arguments
import run_models
from json_schema import validate
import thirds


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(24, 48), nn.Linear(48, 48), nn.Linear(48, 7)
        self.norm = nn.LayerNorm(48)
        self.scale, self.power = nn.Parameter(torch.rand(48)), nn.Parameter(torch.rand(()))
        self.register_buffer("table", torch.randn(7, 7))

    def forward(self, x):
        y = self.norm(self.a(x).relu()) * self.scale
        return (self.c(torch.clamp(self.b(y), min=0) ** (1 + self.power)) @ self.table + self.table[0]).softmax(-1)


class Convs(nn.Module):
    """Batch normalisation behind convolutions and before them, branches that are added, channels that are scaled."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 1)
        self.bn, self.bn2, self.bn3 = nn.BatchNorm2d(16), nn.BatchNorm2d(16), nn.BatchNorm2d(16)
        self.up = nn.ConvTranspose2d(16, 8, 4, 2, 1)
        self.gamma = nn.Parameter(torch.ones(8, 1, 1))

    def forward(self, x):
        y = self.bn(self.a(x)).relu()
        y = (self.bn2(self.b(y)) + self.c(y) + self.bn3(y)).relu()
        return self.up(y) * self.gamma


class Decoder(nn.Module):
    """A language model whose head is its table, with a mask that is saved with it."""

    def __init__(self, width=64, hidden=160, vocabulary=500, length=16, tied=True):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))

    def forward(self, ids):
        n = ids.shape[1]
        x = self.embed(ids) + self.place(torch.arange(n))
        q, k, v = (p(self.norm(x)).view(1, n, 4, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        a = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask[:n, :n])
        x = x + self.out(a.transpose(1, 2).reshape(1, n, -1))
        return self.head(x + self.down(nn.functional.gelu(self.up(self.norm2(x)))))


class Step(nn.Module):
    """As Decoder's last rows: another program over the same weights."""

    def __init__(self, decoder):
        super().__init__()
        self.embed, self.up, self.down, self.head = decoder.embed, decoder.up, decoder.down, decoder.head

    def forward(self, id):
        x = self.embed(id)
        return self.head(x + self.down(nn.functional.gelu(self.up(x))))


def fill(net, how, seed):
    """Other values for all that a state dict has but the mask: drawn, zeros, or one number everywhere."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, t in net.state_dict().items():
            if not t.is_floating_point() or name == "mask":
                continue
            if how == "drawn":
                t.copy_(torch.rand(t.shape, generator=generator) * 0.8 - 0.3 if "running_var" not in name else torch.rand(t.shape, generator=generator) + 0.5)
            else:
                t.fill_({"zeros": 0.0, "ones": 1.0, "halves": 0.5}[how])
    return net.eval()


class Case:
    def __init__(self, o):
        self.o = o

    def at(self, *parts):
        return os.path.join(self.o.work, *parts)

    def export(self, name, net, args, dynamic=None):
        path = self.at(name + ".pt2")
        torch.export.save(torch.export.export(net, args, dynamic_shapes=dynamic), path)
        return path

    def sh(self, *words, exit_code=0):
        done = subprocess.run([self.o.aotc, *words], capture_output=True, text=True)
        assert done.returncode == exit_code, f"aotc {' '.join(words)}: exit code {done.returncode}, not {exit_code}\n{done.stdout}{done.stderr}"
        return done.stdout if exit_code == 0 else done.stderr

    def build(self, name, *words):
        so = self.at(name + ".so")
        self.sh("build", *(words or (self.at(name + ".pt2"),)), "-o", so, "--keep", self.at(name + ".kept"), "--quiet")
        return so

    def run(self, so, inputs, weights=None, method=None):
        out = self.at("out")
        words = ["run", so, "-o", out, "--quiet"] + (["--weights", weights] if weights else []) + (["--method", method] if method else [])
        for name, value in inputs.items():
            numpy.save(self.at(name + ".npy"), value)
            words += ["-i", f"{name}={self.at(name + '.npy')}"]
        told = json.loads(self.sh(*words, "--json"))
        return [numpy.load(f["file"]).tobytes() for f in told["outputs"]]

    def weights(self, model, so, *words):
        file = self.at("other.weights")
        told = json.loads(self.sh("weights", *([model] if isinstance(model, str) else model), "--for", so, "-o", file, "--json", *words))
        validate("weights", told)
        assert told["layout"] == self.layout(so)["id"], told
        return file

    def layout(self, so):
        return json.loads(self.sh("inspect", so, "--json"))["weights_layout"]

    def same_but_for_weights(self, a, b):
        """Sources of kernels, tables without the description, plans; the layout."""
        kept = [sorted(os.path.basename(f) for f in glob.glob(self.at(n + ".kept", "*.cpp")) + glob.glob(self.at(n + ".kept", "plan*"))) for n in (a, b)]
        assert kept[0] == kept[1] and kept[0], kept
        for file in kept[0]:
            texts = [re.sub(r"static const char metadata\[\] = .*?;\n", "", open(self.at(n + ".kept", file)).read(), flags=re.S) for n in (a, b)]
            assert texts[0] == texts[1], f"{file} of {a} and of {b} differ"
        assert self.layout(self.at(a + ".so"))["id"] == self.layout(self.at(b + ".so"))["id"], (a, b)

    def exchanged(self, a, b, inputs, models=None, methods=(None,)):
        """Each with the other's weights gives the other's answers."""
        self.same_but_for_weights(a, b)
        for own, other in ((a, b), (b, a)):
            so, there = self.at(own + ".so"), self.at(other + ".so")
            file = self.weights(models[other] if models else self.at(other + ".pt2"), so)
            for method in methods:
                given = inputs[method] if method else inputs
                want, without = self.run(there, given, method=method), self.run(so, given, method=method)
                assert self.run(so, given, file, method) == want, f"{own} with the weights of {other} does not answer as {other} ({method})"
                assert without != want, f"{own} answers as {other} without its weights: nothing is tested"


def one_program_other_values(c, kind):
    batch = torch.export.Dim("batch", min=1, max=40)
    x, image, ids = torch.randn(5, 24), torch.randn(1, 3, 20, 20), torch.randint(0, 500, (1, 9))
    kinds = {"mlp": (Mlp, (x,), ({0: batch},), {"x": x.numpy()}), "convs": (Convs, (image,), None, {"x": image.numpy()}),
             "decoder": (Decoder, (ids,), ({1: torch.export.Dim("n", min=2, max=15)},), {"ids": ids.numpy()})}
    make, args, dynamic, inputs = kinds[kind]
    values = {"drawn": fill(make(), "drawn", 1), "fresh": make().eval(), "zeros": fill(make(), "zeros", 0), "halves": fill(make(), "halves", 0)}
    for how, net in values.items():
        c.export(f"{kind}_{how}", net, args, dynamic)
        c.build(f"{kind}_{how}")
    for how in ("fresh", "zeros", "halves"):
        c.exchanged(f"{kind}_drawn", f"{kind}_{how}", inputs)
    sizes = {os.path.getsize(c.at(f"{kind}_{how}.so")) // 4096 for how in values}
    print(f"ok   {kind}: {len(values)} sets of values, one layout, {max(sizes) - min(sizes)} pages apart", flush=True)


def few_bits(c, bits):
    ids = torch.randint(0, 500, (1, 9))
    for how, seed in (("drawn", 3), ("other", 4)):
        name = f"{bits}_{how}"
        c.export(name, fill(Decoder(), "drawn", seed), (ids,))
        c.build(name, c.at(name + ".pt2"), "--weights", bits, "--max-weight-error", "1")
    c.exchanged(f"{bits}_drawn", f"{bits}_other", {"ids": ids.numpy()})
    drawn, other = c.at(f"{bits}_drawn.so"), c.at(f"{bits}_other.pt2")
    c.sh("verify", drawn, "--against", other, "--weights", c.weights(other, drawn), "--samples", "1")
    c.sh("verify", drawn, "--against", other, "--samples", "1", exit_code=1)
    print("ok   weights of few bits:", bits, flush=True)


def options_of_the_build(c, words):
    """What the build was told is told to aotc weights by the artifact: shapes, instruction sets, precision."""
    image = torch.randn(2, 3, 20, 20)
    for how, seed in (("a", 1), ("b", 2)):
        c.export("told_" + how, fill(Convs(), "drawn", seed), (image,), ({0: torch.export.Dim("n", min=1, max=8)},))
    with open(c.at("told.json"), "w") as f:
        json.dump({"inputs": {"x": {"shape": ["n", 3, 20, 20]}}, "dims": {"n": {"min": 1, "max": 4, "tune": [2]}}}, f)
    for how in "ab":
        c.build("told_" + how, c.at(f"told_{how}.pt2"), "--shapes", c.at("told.json"), *words)
    c.exchanged("told_a", "told_b", {"x": image.numpy()})
    print("ok   options of the build:", *words, flush=True)


def methods(c):
    ids, one = torch.randint(0, 500, (1, 9)), torch.randint(0, 500, (1, 1))
    models = {}
    for how, seed in (("a", 5), ("b", 6)):
        decoder = fill(Decoder(), "drawn", seed)
        files = {"prefill": c.export(f"prefill_{how}", decoder, (ids,)), "decode": c.export(f"decode_{how}", Step(decoder), (one,))}
        models["methods_" + how] = [f"{name}={file}" for name, file in files.items()]
        c.build("methods_" + how, *models["methods_" + how])
    c.exchanged("methods_a", "methods_b", {"prefill": {"ids": ids.numpy()}, "decode": {"id": one.numpy()}}, models, ("prefill", "decode"))
    own, shared = (json.loads(c.sh("inspect", c.at("methods_a.so"), "--json"))["seal"]["weights_bytes"] for _ in range(2))
    assert own < 1.3 * sum(t.numel() * 4 for t in Decoder().parameters()), own
    mixed = [models["methods_a"][0], models["methods_b"][1]]
    why = c.sh("weights", *mixed, "--for", c.at("methods_a.so"), "-o", c.at("mixed.weights"), exit_code=3)
    assert "are stored once" in why and "'head.weight' of method" in why and not os.path.exists(c.at("mixed.weights")), why
    why = c.sh("weights", models["methods_a"][0], "--for", c.at("methods_a.so"), "-o", c.at("mixed.weights"), exit_code=2)
    assert "method 'decode', for which no archive is given" in why, why
    why = c.sh("weights", *models["methods_a"], "more=" + c.at("decode_a.pt2"), "--for", c.at("methods_a.so"), "-o", c.at("mixed.weights"), exit_code=2)
    assert "no method 'more'; it has decode, prefill" in why, why
    print("ok   methods share one weights file", flush=True)


def single_weights(c):
    """--set gives weights by name other values, tied ones with them; what cannot be given is refused."""
    x, ids = torch.randn(5, 24), torch.randint(0, 500, (1, 9))
    for name, make, args, inputs, changed in (("single", Mlp, (x,), {"x": x.numpy()}, ("c.weight", "norm.bias")),
                                              ("single_tied", Decoder, (ids,), {"ids": ids.numpy()}, ("embed.weight",))):
        net = fill(make(), "drawn", 1)
        c.export(name, net, args)
        c.build(name)
        words = []
        with torch.no_grad():
            for weight in changed:
                net.state_dict()[weight].copy_(torch.rand_like(net.state_dict()[weight]))
                numpy.save(c.at(weight + ".npy"), net.state_dict()[weight].numpy())
                words += ["--set", f"{weight}={c.at(weight + '.npy')}"]
        c.export(name + "_set", net, args)
        c.build(name + "_set")
        file = c.weights(c.at(name + ".pt2"), c.at(name + ".so"), *words)
        assert c.run(c.at(name + ".so"), inputs, file) == c.run(c.at(name + "_set.so"), inputs), name
    numpy.save(c.at("small.npy"), numpy.zeros(3, "f4"))
    for words, exit_code, part in ((["none=" + c.at("small.npy")], 2, "has no parameter or buffer 'none'"), (["c.weight"], 2, "is not NAME=FILE.npy"),
                                   (["c.weight=" + c.at("small.npy")], 3, "is float32[3], and 'c.weight' is float32[7, 48]"),
                                   (["a.bias=" + c.at("small.npy")] * 2, 2, "twice"), (["a.bias=" + c.at("none.npy")], 6, "none.npy")):
        why = c.sh("weights", c.at("single.pt2"), "--for", c.at("single.so"), "-o", c.at("none.weights"), *(w for s in words for w in ("--set", s)), exit_code=exit_code)
        assert part in why and not glob.glob(c.at("none.weights*")), why
    print("ok   single weights by name", flush=True)


def damaged_files(c):
    x = torch.randn(5, 24)
    c.export("whole", fill(Mlp(), "drawn", 1), (x,))
    so = c.build("whole")
    with open(c.weights(c.at("whole.pt2"), so), "rb") as f:
        content = f.read()
    numpy.save(c.at("x.npy"), x.numpy())
    for name, bad, said in (("cut", content[:-9], "cut off"), ("short", content[:40], "cut off"), ("empty", b"", ""), ("flipped", bytes([content[0] ^ 1]) + content[1:], "hash"),
                            ("middle", content[:len(content) // 2] + bytes([content[len(content) // 2] ^ 64]) + content[len(content) // 2 + 1:], "hash"), ("longer", content + b"x", "cut off")):
        file = c.at(name + ".weights")
        with open(file, "wb") as f:
            f.write(bad)
        why = c.sh("run", so, "-i", "x=" + c.at("x.npy"), "-o", c.at("out"), "--weights", file, "--check-weights", exit_code=3)
        assert said in why and name in why, why
    print("ok   damaged files are refused", flush=True)


def refusals(c):
    x, ids = torch.randn(5, 24), torch.randint(0, 500, (1, 9))
    c.export("plain", fill(Mlp(), "drawn", 1), (x,))
    c.build("plain")

    def refused(of, *parts, exit_code=3):
        why = c.sh("weights", c.at(of), "--for", c.at("plain.so" if "tied" not in of else "tied_a.so"), "-o", c.at("none.weights"), exit_code=exit_code)
        assert all(p in why for p in parts), why
        assert not glob.glob(c.at("none.weights*")), "a file was left"

    wide = Mlp()
    wide.c, wide.table = nn.Linear(48, 9), torch.randn(9, 7)
    c.export("wide", wide.eval(), (x,))
    refused("wide.pt2", "is another program than plain.so was built from", 'from "c.weight"', "aotc build")
    class Other(Mlp):
        def forward(self, x):
            return super().forward(x.tanh())
    c.export("other", Other().eval(), (x,))
    refused("other.pt2", "is another program", "aten.tanh")
    c.export("tied_a", fill(Decoder(), "drawn", 1), (ids,))
    c.build("tied_a")
    c.export("tied_not", fill(Decoder(tied=False), "drawn", 1), (ids,))
    refused("tied_not.pt2", "is another program than tied_a.so was built from")
    masked = fill(Decoder(), "drawn", 1)
    masked.mask.zero_()
    c.export("tied_mask", masked, (ids,))
    refused("tied_mask.pt2", "tied_a.so")
    class Lifted(Mlp):
        def __init__(self, value):
            super().__init__()
            self.value = value
        def forward(self, x):
            return super().forward(x + torch.tensor([self.value, 2.0] * 12))
    for value in (1.0, 3.0):
        c.export(f"lifted{value:.0f}", fill(Lifted(value), "drawn", 1), (x,))
    c.build("lifted1")
    why = c.sh("weights", c.at("lifted3.pt2"), "--for", c.at("lifted1.so"), "-o", c.at("none.weights"), exit_code=3)
    assert "has other values than lifted1.so was built with in" in why, why
    refused("missing.pt2", "missing.pt2", exit_code=6)
    why = c.sh("weights", c.at("plain.pt2"), "--for", c.at("plain.pt2"), "-o", c.at("none.weights"), exit_code=3)
    why = c.sh("weights", c.at("plain.pt2"), "--for", c.at("plain.so"), "-o", c.at("plain.so"), exit_code=2)
    assert "plain.so" in why, why
    file = c.weights(c.at("plain.pt2"), c.at("plain.so"))
    numpy.save(c.at("ids.npy"), ids.numpy())
    why = c.sh("run", c.at("tied_a.so"), "-i", "ids=" + c.at("ids.npy"), "-o", c.at("out"), "--weights", file, exit_code=3)
    assert "another artifact (its layout is " + c.layout(c.at("plain.so"))["id"] in why, why
    print("ok   refusals", flush=True)


TESTS = {"mlp": lambda c: one_program_other_values(c, "mlp"), "convs": lambda c: one_program_other_values(c, "convs"),
         "decoder": lambda c: one_program_other_values(c, "decoder"), "int8": lambda c: few_bits(c, "int8"), "int4": lambda c: few_bits(c, "int4"),
         "bf16": lambda c: few_bits(c, "bf16"), "portable": lambda c: options_of_the_build(c, ["--cpu", "portable"]),
         "precision": lambda c: options_of_the_build(c, ["--precision", "bf16", "--cpu", "avx2"]),
         "winograd4": lambda c: options_of_the_build(c, ["--cpu", "avx2", "--winograd4", "--threads", "3"]), "methods": methods,
         "single_weights": single_weights, "damaged_files": damaged_files, "refusals": refusals}


def main():
    o = arguments.parse(names="tests")
    for name in o.tests or thirds.some(TESTS, "tests of weights that are exchanged"):
        torch.manual_seed(0)
        TESTS[name](Case(o))


main()
