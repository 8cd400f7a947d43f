"""What a build for GPUs does where NVRTC crashes or refuses: a library of tests/cuda stands in for it. Needs neither NVRTC nor torch.

    nvrtc_faults.py --aotc BIN --fake LIBRARY --work DIR
"""
import glob
import json
import os
import re
import signal
import subprocess
import time

from cli_bench import PT2, TOOLCHAIN, Bench

import arguments

KERNEL, FORM, TEXT = "linear_gelu", "cuda_vector", "vector.cuh"  # a product of few rows, and what the code of its form alone includes
WHY = "NVRTC 12.99 crashed (Segmentation fault)"


def build(b, name, fault):
    env = {"FAKE_NVRTC": fault, "XDG_CACHE_HOME": b.at("cache", name)}  # code that is there is not compiled again
    return json.loads(b.ok("build", PT2, "--cuda", "sm_80", "-o", b.at(name), "--json", env=env).stdout)


def choice(report):
    return next(c for c in report["choices"] if c["kernel"] == KERNEL)


def another_form(b):
    """The chosen form's code crashes NVRTC: another form computes the kernel; report, warning and explain say so, every time."""
    plain = choice(build(b, "plain.so", ""))["choice"]
    assert plain.split()[0] == FORM, plain
    report = build(b, "other.so", f"crash:{TEXT}")
    other = choice(report)
    assert other["choice"].split()[0] != FORM, other
    assert {"choice": plain, "why": WHY} in other["refused"], other["refused"]
    assert len(report["warnings"]) == 1 and f"kernel {KERNEL} in form {plain}: {WHY} for sm_80" in report["warnings"][0], report["warnings"]
    source = re.search(r"its source: (\S+\.cu);", report["warnings"][0]).group(1)
    assert TEXT in open(source).read(), source
    explained = b.ok("explain", b.at("other.so"), "--kernel", KERNEL).stdout
    assert WHY in explained and other["choice"] in explained, explained
    first = open(b.at("other.so"), "rb").read()
    build(b, "other.so", f"crash:{TEXT}")
    assert open(b.at("other.so"), "rb").read() == first, "two builds differ"


def no_other_form(b):
    """All code of a kernel crashes NVRTC: an error that says what to do, and nothing is left."""
    r = b.refused(TOOLCHAIN, WHY, "build", PT2, "--cuda", "sm_80", "-o", b.at("none.so"), env={"FAKE_NVRTC": f"crash:{KERNEL}_kernel"})
    for text in (f"kernel {KERNEL} in form", "for sm_80", "its source: ", "AOTC_NVRTC"):
        assert text in r.stderr, (text, r.stderr)
    left = glob.glob(b.at("none*")) + [f for f in os.listdir(b.folder) if f.startswith(".")]
    assert not left, left


def refused_code(b):
    """Code that does not compile is an error with NVRTC's log; --keep has the source."""
    b.refused(TOOLCHAIN, "error: the fake refuses this", "build", PT2, "--cuda", "sm_80", "-o", b.at("none.so"), "--keep", b.at("keep"),
              env={"FAKE_NVRTC": f"fail:{TEXT}"})
    assert TEXT in open(b.at("keep", "kernels.cu")).read()


def never_ends(b):
    """NVRTC works on the chosen form's code without an end: another form computes the kernel, and the build said what it waited for."""
    env = {"FAKE_NVRTC": f"spin:{TEXT}", "XDG_CACHE_HOME": b.at("cache")}
    from_here = time.monotonic()
    r = b.ok("build", PT2, "--cuda", "sm_80", "-o", b.at("late.so"), env=env)
    assert time.monotonic() - from_here < 300, "the limit is not held"
    assert f"waiting for NVRTC, which has worked on kernel {KERNEL}" in r.stderr, r.stderr
    assert "NVRTC 12.99 took longer than 20 s of processor time for sm_80" in r.stderr, r.stderr
    other = choice(json.load(open(b.at("late.report.json"))))
    assert other["choice"].split()[0] != FORM, other


def interrupted(b):
    """Ctrl-C while NVRTC compiles: its processes end with the build, at once, and nothing is left."""
    env = {**b.env, "FAKE_NVRTC": f"hang:{TEXT}"}
    build = subprocess.Popen([b.aotc, "build", PT2, "--cuda", "sm_80", "-o", b.at("none.so")], env=env, cwd=b.folder, stderr=subprocess.PIPE, text=True)
    try:
        workers = []
        for _ in range(600):
            workers = open(f"/proc/{build.pid}/task/{build.pid}/children").read().split()
            if [f for f in os.listdir(b.folder) if f.startswith(".")] and workers:
                break
            time.sleep(0.05)
        time.sleep(0.5)
        build.send_signal(signal.SIGINT)
        from_here = time.monotonic()
        _, told = build.communicate(timeout=60)
        assert build.returncode == 130, (build.returncode, told)
        assert time.monotonic() - from_here < 20, told
        assert not [w for w in workers if os.path.exists(f"/proc/{w}")], workers
        assert "crashed" not in told, told
        left = [f for f in os.listdir(b.folder) if f.startswith(".")]
        assert not left, left
    finally:
        build.kill()


def main():
    o = arguments.parse("fake")
    for test in (another_form, no_other_form, refused_code, never_ends, interrupted):
        b = Bench(o.aotc, None, os.path.join(o.work, test.__name__))
        b.env["AOTC_NVRTC"] = o.fake
        test(b)
        print("ok  ", test.__name__, flush=True)


if __name__ == "__main__":
    main()
