"""The command line on what is not as it should be: files that are none, damaged caches, interrupted builds, wrong archives. Needs no torch: the
archive in archives/ is the model.

    cli_test.py --aotc BIN --work DIR --seal-check BIN [name ...]
"""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PT2 = os.path.join(HERE, "archives", "torch_2_11.pt2")
USAGE, BAD_INPUT, TOOLCHAIN, IO = 2, 3, 5, 6
TESTS = []


def test(f):
    TESTS.append(f)
    return f


class Bench:
    """A folder of its own for one test, with a cache of its own."""

    def __init__(self, aotc, seal_check, folder):
        self.aotc, self.seal_check, self.folder = aotc, seal_check, folder
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.env = {**os.environ, "XDG_CACHE_HOME": self.at("cache")}

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def run(self, *words, env={}, **kwargs):
        return subprocess.run([self.aotc, *words], capture_output=True, text=True, timeout=120, env={**self.env, **env}, cwd=self.folder, **kwargs)

    def ok(self, *words, **kwargs):
        r = self.run(*words, **kwargs)
        assert r.returncode == 0, f"{words}: exit {r.returncode}\n{r.stdout}{r.stderr}"
        return r

    def refused(self, code, text, *words, **kwargs):
        r = self.run(*words, **kwargs)
        assert r.returncode == code, f"{words}: exit {r.returncode}, not {code}\n{r.stdout}{r.stderr}"
        assert text in r.stderr, f"{words}: no '{text}' in\n{r.stderr}"
        return r

    def build(self, name="model.so", *more, **kwargs):
        self.ok("build", PT2, "-o", self.at(name), "--quiet", *more, **kwargs)
        return self.at(name)


@test
def only_regular_files_are_opened(b):
    so = b.build()
    os.mkfifo(b.at("fifo"))
    os.mkdir(b.at("folder"))
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.relpath(b.at("socket"), os.getcwd()) if len(b.at("socket")) > 100 else b.at("socket"))
    for what, text in (("fifo", "a FIFO"), ("folder", "a folder"), ("socket", "a socket"), ("/dev/zero", "a device"), ("absent", "no such file")):
        f = what if what[0] == "/" else b.at(what)
        every = [
            ["build", f], ["build", PT2, "--shapes", f], ["explain", f], ["inspect", f],
            ["verify", f, "--against", PT2], ["verify", so, "--against", f], ["bench", f], ["bench", so, "--against", f],
            ["run", f, "-o", b.at("out")], ["opt", f], ["build", PT2, "--tuning-db", f], ["build", PT2, "-o", f],
        ]
        for words in every if what == "fifo" else [["build", f], ["run", f, "-o", b.at("out")]]:
            b.refused(IO, text, *words)
    inputs = [i["name"] for i in json.loads(b.ok("inspect", so, "--json").stdout)["inputs"]]
    b.refused(IO, "a FIFO", "run", so, "-o", b.at("out"), *[w for name in inputs for w in ("-i", f"{name}={b.at('fifo')}")])
    server.close()


@test
def words_that_are_no_verbs_and_numbers_out_of_range_are_named(b):
    b.refused(USAGE, "there is no verb 'frob'", "frob", PT2)
    b.refused(USAGE, "known: build, inspect", "frob")
    b.refused(USAGE, "aotc: error: --jobs: '-1' is not a number of at least 0", "build", PT2, "-j", "-1")
    b.refused(USAGE, "--max-error: '0' is not a number above 0", "build", PT2, "--max-error", "0")


@test
def the_artifact_is_written_beside_nothing_that_is_read(b):
    copy = b.at("copy.pt2")
    shutil.copy(PT2, copy)
    b.refused(USAGE, "a name of its own", "build", copy, "-o", copy)
    b.refused(USAGE, "call it .so", "build", copy, "-o", b.at("model.h"))
    b.refused(USAGE, "name the artifact", "build", copy, "-o", b.at("new") + "/")
    assert open(copy, "rb").read() == open(PT2, "rb").read()


