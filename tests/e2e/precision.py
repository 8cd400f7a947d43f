"""--precision on small float32 nets of the usual kinds: what the pass rounds, what verify holds the artifact to, what auto chooses for which
bound, and what report and explain say.

    precision.py --aotc BIN --work DIR
"""
import json
import os
import re
import subprocess
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(__file__))
from run_models import sh, validate
from work_folder import WorkFolder
import thirds


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(96, 512), nn.GELU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 64))

    def forward(self, x):
        return self.layers(x)


class Conv(nn.Module):
    """A stem, windows' largest values, a residual block with batch norms, depthwise and transposed convolutions."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.a, self.b = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 1)
        self.depthwise, self.up = nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.ConvTranspose2d(32, 8, 2, 2)

    def forward(self, x):
        x = F.max_pool2d(self.norm(self.stem(x)).relu(), 2)
        x = (x + self.b(self.a(x).relu())).relu()
        return self.up(self.depthwise(x)), x.mean((2, 3))


class Residuals(nn.Module):
    """Convolutions whose results others add to theirs: a stream of three stages, one of them reached by a projection."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.a, self.b, self.c, self.d, self.shortcut = (nn.Conv2d(32, 32, k, padding=k // 2) for k in (3, 3, 5, 3, 1))
        self.head = nn.Conv2d(32, 8, 1)

    def forward(self, x):
        x = self.stem(x).relu()
        x = (self.a(self.d(x).relu()) + self.shortcut(x)).relu()
        x = (self.b(x) + x).relu()
        x = (self.c(x) + x).relu()
        return self.head(x)


