"""diff: nothing of builds of the same, and of others what was changed."""
import os
import shutil

import torch
from ci_case import Net, test
from torch import nn


def sections(told):
    return {(c["section"], c["name"]): c for c in told["changes"]}


@test
def diff(c):
    pt2 = c.net()
    so = c.built(pt2)
    os.makedirs(c.at("elsewhere"))
    copy = shutil.copy(so, c.at("elsewhere", "copy.so"))
    told = c.json("diff", "diff", so, copy)
    assert told["same"] and not told["changes"], told
    assert "the same" in c.run("diff", so, copy).stdout

    # Other weights: nothing but ids and the archive.
    other = c.built(c.net("other", seed=1))
    told = c.json("diff", "diff", so, other, exit_code=1)
    assert {s for s, _ in sections(told)} == {"build"} and ("build", "archive") in sections(told), told
    assert told["a"]["archive"] != told["b"]["archive"]

    # Another depth: kernels and weights; the way back has added and removed in each other's place.
    deep = c.built(c.net("deep", depth=3))
    told, back = (c.json("diff", "diff", *pair, exit_code=1) for pair in ((so, deep), (deep, so)))
    assert {"kernels", "variants", "sizes", "build"} <= {s for s, _ in sections(told)} and not {"inputs", "outputs"} & {s for s, _ in sections(told)}, told
    turn = {"added": "removed", "removed": "added", "changed": "changed"}
    assert {(k, v["change"]) for k, v in sections(told).items()} == {(k, turn[v["change"]]) for k, v in sections(back).items()}
    sizes = {name: (v["a"], v["b"]) for (s, name), v in sections(told).items() if s == "sizes"}
    assert sizes["file_bytes"] == (os.path.getsize(so), os.path.getsize(deep)) and sizes["weights_bytes"][1] > sizes["weights_bytes"][0]
    text = c.run("diff", so, deep, exit_code=1).stdout
    assert "kernels" in text and f"file_bytes: {os.path.getsize(so)} -> {os.path.getsize(deep)}" in text, text

    # Signature: ranges, types, states.
    class Stateful(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x, scale):
            self.seen += 1
            return {"scores": x * scale}

    x = torch.randn(4, 64)
    narrow = c.built(c.exported("narrow", Net(1), x, dynamic_shapes={"x": {0: torch.export.Dim("rows", min=2, max=8)}}))
    told = sections(c.json("diff", "diff", so, narrow, exit_code=1))
    assert told[("symbols", "x_0")]["a"]["max"] == 64 and told[("symbols", "x_0")]["b"]["max"] == 8, told
    stateful = c.built(c.exported("stateful", Stateful(), x, torch.ones(64)))
    told = sections(c.json("diff", "diff", so, stateful, exit_code=1))
    assert told[("states", "seen")]["change"] == "added" and told[("inputs", "scale")]["change"] == "added" and told[("outputs", "best")]["change"] == "removed"

    # Other code of the same program, methods, precision.
    told = sections(c.json("diff", "diff", so, c.built(pt2, "low", "--weights", "int8", "--max-weight-error", "1"), exit_code=1))
    assert told[("build", "weights as")]["change"] == "added" and any(s == "weights" for s, _ in told), told
    wide = c.at("wide.so")  # compiled, not run
    c.run("build", pt2, "-o", wide, "--cpu", "avx512", "--quiet")
    told = c.json("diff", "diff", so, wide, exit_code=1)
    assert sections(told)[("build", "target")]["b"] == "avx512" and any(s == "choices" for s, _ in sections(told)), told
    two = c.at("two.so")
    c.run("build", "forward=" + pt2, "more=" + c.net("more", depth=2), "-o", two, "--cpu", "avx2", "--quiet")
    assert sections(c.json("diff", "diff", so, two, exit_code=1))[("methods", "more")]["change"] == "added"

    told = c.json("diff", "diff", so, deep, "--bench", "--dim", "x_0=16", "--seconds", "0.1", exit_code=1)["times"]
    assert len(told) == 1 and told[0]["sizes"] == {"x_0": 16} and told[0]["a_us"] > 0 and told[0]["low"] <= told[0]["ratio"], told
    assert any("a_us" in s for s in told[0]["steps"]) and any("b_us" in s for s in told[0]["steps"])
    assert c.json("diff", "diff", so, copy, "--bench", "--seconds", "0.1")["same"]
    assert "do not suit" in c.json("diff", "diff", so, stateful, "--bench", "--seconds", "0.1", exit_code=1)["times"][0]["why"]
    c.run("diff", so, pt2, exit_code=3), c.run("diff", so, c.at("none.so"), exit_code=6), c.run("diff", so, exit_code=2)
    c.run("diff", so, deep, "--seconds", "1", exit_code=2)  # it times nothing