@test
def an_archive_of_a_later_torch_is_tried_with_a_warning(b):
    with zipfile.ZipFile(PT2) as z, zipfile.ZipFile(b.at("later.pt2"), "w", zipfile.ZIP_STORED) as out:
        for info in z.infolist():
            out.writestr(info.filename, z.read(info).replace(b'"torch_version": "2.11.0', b'"torch_version": "2.99.0'))
    r = b.ok("build", b.at("later.pt2"), "-o", b.at("later.so"))
    assert "aotc: warning: the archive is of torch 2.99.0" in r.stderr, r.stderr
    assert "2.99.0" in json.load(open(b.at("later.report.json")))["warnings"][0]
    assert "the archive is of torch 2.99.0" in b.ok("verify", b.at("later.so"), "--against", b.at("later.pt2"), "--samples", "1").stderr
    assert "warning" not in b.ok("build", PT2, "-o", b.at("own.so")).stderr


@test
def the_compiler_that_cxx_names_is_the_one_that_is_used(b):
    b.refused(TOOLCHAIN, "CXX=/nonexistent/g++", "build", PT2, "-o", b.at("a.so"), env={"CXX": "/nonexistent/g++"})
    b.refused(TOOLCHAIN, "CXX=false", "build", PT2, "-o", b.at("a.so"), env={"CXX": "false"})
    assert not os.path.exists(b.at("a.so"))
    b.build("a.so", env={"CXX": "env g++"})
    b.build("b.so", env={"CXX": ""})


@test
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


def with_other_weights(path):
    """The archive with the sign of every byte of its first weight turned."""
    with zipfile.ZipFile(PT2) as z, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as out:
        for info in z.infolist():
            data = z.read(info)
            out.writestr(info.filename, bytes(x ^ 0x80 for x in data) if info.filename.endswith("/weight_0") else data)


@test
def the_wrong_archive_is_named_as_such(b):
    so, other = b.build(), b.at("other.pt2")
    with_other_weights(other)
    r = b.run("verify", so, "--against", other, "--samples", "1")
    assert r.returncode == 1 and "other.pt2 is not the archive that" in r.stderr, r.stderr
    assert "verify: FAIL; " in r.stdout and "(its id is " in r.stdout, r.stdout
    assert json.loads(b.run("verify", so, "--against", other, "--samples", "1", "--json").stdout)["source_matches"] is False
    b.refused(BAD_INPUT, "is not the archive that", "verify", so, "--against", PT2.replace("2_11", "2_11_cuda_dynamic_decomposed"))
    renamed = b.at("renamed.pt2")
    shutil.copy(PT2, renamed)
    assert "not the archive" not in b.ok("verify", so, "--against", renamed, "--samples", "1").stderr
    told = json.loads(b.ok("inspect", so, "--json").stdout)["source"]
    assert told == {"id": json.loads(b.ok("inspect", renamed, "--json").stdout)["id"]}


@test
def an_archive_gives_the_same_bytes_under_any_name(b):
    os.mkdir(b.at("elsewhere"))
    renamed = b.at("elsewhere/renamed.pt2")
    shutil.copy(PT2, renamed)
    made = []
    for pt2, so in ((PT2, b.at("one.so")), (renamed, b.at("elsewhere/one.so"))):  # SONAME: the file name
        b.ok("build", pt2, "-o", so)
        made.append(open(so, "rb").read())
    assert made[0] == made[1], "the artifact depends on the names of the files"


def inputs_of(b, so):
    """-i options for a run on zeros."""
    words = []
    for i in json.loads(b.ok("inspect", so, "--json").stdout)["inputs"]:
        assert i["dtype"] == "float32" and all(isinstance(d, int) for d in i["shape"])
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({''.join(f'{d}, ' for d in i['shape'])}), }}"
        header += " " * (63 - (10 + len(header)) % 64) + "\n"
        size = 4
        for d in i["shape"]:
            size *= d
        with open(b.at(i["name"] + ".npy"), "wb") as f:
            f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(size))
        words += ["-i", f"{i['name']}={b.at(i['name'] + '.npy')}"]
    return words


@test
def a_missing_weights_file_is_named(b):
    so = b.build("model.so", "--weights-file")
    words = ["run", so, "-o", b.at("out"), *inputs_of(b, so)]
    b.ok(*words)
    os.remove(b.at("model.weights"))
    r = b.refused(BAD_INPUT, b.at("model.weights"), *words)
    assert "no such file" in r.stderr.lower() and "input, output or state" not in r.stderr, r.stderr


def files_below(folder):
    return sorted(os.path.join(d, f) for d, _, names in os.walk(folder) for f in names)


@test
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


@test
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


