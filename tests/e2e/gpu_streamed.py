"""Weights above the GPU's memory (--weights-budget): a decoder on the emulated GPU (tests/cuda), which does its work as late as the order of streams
and events allows and poisons what a copy is about to write. Outputs are, to the bit, those of the run whose weights are all on the device.
Exits with 77 (skipped) where NVRTC is not installed.

    gpu_streamed.py --aotc BIN --work DIR --driver DIR_OF_LIBCUDA
"""
import json
import os
import re
import subprocess
import sys

import numpy as np
import torch
from torch import nn

here = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [here, os.path.join(os.path.dirname(here), "gpu")]
import arguments
import run_models
from gpu_weights import Runner


class Layer(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.before, self.after = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        y = self.before(x)
        q, k, v = (f(y).unflatten(-1, (4, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        z = self.after(x)
        return x + self.down(nn.functional.silu(self.gate(z)) * self.up(z))


class Decoder(nn.Module):
    """The table is the head, too: first and last step read it. The state is what was seen."""

    def __init__(self, width=192, hidden=256, vocabulary=512, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, hidden) for _ in range(layers))
        self.register_buffer("seen", torch.zeros(width))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        self.seen.copy_(self.seen * 0.5 + x.mean((0, 1)))
        return (x + self.seen) @ self.embed.weight.t()


def run(r, so, ids, *options, env=None):
    """The bytes of the outputs."""
    if env:
        r = Runner(r.o)
        r.env.update(env)
    given = os.path.join(r.o.work, "ids.npy")
    np.save(given, ids.numpy())
    folder = os.path.join(r.o.work, "outputs")
    r.emulated(so, "run", so, "--input", f"ids={given}", "-o", folder, *options)
    return {f: open(os.path.join(folder, f), "rb").read() for f in sorted(os.listdir(folder))}


def refused(r, so, ids, budget):
    """The budget that is said to be enough."""
    given = os.path.join(r.o.work, "ids.npy")
    env = dict(r.env, LD_LIBRARY_PATH=r.o.driver, AOTC_EMULATED_KERNELS=so + ".host.so")
    got = subprocess.run([r.o.aotc, "run", so, "--input", f"ids={given}", "-o", r.path("none"), "--weights-budget", str(budget)], capture_output=True, text=True, env=env)
    told = re.search(rf"weights_budget is {budget} bytes, but at least (\d+) bytes", got.stderr)
    assert got.returncode != 0 and told, got.stderr
    return int(told.group(1))


def decoder(r, name, dtype, cuda):
    torch.manual_seed(3)
    module, ids = Decoder().to(dtype).eval(), torch.randint(0, 512, (1, 6))
    pt2, so = r.path(name + ".pt2"), r.path(name + ".so")
    torch.export.save(torch.export.export(module, (ids,), dynamic_shapes=({1: torch.export.Dim("seq", min=2, max=16)},)), pt2)
    whole = r.build(pt2, so, cuda=cuda)["weights_bytes"]
    want = run(r, so, ids)
    least = refused(r, so, ids, 1)
    assert refused(r, so, ids, least - 1) == least < whole / 2, (least, whole)
    for budget in (whole + 65536, whole * 3 // 4, whole // 2, least):
        assert run(r, so, ids, "--weights-budget", str(budget)) == want, (name, budget, whole)
    verdict = json.loads(r.emulated(so, "verify", so, "--against", pt2, "--weights-budget", str(whole // 2), "--samples", "1", "--json"))
    assert verdict["pass"], verdict
    # Where the memory does not hold them, without being asked.
    assert run(r, so, ids, env={"AOTC_EMULATED_BYTES": str(whole * 3 // 4)}) == want
    print(f"ok   {name}: {whole} bytes, at least {least}", flush=True)


def benched(r):
    """The times tell what is copied."""
    torch.manual_seed(5)
    net = nn.Sequential(*(nn.Linear(160, 160, bias=False) for _ in range(3))).eval()
    pt2, so = r.path("three.pt2"), r.path("three.so")
    torch.export.save(torch.export.export(net, (torch.randn(1, 160),)), pt2)
    whole = r.build(pt2, so)["weights_bytes"]
    bench = lambda *options: json.loads(r.emulated(so, "bench", so, "--seconds", "0.01", *options, "--json"))
    for options, streamed in (((), None), (("--weights-budget", str(2 * 160 * 160 * 4)), whole)):
        got = bench(*options)
        run_models.validate("bench", got)
        assert got.get("weights_streamed") == streamed, got
    assert f"each run copies {whole / 1e6:.1f} MB to the GPU" in r.emulated(so, "bench", so, "--seconds", "0.01", "--weights-budget", str(2 * 160 * 160 * 4))
    print("ok   bench", flush=True)


def swapped(r):
    """Another program's weights, streamed, are that program's."""
    so, tuned = r.path("f32.so"), r.path("tuned.pt2")
    torch.manual_seed(4)
    ids = torch.randint(0, 512, (1, 6))
    torch.export.save(torch.export.export(Decoder().eval(), (ids,), dynamic_shapes=({1: torch.export.Dim("seq", min=2, max=16)},)), tuned)
    run_models.sh(r.o.aotc, "weights", tuned, "--for", so, "-o", r.path("tuned.weights"))
    whole = json.loads(run_models.sh(r.o.aotc, "inspect", so, "--json"))["weights_bytes"]
    given = ("--weights", r.path("tuned.weights"))
    assert run(r, so, ids, *given, "--weights-budget", str(whole // 2)) == run(r, so, ids, *given)
    verdict = json.loads(r.emulated(so, "verify", so, *given, "--against", tuned, "--weights-budget", str(whole // 2), "--samples", "1", "--json"))
    assert verdict["pass"], verdict
    print("ok   other weights", flush=True)


def main():
    o = arguments.parse("driver", cxx="c++")
    r = Runner(o)
    decoder(r, "f32", torch.float32, "sm_90")
    decoder(r, "bf16", torch.bfloat16, "sm_90a")
    swapped(r)
    benched(r)


main()
