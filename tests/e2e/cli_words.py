"""What the command line says of wrong words, and what its verbs print."""
import json
import os
import subprocess
import zipfile

from cli_bench import BAD_INPUT, IO, PT2, USAGE, inputs_of, test


@test
def words_that_are_no_verbs_and_numbers_out_of_range_are_named(b):
    b.refused(USAGE, "there is no command 'frob'", "frob", PT2)
    b.refused(USAGE, "known: build, check, inspect", "frob")
    b.refused(USAGE, "aotc: error: --jobs: '-1' is not a number of at least 0", "build", PT2, "-j", "-1")
    b.refused(USAGE, "--max-error: '0' is not a number above 0", "build", PT2, "--max-error", "0")


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
def errors_of_the_command_line_begin_alike(b):
    for words in (["build"], ["build", PT2, "--nope"], ["build", PT2, "-j", "x"], ["verify", "--samples", "0", "x.so"], ["bench", "x.so", "--threads", "many"]):
        r = b.run(*words)
        assert r.returncode == USAGE and r.stderr.startswith("aotc: error: "), (words, r.stderr)
    so = b.build()
    r = b.refused(USAGE, "--input wrong: there is no input of that name", "run", so, "-o", b.at("out"), "-i", "wrong=x.npy")
    assert "the inputs are " in r.stderr and not os.path.exists(b.at("out"))
    b.refused(USAGE, "is missing", "run", so, "-o", b.at("out"))


@test
def what_cannot_be_printed_is_a_file_error(b):
    so = b.build()
    for words in (["explain", PT2], ["explain", so], ["inspect", so], ["inspect", so, "--json"], ["ops"], ["--help"], ["verify", so, "--against", PT2, "--samples", "1"]):
        with open("/dev/full", "w") as full:
            r = subprocess.run([b.aotc, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=b.env, timeout=120)
        assert r.returncode == IO and "No space left" in r.stderr and "bug" not in r.stderr, (words, r.returncode, r.stderr)


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
def another_machine_may_answer_anything(b):
    os.mkdir(b.at("bin"))
    for answer in ('{"architecture": "sm_90"}', '{"architecture": [90]}', '{"architecture": 90.5}', '{"architecture": null}', "{}", "[90]", "90", "hello"):
        with open(b.at("bin", "ssh"), "w") as f:
            f.write(f"#!/bin/sh\necho '{answer}'\ncat >/dev/null\n")
        os.chmod(b.at("bin", "ssh"), 0o755)
        r = b.run("tune", PT2, "--cuda", "sm_90a", "--remote", "host", "--tune-budget", "1", env={"PATH": b.at("bin") + ":" + os.environ["PATH"]})
        assert r.returncode == 1 and "nothing is measured for" in r.stderr and "the worker's answer" in r.stderr, (answer, r.returncode, r.stderr)