def hidden(b):
    return [f for f in os.listdir(b.folder) if f.startswith(".aotc")]


def slow_compiler(b):
    """A g++ that waits while the file 'go' is missing; its process ids go to the file 'compilers'."""
    with open(b.at("slow"), "w") as f:
        f.write(f'#!/bin/sh\n[ "$1" = --version ] || {{ echo $$ >> {b.at("compilers")}; until [ -e {b.at("go")} ]; do sleep 0.1; done; }}\nexec g++ "$@"\n')
    os.chmod(b.at("slow"), 0o755)
    return {**b.env, "CXX": b.at("slow")}


def wait_for(what, seconds=60):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, "it does not happen"
        time.sleep(0.05)


def runs(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@test
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
def damaged_and_cut_artifacts_are_refused(b):
    so, beside = b.build(), b.build("beside.so", "--weights-file")
    r = subprocess.run([b.seal_check, so], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
    whole = open(so, "rb").read()
    told = b.ok("inspect", so, "--check-weights").stdout
    assert "s/GB" in told and "with --check-weights" in b.ok("inspect", so).stdout, told
    every = [["inspect", so], ["explain", so], ["verify", so, "--against", PT2], ["bench", so], ["run", so, "-o", b.at("out"), *inputs_of(b, so)]]
    seal = json.loads(b.ok("inspect", so, "--json").stdout)["seal"]
    assert seal["file_bytes"] == len(whole) and seal["weights_bytes"] > 0

    def damaged(from_, n):
        with open(so, "wb") as f:
            f.write(whole[:from_] + bytes(x ^ 0xFF for x in whole[from_ : from_ + n]) + whole[from_ + n :])

    for words in every:
        damaged(whole.index(b'"aotc_version"'), 4)
        b.refused(BAD_INPUT, "code and tables", *words)
        with open(so, "wb") as f:
            f.write(whole[: len(whole) * 2 // 3])
        b.refused(BAD_INPUT, "cut off", *words)
    # the weights are the last segment: behind them only what is not loaded
    with open(so, "wb") as f:
        f.write(whole)
    at = weights_at(so)
    damaged(at, 64)
    for words in every:
        b.refused(BAD_INPUT, "weights are not", *words, "--check-weights")
    file = b.at("beside.weights")
    good = open(file, "rb").read()
    words = ["run", beside, "-o", b.at("out"), *inputs_of(b, beside)]
    b.ok("inspect", beside, "--check-weights")
    b.ok(*words, "--check-weights")
    with open(file, "wb") as f:
        f.write(bytes([good[0] ^ 1]) + good[1:])
    b.ok(*words)
    b.refused(BAD_INPUT, "is damaged", *words, "--check-weights")
    b.refused(BAD_INPUT, "is damaged", "inspect", beside, "--check-weights")
    with open(file, "wb") as f:
        f.write(good[: len(good) // 2])
    b.refused(BAD_INPUT, "cut off", *words)
    os.remove(file)
    os.mkfifo(file)
    b.refused(BAD_INPUT, "no regular file", *words)


FOREIGN = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void at_load(void) { close(open(TOLD, O_CREAT | O_WRONLY, 0600)); }
const void* aotc_get_api(unsigned v) { (void)v; return 0; }
"""


@test
def no_code_runs_before_a_file_is_known_to_be_an_artifact(b):
    so, foreign, told = b.build(), b.at("foreign.so"), b.at("constructor_ran")
    with open(b.at("foreign.c"), "w") as f:
        f.write(FOREIGN)
    subprocess.run(["cc", "-shared", "-fPIC", f'-DTOLD="{told}"', b.at("foreign.c"), "-o", foreign], check=True)
    device = os.path.join(os.path.dirname(b.aotc), "aotc-device")
    every = [["inspect", foreign], ["explain", foreign], ["verify", foreign, "--against", PT2], ["bench", foreign],
             ["run", foreign, "-o", b.at("out")], ["references", foreign, "--against", PT2, "-o", b.at("refs")]]
    for words in every:
        for more in ([], ["--check-weights"] if words[0] != "references" else []):
            b.refused(BAD_INPUT, "not an artifact of aotc", *words, *more)
    for words in (["probe", foreign], ["bench", foreign], ["run", foreign, "-o", b.at("out")]):
        r = subprocess.run([device, *words], capture_output=True, text=True)
        assert r.returncode == BAD_INPUT and "not an artifact of aotc" in r.stderr, r
    assert not os.path.exists(told)
    # Of an artifact of ours inspect and explain load nothing, by what the loader says of itself.
    before = [b.ok(*words).stdout for words in (["inspect", so, "--json"], ["explain", so, "--json"])]
    for words, loads in ((["inspect", so], False), (["explain", so], False), (["bench", so, "--seconds", "0.01"], True)):
        r = b.ok(*words, env={"LD_DEBUG": "files"})
        assert ("file=" + so in r.stderr) == loads, words
    subprocess.run(["strip", so], check=True)
    after = [b.ok(*words).stdout for words in (["inspect", so, "--json"], ["explain", so, "--json"])]
    assert json.loads(before[1]) == json.loads(after[1])
    for text in (before, after):
        assert json.loads(text[0])["inputs"] and json.loads(text[0])["aotc_version"]


@test
def an_artifact_without_its_seal_is_damaged(b):
    so = b.build()
    whole = open(so, "rb").read()
    at = whole.index(b"\5\0\0\0\x38\0\0\0\1\0\0\0aotc\0") + 20
    with open(so, "wb") as f:
        f.write(whole[:at] + bytes(56) + whole[at + 56 :])
    for words in (["inspect", so], ["explain", so], ["verify", so, "--against", PT2], ["bench", so], ["run", so, "-o", b.at("out")]):
        b.refused(BAD_INPUT, "seal is damaged", *words)


@test
def an_artifact_may_be_called_as_the_abi_is(b):
    b.build("aotc.so")
    with open(b.at("use.c"), "w") as f:
        f.write('#include "aotc.h"\naotc_status (*use)(const char*, aotc_library*) = m_aotc_library_open;\n')
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-Wno-unused-function", "-D_POSIX_C_SOURCE=200809L", "-fsyntax-only", b.at("use.c")],
                   check=True)


def weights_at(so):
    """Where the section .aotc_weights lies in the file."""
    for line in subprocess.run(["readelf", "-SW", so], capture_output=True, text=True).stdout.splitlines():
        if ".aotc_weights" in line:
            return int(line.split(".aotc_weights")[1].split()[2], 16)
    raise AssertionError("no weights in " + so)


@test
def a_profile_adds_up_and_denormals_are_told(b):
    so = b.build()
    told = json.loads(b.ok("bench", so, "--seconds", "0.2", "--profile", "--json").stdout)
    p = told["profile"]
    assert abs(sum(s["us"] for s in p["steps"]) + p["outside_us"] - p["run_us"]) < 1e-6 * p["run_us"], p
    assert 0 <= p["outside_us"] and p["statistic"] and p["runs"] >= 2, p
    assert told["denormals"]["flushed"] is False and told["denormals"]["flushed_p50_us"] > 0, told["denormals"]
    text = b.ok("bench", so, "--seconds", "0.2", "--profile").stdout
    assert "denormals kept" in text and "together" in text and p["statistic"] in text, text
    assert "roofline" in text and "GFLOP/s" in text and "GB/s" in text, text
    text = b.ok("bench", so, "--seconds", "0.2", "--flush-denormals").stdout
    assert "AOTC_CONTEXT_FLUSH_DENORMALS" in text, text
    b.ok("run", so, "-o", b.at("out"), *inputs_of(b, so), "--flush-denormals")
    assert "_context_create" in open(b.at("model.h")).read() and "FLUSH_DENORMALS" in open(b.at("model.h")).read()


@test
def a_profile_says_what_steps_do_of_what_the_machine_can(b):
    so, trace = b.build(), b.at("trace.json")
    demands = json.loads(b.ok("inspect", so, "--json").stdout)["explain"]["variants"][0]["demands"]
    p = json.loads(b.ok("bench", so, "--seconds", "0.2", "--profile", "--trace", trace, "--json").stdout)["profile"]
    assert p["peaks"]["gbytes"] > 0 and p["peaks"]["gflops"]["float32"] > 0 and len(p["steps"]) == len(demands), p
    for s in p["steps"]:
        d = demands[s["step"]]
        work = 2 * d.get("products", 0) + d["operations"]
        assert abs(s["gflops"] * s["us"] * 1e3 - work) <= 1e-6 * work, (s, d)
        least = max(2 * d.get("products", 0) / p["peaks"]["gflops"].get(d.get("in", "float32"), 1e30), d["operations"] / p["peaks"]["operations_gflops"],
                    (d["read"] + d["written"]) / p["peaks"]["gbytes"])
        assert abs(s["roofline"] * s["us"] * 1e3 - least) <= 1e-6 * least and s["bound"] in ("products", "operations", "memory"), (s, d)
    events = [e for e in json.load(open(trace))["traceEvents"] if e["ph"] == "X"]
    assert [e["args"]["step"] for e in events] == list(range(len(demands))), events
    assert all(abs(a["ts"] + a["dur"] - z["ts"]) < 1e-6 for a, z in zip(events, events[1:])), events
    b.refused(IO, "trace", "bench", so, "--seconds", "0.1", "--trace", b.at("no/such/folder/trace.json"))


@test
def what_a_new_user_gets_wrong(b):
    so = b.build()
    r = b.refused(USAGE, "--dim foo: there is no such dimension", "bench", so, "--dim", "foo=3")
    assert "all shapes of this model are fixed" in r.stderr, r.stderr
    dynamic = b.at("dynamic.so")
    b.ok("build", PT2.replace("2_11", "2_11_cuda_dynamic_decomposed"), "-o", dynamic, "--quiet")
    r = b.refused(USAGE, "--dim foo: there is no such dimension", "bench", dynamic, "--dim", "foo=3")
    names = r.stderr.split("the dimensions are ")[1].strip().split(", ")
    b.ok("bench", dynamic, "--seconds", "0.1", "--dim", names[0] + "=2")
    with zipfile.ZipFile(b.at("model.pt"), "w", zipfile.ZIP_STORED) as z:  # as torch.save writes it
        z.writestr("model/data.pkl", b"")
    r = b.refused(BAD_INPUT, "not an archive of torch.export.save", "build", b.at("model.pt"))
    assert "torch.export.export(" in r.stderr, r.stderr


@test
def no_output_takes_the_place_of_what_is_read(b):
    archive, shapes = open(PT2, "rb").read(), b'{"dims": {}}'

    def given(name, content):
        with open(b.at(name), "wb") as f:
            f.write(content)
        return b.at(name)

    def unharmed(*words):
        for name, content in files.items():
            assert open(name, "rb").read() == content, (words, name)
        assert not [f for f in os.listdir(b.folder) if f.startswith(".aotc") or f.endswith(".tmp")]

    def clash(one, other, *words):
        r = b.refused(USAGE, "would be overwritten", *words)
        assert one in r.stderr and other in r.stderr, r.stderr
        unharmed(words)

    files = {given(n, archive): archive for n in ("m.h", "m.weights", "m.report.json", "q.so", "plan.txt")}
    files[given("z.report.json", shapes)] = shapes
    os.link(b.at("m.h"), b.at("hard.h"))
    os.symlink(b.at("m.h"), b.at("soft.h"))
    os.mkdir(b.at("sub"))
    for name in ("m.h", "m.weights", "m.report.json"):
        if name != "m.report.json":
            clash("-o", "model", "build", b.at(name))  # m.so, beside it m.h, m.weights and m.report.json
        clash("-o", "model", "build", b.at(name), "-o", b.at("sub", "..", "m.so"))
    clash("-o", "model", "build", b.at("m.h"), "-o", b.at("hard.so"))
    clash("-o", "model", "build", b.at("m.h"), "-o", b.at("soft.so"))
    clash("-o", "--shapes", "build", PT2, "--shapes", b.at("z.report.json"), "-o", b.at("z.so"))
    clash("-o", "--tuning-db", "build", PT2, "--tuning-db", b.at("q.so"), "-o", b.at("q.so"))
    clash("-o", "--tuning-db", "build", PT2, "--tuning-db", b.at("new.report.json"), "-o", b.at("new.so"), "--mode", "max-autotune")
    clash("--tuning-db", "model", "build", b.at("q.so"), "--tuning-db", b.at("q.so"), "-o", b.at("r.so"), "--mode", "max-autotune")
    clash("--tuning-db", "model", "tune", b.at("q.so"), "--tuning-db", b.at("q.so"))
    clash("--keep", "model", "build", b.at("plan.txt"), "--keep", b.folder, "-o", b.at("r.so"))
    clash("--dump-dir", "model", "build", b.at("plan.txt"), "--dump-dir", b.folder, "-o", b.at("r.so"))
    graph = given("a.graph", b"graph @a {\n}\n")
    files[graph] = open(graph, "rb").read()
    clash("-o", "file", "opt", graph, "-o", graph)
    so = b.build()
    files[so] = open(so, "rb").read()
    clash("--trace", "artifact", "bench", so, "--trace", so)
    clash("--trace", "--against", "bench", so, "--against", b.at("m.h"), "--trace", b.at("m.h"))
    words = inputs_of(b, so)
    output = json.loads(b.ok("inspect", so, "--json").stdout)["outputs"][0]["name"]
    npy = b.at(words[1].split("=")[1])
    renamed = b.at(output + ".npy")
    shutil.copy(npy, renamed)
    files[renamed] = open(renamed, "rb").read()
    name = words[1].split("=")[0]
    clash("--output-dir", "--input " + name, "run", so, "-o", b.folder, "-i", f"{name}={renamed}", *words[2:])


@test
def the_folder_of_an_output_must_be_there(b):
    for words in (["build", PT2, "-o", b.at("no", "such", "x.so")], ["build", PT2, "-o", b.at("x.so"), "--mode", "max-autotune", "--tuning-db", b.at("no", "t.json")],
                  ["tune", PT2, "--tuning-db", b.at("no", "t.json")]):
        b.refused(IO, "there is no folder", *words)
    assert not os.path.exists(b.at("no")) and not os.path.exists(b.at("x.so"))


@test
def what_cannot_be_printed_is_a_file_error(b):
    so = b.build()
    for words in (["explain", PT2], ["explain", so], ["inspect", so], ["inspect", so, "--json"], ["ops"], ["--help"], ["verify", so, "--against", PT2, "--samples", "1"]):
        with open("/dev/full", "w") as full:
            r = subprocess.run([b.aotc, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=b.env, timeout=120)
        assert r.returncode == IO and "No space left" in r.stderr and "bug" not in r.stderr, (words, r.returncode, r.stderr)


@test
def errors_of_the_command_line_begin_alike(b):
    for words in (["build"], ["build", PT2, "--nope"], ["build", PT2, "-j", "x"], ["verify", "--samples", "0", "x.so"], ["bench", "x.so", "--threads", "many"]):
        r = b.run(*words)
        assert r.returncode == USAGE and r.stderr.startswith("aotc: error: "), (words, r.stderr)
    so = b.build()
    r = b.refused(USAGE, "--input wrong: there is no input of that name", "run", so, "-o", b.at("out"), "-i", "wrong=x.npy")
    assert "the inputs are " in r.stderr and not os.path.exists(b.at("out"))
    b.refused(USAGE, "is missing", "run", so, "-o", b.at("out"))


@test
def bench_says_what_it_measured(b):
    pt2 = PT2.replace("2_11", "2_11_cuda_dynamic_decomposed")
    tuned, name, size = b.at("tuned.so"), "rows", 3
    with open(b.at("shapes.json"), "w") as f:
        json.dump({"dims": {name: {"min": 1, "max": 64, "tune": [size]}}, "inputs": {"x": {"shape": [name, 16]}}}, f)
    b.ok("build", pt2, "-o", tuned, "--shapes", b.at("shapes.json"), "--quiet")
    told = json.loads(b.ok("bench", tuned, "--seconds", "0.1", "--json").stdout)
    assert told["sizes"][name] == size, told["sizes"]
    assert f"sizes {name}={size}" in b.ok("bench", tuned, "--seconds", "0.1").stdout
    assert json.loads(b.ok("bench", tuned, "--seconds", "0.1", "--dim", f"{name}={size + 1}", "--json").stdout)["sizes"][name] > size
    r = b.run("bench", tuned, "--seconds", "0.1", "--dim", f"{name}=100000")
    assert r.returncode == BAD_INPUT and "load_once" not in r.stderr and name in r.stderr, r.stderr
    assert "sizes all fixed" in b.ok("bench", b.build(), "--seconds", "0.1").stdout


@test
def a_trace_has_the_threads_that_took_part(b):
    so, trace = b.build(), b.at("trace.json")
    b.ok("bench", so, "--threads", "2", "--seconds", "0.2", "--trace", trace)
    events = [e for e in json.load(open(trace))["traceEvents"] if e["ph"] == "X"]
    steps = sorted({e["args"]["step"] for e in events})
    assert {e["tid"] for e in events} <= {1, 2} and [e["args"]["step"] for e in events if e["tid"] == 1] == steps, events
    for e in events:
        if e["tid"] == 2:
            assert [(x["ts"], x["dur"]) for x in events if x["tid"] == 1 and x["args"]["step"] == e["args"]["step"]] == [(e["ts"], e["dur"])]


@test
def an_archive_that_loses_its_end_while_it_is_read_is_named(b):
    pt2 = b.at("cut.pt2")
    shutil.copy(PT2, pt2)
    p = subprocess.Popen([b.aotc, "build", pt2, "-o", b.at("model.so"), "--quiet"], env=slow_compiler(b), stderr=subprocess.PIPE, text=True)
    wait_for(lambda: os.path.exists(b.at("compilers")))
    os.truncate(pt2, 0)  # the weights are read when they are put into the artifact
    open(b.at("go"), "w").close()
    assert p.wait(timeout=60) == IO, p.returncode
    assert f"aotc: error: {pt2}: the file was cut off while it was read" in p.stderr.read()
    assert not hidden(b) and not os.path.exists(b.at("model.so"))
    size = os.path.getsize(PT2)
    for part in (0, 1, size // 3, size - 1):
        shutil.copy(PT2, pt2)
        os.truncate(pt2, part)
        b.refused(BAD_INPUT, "cut.pt2", "build", pt2)


@test
def another_machine_may_answer_anything(b):
    os.mkdir(b.at("bin"))
    for answer in ('{"architecture": "sm_90"}', '{"architecture": [90]}', '{"architecture": 90.5}', '{"architecture": null}', "{}", "[90]", "90", "hello"):
        with open(b.at("bin", "ssh"), "w") as f:
            f.write(f"#!/bin/sh\necho '{answer}'\ncat >/dev/null\n")
        os.chmod(b.at("bin", "ssh"), 0o755)
        r = b.run("tune", PT2, "--cuda", "sm_90a", "--remote", "host", "--tune-budget", "1", env={"PATH": b.at("bin") + ":" + os.environ["PATH"]})
        assert r.returncode == 1 and "nothing is measured for" in r.stderr and "the worker's answer" in r.stderr, (answer, r.returncode, r.stderr)


@test
def a_zip_with_an_entry_outside_of_its_folder_is_refused(b):
    for name in ("x", "other/file"):
        copy = b.at("copy.pt2")
        shutil.copy(PT2, copy)
        with zipfile.ZipFile(copy, "a", zipfile.ZIP_STORED) as z:
            z.writestr(name, b"1")
        b.refused(BAD_INPUT, f"'{name}' lies outside of the folder", "build", copy, "-o", b.at("x.so"))


@test
def paths_may_hold_any_bytes(b):
    folder = os.path.join(os.fsencode(b.folder), b"a,b \xff'")
    os.mkdir(folder)
    so = os.path.join(folder, b"mo,d\xfeel.so")
    r = subprocess.run([b.aotc, "build", PT2, "-o", so, "--json", "--keep", os.path.join(folder, b"k,eep")], env=b.env, capture_output=True, timeout=120)
    assert r.returncode == 0, r.stderr
    json.loads(r.stdout)
    r = subprocess.run([b.aotc, "verify", so, "--against", PT2, "--samples", "1", "--json"], env=b.env, capture_output=True, timeout=120)
    assert r.returncode == 0 and json.loads(r.stdout)["pass"], r.stderr
    for words in ([b"inspect", so], [b"inspect", os.path.join(folder, b"no\xff.pt2")], [b"build", PT2, b"-o", folder]):
        r = subprocess.run([b.aotc, *words, b"--json"], env=b.env, capture_output=True, timeout=120)
        json.loads(r.stdout)
        assert r.returncode in (0, IO), (words, r.returncode, r.stderr)


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


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--seal-check", required=True, help="the program seal_check of tests/abi")
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    failed = 0
    for t in TESTS:
        if o.names and t.__name__ not in o.names:
            continue
        try:
            t(Bench(os.path.abspath(o.aotc), os.path.abspath(o.seal_check), os.path.join(os.path.abspath(o.work), t.__name__)))
            print("ok  ", t.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAIL", t.__name__, traceback.format_exc()[-4000:], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
