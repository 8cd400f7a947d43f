"""aotc-device where an artifact runs: stored references, benchmarks, probe, with no library but the C library's.

    device_tool.py --aotc BIN --device BIN --archive PT2 --work DIR
"""
import argparse
import json
import os
import re
import shutil
import subprocess

import numpy as np


class Tool:
    def __init__(self, path, environment):
        self.path, self.environment = path, environment

    def __call__(self, *words, exit_code=0):
        r = subprocess.run([self.path, *words], capture_output=True, text=True, env=self.environment)
        assert r.returncode == exit_code, f"{words}: exit {r.returncode}, not {exit_code}\n{r.stdout}\n{r.stderr}"
        return r.stdout if exit_code == 0 else r.stdout + r.stderr

    def stderr(self, *words):
        r = subprocess.run([self.path, *words], capture_output=True, text=True, env=self.environment)
        assert r.returncode == 0, r.stdout + r.stderr
        return r.stderr


def main():
    p = argparse.ArgumentParser()
    for name in ("aotc", "device", "archive", "work"):
        p.add_argument("--" + name, required=True)
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    at = lambda *names: os.path.join(o.work, *names)
    aotc = Tool(o.aotc, None)
    device = Tool(o.device, {"PATH": "/usr/bin:/bin"})  # no environment of Python's, so no LibTorch to be found

    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", o.device], capture_output=True, text=True, check=True).stdout)
    assert set(needed) <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}, needed

    so, refs = at("model.so"), at("refs")
    aotc("build", o.archive, "--cpu", "avx2", "-o", so, "--quiet")
    assert "avx2" in device("probe", so) and json.loads(device("probe", so, "--json"))["runs"]
    assert "runs on the CPU" in device("probe", so, "--device", "0", exit_code=1)
    shutil.rmtree(refs, ignore_errors=True)
    aotc("references", so, "--against", o.archive, "-o", refs)
    verify = ("verify", so, "--inputs", at("refs", "inputs"), "--expected", at("refs", "expected"))
    assert "verify: pass" in device(*verify)
    assert "verify: pass" in aotc(*verify)
    rows = json.loads(device(*verify, "--json"))["outputs"]
    assert rows and all(r["pass"] and 0 <= r["err_aotc"] <= r["limit"] for r in rows), rows

    # A truth, or an eager beside it, that is not what was computed: what is allowed does not grow with it.
    name = rows[0]["name"]
    exact, eager = (at("refs", "expected", f"{name}{kind}.npy") for kind in ("", ".eager"))
    good = {f: np.load(f) for f in (exact, eager)}
    for factor in (1.01, 1.0001, 0.5):
        for files in ((exact,), (eager,), (exact, eager)):
            for f in files:
                np.save(f, good[f] * good[f].dtype.type(factor))
            told = device(*verify, exit_code=1)
            assert "FAIL" in told, (factor, files, told)
            for f in files:
                np.save(f, good[f])
    device(*verify)
    notes = at("refs", "expected", "references.json")
    told = json.load(open(notes))
    assert told["source"] == json.loads(aotc("inspect", o.archive, "--json"))["id"] and told["outputs"][0]["limit"] == rows[0]["limit"], told
    with open(notes, "w") as f:
        json.dump({**told, "source": "0" * 16}, f)
    assert "the references are of the archive with id " + "0" * 16 in device(*verify, exit_code=3)
    with open(notes, "w") as f:
        f.write("[]")
    assert "not what aotc references writes" in device(*verify, exit_code=3)
    # References of an older aotc are read, and said to be such.
    os.remove(notes)
    assert "no references.json" in device.stderr(*verify)
    np.save(exact, good[exact] * 1.01)
    assert "FAIL" in device(*verify, exit_code=1)
    np.save(exact, good[exact])

    # Somebody's own expectation, in the output's own precision, within a tolerance.
    shutil.move(eager, exact)
    assert "verify: pass" in device(*verify)
    wrong = np.load(exact)
    np.save(exact, wrong * np.float32(1.01))
    assert "FAIL" in device(*verify, exit_code=1)
    device(*verify, "--tolerance", "0.05")
    np.save(exact, wrong[..., :-1])
    assert "dims" in device(*verify, exit_code=1)
    os.remove(exact)
    assert name + ".npy" in device(*verify, exit_code=6)
    device("verify", so, "--inputs", at("refs", "inputs"), exit_code=2)
    aotc("verify", so, exit_code=2)

    report = json.loads(device("bench", so, "--inputs", at("refs", "inputs"), "--profile", "--seconds", "0.1", "--json"))
    assert report["p50_us"] > 0 and report["device"] == -1 and report["profile"]["steps"], report
    inside = sum(s["us"] for s in report["profile"]["steps"])
    assert 0 < inside <= report["profile"]["run_us"], report["profile"]
    assert "p50" in device("bench", so, "--seconds", "0.05")
    together = json.loads(device("bench", so, "--seconds", "0.1", "--contexts", "3", "--json"))["together"]
    assert together["contexts"] == 3 and together["runs"] >= 3 and together["runs_per_second"] > 0, together
    assert 0 < together["submit"]["p50_us"] <= together["p50_us"] <= together["p99_us"], together
    assert "3 contexts at once" in device("bench", so, "--seconds", "0.1", "--contexts", "3")
    print(f"device tool: {len(rows)} outputs, needs {needed}")


if __name__ == "__main__":
    main()
