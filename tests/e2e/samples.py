"""The samples, compiled by the lines in their comments and run on an artifact made here.

    samples.py --aotc BIN --work DIR
"""
import os
import re
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "..", "..")
sys.path.insert(0, here)
import arguments
import run_models
import torch


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
    tools = {"python": [sys.executable, "-IS", os.path.join(root, "tests", "torch_process.py")], "aotc": [os.path.abspath(o.aotc)]}
    for command in line.split(" && "):
        words = command.split()
        r = subprocess.run(tools.get(words[0], words[:1]) + words[1:], cwd=work, capture_output=True, text=True)
        assert r.returncode == 0, f"{command}: {r.stdout}{r.stderr}"
    rows = [[float(x) for x in row.split()] for row in r.stdout.strip().split("\n")]
    assert len(rows) == 2 and all(abs(sum(row) - 1) < 1e-3 for row in rows), r.stdout
    print("ok   samples/first", rows)


def encrypted_weights(o):
    """A fine-tune's weights, encrypted, decrypted into a model that runs; what was changed, cut off or has another key is refused."""
    source = "samples/cpp/encrypted_weights.cpp"
    if subprocess.run(["c++", "-E", "-x", "c++", "-", "-o", os.devnull], input="#include <openssl/evp.h>\n", text=True, capture_output=True).returncode:
        print("skip", source, "needs libssl-dev")
        return
    at = lambda name: os.path.join(o.work, name)
    for name, seed in (("own", 1), ("tuned", 2)):
        torch.manual_seed(seed)
        net = torch.nn.Sequential(torch.nn.Linear(64, 9000), torch.nn.ReLU(), torch.nn.Linear(9000, 5)).eval()
        torch.export.save(torch.export.export(net, (torch.randn(2, 64),), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=8)},)), at(name + ".pt2"))
        run_models.sh(o.aotc, "build", at(name + ".pt2"), "-o", at(name + ".so"), "--quiet")
    run_models.sh(o.aotc, "weights", at("tuned.pt2"), "--for", at("own.so"), "-o", at("tuned.weights"), "--quiet")
    cmd = compile_line(source)
    cmd[cmd.index("-o") + 1] = program = at("encrypted_weights")
    run_models.sh(*cmd, "-Wall", "-Wextra", "-Werror")
    for key in ("key", "another"):
        with open(at(key), "wb") as f:
            f.write(os.urandom(32))
    run_models.sh(program, "encrypt", at("key"), at("tuned.weights"), at("tuned.enc"))
    sums = {name: re.findall(r": ([0-9a-f]{16})", run_models.sh(program, "run", at("key"), at(name + ".so"), at("tuned.enc"))) for name in ("own", "tuned")}
    assert sums["own"][1] == sums["tuned"][0] == sums["tuned"][1] != sums["own"][0], sums
    with open(at("tuned.enc"), "rb") as f:
        content = f.read()
    with open(at("tuned.weights"), "rb") as f:
        assert f.read()[4096:4160] not in content
    header, frame = 24, (1 << 20) + 16
    assert len(content) > header + 2 * frame
    flip = lambda i: content[:i] + bytes([content[i] ^ 1]) + content[i + 1:]
    changed = {"bytes": flip(8), "nonce": flip(17), "first": flip(header), "tag": flip(header + frame - 1), "last": flip(len(content) - 20), "cut": content[:-1],
               "order": content[:header] + content[header + frame:header + 2 * frame] + content[header:header + frame] + content[header + 2 * frame:]}
    for name, bad in changed.items():
        with open(at("bad.enc"), "wb") as f:
            f.write(bad)
        r = subprocess.run([program, "run", at("key"), at("own.so"), at("bad.enc")], capture_output=True, text=True)
        assert r.returncode == 1 and "reading bytes" in r.stderr and "version" not in r.stdout, (name, r)
    r = subprocess.run([program, "run", at("another"), at("own.so"), at("tuned.enc")], capture_output=True, text=True)
    assert r.returncode == 1 and "reading bytes" in r.stderr, r
    print("ok  ", source, sums)


def main():
    o = arguments.parse()
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
    encrypted_weights(o)


if __name__ == "__main__":
    main()
