"""Weights of few bits on GPUs (--cuda with --weights): artifacts run on the emulated GPU (tests/cuda). Their outputs are those of the module with
the weights that this file rounds itself, verify agrees, and the artifact is as small as it says. A third of the cases a commit (tests/thirds.py), or
those that are named. Exits with 77 (skipped) where NVRTC is not installed.

    gpu_weights.py --aotc BIN --work DIR --driver DIR_OF_LIBCUDA [name ...]
"""
import copy
import json
import os
import subprocess
import sys

import numpy as np
import torch
from torch import nn

here = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [here, os.path.join(os.path.dirname(here), "gpu")]
import arguments
import run_models
from models_quantised import WeightsOfBytes
import emulate
import thirds


class Decoder(nn.Module):
    """A table that is the head, too, a gated step, a width that no group divides, one below 32, weights that lie as [k, n]."""

    def __init__(self, width=72, hidden=160, vocabulary=320):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.gate, self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width)
        self.narrow, self.wide = nn.Linear(width, 24), nn.Linear(24, width)
        self.across, self.back = nn.Parameter(torch.randn(width, 48) * 0.1), nn.Parameter(torch.randn(48, width) * 0.1)

    def forward(self, ids):
        x = self.embed(ids)
        x = x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))
        x = x + self.wide(self.narrow(x).tanh())
        x = x + (x @ self.across).tanh() @ self.back
        return x @ self.embed.weight.t()


class Infinite(nn.Module):
    """A weight with an infinity, which masks a column, and one with NaN in it, beside one of usual numbers."""

    def __init__(self):
        super().__init__()
        self.usual, self.infinite, self.none = nn.Linear(64, 64, bias=False), nn.Linear(64, 40, bias=False), nn.Linear(64, 40, bias=False)
        with torch.no_grad():
            self.infinite.weight[3, 5], self.none.weight[7, 0] = float("inf"), float("nan")

    def forward(self, x):
        y = self.usual(x.abs() + 1)
        return y, self.infinite(x.abs() + 1), self.none(x)


