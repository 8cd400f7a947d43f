"""What the tests of verbs for CI jobs and for shipping share: exported nets, the tools, a folder a test. TESTS: functions of a Case."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import traceback

import torch
from json_schema import validate
from torch import nn

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import thirds

TESTS = []


def test(f):
    TESTS.append(f)
    return f


class Net(nn.Module):
    """`depth` layers of 64; the same inputs and outputs whatever it is."""

    def __init__(self, depth=1, width=64):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return {"scores": x, "best": x.argmax(-1)}


class Case:
    def __init__(self, aotc, device, folder):
        self.aotc, self.device, self.folder = aotc, device, folder
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def run(self, *words, tool=None, exit_code=0, **kwargs):
        r = subprocess.run([tool or self.aotc, *words], capture_output=True, text=True, **kwargs)
        assert r.returncode == exit_code, f"{words}: exit {r.returncode}, not {exit_code}\n{r.stdout}\n{r.stderr}"
        return r

    def json(self, schema, *words, **kwargs):
        """The verb's JSON, which is as its schema says."""
        told = json.loads(self.run(*words, "--json", **kwargs).stdout)
        validate(schema, told)
        assert told["about"]["verb"] == words[0] and told["about"]["machine"]["cpu"], told["about"]
        return told

    def exported(self, name, module, *args, seed=0, **kwargs):
        torch.manual_seed(seed)
        path = self.at(name + ".pt2")
        torch.export.save(torch.export.export(module() if isinstance(module, type) else module, args, **kwargs), path)
        return path

    def net(self, name="net", depth=1, seed=0):
        torch.manual_seed(seed)
        x = torch.randn(4, 64)
        return self.exported(name, Net(depth), x, dynamic_shapes={"x": {0: torch.export.Dim("rows", min=1, max=64)}}, seed=seed)

    def built(self, pt2, name=None, *words):
        so = self.at((name or os.path.splitext(os.path.basename(pt2))[0]) + ".so")
        self.run("build", pt2, "-o", so, "--cpu", "avx2", "--quiet", *words)
        return so


def main():
    """Runs the third of TESTS that the commit takes, all where they are few, or those that are named on the command line."""
    p = argparse.ArgumentParser()
    for name in ("aotc", "device", "work"):
        p.add_argument("--" + name, required=True)
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    failed = 0
    tests = [t for t in TESTS if not o.names or t.__name__ in o.names]
    if not o.names and len(TESTS) > 4:
        tests = thirds.some(TESTS, f"tests of {os.path.basename(sys.argv[0])}")
    for t in tests:
        try:
            t(Case(os.path.abspath(o.aotc), os.path.abspath(o.device), os.path.join(os.path.abspath(o.work), t.__name__)))
            print("ok  ", t.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAIL", t.__name__, traceback.format_exc()[-4000:], flush=True)
    sys.exit(1 if failed else 0)
