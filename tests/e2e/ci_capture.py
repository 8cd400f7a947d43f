"""AOTC_CAPTURE and replay: a run of a service that fails, or gives wrong numbers in a state that it reached, is run again elsewhere, bit for bit."""
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import torch
from ci_bisect import operators
from ci_case import test
from json_schema import validate
from torch import nn

GPU = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu")
# A service: runs with the tokens of each line, and prints statuses.
SERVICE = """
import json, sys
import numpy as np
sys.path[:0] = sys.argv[2:]
import binding
artifact = binding.Artifact(sys.argv[1]).create()
context = artifact.context()
for line in sys.stdin:
    tokens = np.array(json.loads(line), np.int64)
    x = np.random.default_rng(int(tokens.sum())).standard_normal((len(tokens), 16)).astype(np.float32)
    inputs = binding.tensors([x, tokens], [binding.F32, 6])
    try:
        out = context.output_arrays(inputs)
        context.run(inputs, binding.tensors(out, [i.dtype for i in context.out_infos]))
        print("ok")
    except binding.Failure as e:
        print(e)
"""


class Remember(nn.Module):
    """What it saw before comes through the operator whose kernel is wrong; of zeros it is right."""

    def __init__(self):
        super().__init__()
        self.table, self.down = nn.Embedding(10, 16), nn.Linear(16, 16)
        self.register_buffer("seen", torch.zeros(16))

    def forward(self, x, tokens):
        y = torch.ops.ci.squash(self.seen) + self.table(tokens)
        self.seen.copy_(self.seen * 0.5 + x.sum(0))
        return {"y": torch.tanh(self.down(y)), "best": y.argmax(-1)}


def served(c, so, lines, **variables):
    """What the service answered, and the folders of its captured runs by their number."""
    folder = c.at("captures")
    shutil.rmtree(folder, ignore_errors=True)
    env = dict(os.environ, AOTC_CAPTURE=folder, **variables)
    r = subprocess.run([sys.executable, "-c", SERVICE, so, GPU, os.path.join(GPU, "..")], input="\n".join(map(json.dumps, lines)), text=True,
                       capture_output=True, env=env)
    assert r.returncode == 0, r.stderr
    runs = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name, "run.json")) as f:
            told = json.load(f)
        validate("capture", told)
        runs[told["run"]] = os.path.join(folder, name)
    return r.stdout.splitlines(), runs


def remember(c):
    module, kernels = operators(c)
    rows = torch.export.Dim("rows", min=1, max=64)
    pt2 = c.exported("remember", Remember().eval(), torch.randn(4, 16), torch.tensor([1, 2, 3, 4]),
                     dynamic_shapes={"x": {0: rows}, "tokens": {0: rows}})
    return module, pt2, c.built(pt2, "remember", "--kernels", kernels)


@test
def a_failing_run_is_captured_and_replayed(c):
    _, pt2, so = remember(c)
    answers, runs = served(c, so, [[1, 2], [3, 4, 5], [6, 10], [2, 11]])
    assert answers[:2] == ["ok", "ok"] and "must be 0 to 9" in answers[2] and f"the run was captured in {runs[3]}" in answers[2], answers
    assert list(runs) == [3] and "captured" not in answers[3], (runs, answers)
    for tool in (c.aotc, c.device):
        told = c.json("replay", "replay", runs[3], tool=tool)
        assert told["same"] and told["replayed"]["status"] == "INDEX_OUT_OF_RANGE" == told["captured"]["status"], told
        assert told["replayed"]["message"] in told["captured"]["message"], told
    # Where the fault is gone, replay says so.
    with open(os.path.join(runs[3], "inputs", "tokens.npy"), "r+b") as f:
        f.seek(-8, os.SEEK_END)
        f.write((9).to_bytes(8, "little"))
    told = c.json("replay", "replay", runs[3], exit_code=1)
    assert not told["same"] and told["replayed"]["status"] == "OK" and told["same_artifact"], told
    said = c.run("replay", runs[3], exit_code=1, tool=c.device).stdout
    assert "captured: INDEX_OUT_OF_RANGE" in said and "replayed: OK" in said, said
    # Damage.
    with open(os.path.join(runs[3], "inputs", "x.npy"), "r+b") as f:
        f.truncate(100)
    assert "x.npy" in c.run("replay", runs[3], exit_code=3).stderr
    os.remove(os.path.join(runs[3], "run.json"))
    assert "run.json" in c.run("replay", runs[3], exit_code=6).stderr


