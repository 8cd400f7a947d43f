"""Artifacts with weights of few bits (--weights): verify holds them to eager with the same rounded weights, on every instruction set here; they
are as small as they say; what is refused says why. A third of the cases a commit (tests/thirds.py), or those that are named.

    stored_weights.py --aotc BIN --work DIR [name ...]
"""
import copy
import json
import os
import subprocess
import sys

import torch
from torch import nn

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import arguments
import run_models
import thirds


class Decoder(nn.Module):
    """The parts of a language model that weights are read in: a table that is the head, too, merged products, gates, a width that is no multiple."""

    def __init__(self, width=72, hidden=200, vocabulary=1000):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.q, self.k, self.v = (nn.Linear(width, n, bias=n == 40) for n in (72, 40, 40))
        self.out = nn.Linear(152, width)
        self.norm = nn.LayerNorm(width)
        self.gate, self.up, self.down = nn.Linear(width, hidden), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, ids):
        x = self.embed(ids)
        h = self.norm(x)
        x = x + self.out(torch.cat([self.q(h), self.k(h).sin(), self.v(h).relu()], -1))
        h = self.norm(x)
        x = x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))
        return x @ self.embed.weight.t()


class Products(nn.Module):
    """Weights [k, n], a batch dim, one that is too small."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Parameter(torch.randn(100, 64)), nn.Parameter(torch.randn(64, 96)), nn.Parameter(torch.randn(8, 16))

    def forward(self, x):
        y = (x @ self.a).tanh() @ self.b
        return y, y[..., :8] @ self.c


class Folded(nn.Module):
    """Weights that constants are computed from as well: sums, scales, parts, both ways round, equal ones, a scale behind the product."""

    def __init__(self, width=64):
        super().__init__()
        self.summed, self.scaled, self.parts = (nn.Parameter(torch.randn(n, width)) for n in (96, 48, 3 * width))
        self.both, self.scale = nn.Parameter(torch.randn(80, width)), nn.Parameter(torch.rand(48, 1) + 0.5)
        self.twin = nn.Linear(width, width)
        self.other = copy.deepcopy(self.twin)
        self.behind, self.norm = nn.Linear(width, 40), nn.BatchNorm1d(40)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        a = x @ self.summed.t() + self.summed.sum(1)
        b = x @ (self.scaled * self.scale).t()
        q, k, v = (x @ p.t() for p in self.parts.chunk(3))
        c = (x @ self.both.t()).sin() @ self.both
        d = self.other(self.twin(x).tanh())
        return a, b, q * k.tanh() + v, c, d, self.norm(self.behind(x)), x + self.parts[5] * self.both[:, 3].mean()


HALVES = {"decoder_bf16": torch.bfloat16, "decoder_f16": torch.float16}  # multiplied as float32


def cases():
    batch, seq = torch.export.Dim("batch", min=1, max=40), torch.export.Dim("seq", min=1, max=60)
    width = (torch.randn(9, 64),)
    return {"folded": (Folded(), width, ({0: batch},), 7), "decoder": (Decoder(), (torch.randint(0, 1000, (1, 7)),), ({1: seq},), 1),
            "products": (Products(), (torch.randn(3, 5, 100),), ({0: batch},), 2),
            **{name: (Decoder().to(t), (torch.randint(0, 1000, (1, 7)),), ({1: seq},), 1) for name, t in HALVES.items()}}


def mixed(o, weights, precision):
    """--precision beside --weights: products of stored weights keep float32's accuracy, all other contractions go by --precision."""
    pt2, so = exported(o, "folded"), os.path.join(o.work, f"mixed_{weights}_{precision}.so")
    report = json.loads(run_models.sh(o.aotc, "build", pt2, "-o", so, "--weights", weights, "--precision", precision, "--json"))
    run_models.validate("report", report)
    assert len(report["stored_weights"]["weights"]) >= 4, report["stored_weights"]
    steps = report["precision"]["steps"]
    assert len(steps) == 2 and (precision == "auto" or all(s["precision"] == "bf16" for s in steps)), report["precision"]
    told = json.loads(run_models.sh(o.aotc, "verify", so, "--against", pt2, "--json"))
    assert told["pass"], told
    first = [r for r in told["outputs"] if r["name"] == told["outputs"][0]["name"]]  # the product of `summed`
    assert all(r["err_aotc"] < 1e-5 for r in first), first
    print(f"ok   {weights} with --precision {precision}: {sum(s['precision'] == 'bf16' for s in steps)} of {len(steps)} other products in bf16")


