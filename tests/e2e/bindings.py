"""samples/rust and samples/go: built, and run on several threads beside eager PyTorch; the Rust declarations beside the C header.

    bindings.py --aotc BIN --device BIN --work DIR [name ...]         (abi_layout lies beside BIN)
"""
import os
import re
import shutil
import subprocess

import torch
from ci_case import main, test
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = os.path.join(HERE, "..", "..", "samples")
THREADS = 4


def model(c):
    """A net of any batch, and the sums that `serve` of either language prints: what eager gives."""
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3)).eval()
    batch = {0: torch.export.Dim("batch", min=1, max=64)}
    so = c.built(c.exported("net", net, torch.randn(4, 8), dynamic_shapes=(batch,)))
    sums = []
    for thread in range(THREADS):
        with torch.no_grad():
            sums.append(sum(net(((torch.arange(n * 8) * 7 + thread) % 11 / 11).reshape(n, 8)).double().sum().item() for n in range(1, 9)))
    return so, sums


def answered(text, sums):
    """The line of sums is what eager gives."""
    line = next(line for line in text.splitlines() if line.startswith("["))
    got = [float(x) for x in re.findall(r"[-+.\de]+", line)]
    assert len(got) == len(sums) and all(abs(a - b) < 1e-4 * (1 + abs(b)) for a, b in zip(got, sums)), (got, sums)


def missing(*programs):
    for p in programs:
        if not shutil.which(p):
            print(f"skipped: {p} is not there")
            return True
    return False


def said(words, folder, **env):
    r = subprocess.run(words, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True)
    assert r.returncode == 0, (words, r.stdout, r.stderr)
    return r.stdout


@test
def rust(c):
    if missing("cargo", "rustc", "cc", "ar"):
        return
    env = {"CARGO_TARGET_DIR": os.path.join(os.path.dirname(c.folder), "cargo"), "RUSTFLAGS": "-D warnings"}
    folder = os.path.join(SAMPLES, "rust")
    said(["cargo", "build", "--offline", "--locked", "--examples", "--quiet"], folder, **env)
    examples = os.path.join(env["CARGO_TARGET_DIR"], "debug", "examples")
    rows = set(said([os.path.join(examples, "layout")], folder).splitlines())
    header = said([os.path.join(os.path.dirname(c.aotc), "abi_layout"), "now"], folder)
    header = {re.sub(r"^(AOTC_DTYPE_\w+ = \d+), \w+, ", r"\1, ", line) for line in header.splitlines()}
    known = {re.sub(r"[. =].*", "", line) for line in rows}
    flags = {line for line in header if re.match(r"AOTC_(MODEL|CONTEXT|WEIGHTS)_|AOTC_MAX_THREADS|AOTC_STATUS_OK", line)}
    absent = header - rows - flags
    assert not absent, f"aotc.h has, and ffi.rs has not: {sorted(absent)}"
    extra = {line for line in rows - header if not re.match(r"aotc_(library|method_info)\.|\w+\.reserved ", line)}
    assert not extra and "aotc_api" in known, f"ffi.rs has, and aotc.h has not: {sorted(extra)}"
    so, sums = model(c)
    told = said([os.path.join(examples, "serve"), so, str(THREADS)], folder)
    answered(told, sums)
    assert "has 24 elements, its slice 25" in told and "InvalidArgument" in told or "ShapeMismatch" in told, told


@test
def go(c):
    if missing("go", "gcc"):
        return
    env = {"GOCACHE": os.path.join(os.path.dirname(c.folder), "gocache"), "GOFLAGS": "-mod=mod", "GOPROXY": "off", "CGO_ENABLED": "1"}
    folder, program = os.path.join(SAMPLES, "go"), c.at("serve")
    said(["go", "vet", "./..."], folder, **env)
    said(["go", "build", "-o", program, "./serve"], folder, **env)
    so, sums = model(c)
    answered(said([program, so, str(THREADS)], folder, GODEBUG="cgocheck=1", GOGC="1"), sums)


if __name__ == "__main__":
    main()