@test
def wrong_numbers_of_a_state_are_replayed_and_found(c):
    module, pt2, so = remember(c)
    right = c.built(pt2, "right", "--kernels", kernels_of(c, "right", "x * sigmoid(1.75 * x)"))
    answers, runs = served(c, so, [[1, 2], [3, 4, 5], [6, 7]], AOTC_CAPTURE_RUNS="all")
    assert answers == ["ok"] * 3 and sorted(runs) == [1, 2, 3], (answers, runs)
    for run in runs.values():
        told = c.json("replay", "replay", run, tool=c.device)
        assert told["same"] and [o["name"] for o in told["outputs"]] == ["y", "best"], told
    assert "the same bits" in c.run("replay", runs[3], "--output-dir", c.at("again"), "--threads", "2").stdout
    for name in ("y.npy", "best.npy"):
        with open(c.at("again", name), "rb") as a, open(os.path.join(runs[3], "outputs", name), "rb") as b:
            assert a.read()[-16:] == b.read()[-16:]
    assert "--output-dir" in c.run("replay", runs[3], "-o", os.path.join(runs[3], "outputs"), exit_code=2).stderr
    # With another artifact of the program: what differs.
    told = c.json("replay", "replay", runs[3], "--artifact", right, exit_code=1)
    y = next(o for o in told["outputs"] if o["name"] == "y")
    assert not told["same_artifact"] and 0 < y["differing"] <= y["elements"] == 32 and y["captured"] != y["replayed"] and y["error"] > 1e-3, told
    assert c.json("replay", "replay", runs[1], "--artifact", right)["same"]  # its state is zeros
    # verify: the run's state is needed for the fault to show; --bisect names the operator.
    words = ("verify", so, "--against", pt2, "--torch-module", module, "--inputs")
    c.run(*words, os.path.join(runs[3], "inputs"))
    c.run("verify", right, *words[2:], c.at("captures"))
    told = c.json("verify", *words, runs[3], "--bisect", c.at("found"), "--kernels", c.at("kernels.json"), exit_code=1)
    assert told["bisect"][0]["operator"] == "ci.squash.default", told["bisect"]
    failing = [row["pass"] for row in c.json("verify", *words, c.at("captures"), exit_code=1)["outputs"]]
    assert True in failing and False in failing, failing
    # reduce: of drawn inputs and zeros in the state the program does not fail; the reduced one has the run's state and needs no other file.
    small, how = c.at("small.pt2"), ("--verify-fails", "--torch-module", module, "--build-options", f"--kernels '{c.at('kernels.json')}' --cpu avx2")
    c.run("reduce", pt2, *how, "-o", small, exit_code=1)
    reduced = c.json("reduce", "reduce", pt2, "--inputs", runs[3], *how, "-o", small)
    assert reduced["operators"] == ["ci.squash.default"] and reduced["operators_before"] > 5, reduced
    c.run("verify", c.built(small, "small", "--kernels", c.at("kernels.json")), "--against", small, "--torch-module", module, exit_code=1)
    # The file is another by now.
    os.replace(right, so)
    assert "is not the artifact that ran" in c.run("replay", runs[3], exit_code=3).stderr


class Seldom(nn.Module):
    def forward(self, x, y):
        return torch.tanh((x.roll(1, -1) / 2).reshape(x.shape[0] * 2, 4)) + y.sum()


# A fault of tanh above 40: ends with 0 where the program has it and its example inputs, little-endian float32, are such.
FAULT = """
import io, sys, zipfile
import numpy as np
z = zipfile.ZipFile(sys.argv[1])
(saved,) = [z.read(n) for n in z.namelist() if n.endswith("sample_inputs/model.pt")]
inputs = zipfile.ZipFile(io.BytesIO(saved)) if saved else None
numbers = [np.frombuffer(inputs.read(n), np.float32) for n in inputs.namelist() if "/data/" in n] if saved else []
found = any(n.max(initial=0) > 40 for n in numbers) and any(b"aten.tanh.default" in z.read(n) for n in z.namelist() if n.endswith("models/model.json"))
sys.exit(0 if found else 1)
"""


@test
def a_captured_run_is_reduced_with_what_it_computes(c):
    rows = torch.export.Dim("rows", min=1, max=64)
    pt2 = c.exported("seldom", Seldom().eval(), torch.randn(4, 8), torch.randn(3), dynamic_shapes={"x": {0: rows}, "y": {}})
    so, folder, small = c.built(pt2), c.at("given"), c.at("small.pt2")
    os.makedirs(folder)
    x = torch.randn(7, 8, generator=torch.Generator().manual_seed(1))
    x[1, 0] += 160
    np.save(os.path.join(folder, "x.npy"), x.numpy())
    np.save(os.path.join(folder, "y.npy"), np.zeros(3, np.float32))
    c.run("run", so, *[f"--input={name}={os.path.join(folder, name)}.npy" for name in "xy"], "-o", c.at("out"),
          env=dict(os.environ, AOTC_CAPTURE=c.at("captures"), AOTC_CAPTURE_RUNS="all"))
    (captured,) = [c.at("captures", name) for name in os.listdir(c.at("captures"))]
    with open(c.at("fault.py"), "w") as f:
        f.write(FAULT)
    how = ("--test", f"python3 '{c.at('fault.py')}' {{}}", "-o", small)
    c.run("reduce", pt2, *how, exit_code=1)
    whole = x.roll(1, -1) / 2
    for words in ((captured,), (folder, "--anonymous")):
        told = c.json("reduce", "reduce", pt2, "--inputs", *words, *how)
        assert told["operators"] == ["aten.tanh.default"] and told["operators_before"] > 4 and told["inputs"] == 1, told
        program = torch.export.load(small)
        (taken,), keywords = program.example_inputs
        assert not keywords and taken.max() == whole.max() > 40 and taken.shape == (4, 4), program.example_inputs
        assert all(n in whole for n in taken.flatten()) and torch.equal(program.module()(taken)[0], torch.tanh(taken))
    c.run("verify", c.built(small, "small"), "--against", small)
    # Not of this program.
    os.remove(os.path.join(folder, "y.npy"))
    assert "y.npy" in c.run("reduce", pt2, "--inputs", folder, *how, exit_code=6).stderr
    np.save(os.path.join(folder, "y.npy"), np.zeros(4, np.float32))
    c.run("reduce", pt2, "--inputs", folder, *how, exit_code=2)
    c.run("reduce", pt2, "--inputs", captured, *how[:-1], os.path.join(captured, "run.json"), exit_code=2)


def kernels_of(c, name, pointwise):
    """As that of `operators`, with another kernel."""
    with open(c.at("kernels.json")) as f:
        kernels = json.load(f)
    kernels["kernels"][0]["pointwise"] = pointwise
    with open(c.at(name + ".json"), "w") as f:
        json.dump(kernels, f)
    return c.at(name + ".json")
