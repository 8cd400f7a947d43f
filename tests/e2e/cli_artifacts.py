"""Artifacts that are damaged, cut, without their seal or without their weights."""
import json
import os
import subprocess

import numpy as np

from cli_bench import BAD_INPUT, IO, PT2, USAGE, inputs_of, test


@test
def a_missing_weights_file_is_named(b):
    so = b.build("model.so", "--weights-file")
    words = ["run", so, "-o", b.at("out"), *inputs_of(b, so)]
    b.ok(*words)
    os.remove(b.at("model.weights"))
    r = b.refused(BAD_INPUT, b.at("model.weights"), *words)
    assert "no such file" in r.stderr.lower() and "input, output or state" not in r.stderr, r.stderr


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
def a_sealed_description_that_is_damaged_is_bad_input(b):
    so = b.build()
    whole = open(so, "rb").read()
    for old, new in ((b'{"', b'{{'), (b'"name":"', b'"nome":"'), (b'"explain":{', b'"explain":7'), (b'"float32"', b'[[[1]]]11'), (b'"steps":', b'"stops":')):
        at = whole.index(old, whole.index(b'"aotc_version"') - 20 if old == b'{"' else whole.index(b'"aotc_version"'))
        with open(so, "wb") as f:
            f.write(whole[:at] + new + whole[at + len(old):])
        subprocess.run([os.path.join(os.path.dirname(b.seal_check), "seal_toy"), so, ".aotc_weights"], check=True)
        codes = [b.run(*words).returncode for words in (["inspect", so], ["explain", so], ["diff", so, so], ["explain", so, "--html", b.at("x.html")])]
        assert all(code in (0, BAD_INPUT) for code in codes) and BAD_INPUT in codes, (old, codes)


@test
def bench_measures_on_given_inputs(b):
    so = b.build()
    folder = b.at("inputs")
    os.makedirs(folder)
    given = json.loads(b.ok("inspect", so, "--json").stdout)["inputs"]
    for i in given:
        np.save(os.path.join(folder, i["name"] + ".npy"), np.ones(i["shape"], np.float32))
    assert "inputs" in json.loads(b.ok("bench", so, "--inputs", folder, "--seconds", "0.01", "--json").stdout)
    b.refused(USAGE, "--dim", "bench", so, "--inputs", folder, "--dim", "n=3")
    np.save(os.path.join(folder, given[0]["name"] + ".npy"), np.ones([d + 1 for d in given[0]["shape"]], np.float32))
    b.refused(BAD_INPUT, given[0]["name"], "bench", so, "--inputs", folder, "--seconds", "0.01")
    os.remove(os.path.join(folder, given[0]["name"] + ".npy"))
    b.refused(IO, given[0]["name"], "bench", so, "--inputs", folder, "--seconds", "0.01")


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
