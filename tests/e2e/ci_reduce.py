"""reduce: a program that fails amid sixty operators becomes a few that fail in the same way, as an archive that torch.export.load takes."""
import json
import os
import zipfile

import torch
from ci_bisect import deep, operators
from ci_case import test
from torch import nn


class Awkward(nn.Module):
    """Dynamic sizes, integers made of sizes, a buffer that is written, results in a dict."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(50, 24), nn.Linear(24, 10)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, ids):
        self.seen.add_(1)
        x = self.embed(ids)
        rows = x.reshape(ids.shape[0] * ids.shape[1], -1)
        for _ in range(12):
            rows = torch.tanh(rows * 1.5) + rows.roll(1, -1)
        y = torch.ops.ci.squash(rows)
        for _ in range(8):
            y = (y - y.mean(-1, keepdim=True)).relu() + 0.25
        return {"scores": self.out(y).view(ids.shape[0], ids.shape[1], -1), "seen": rows.amax()}


def loaded(path):
    """The program, read and run by torch: what it computes from, and gives."""
    program = torch.export.load(path)
    torch.manual_seed(0)
    inputs = []
    for spec in program.graph_signature.input_specs:
        if spec.kind == torch.export.graph_signature.InputKind.USER_INPUT:
            node = next(n for n in program.graph.nodes if n.name == spec.arg.name)
            value = node.meta["val"]
            dims = [int(d) if isinstance(d, int) else 3 for d in value.shape]
            inputs.append(torch.randn(dims).to(value.dtype) if value.dtype.is_floating_point else torch.zeros(dims, dtype=value.dtype))
    return program, program.module()(*inputs)


@test
def reduce_of_what_cannot_be_built(c):
    operators(c)
    ids = {"ids": {0: torch.export.Dim("batch", min=1, max=8), 1: torch.export.Dim("length", min=2, max=32)}}
    pt2 = c.exported("awkward", Awkward().eval(), torch.randint(0, 50, (3, 7)), dynamic_shapes=ids)
    assert len(torch.export.load(pt2).graph.nodes) > 60
    small = c.at("small.pt2")
    told = c.json("reduce", "reduce", pt2, "--build-fails", "-o", small, "--build-options", "--cpu avx2")
    assert told["operators"] == ["ci.squash.default"] and told["operators_before"] > 60 and told["inputs"] == 1, told
    assert told["complete"] and told["tests"] < 40 and "ci.squash.default" in told["failure"], told
    program, outputs = loaded(small)
    assert len(outputs) == 1 and outputs[0].numel() == 1, outputs  # its sizes are as small as they can be
    said = c.run("build", small, "-o", c.at("small.so"), exit_code=4).stderr
    assert "ci.squash.default" in said and "ci_reduce.py" in said, said
    assert json.loads(c.run("inspect", small, "--json").stdout)["ops"] == {"ci.squash.default": 1}
    # A command of the user's own comes to the same, by either convention.
    for words in (("--fails", f"{c.aotc} check {{}} --cpu avx2"), ("--test", f"! {c.aotc} check {{}}", "--message", "ci.squash")):
        again = c.json("reduce", "reduce", pt2, *words, "-o", small)
        assert again["operators"] == ["ci.squash.default"], again
    assert sorted(f for f in os.listdir(c.folder) if f.startswith(".") or f.endswith(".tmp")) == []


@test
def reduce_of_what_departs(c):
    module, kernels = operators(c)
    pt2, small = deep(c, "whole", depth=5, wrong=3), c.at("small.pt2")
    secret = {name: tensor.clone() for name, tensor in torch.export.load(pt2).state_dict.items()}
    words = ("--verify-fails", "--torch-module", module, "-o", small, "--random-weights", "--anonymous")
    told = c.json("reduce", "reduce", pt2, *words, "--build-options", f"--kernels '{kernels}' --cpu avx2", "--verify-options", "--samples 1")
    assert "ci.squash.default" in told["operators"] and len(told["operators"]) <= 4 and told["operators_before"] > 40, told
    program, _ = loaded(small)
    assert not any(torch.equal(a, b) for a in program.state_dict.values() for b in secret.values() if a.shape == b.shape)
    with zipfile.ZipFile(small) as z:  # nothing of the user's code or names
        text = b"".join(z.read(name) for name in z.namelist())
    assert b"ci_bisect" not in text and b"blocks" not in text, text
    so = c.built(small, "small", "--kernels", kernels)
    c.run("verify", so, "--against", small, "--torch-module", module, exit_code=1)


@test
def reduce_of_two_operators_that_fail_together(c):
    operators(c)
    # A command that wants both: what lies between them goes.
    pt2 = c.exported("both", Awkward().eval(), torch.randint(0, 50, (3, 7)))
    script = c.at("both.py")
    with open(script, "w") as f:
        f.write("import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\n"
                "t = b''.join(z.read(n) for n in z.namelist() if n.endswith('.json'))\n"
                "sys.exit(7 if b'aten.embedding.default' in t and b'aten.amax.default' in t else 0)\n")
    told = c.json("reduce", "reduce", pt2, "--fails", f"python3 '{script}' {{}}", "-o", c.at("small.pt2"))
    assert sorted(told["operators"]) == ["aten.amax.default", "aten.embedding.default"] and told["failure"] == "exit code 7", told
    loaded(c.at("small.pt2"))


@test
def reduce_refuses(c):
    pt2, small = c.net(), c.at("small.pt2")
    said = c.run("reduce", pt2, "--build-fails", "-o", small, "--build-options", "--cpu avx2", exit_code=1).stderr
    assert "does not fail" in said and not os.path.exists(small), said
    c.run("reduce", pt2, "--verify-fails", "-o", small, "--build-options", "--cpu avx2", exit_code=1)
    c.run("reduce", pt2, "--test", "false {}", "-o", small, exit_code=1)
    said = c.run("reduce", pt2, "--test", "true {}", "--message", "no such words", "-o", small, exit_code=1).stderr
    assert "no such words" in said, said
    c.run("reduce", pt2, "-o", small, exit_code=2)
    c.run("reduce", pt2, "--build-fails", "--verify-fails", "-o", small, exit_code=2)
    c.run("reduce", pt2, "--fails", "aotc build", "-o", small, exit_code=2)
    c.run("reduce", pt2, "--fails", "false {}", "-o", pt2, exit_code=2)
    c.run("reduce", pt2, "--fails", "false {}", "-o", c.at("no", "such.pt2"), exit_code=6)
    with open(c.at("bad.pt2"), "wb") as f:
        f.write(b"no zip")
    c.run("reduce", c.at("bad.pt2"), "--fails", "false {}", "-o", small, exit_code=3)
    assert not os.path.exists(small)
