"""Data files of what a machine costs: aotc calibrate writes them, --uarch reads them. Nothing here depends on what is measured."""
import json
import os
import subprocess

import torch
from ci_case import test
from torch import nn

GRAPH = """graph @m
input %x : float32[131072] "x"
%0 = reduce(%x) {kind=sum, dims=[0]}
output %0 "sum"
"""


def written(c, name, text):
    with open(c.at(name), "w") as f:
        f.write(text)
    return c.at(name)


class Sum(nn.Module):
    def forward(self, x):
        return x.sum()


@test
def calibrate(c):
    told = c.json("calibrate", "calibrate", "-o", c.at("mine.uarch"))
    text = open(c.at("mine.uarch")).read()
    assert told["file"] == c.at("mine.uarch") and told["text"] == text and f"\nlike {told['like']}\n" in text, text
    rows = dict(line.split() for line in text.splitlines() if line and not line.startswith("#"))
    for n in told["numbers"]:
        assert float(rows.pop(n["name"])) == n["value"] and n["how"] in text, (n, text)
    assert list(rows) == ["like"] and {"l1_bytes", "l2_bytes", "l3_bytes"} <= {n["name"] for n in told["numbers"]}, rows
    # What was written is read: an artifact is made by it, and says so.
    pt2 = c.net()
    so = c.at("net.so")
    report = c.json("report", "build", pt2, "-o", so, "--uarch", c.at("mine.uarch"))
    assert report["uarch"]["name"] == "mine" and f"costs of mine {report['uarch']['id']}" in report["machine"], report
    c.run("verify", so, "--against", pt2, "--samples", "2", "--quiet")
    meta = c.json("metadata", "inspect", so)
    assert meta["uarch"]["name"] == "mine" and meta["uarch"]["id"] == report["uarch"]["id"] == c.json("explain", "explain", so)["uarch"]["id"], meta["uarch"]
    assert f"mine (--uarch), id {meta['uarch']['id']}" in c.run("inspect", so).stdout and "mine (--uarch)" in c.run("explain", so).stdout
    # Comments count for nothing, a number does; neither does where the file lies.
    os.mkdir(c.at("other"))
    same = written(c, "other/mine.uarch", "# another comment\n" + text)
    c.run("build", pt2, "-o", c.at("same.so"), "--uarch", same, "--quiet")
    assert c.json("metadata", "inspect", c.at("same.so"))["uarch"] == meta["uarch"]


@test
def calibrate_is_refused(c):
    r = subprocess.run([c.aotc, "calibrate", "--like", "zen9"], capture_output=True, text=True)
    assert r.returncode == 2 and "zen4" in r.stderr and "sm_90" not in r.stderr, r.stderr
    for place in ("/dev/full", c.at("no", "mine.uarch"), c.folder):
        r = c.run("calibrate", "-o", place, exit_code=6)
        assert place in r.stderr, r.stderr
    # Where no compiler serves nothing is written.
    r = c.run("calibrate", "-o", c.at("mine.uarch"), "--quiet", "--cache", c.at("cache"), env={**os.environ, "CXX": "/nonexistent/g++"}, exit_code=5)
    assert "/nonexistent/g++" in r.stderr and os.listdir(c.folder) in ([], ["cache"]), (r.stderr, os.listdir(c.folder))


@test
def decisions_go_by_the_file(c):
    graph = written(c, "m.graph", GRAPH)

    def reduced(*words):
        return c.run("opt", graph, "--passes=split_reductions,dce", "--cpu", "avx2", *words).stdout

    few = written(c, "few.uarch", "like x86_64\nsplit_least 16384\n")
    assert reduced() == reduced("--uarch", written(c, "same.uarch", "like x86_64\n"))
    assert "float32[64, 2048]" in reduced() and "float32[8, 16384]" in reduced("--uarch", few), reduced("--uarch", few)
    # The same in a build, by the stages of which both are seen. Without the option nothing is said of a file.
    pt2 = c.exported("sum", Sum, torch.randn(131072))
    words = ("--cpu", "portable", "--quiet", "--print-ir-after", "split_reductions")
    plain = c.run("build", pt2, "-o", c.at("plain.so"), *words).stderr
    split = c.run("build", pt2, "-o", c.at("split.so"), *words, "--uarch", few).stderr
    assert "[64, 2048]" in plain and "[8, 16384]" in split and "[64, 2048]" not in split, (plain, split)
    assert "uarch" not in c.json("metadata", "inspect", c.at("plain.so")) and "costs" not in c.run("inspect", c.at("plain.so")).stdout
    c.run("verify", c.at("split.so"), "--against", pt2, "--samples", "1", "--quiet")
    changes = c.json("diff", "diff", c.at("plain.so"), c.at("split.so"), exit_code=1)["changes"]
    assert any(x["name"] == "costs" and x["change"] == "added" and x["b"].startswith("few ") for x in changes), changes
    # aotc weights makes the same decisions from what the artifact says.
    net = c.net()
    so = c.built(net, "net", "--uarch", few)
    c.run("weights", c.net("fine", seed=1), "--for", so, "-o", c.at("fine.weights"), "--quiet")
    c.run("verify", so, "--weights", c.at("fine.weights"), "--against", c.at("fine.pt2"), "--samples", "1", "--quiet")
    # Other kinds of machine in one artifact keep aotc's numbers.
    told = json.loads(c.run("check", net, "--cpu", "avx2", "--cuda", "sm_90a", "--uarch", few, "--json").stdout)
    assert told["targets"] == ["sm_90a", "avx2"], told


@test
def files_that_are_none(c):
    pt2 = c.net()
    for text, code, *says in (("like x86_64\nsplit_leats 1\n", 3, "line 2", "split_leats"), ("like x86_64\nsplit_least many\n", 3, "line 2", "many"),
                              ("kind cpu\nsplit_least 1\n", 3, "missing"), ("", 3, "empty"), ("like zen9\n", 3, "line 1", "zen9"),
                              ("like sm_90\n", 2, "describes a GPU", "a CPU's was expected")):
        bad = written(c, "bad.uarch", text)
        for verb in ("build", "check", "tune", "explain"):
            r = c.run(verb, pt2, "--cpu", "avx2", "--uarch", bad, exit_code=code)
            said = r.stderr + r.stdout  # check: findings are its result
            assert all(s in said for s in (bad, *says)), (verb, said)
    cpu, gpu = written(c, "cpu.uarch", "like zen4\n"), written(c, "gpu.uarch", "like sm_90\n")
    r = c.run("check", pt2, "--cuda", "sm_90a", "--uarch", cpu, exit_code=2)
    assert cpu in r.stderr and "describes a CPU" in r.stderr and "a GPU's was expected" in r.stderr, r.stderr
    r = c.run("check", pt2, "--cuda", "sm_80,sm_90a", "--uarch", gpu, exit_code=2)
    assert gpu in r.stderr and "sm_80,sm_90a" in r.stderr, r.stderr
    r = c.run("check", pt2, "--cuda", "sm_86", "--uarch", gpu, exit_code=3)
    assert gpu in r.stdout and "shared_bytes" in r.stdout, r.stdout
    c.run("check", pt2, "--cuda", "sm_90a", "--ptx", "--uarch", gpu)
    missing = c.at("nothing.uarch")
    assert missing in c.run("build", pt2, "--uarch", missing, exit_code=6).stderr
    # It is not written over.
    r = c.run("build", pt2, "-o", cpu, "--uarch", cpu, exit_code=2)
    assert "--uarch" in r.stderr and open(cpu).read() == "like zen4\n", r.stderr
