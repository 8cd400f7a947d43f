"""The C++ compiler, the cache of objects, interrupted builds, what --keep leaves."""
import json
import os
import shutil
import signal
import subprocess

from cli_bench import PT2, TOOLCHAIN, files_below, hidden, slow_compiler, test, test_of_caches, wait_for


@test_of_caches
def the_compiler_that_cxx_names_is_the_one_that_is_used(b):
    b.refused(TOOLCHAIN, "CXX=/nonexistent/g++", "build", PT2, "-o", b.at("a.so"), env={"CXX": "/nonexistent/g++"})
    b.refused(TOOLCHAIN, "CXX=false", "build", PT2, "-o", b.at("a.so"), env={"CXX": "false"})
    assert not os.path.exists(b.at("a.so"))
    b.build("a.so", env={"CXX": "env g++"})
    b.build("b.so", env={"CXX": ""})


@test_of_caches
def a_compiler_that_is_too_old_is_passed_over_or_refused(b):
    def program(name, text):
        os.makedirs(b.at("bin"), exist_ok=True)
        with open(b.at("bin", name), "w") as f:
            f.write(f"#!/bin/sh\n{text}\n")
        os.chmod(b.at("bin", name), 0o755)

    real, rest = shutil.which("g++"), {"CXX": "", "PATH": b.at("bin")}
    for name, says in (("g++", "g++ (Debian 10.2.1-6) 10.2.1 20210110"), ("c++", "Debian clang version 14.0.6")):
        program(name, f"echo '{says}'")
    told = b.refused(TOOLCHAIN, "g++ 12 or later is needed", "build", PT2, "-o", b.at("a.so"), env=rest).stderr
    assert "g++ is too old: g++ (Debian 10.2.1-6)" in told and "c++ is clang" in told and "gcc-toolset-12" in told, told
    b.refused(TOOLCHAIN, "is too old: g++ 12 or later is needed", "build", PT2, "-o", b.at("a.so"), env={"CXX": b.at("bin", "g++")})
    b.refused(TOOLCHAIN, "is clang: g++ 12 or later is needed", "build", PT2, "-o", b.at("a.so"), env={"CXX": b.at("bin", "c++")})
    assert not os.path.exists(b.at("a.so"))
    program("g++-13", f"""[ "$1" = --version ] && echo 'g++-13 (made up) 13.1.0' && exit
PATH='{os.environ["PATH"]}' exec {real} "$@\"""")
    b.build("a.so", env=rest)
    assert json.load(open(b.at("a.report.json")))["compiler"].startswith("g++-13"), open(b.at("a.report.json")).read()


@test_of_caches
def a_unit_that_the_compiler_crashes_on_is_compiled_with_less_optimization(b):
    def crashing(name, unless):
        with open(b.at(name), "w") as f:
            f.write('#!/bin/sh\nwork=\nfor a; do\n  [ "$a" = -c ] && work=1\n'
                    f'  [ "$a" = {unless} ] && exec g++ "$@"\ndone\n[ "$work" ] || exec g++ "$@"\necho "x.cpp:1: internal compiler error: Segmentation fault" >&2\nexit 1\n')
        os.chmod(b.at(name), 0o755)
        return {"CXX": b.at(name)}

    b.refused(TOOLCHAIN, "internal compiler error", "build", PT2, "-o", b.at("a.so"), env=crashing("always", "-O9"))
    b.build("a.so", env=crashing("optimizing", "-O1"))
    b.ok("verify", b.at("a.so"), "--against", PT2, "--samples", "1")


