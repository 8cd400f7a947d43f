"""samples/ci: the steps of the pipelines, run as their files have them, but for installing and for what the code host does."""
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import yaml
from ci_case import test

SAMPLES = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples"))


def repository(c, name):
    folder = c.at(name)
    shutil.copytree(os.path.join(SAMPLES, "first"), folder)
    os.makedirs(os.path.join(folder, "bin"))
    for tool, path in (("aotc", c.aotc), ("python", sys.executable)):
        with open(os.path.join(folder, "bin", tool), "w") as f:
            f.write(f'#!/bin/sh\nexec "{path}" "$@"\n')
        os.chmod(f.name, 0o755)
    return folder


def step(folder, lines, variables, exit_code=0):
    # Times are noise here: any slowdown is allowed, the verdict is tried in ci_bench.
    env = {**os.environ, **variables, "PATH": os.path.join(folder, "bin") + os.pathsep + os.environ["PATH"], "MAX_REGRESSION": "100000%"}
    r = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", lines], cwd=folder, env=env, capture_output=True, text=True)
    assert r.returncode == exit_code, f"{lines}\nexit {r.returncode}\n{r.stdout}\n{r.stderr}"
    return r.stdout


def check_answers(folder):
    suites = ElementTree.parse(os.path.join(folder, "verify.xml")).getroot()
    assert int(suites.get("tests")) > 0 and int(suites.get("failures")) == 0 == int(suites.get("errors"))


@test
def github(c):
    with open(os.path.join(SAMPLES, "ci", "github.yml")) as f:
        flow = yaml.safe_load(f)
    steps = {s["name"]: s["run"] for s in flow["jobs"]["artifact"]["steps"] if "run" in s}
    assert list(steps) == ["install", "export", "check", "build", "verify", "compare", "release"], list(steps)
    folder = repository(c, "github")
    for turn in range(2):  # the second finds what the first released
        told = {name: step(folder, run, flow["env"]) for name, run in steps.items() if name != "install"}
        assert ("nothing to compare" in told["compare"]) == (turn == 0), told["compare"]
    assert "the artifacts are the same" in told["compare"], told["compare"]
    assert os.path.exists(os.path.join(folder, "aotc.sarif")) and os.path.exists(os.path.join(folder, "released", "net.h"))
    check_answers(folder)
    # A model with other weights differs, and the pipeline goes on to compare times.
    step(folder, "sed -i 's/manual_seed(0)/manual_seed(1)/' net.py", {})
    told = {name: step(folder, run, flow["env"]) for name, run in steps.items() if name != "install"}
    assert "the artifacts differ" in told["compare"] and "times as long" in told["compare"], told["compare"]


@test
def gitlab(c):
    with open(os.path.join(SAMPLES, "ci", "gitlab.yml")) as f:
        flow = yaml.safe_load(f)
    jobs = {name: job for name, job in flow.items() if isinstance(job, dict) and "script" in job}
    in_order = sorted(jobs, key=lambda name: flow["stages"].index(jobs[name]["stage"]))
    assert in_order == ["artifact", "verify", "compare", "release"], in_order
    folder = repository(c, "gitlab")
    shared = c.at("shared cache")
    for turn, variables in enumerate(({}, {"AOTC_CACHE": shared, "CI_COMMIT_REF_PROTECTED": "true"}, {"AOTC_CACHE": shared})):
        told = {name: step(folder, "\n".join(jobs[name]["script"]), {**flow["variables"], **variables}) for name in in_order}
        assert ("nothing to compare" in told["compare"]) == (turn == 0), told["compare"]
        with open(os.path.join(folder, "build.json")) as f:
            objects = json.load(f)["objects"]
        assert os.path.exists(shared) == (turn > 0) and (objects["compiled"] == 0 or turn < 2), (turn, objects)
        if turn > 0:
            assert len(os.listdir(os.path.join(shared, "objects"))) == objects["compiled"] + objects["cached"], objects
    check_answers(folder)
    for path in jobs["artifact"]["artifacts"]["paths"]:
        assert os.path.exists(os.path.join(folder, path)), path