class Layer(nn.Module):
    """A norm that queries, keys and values are computed of, of which two are rotated; gate and up behind another norm."""

    def __init__(self, width=128, channels=32, hidden=192):
        super().__init__()
        self.channels, self.before, self.after = channels, nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, heads * channels, bias=False) for heads in (4, 2, 2))
        self.out, self.gate, self.up = nn.Linear(2 * channels, width, bias=False), nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        for norm in (self.before, self.after):
            nn.init.uniform_(norm.weight, 0.5, 1.5)

    def forward(self, x, cos, sin):
        def rotated(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat((-b, a), -1) * sin

        y = self.before(x)
        q, k, v = (f(y).unflatten(-1, (-1, self.channels)).transpose(-3, -2) for f in (self.q, self.k, self.v))
        x = x + self.out(v.transpose(-3, -2).flatten(-2))
        z = self.after(x)
        return rotated(q), rotated(k), v, x + self.down(nn.functional.silu(self.gate(z)) * self.up(z))


SCALES = {torch.bfloat16: torch.bfloat16, torch.float16: torch.float16, torch.float32: torch.bfloat16}


def at_least(x, t):
    """x (float64) as numbers of the type t that are not smaller."""
    y = x.to(t)
    up = torch.nextafter(y, torch.full_like(y, float("inf")))
    return torch.where(y.double() < x, up, y).double()


def rounded(w, kind, group):
    """w [n, k] as --weights rounds it: by the definition, in float64, to the nearest."""
    t, (n, k) = w.dtype, w.shape
    group = min(group or k, k)
    out = torch.empty(n, k, dtype=torch.float64)
    for g in range(0, k, group):
        x = w[:, g:g + group].double()
        if kind == "int4":
            offset = -at_least(-x.amin(1), SCALES[t])
            scale = at_least((x.amax(1) - offset) / 15, SCALES[t])
        else:
            offset = torch.zeros(n, dtype=torch.float64)
            scale = at_least(x.abs().amax(1) / (448 if kind == "fp8" else 127), SCALES[t])
        v = (x - offset[:, None]) / scale[:, None]
        if kind == "fp8":
            v = v.float().to(torch.float8_e4m3fn).double()
        else:
            v = v.round().clamp(0 if kind == "int4" else -127, 15 if kind == "int4" else 127)
        out[:, g:g + group] = v * scale[:, None] + offset[:, None]
    return out.to(t)


def decoder(dtype):
    torch.manual_seed(7)
    return Decoder().to(dtype).eval(), (torch.randint(0, 320, (1, 5)),), ({1: torch.export.Dim("seq", min=1, max=8)},)


TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
CASES = {f"{t}_{kind}_{group}": (t, kind, group)
         for t, kind, group in [("bf16", kind, group) for kind in ("int8", "int4", "fp8") for group in (32, 0)] + [("f16", "int4", 64), ("f16", "fp8", 32),
                                                                                                      ("f32", "int8", 32), ("f32", "int4", 128)]}
BYTES = {"int8": 1, "int4": 0.5, "fp8": 1}


class Runner:
    def __init__(self, o):
        self.o = o
        self.env = dict(os.environ, VIRTUAL_ENV=os.environ.get("VIRTUAL_ENV", sys.prefix))  # where aotc looks for NVRTC

    def path(self, name):
        return os.path.join(self.o.work, name)

    def build(self, pt2, so, *options, cuda="sm_90"):
        r = subprocess.run([self.o.aotc, "build", pt2, "-o", so, "--cuda", cuda, "--keep", so + ".keep", "--json", *options], capture_output=True,
                           text=True, env=self.env)
        if "NVRTC was not found" in r.stderr:
            sys.exit(77)
        assert r.returncode == 0, r.stderr
        emulate.compile_host(os.path.join(so + ".keep", "kernels.cu"), so + ".host", so + ".host.so", self.o.cxx)
        report = json.loads(r.stdout)
        run_models.validate("report", report)
        return report

    def emulated(self, so, *command, code=0):
        env = dict(self.env, LD_LIBRARY_PATH=self.o.driver, AOTC_EMULATED_KERNELS=so + ".host.so")
        r = subprocess.run([self.o.aotc, *command], capture_output=True, text=True, env=env)
        assert r.returncode == code, (command, r.stdout[-2000:], r.stderr[-2000:])
        return r.stdout

    def run(self, so, inputs):
        """The folder of the outputs."""
        given = []
        for name, x in inputs.items():
            np.save(f"{so}.{name}.npy", x.numpy())
            given += ["--input", f"{name}={so}.{name}.npy"]
        self.emulated(so, "run", so, *given, "-o", so + ".outputs")
        return so + ".outputs"


def distance(got, want):
    return ((got - want).norm() / want.norm()).item()


def case(r, name):
    t, kind, group = CASES[name]
    module, example, dims = decoder(TYPES[t])
    pt2, so = r.path(f"decoder_{t}.pt2"), r.path(name + ".so")
    torch.export.save(torch.export.export(module, example, dynamic_shapes=dims), pt2)
    whole = sum(p.numel() * p.element_size() for p in module.parameters())
    report = r.build(pt2, so, "--weights", kind, "--weight-group", str(group), "--max-weight-error", "0.3")
    stored = report["stored_weights"]
    assert not stored["left"] and len(stored["weights"]) >= 7, stored
    assert ("float8" in stored) == (kind == "fp8"), stored
    # The narrow ones are filled up to whole tiles, and four bits have two more for scale and offset.
    elems = sum(p.numel() for p in module.parameters())
    assert report["weights_bytes"] < (BYTES[kind] * 1.3 + 0.4) * elems + 40000 and report["weights_bytes"] < whole, (report["weights_bytes"], elems)
    meta = json.loads(run_models.sh(r.o.aotc, "inspect", so, "--json"))
    run_models.validate("metadata", {k: v for k, v in meta.items() if k not in ("seal", "file", "kind", "system")})
    told = run_models.sh(r.o.aotc, "explain", so)
    assert "stored once, in slabs" in told, told  # the table and the head

    # The module with the weights as this file rounds them.
    same = copy.deepcopy(module)
    with torch.no_grad():
        for of, p in same.named_parameters():
            if of in ("across", "back"):
                p.copy_(rounded(p.t(), kind, group).t())
            elif p.dim() == 2:
                p.copy_(rounded(p, kind, group))
    ids = torch.randint(0, 320, (1, 7))
    want, without = same.double()(ids), module.double()(ids)
    folder = r.run(so, {meta["inputs"][0]["name"]: ids})
    raw = np.load(os.path.join(folder, os.listdir(folder)[0]))
    got = torch.from_numpy(raw.view(np.int16)).view(torch.bfloat16).double() if t == "bf16" else torch.from_numpy(raw.astype(np.float64))
    off, lost = distance(got.view_as(want), want), distance(want, without)
    assert off < {"bf16": 0.012, "f16": 0.0015, "f32": 1e-5}[t], (name, off, lost)
    assert off < lost, (name, off, lost)  # it has rounded weights, these ones
    verdict = json.loads(r.emulated(so, "verify", so, "--against", pt2, "--json"))
    assert verdict["pass"] and all(x["err_archive"] > 0 for x in verdict["outputs"]), verdict
    print(f"ok   {name}: {report['weights_bytes']} bytes of {whole}, {off:.2g} from the rounded module, which is {lost:.2g} from the whole one", flush=True)


def other_weights(r):
    """aotc weights rounds and packs another program's as the build did."""
    module, example, dims = decoder(torch.bfloat16)
    torch.manual_seed(8)
    other = Decoder().bfloat16().eval()
    pt2, tuned, so = r.path("given.pt2"), r.path("tuned.pt2"), r.path("given.so")
    for m, path in [(module, pt2), (other, tuned)]:
        torch.export.save(torch.export.export(m, example, dynamic_shapes=dims), path)
    r.build(pt2, so, "--weights", "int4")
    run_models.sh(r.o.aotc, "weights", tuned, "--for", so, "-o", r.path("tuned.weights"))
    verdict = json.loads(r.emulated(so, "verify", so, "--weights", r.path("tuned.weights"), "--against", tuned, "--json"))
    assert verdict["pass"], verdict
    assert not json.loads(r.emulated(so, "verify", so, "--against", tuned, "--json", code=1))["pass"], "the artifact's own are others"
    print("ok   other weights", flush=True)


def infinite(r):
    """What has an infinity stays as it is, and gives what it gives."""
    pt2, so = r.path("infinite.pt2"), r.path("infinite.so")
    torch.export.save(torch.export.export(Infinite().bfloat16().eval(), (torch.randn(3, 64).bfloat16(),)), pt2)
    report = r.build(pt2, so, "--weights", "int8")
    assert [w["name"] for w in report["stored_weights"]["weights"]] == ["usual.weight"], report["stored_weights"]
    assert all("infinities" in x["why"] for x in report["stored_weights"]["left"]) and len(report["stored_weights"]["left"]) == 2, report["stored_weights"]
    verdict = json.loads(r.emulated(so, "verify", so, "--against", pt2, "--json"))
    assert verdict["pass"], verdict
    print("ok   infinities and NaN stay", flush=True)


def exported_bytes(r):
    """Weights that the program stores in bytes, as torchao's configurations leave them: they stay so, and the table that is the head is stored once."""
    torch.manual_seed(9)
    module, example = WeightsOfBytes().bfloat16().eval(), (torch.randint(0, 300, (1, 5)),)
    pt2, so = r.path("bytes.pt2"), r.path("bytes.so")
    torch.export.save(torch.export.export(module, example, dynamic_shapes=({1: torch.export.Dim("seq", min=1, max=8)},)), pt2)
    elems = 128 * 192 * 2 + 128 * 128 + 300 * 128
    report = r.build(pt2, so)
    assert report["weights_bytes"] < 1.1 * elems, (report["weights_bytes"], elems)  # two bytes each where they are not kept
    assert "stored once, in slabs" in run_models.sh(r.o.aotc, "explain", so)
    verdict = json.loads(r.emulated(so, "verify", so, "--against", pt2, "--json"))
    assert verdict["pass"], verdict
    print(f"ok   weights of bytes: {report['weights_bytes']} bytes of {elems} elements", flush=True)


LAYERS = {f"layer_{t}_{kind}_{rows}": (t, kind, rows) for t, kind, rows in [("bf16", "int4", "one"), ("f16", "int8", "some"), ("bf16", "fp8", "some"),
                                                                            ("bf16", "int8", "one"), ("f16", "int4", "some"), ("f16", "fp8", "one")]}


def layer(r, name):
    """Few rows: norms, rotations and the pair of gate and up are computed in the products of few bits."""
    t, kind, rows = LAYERS[name]
    torch.manual_seed(11)
    module, n = Layer().to(TYPES[t]).eval(), 1 if rows == "one" else 3
    angle = torch.randn(n, 32)
    example = tuple(x.to(TYPES[t]) for x in (torch.randn(1, n, 128), angle.cos(), angle.sin()))
    some = torch.export.Dim("seq", min=1, max=4)
    pt2, so = r.path(name + ".pt2"), r.path(name + ".so")
    torch.export.save(torch.export.export(module, example, dynamic_shapes=None if rows == "one" else ({1: some}, {0: some}, {0: some})), pt2)
    r.build(pt2, so, "--weights", kind)
    told = json.loads(run_models.sh(r.o.aotc, "explain", so, "--json"))
    labels = [label.split() for v in told["variants"] for label in v.get("labels", [])] + [step["label"].split() for step in told["steps"]]
    products = [[word for word in label if word.split("_")[0] == "linear"] for label in labels]
    assert any(len(p) == 2 and "silu" in label for p, label in zip(products, labels)), labels  # gate and up
    assert any(len(p) == 3 and any(word.startswith("cat") for word in label) for p, label in zip(products, labels)), labels
    assert rows == "some" or any(p and any(word.startswith("rms_norm") for word in label) for p, label in zip(products, labels)), labels
    verdict = json.loads(r.emulated(so, "verify", so, "--against", pt2, "--json"))
    assert verdict["pass"], verdict
    print(f"ok   {name}: {len(labels)} steps", flush=True)


def refusals(r):
    pt2 = r.path("decoder_bf16.pt2")
    if not os.path.exists(pt2):
        module, example, dims = decoder(torch.bfloat16)
        torch.export.save(torch.export.export(module, example, dynamic_shapes=dims), pt2)
    for words, *options in [("--weights fp8 is for GPU artifacts", "--cpu", "avx2", "--weights", "fp8"),
                            ("--weights fp8 is for GPU artifacts", "--cpu", "avx2", "--cuda", "sm_90", "--weights", "fp8"),
                            ("--activations is for CPU artifacts", "--cuda", "sm_90", "--weights", "int8", "--activations", "int8"),
                            ("known: int8, int4, fp8, bf16", "--cuda", "sm_90", "--weights", "fp4")]:
        got = subprocess.run([r.o.aotc, "build", pt2, "-o", r.path("x.so"), *options], capture_output=True, text=True, env=r.env)
        assert got.returncode == 2 and words in got.stderr, (options, got.stderr)
    print("ok   what is refused", flush=True)


def main():
    o = arguments.parse("driver", names="names", cxx="c++")
    r = Runner(o)
    parts = {"refusals": refusals, "infinite": infinite, "other_weights": other_weights, "exported_bytes": exported_bytes}
    for name in o.names or [*parts, *thirds.some(list(CASES), "weights of few bits on GPUs"), *thirds.some(list(LAYERS), "layers of few bits on GPUs")]:
        parts[name](r) if name in parts else layer(r, name) if name in LAYERS else case(r, name)


if __name__ == "__main__":
    main()