@test_of_caches
def damaged_cache_entries_are_made_again(b):
    first = open(b.build(), "rb").read()
    objects = [f for f in files_below(b.at("cache")) if f.endswith(".o")]
    assert objects
    damages = (lambda x: x[: len(x) // 2] + bytes(y ^ 0x55 for y in x[len(x) // 2 : len(x) // 2 + 64]) + x[len(x) // 2 + 64 :],
               lambda x: x[: len(x) // 3], lambda x: b"")
    for damage in damages:
        for f in objects:
            data = damage(open(f, "rb").read())
            open(f, "wb").write(data)
        b.build()
        assert open(b.at("model.so"), "rb").read() == first
        report = json.load(open(b.at("model.report.json")))
        assert report["objects"]["cached"] == 0, report["objects"]
    b.build()
    assert json.load(open(b.at("model.report.json")))["objects"]["compiled"] == 0


@test_of_caches
def tuning_goes_on_without_a_place_to_keep_it(b):
    open(b.at("file"), "w").close()
    for cache in (b.at("file"), "/proc/nowhere"):
        r = b.ok("build", PT2, "-o", b.at("model.so"), "--mode", "max-autotune", "--tune-budget", "1", env={"XDG_CACHE_HOME": cache})
        assert "aotc: warning: " in r.stderr and "not kept" in r.stderr, r.stderr
        assert json.load(open(b.at("model.report.json")))["warnings"]
    os.makedirs(b.at("cache", "aotc"))
    with open(b.at("cache", "aotc", "tuning.json"), "w") as f:
        f.write('{"version": 2, "rec')
    r = b.ok("build", PT2, "-o", b.at("model.so"), "--mode", "max-autotune", "--tune-budget", "1")
    assert "counts as empty" in r.stderr, r.stderr
    assert json.load(open(b.at("cache", "aotc", "tuning.json")))["version"] == 2


def runs(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@test_of_caches
def an_interrupted_build_leaves_nothing(b):
    env = slow_compiler(b)

    def start(name):
        if os.path.exists(b.at("compilers")):
            os.remove(b.at("compilers"))
        p = subprocess.Popen([b.aotc, "build", PT2, "-o", b.at(name), "--quiet"], env=env, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: os.path.exists(b.at("compilers")) and open(b.at("compilers")).read().endswith("\n"))
        return p, [int(pid) for pid in open(b.at("compilers")).read().split()]

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        p, compilers = start("model.so")
        assert hidden(b)
        p.send_signal(number)
        assert p.wait(timeout=30) == 128 + number, p.stderr.read()
        assert not hidden(b) and not os.path.exists(b.at("model.so"))
        assert not any(runs(c) for c in compilers)
    p, compilers = start("killed.so")
    p.kill()
    p.wait()
    left = hidden(b)
    assert left
    for c in compilers:
        os.kill(c, signal.SIGKILL)
    waiting, _ = start("waiting.so")  # sweeps what the killed one left, and is not swept by the next
    assert len(hidden(b)) == 1 and hidden(b) != left
    b.build("model.so")
    assert len(hidden(b)) == 1
    open(b.at("go"), "w").close()
    assert waiting.wait(timeout=60) == 0, waiting.stderr.read()
    assert not hidden(b) and os.path.exists(b.at("waiting.so"))
    assert [f for f in os.listdir(b.folder) if "tmp" in f] == []


@test
def what_keep_leaves_makes_the_artifact_again(b):
    for name, options in (("plain", []), ("with 'quotes', and commas", ["--cpu", "portable"]), ("beside", ["--weights-file"])):
        so = b.build(name + ".so", "--keep", b.at("keep " + name), *options)
        first = open(so, "rb").read()
        script, again = b.at("keep " + name, "build.sh"), b.at("again.so")
        for f in files_below(b.at("keep " + name)):
            if f.endswith(".o") and "cubins" not in f and not f.endswith("blob.o"):
                os.remove(f)
        r = subprocess.run([script, again], capture_output=True, text=True, env=b.env, cwd="/", timeout=120)
        assert r.returncode == 0, r.stdout + r.stderr
        assert open(again, "rb").read() == first, f"{name}: build.sh makes another artifact"
        os.remove(so)
        r = subprocess.run([script], capture_output=True, text=True, env={**b.env, "AOTC": b.aotc}, timeout=120)
        assert r.returncode == 0 and open(so, "rb").read() == first, r.stderr
        b.ok("verify", so, "--against", PT2, "--samples", "1")