def int8_rows(o, name, isa):
    """--activations int8: verify's limit is what the same rounding costs eager, and the artifact's error is that; references carry it."""
    pt2, outputs = exported(o, name), cases()[name][3]
    so = os.path.join(o.work, f"{name}_rows_{isa}.so")
    report = json.loads(run_models.sh(o.aotc, "build", pt2, "-o", so, "--cpu", isa, "--weights", "int8", "--activations", "int8", "--json"))
    run_models.validate("report", report)
    assert report["stored_weights"]["activations"] == "int8", report["stored_weights"]
    assert any("gemm_int8" in json.dumps(c) for c in report["choices"]), report["choices"]
    meta = json.loads(run_models.sh(o.aotc, "inspect", so, "--json"))
    run_models.validate("metadata", {k: v for k, v in meta.items() if k not in ("seal", "file", "kind", "system")})
    assert "times rows of int8" in run_models.sh(o.aotc, "inspect", so)
    told = json.loads(run_models.sh(o.aotc, "verify", so, "--against", pt2, "--json"))
    assert told["pass"] and len(told["outputs"]) >= outputs, told
    assert told["int8_rows"] and all(1e-4 < e < 0.03 for e in told["int8_rows"].values()), told["int8_rows"]
    touched = [r for r in told["outputs"] if r["err_eager_int8"] > 1e-4]
    # which products have rows of int8 is the cost model's choice on each instruction set: no error is above theirs, one at least is theirs
    assert all(r["err_aotc"] < 2 * r["err_eager_int8"] for r in touched), told["outputs"]
    assert any(r["err_aotc"] > 0.5 * r["err_eager_int8"] for r in touched), told["outputs"]
    print(f"ok   {name} with rows of int8 {isa}: error {max(r['err_aotc'] for r in touched):.2g}")
    stored = os.path.join(o.work, f"{name}_rows_{isa}_stored")
    run_models.sh(o.aotc, "references", so, "--against", pt2, "-o", stored)
    run_models.sh(o.aotc, "verify", so, "--inputs", os.path.join(stored, "inputs"), "--expected", os.path.join(stored, "expected"))


class Untied(nn.Module):
    """A large table that is looked up in and nothing else, one that is small beside it, and a head of its own."""

    def __init__(self, vocabulary=4000, width=64):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(50, width)
        self.head = nn.Linear(width, 96)

    def forward(self, ids):
        return self.head(self.embed(ids) + self.place(ids % 50)).tanh()


def embeddings(o, name, storage, most):
    """Tables that rows are looked up in lie in few bits where they are large; one that is the head, too, is stored once."""
    module, table, pt2 = {"untied": Untied, "tied": lambda: Decoder(64, 192)}[name](), "embed.weight", os.path.join(o.work, name + ".pt2")
    torch.export.save(torch.export.export(module.eval(), (torch.randint(0, 1000, (1, 7)),), dynamic_shapes=({1: torch.export.Dim("seq", min=1, max=60)},)), pt2)
    floats = sum(p.numel() * 4 for p in module.parameters())
    so = os.path.join(o.work, f"{name}_table_{storage}.so")
    report = json.loads(run_models.sh(o.aotc, "build", pt2, "-o", so, "--weights", storage, "--json"))
    assert table in [w["name"] for w in report["stored_weights"]["weights"]], report["stored_weights"]
    assert "place.weight" not in json.dumps(report["stored_weights"]), report["stored_weights"]
    assert report["weights_bytes"] < most * floats, (name, storage, report["weights_bytes"], floats)
    told = json.loads(run_models.sh(o.aotc, "verify", so, "--against", pt2, "--json"))
    assert told["pass"], told
    print(f"ok   {name} {storage}: weights {report['weights_bytes']} bytes of {floats}")