class Transformer(nn.Module):
    """Two blocks with rotary positions (outer products that keep float32), a table that is also the head, integers out."""

    def __init__(self, d=64, heads=4):
        super().__init__()
        self.embed, self.heads = nn.Embedding(200, d), heads
        self.blocks = nn.ModuleList(nn.ModuleDict({"n1": nn.LayerNorm(d), "qkv": nn.Linear(d, 3 * d), "out": nn.Linear(d, d), "n2": nn.LayerNorm(d),
                                                   "up": nn.Linear(d, 4 * d), "down": nn.Linear(4 * d, d)}) for _ in range(2))
        self.register_buffer("frequencies", 1 / 10000 ** (torch.arange(0, d // heads, 2).float() / (d // heads)))

    def rotate(self, x):
        angles = torch.arange(x.size(2)).float()[:, None] @ self.frequencies[None, :]
        a, b = x[..., ::2], x[..., 1::2]
        return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)

    def forward(self, ids):
        x = self.embed(ids)
        n, l, d = x.shape
        for block in self.blocks:
            q, k, v = (t.view(n, l, self.heads, -1).transpose(1, 2) for t in block["qkv"](block["n1"](x)).chunk(3, -1))
            a = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
            x = x + block["out"](a.transpose(1, 2).reshape(n, l, d))
            x = x + block["down"](F.gelu(block["up"](block["n2"](x))))
        return x @ self.embed.weight.t()


class Recurrent(nn.Module):
    """A layer that oneDNN has not in bf16 on every processor."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(24, 32, 2, batch_first=True, bidirectional=True), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.layer(x)[0])


def nets():
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=48)
    yield "mlp", MLP(), (torch.randn(8, 96),), ({0: batch},)
    yield "conv", Conv(), (torch.randn(2, 3, 24, 24),), None
    yield "residuals", Residuals(), (torch.randn(2, 3, 24, 24),), None
    yield "transformer", Transformer(), (torch.randint(200, (2, 24)),), ({1: length},)
    yield "recurrent", Recurrent(), (torch.randn(5, 19, 24),), None


class Folder(WorkFolder):
    def build(self, net, out, *options):
        sh(self.aotc, "build", self(net + ".pt2"), "-o", self(out), "--quiet", *options)
        report = json.load(open(self(out[:-3] + ".report.json")))
        validate("report", report)
        metadata = json.loads(sh(self.aotc, "inspect", self(out), "--json"))
        validate("metadata", metadata)
        return report, metadata

    def verify(self, net, artifact):
        r = subprocess.run([self.aotc, "verify", self(artifact), "--against", self(net + ".pt2"), "--json"], capture_output=True, text=True)
        assert r.returncode in (0, 1), r.stderr
        return json.loads(r.stdout)

    def refused(self, *command):
        r = subprocess.run([self.aotc, *command], capture_output=True, text=True)
        assert r.returncode == 2, (command, r.returncode, r.stderr)
        return r.stderr


def rounded(report):
    return [s["precision"] for s in report["precision"]["steps"]]


def check(at, net):
    full, metadata = at.build(net, net + "_f32.so")
    assert "precision" not in full and "precision" not in metadata, "float32 needs no word"
    exact = at.verify(net, net + "_f32.so")
    assert exact["pass"] and "err_eager_bf16" not in exact["outputs"][0], exact

    half, metadata = at.build(net, net + "_bf16.so", "--precision", "bf16")
    assert metadata["precision"] == {"mode": "bf16"} and set(rounded(half)) == {"bf16"}, half["precision"]
    assert {o["dtype"] for o in metadata["outputs"]} == {"float32"}, metadata["outputs"]
    assert {i["dtype"] for i in metadata["inputs"]} <= {"float32", "int64"}
    # All but tables, biases, norms and paddings of panels lies in half the bytes.
    assert half["weights_bytes"] < (0.65 if net == "mlp" else 0.95) * full["weights_bytes"], (half["weights_bytes"], full["weights_bytes"])
    held = at.verify(net, net + "_bf16.so")
    assert held["pass"], held
    for o, e in zip(held["outputs"], exact["outputs"]):
        assert 20 * e["err_aotc"] < o["err_aotc"] <= o["err_eager_bf16"] * 1.0 + 2**-8, (net, o, e)
    text = sh(at.aotc, "explain", at(net + "_bf16.so"))
    assert re.search(rf"^precision bf16: {len(rounded(half))} of {len(rounded(half))} products", text, re.M), text

    # Each of its sums but the last is added to, as is the projection; of the other net what windows and an addition read. Elsewhere all
    # that is added to is summed or normalised too.
    stored = half["precision"].get("stored", [])
    assert len(stored) == {"residuals": 3, "conv": 1}.get(net, 0), stored
    assert text.count("stored as bf16: ") == len(stored), text

    # A bound that nothing in bf16 meets, one that everything does, and one between.
    tight, metadata = at.build(net, net + "_tight.so", "--precision", "auto", "--max-error", "1e-5", "--cpu", "native")
    assert metadata["precision"] == {"mode": "auto", "max_error": 1e-5} and set(rounded(tight)) == {"f32"}, tight["precision"]
    verified = at.verify(net, net + "_tight.so")
    assert verified["pass"] and max(o["err_aotc"] for o in verified["outputs"]) <= 1e-5, verified
    wide, _ = at.build(net, net + "_wide.so", "--precision", "auto", "--max-error", "0.5")
    faster = {s["why"] for s in wide["precision"]["steps"]}
    assert faster <= {"faster", "bf16 is not faster"}, faster
    assert wide["precision"]["error"] <= wide["precision"]["bound"], wide["precision"]
    middle = max(o["err_aotc"] for o in held["outputs"]) / 2
    some, _ = at.build(net, net + "_some.so", "--precision", "auto", "--max-error", f"{middle}")
    assert rounded(some).count("bf16") <= rounded(wide).count("bf16"), (some["precision"], wide["precision"])
    assert some["precision"]["error"] <= middle and at.verify(net, net + "_some.so")["pass"], some["precision"]
    if rounded(some).count("bf16") < rounded(wide).count("bf16"):
        assert any("would pass the bound" in s["why"] for s in some["precision"]["steps"]), some["precision"]
        assert any("error" in s for s in some["precision"]["steps"]), some["precision"]
    own, metadata = at.build(net, net + "_auto.so", "--precision", "auto")
    assert metadata["precision"] == {"mode": "auto"} and own["precision"]["error"] <= own["precision"]["bound"], own["precision"]
    assert at.verify(net, net + "_auto.so")["pass"]
    return f"{net}: {len(rounded(half))} contractions, auto {rounded(own).count('bf16')}, half the error {rounded(some).count('bf16')} in bf16"


def export(at, name, net, example, dims=None):
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(net.eval(), example, dynamic_shapes=dims), at(name + ".pt2"))


def main():
    at = Folder()
    torch.manual_seed(3)
    made = {name: what for name, *what in nets()}
    for name in thirds.some(made, "nets of --precision"):
        export(at, name, *made[name])
        print(check(at, name), flush=True)
    refused = at(name + ".pt2")
    assert "--precision auto" in at.refused("build", refused, "-o", at("x.so"), "--max-error", "0.1")
    at.refused("build", refused, "-o", at("x.so"), "--precision", "int3")


if __name__ == "__main__":
    main()
