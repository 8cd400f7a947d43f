"""The samples, compiled by the lines in their comments and run on an artifact made here.

    samples.py --aotc BIN --work DIR
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "..", "..")
sys.path.insert(0, here)
import run_models


def compile_line(source):
    """The command in the sample's comment, with its paths those of this tree."""
    text = open(os.path.join(root, source)).read()
    line = re.search(r"^[ /*]*((?:cc|c\+\+) .*" + re.escape(os.path.basename(source)) + r".*)$", text, re.M)[1].split()
    return [os.path.join(root, w) if w == source else os.path.join(root, "runtime", "include") if w == "include" else w for w in line]


def first(o):
    """The commands of samples/first/main.c, as they stand there."""
    work = os.path.join(o.work, "first")
    shutil.copytree(os.path.join(root, "samples", "first"), work, dirs_exist_ok=True)
    line = re.search(r"^/\* (.*) \*/", open(os.path.join(work, "main.c")).read())[1]
    tools = {"python": sys.executable, "aotc": os.path.abspath(o.aotc)}
    for command in line.split(" && "):
        words = command.split()
        r = subprocess.run([tools.get(words[0], words[0])] + words[1:], cwd=work, capture_output=True, text=True)
        assert r.returncode == 0, f"{command}: {r.stdout}{r.stderr}"
    rows = [[float(x) for x in row.split()] for row in r.stdout.strip().split("\n")]
    assert len(rows) == 2 and all(abs(sum(row) - 1) < 1e-3 for row in rows), r.stdout
    print("ok   samples/first", rows)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    pt2, so = os.path.join(o.work, "mlp.pt2"), os.path.join(o.work, "mlp.so")
    run_models.export("mlp_dynamic", pt2)
    run_models.sh(o.aotc, "build", pt2, "-o", so, "--quiet")
    for source, args, expect in (
        ("samples/cpp/serve.cpp", [so, 3, 4, 50], "200 requests in .* 0 answers differ"),
        ("samples/cpp/serve.cpp", [so, 1, 1, 1], "1 requests in 1 runs .* 0 answers differ"),
        ("samples/c/run_model.c", [so], "input 0: .* float32"),
    ):
        cmd = compile_line(source)
        cmd[cmd.index("-o") + 1] = program = os.path.join(o.work, os.path.splitext(os.path.basename(source))[0])
        run_models.sh(*cmd, "-Wall", "-Wextra", "-Werror")
        said = run_models.sh(program, *args)
        assert re.search(expect, said), said
        print("ok  ", source, *args[1:], said.strip().split("\n")[0])
    first(o)


if __name__ == "__main__":
    main()