def losses(o):
    """A weight that rounding changes by more than is allowed ends the build, which names it; verify judges what it costs the outputs."""
    model = nn.Sequential(nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, 64)).eval()
    with torch.no_grad():
        model[2].weight[:, 5] *= 60  # outliers: one scale a column is as large as they need it
    pt2, so = os.path.join(o.work, "outliers.pt2"), os.path.join(o.work, "outliers.so")
    torch.export.save(torch.export.export(model, (torch.randn(3, 256),)), pt2)
    build = lambda *words: subprocess.run([o.aotc, "build", pt2, "-o", so, "--quiet", *words], capture_output=True, text=True)
    for words in (("int8", "--weight-group", "0"), ("int4", "--weight-group", "0"), ("int8", "--activations", "int8"), ("int4", "--max-weight-error", "0.01")):
        if os.path.exists(so):
            os.remove(so)
        r = build("--weights", *words)
        assert r.returncode == 1 and "weight '2.weight' loses" in r.stderr and "--max-weight-error" in r.stderr, (words, r.returncode, r.stderr)
        assert not os.path.exists(so) and not [f for f in os.listdir(o.work) if f.startswith(".aotc")]
    verify = lambda *words: subprocess.run([o.aotc, "verify", so, "--against", pt2, *words], capture_output=True, text=True)
    r = build("--weights", "int4", "--weight-group", "0", "--max-weight-error", "1")
    assert r.returncode == 0, r.stderr
    assert verify().returncode == 0
    r = verify("--max-loss", "0.02")
    assert r.returncode == 1 and "rounding the weights cost" in r.stdout, r.stdout + r.stderr
    r = subprocess.run([o.aotc, "build", pt2, "-o", so, "--max-weight-error", "0.1"], capture_output=True, text=True)
    assert r.returncode == 2 and "--max-weight-error is for --weights" in r.stderr, r.stderr
    print("ok   losses")


def native(aotc):
    flags = open("/proc/cpuinfo").read()
    return ["avx2"] + (["avx512"] if "avx512vl" in flags else []) + (["avx512_bf16"] if "avx512_bf16" in flags and "avx512_vnni" in flags else [])


def refused(o, pt2, *args):
    r = subprocess.run([o.aotc, "build", pt2, "-o", os.path.join(o.work, "refused.so"), *args], capture_output=True, text=True)
    assert r.returncode == 2, (args, r.returncode, r.stderr)
    return r.stderr


STORAGES = [("int8",), ("int4",), ("int8", "--weight-group", "0"), ("bf16",), ("int4", "--weight-group", "128"), ("int4", "--weight-group", "0")]


def exported(o, name):
    """The archive of a case: the same weights whichever test asks first."""
    pt2 = os.path.join(o.work, name + ".pt2")
    if name not in o.exported:
        o.exported.add(name)
        torch.manual_seed(2)
        module, args, dims, _ = cases()[name]
        torch.export.save(torch.export.export(module.eval(), args, dynamic_shapes=dims), pt2)
    return pt2


