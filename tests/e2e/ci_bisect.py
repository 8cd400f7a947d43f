"""verify --bisect: an operator whose kernel is wrong, amid others, is named with its line, and what it took and gave is written; so is one that the
compiler gets wrong only where it is fused."""
import json
import os
import sys

import numpy as np
import torch
from ci_case import test
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
OPERATORS = '''
import torch

@torch.library.custom_op("ci::squash", mutates_args=())
def squash(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(1.75 * x)

@squash.register_fake
def _(x):
    return torch.empty_like(x)
'''
WRONG = {"schema": "ci::squash(Tensor x) -> Tensor", "pointwise": "x * sigmoid(1.5 * x)"}


def operators(c):
    """The module of the operator, and its wrong kernel."""
    module, kernels = c.at("squash_operator.py"), c.at("kernels.json")
    with open(module, "w") as f:
        f.write(OPERATORS)
    with open(kernels, "w") as f:
        json.dump({"kernels": [WRONG]}, f)
    if not hasattr(torch.ops.ci, "squash"):
        sys.path.insert(0, c.folder)
        import squash_operator  # noqa: F401
    return module, kernels


class Block(nn.Module):
    def __init__(self, width, wrong):
        super().__init__()
        self.norm, self.up, self.down, self.wrong = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width), wrong

    def forward(self, x):
        y = self.up(self.norm(x))
        y = torch.ops.ci.squash(y) if self.wrong else torch.tanh(y)  # the line to be named
        left, right = y.chunk(2, -1)
        return x + self.down(torch.cat([left * 2, right.sigmoid()], -1))


class Deep(nn.Module):
    def __init__(self, depth=5, wrong=2, width=16):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, i == wrong) for i in range(depth))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        for block in self.blocks:
            x = block(x)
        return x.softmax(-1), x.argmax(-1)


def deep(c, name="deep", seed=0, **kwargs):
    rows = {"x": {0: torch.export.Dim("rows", min=1, max=64)}}
    return c.exported(name, Deep(**kwargs).eval(), torch.randn(4, 16), dynamic_shapes=rows, seed=seed)


def line_of(text):
    with open(__file__) as f:
        return 1 + next(i for i, line in enumerate(f) if text in line)


@test
def bisect_names_a_wrong_operator(c):
    module, kernels = operators(c)
    pt2 = deep(c)
    so = c.built(pt2, None, "--kernels", kernels)
    words = ("verify", so, "--against", pt2, "--torch-module", module)
    said = c.run(*words, "--bisect", c.at("no"), exit_code=2).stderr
    assert "ci::squash" in said and "--kernels" in said, said
    found = named(c, words, kernels)
    text = c.run(*words, "--bisect", c.at("found"), "--kernels", kernels, "--quiet", exit_code=1).stdout
    assert f"ci_bisect.py:{line_of('the line to be named')}" in text and "ci.squash.default" in text, text
    assert found["builds"] < 8, found


