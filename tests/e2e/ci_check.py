"""check: everything that prevents compiling, at the user's lines, as text, JSON and SARIF."""
import json
import os
import subprocess
import zipfile

import torch
from ci_case import test

HERE = os.path.abspath(__file__)


@torch.library.custom_op("ci_check::odd", mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@odd.register_fake
def _(x):
    return torch.empty_like(x)


class Odd(torch.nn.Module):
    def forward(self, x):
        y = odd(x)  # the first
        return torch.relu(odd(y + 1))  # the second


def line_of(text):
    return next(i for i, line in enumerate(open(HERE), 1) if line.rstrip().endswith(text) and "line_of" not in line)


def located(result):
    physical = result["locations"][0]["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical.get("region", {}).get("startLine")


# Reads the log by a model of OASIS' schema and writes it again: properties that the schema has not do not come back.
BY_SCHEMA = """
import json, sys
from sarif_pydantic import Sarif
def names(o, at=""):
    if isinstance(o, dict):
        return set().union(*({at + "." + k} | names(v, at + "." + k) for k, v in o.items()), set())
    return set().union(*(names(v, at + "[]") for v in o), set()) if isinstance(o, list) else set()
given = json.load(open(sys.argv[1]))
kept = json.loads(Sarif.model_validate(given).model_dump_json(by_alias=True, exclude_none=True))
assert names(given) <= names(kept), sorted(names(given) - names(kept))
"""


def check_schema(path):
    tools = os.environ.get("AOTC_PACKAGE_VENV") or os.path.expanduser("~/.cache/aotc/package")
    python = os.path.join(tools, "bin", "python")
    if not os.path.exists(python) or subprocess.run([python, "-c", "import sarif_pydantic"], capture_output=True).returncode:
        print(f"skipped: sarif-pydantic is not in {tools} (packaging/setup.sh)")
        return
    r = subprocess.run([python, "-c", BY_SCHEMA, path], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr[-2000:]


@test
def check_operators(c):
    pt2 = c.exported("odd", Odd(), torch.ones(3))
    lines = [line_of("# the first"), line_of("# the second")]
    told = c.json("check", "check", pt2, "--cpu", "avx2", "--sarif", c.at("all.sarif"), exit_code=4, cwd=os.path.dirname(HERE))
    assert not told["compiles"] and told["targets"] == ["avx2"], told
    rows = told["findings"]
    assert [r["rule"] for r in rows] == ["unsupported-operator"] * 2 and {r["operator"] for r in rows} == {"ci_check.odd.default"}, rows
    assert [r["place"] for r in rows] == [f"{HERE}:{n}" for n in lines], (rows, lines)

    check_schema(c.at("all.sarif"))
    log = json.load(open(c.at("all.sarif")))
    run = log["runs"][0]
    assert log["version"] == "2.1.0" and run["tool"]["driver"]["name"] == "aotc"
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    results = run["results"]
    assert len(results) == 2 and all(r["level"] == "error" and rules[r["ruleIndex"]] == r["ruleId"] for r in results), results
    # From the folder of the code by its name, from elsewhere by a URI of its whole path.
    assert [located(r) for r in results] == [(os.path.basename(HERE), n) for n in lines], results
    assert len({r["partialFingerprints"]["aotc/v1"] for r in results}) == 2
    os.makedirs(c.at("else where"))
    c.run("check", pt2, "--sarif", "x.sarif", exit_code=4, cwd=c.at("else where"))
    results = json.load(open(c.at("else where", "x.sarif")))["runs"][0]["results"]
    assert [located(r)[0] for r in results] == ["file://" + HERE] * 2, results
    text = c.run("check", pt2, exit_code=4).stdout
    assert f"{HERE}:{lines[0]}: error: ci_check.odd.default" in text and "[unsupported-operator]" in text, text


@test
def check_models(c):
    pt2 = c.net()
    told = c.json("check", "check", pt2, "--cpu", "avx2,avx512", "--cuda", "sm_90a", "--sarif", c.at("none.sarif"))
    assert told["compiles"] and not told["findings"] and len(told["targets"]) == 2, told
    check_schema(c.at("none.sarif"))
    assert json.load(open(c.at("none.sarif")))["runs"][0]["results"] == []
    assert "can be compiled for avx2" in c.run("check", pt2, "--cpu", "avx2").stdout
    # The archive cut off is a finding, at the archive; options and folders that are not there are not.
    data = open(pt2, "rb").read()
    open(c.at("cut.pt2"), "wb").write(data[: len(data) // 2])
    told = c.json("check", "check", c.at("cut.pt2"), "--sarif", c.at("cut.sarif"), exit_code=3)
    assert [f["rule"] for f in told["findings"]] == ["bad-input"] and told["findings"][0]["file"] == c.at("cut.pt2"), told
    assert located(json.load(open(c.at("cut.sarif")))["runs"][0]["results"][0])[0].endswith("cut.pt2")
    c.run("check", pt2, "--cpu", "avx9", exit_code=2)
    c.run("check", pt2, "--sarif", c.at("no", "such", "folder.sarif"), exit_code=6)
    assert zipfile.is_zipfile(pt2)