def stored(o, name, storage, isa):
    pt2, outputs = exported(o, name), cases()[name][3]
    so = os.path.join(o.work, f"{name}_{'_'.join(storage).replace('--weight-group_', 'g')}_{isa}.so")
    report = json.loads(run_models.sh(o.aotc, "build", pt2, "-o", so, "--cpu", isa, "--weights", *storage, "--json"))
    run_models.validate("report", report)
    told_of = report["stored_weights"]
    assert told_of["weights"] and told_of["bytes"] < told_of["bytes_before"] * {"int8": 0.3, "int4": 0.22, "bf16": 0.51}[storage[0]] * (2 if name in HALVES else 1), told_of
    forms = ("gemm_bf16w",) if storage[0] == "bf16" else ("gemm_quant", "gemm_unpack")
    assert any(form in json.dumps(c) for form in forms for c in report["choices"]), report["choices"]
    meta = json.loads(run_models.sh(o.aotc, "inspect", so, "--json"))
    run_models.validate("metadata", {k: v for k, v in meta.items() if k not in ("seal", "file", "kind", "system")})
    assert told_of["as"] in run_models.sh(o.aotc, "inspect", so)
    told = json.loads(run_models.sh(o.aotc, "verify", so, "--against", pt2, "--json"))
    assert told["pass"] and len(told["outputs"]) >= outputs, told
    worst = max(r["err_archive"] for r in told["outputs"])
    assert 1e-4 < worst < {"int8": 0.06, "int4": 0.8, "bf16": 0.03}[storage[0]], worst  # rounding shows, and is no more than rounding
    print(f"ok   {name} {' '.join(storage)} {isa}: {told_of['bytes']} of {told_of['bytes_before']} bytes, "
          f"error {max(r['err_aotc'] for r in told['outputs']):.2g}, against the weights before rounding {worst:.2g}")
    if storage != STORAGES[-1]:
        return
    left = {w["name"]: w["why"] for w in told_of["left"]}
    if name == "products":
        assert left == {"c": "it is small"}, left
    if name == "folded":
        assert len(left) == 2 and "computed" in left["scaled.folded"] and "other way round" in left["both"], left
        explained = run_models.sh(o.aotc, "explain", so)
        assert all(f"  {w}: as it is: {why}" in explained for w, why in left.items()), explained
        assert "\n  summed+parts" in explained and "twin.weight" in explained and "\n  other.weight: " in explained, explained


def refusals(o):
    pt2 = exported(o, "products")
    assert "multiplies weights of int8 with one scale a column; these are as they are" in refused(o, pt2, "--activations", "int8")
    assert "these are int4" in refused(o, pt2, "--weights", "int4", "--activations", "int8")
    assert "groups of 32" in refused(o, pt2, "--weights", "int8", "--weight-group", "32", "--activations", "int8")
    assert "'int4' is not known" in refused(o, pt2, "--weights", "int8", "--activations", "int4")
    assert "--activations is for CPU artifacts" in refused(o, pt2, "--weights", "int8", "--activations", "int8", "--cuda", "sm_90")
    assert "'int5' is not known" in refused(o, pt2, "--weights", "int5")
    assert "'48' is not known" in refused(o, pt2, "--weights", "int4", "--weight-group", "48")
    assert "weights stay as they are" in refused(o, pt2, "--weight-group", "32")
    halves = json.loads(run_models.sh(o.aotc, "build", exported(o, "decoder_bf16"), "-o", os.path.join(o.work, "halves.so"), "--weights", "bf16", "--json"))
    assert not halves["stored_weights"]["weights"] and "it is bfloat16, which has 16 bits" in json.dumps(halves["stored_weights"]["left"]), halves["stored_weights"]
    print("ok   refusals")


def main():
    o = arguments.parse(names="names")
    o.exported = set()
    isas, tests = native(o.aotc), {}
    for name in cases():
        for i, storage in enumerate(STORAGES):
            if name in HALVES and storage == ("bf16",):
                continue
            for isa in isas if i < 2 or storage == ("bf16",) else ["native"]:
                tests[f"{name} {' '.join(storage)} {isa}"] = lambda of=(name, storage, isa): stored(o, *of)
        for isa in isas:
            tests[f"{name} rows {isa}"] = lambda of=(name, isa): int8_rows(o, *of)
    for weights in ("int8", "int4"):
        for precision in ("bf16", "auto"):
            tests[f"{weights} beside {precision}"] = lambda of=(weights, precision): mixed(o, *of)
    for name in ("untied", "tied"):
        for storage, most in (("int8", 0.32), ("int4", 0.32 if name == "untied" else 0.22), ("bf16", 0.55)):
            tests[f"{name} {storage}"] = lambda of=(name, storage, most): embeddings(o, *of)
    tests.update(losses=lambda: losses(o), refusals=lambda: refusals(o))
    for name in o.names or thirds.some(tests, "tests of stored weights", always=("losses", "refusals")):
        torch.manual_seed(2)
        tests[name]()


main()