def named(c, words, kernels, **kwargs):
    """What is found of `deep`, by `verify` with these words."""
    told = c.json("verify", *words, "--bisect", c.at("found"), "--kernels", kernels, exit_code=1, **kwargs)
    (found,) = told["bisect"]
    assert found["operator"] == "ci.squash.default" and found["module"] == "blocks.2", found
    assert f"ci_bisect.py:{line_of('the line to be named')} in forward" in found["source"] and not found["error"]["pass"], found
    assert found["error"]["err_aotc"] > found["error"]["limit"] and "note" not in found, found
    # All that lies before it is right.
    names = [v["name"] for v in found["values"]]
    assert all(v["pass"] for v in found["values"][: names.index(found["value"])]), found["values"]
    # The operator, by torch, on what was written.
    x = torch.from_numpy(np.load(c.at("found", "inputs", "x.npy")))
    expected, got = (np.load(c.at("found", folder, found["value"] + end)) for folder, end in (("expected", ".eager.npy"), ("got", ".npy")))
    np.testing.assert_allclose(torch.ops.ci.squash(x).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose((x * torch.sigmoid(1.5 * x)).numpy(), got, rtol=1e-4, atol=1e-5)
    with open(c.at("found", "departure.json")) as f:
        assert json.load(f)["operator"] == "ci.squash.default"
    assert set(found["files"]) >= {c.at("found", "inputs", "x.npy"), c.at("found", "departure.json")}
    assert sorted(os.listdir(c.at("found"))) == ["departure.json", "expected", "got", "inputs"]  # nothing else is left
    return found


class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        y = self.up(x).tanh()
        z = y * 1.375  # wrong where it is fused
        return self.down(z + y.sigmoid()).softmax(-1)


# Of a kernel that computes the hyperbolic tangent and stores one value, 1.375 is 1.4375: as long as its values are not outputs.
FUSED = {"where": r"\A(?!.*\bst\(.*\bst\().*v_tanh", "old": "kf(0x1.6p+0f)", "new": "kf(0x1.7p+0f)"}
FUSED_ON_GPU = {"where": r"\A(?!.*\] = v\d+;.*\] = v\d+;).*op_tanh", "old": "= 0x1.6p+0f", "new": "= 0x1.7p+0f"}


def wrong_compiler(*compiler):
    return " ".join([sys.executable, os.path.join(HERE, "miscompiler.py"), *compiler])


def named_where_fused(c, env, *target):
    """Builds with the compiler of `env`, which is wrong, and what is found."""
    env = dict(env, XDG_CACHE_HOME=c.at("cache"))  # no object of it goes where others look
    pt2, so = c.exported("fused", Fused().eval(), torch.randn(4, 16)), c.at("fused.so")
    c.run("build", pt2, "-o", so, "--quiet", *target, env=env)
    words = ("verify", so, "--against", pt2, "--samples", "1", "--bisect", c.at("found"))
    (found,) = c.json("verify", *words, exit_code=1, env=env)["bisect"]
    assert found["operator"] == "aten.mul.Tensor" and f"ci_bisect.py:{line_of('wrong where it is fused')} in forward" in found["source"], found
    assert "fused with its operands" in found["note"] and not found["error"]["pass"] and found["builds"] < 16, found
    rows = {v["name"]: v["pass"] for v in found["values"]}
    assert rows["tanh"] and rows["linear"] and rows["sigmoid"] and not rows["mul"], found["values"]
    x = np.load(c.at("found", "inputs", "self.npy"))
    np.testing.assert_allclose(np.load(c.at("found", "expected", "mul.eager.npy")), x * np.float32(1.375), rtol=1e-6)
    np.testing.assert_allclose(np.load(c.at("found", "got", "mul.npy")), x * np.float32(1.4375), rtol=1e-4, atol=1e-6)
    # By a compiler that is right the same program passes, and the artifact is told to be another.
    c.run("build", pt2, "-o", c.at("right.so"), "--quiet", *target, env=(right := dict(env, MISCOMPILE=json.dumps({"where": r"\Z.", "old": "", "new": ""}), XDG_CACHE_HOME=c.at("right"))))
    c.run("verify", c.at("right.so"), "--against", pt2, "--samples", "1", env=right)
    (found,) = c.json("verify", *words, exit_code=1, env=right)["bisect"]
    assert found["builds"] == 1 and "gives what it should" in found["note"], found


@test
def bisect_of_fused_code(c):
    named_where_fused(c, dict(os.environ, CXX=wrong_compiler(os.environ.get("CXX", "g++")), MISCOMPILE=json.dumps(FUSED)), "--cpu", "avx2")


@test
def bisect_of_rounded_products(c):
    # bf16 beside a bound that float32 alone meets: the first product, in each method.
    pt2 = c.exported("plain", Deep(3, -1).eval(), torch.randn(4, 16))
    so = c.at("two.so")
    c.run("build", f"a={pt2}", f"b={pt2}", "-o", so, "--cpu", "avx2", "--precision", "bf16", "--quiet")
    words = ("verify", so, "--against", f"a={pt2}", "--against", f"b={pt2}", "--samples", "1")
    assert "bisect" not in c.json("verify", *words, "--bisect", c.at("none"))
    told = c.json("verify", *words, "--max-error", "1e-5", "--bisect", c.at("both"), exit_code=1)
    assert [f["method"] for f in told["bisect"]] == ["a", "b"], told["bisect"]
    for found in told["bisect"]:
        assert found["operator"] == "aten.linear.default" and found["module"] == "blocks.0.up", found
        folder = c.at("both", found["method"], "inputs")
        x, w, b = (torch.from_numpy(np.load(os.path.join(folder, f"{name}.npy"))) for name in ("input", "weight", "bias"))
        eager = np.load(c.at("both", found["method"], "expected", found["value"] + ".eager.npy"))
        np.testing.assert_allclose(nn.functional.linear(x, w, b).numpy(), eager, rtol=1e-5, atol=1e-6)


@test
def bisect_says_what_it_cannot_find(c):
    pt2, other = c.net(), c.net("other", seed=1)
    so = c.built(pt2)
    told = c.json("verify", "verify", so, "--against", other, "--bisect", c.at("dir"), exit_code=1)
    (found,) = told["bisect"]
    assert "value" not in found and "other weights" in found["note"] and found["builds"] == 1 and not told["source_matches"], found
    c.run("verify", so, "--inputs", c.folder, "--expected", c.folder, "--bisect", c.at("dir"), exit_code=2)
    c.run("verify", so, "--against", pt2, "--kernels", c.at("kernels.json"), exit_code=2)
    with open(c.at("file"), "w"):
        pass
    c.run("verify", so, "--against", other, "--bisect", c.at("file", "below"), exit_code=6)
