"""samples/ray/tune.py on three raylets of this machine: tuning, families and random programs spread over them while workers and a raylet are killed.

    ray_tune.py --aotc BIN --runner RUN_TWICE --work DIR     makes archives, then goes on with Ray's Python (AOTC_RAY_VENV, as ray_serve.py)

What equals what: with a stand-in for aotc whose times are a function of the archive, the database has the same bytes whether workers are killed or not. With
aotc itself times and choices differ from run to run, so the keys of records and alternatives are compared with those of runs on this machine alone.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import thirds

ROOT = os.path.join(HERE, "..", "..")
NAMES = ("a", "b", "c", "d", "e", "f")
STAND_IN = """#!{python}
# `aotc tune ARCHIVE --tuning-db FILE ..`, whose times follow from the archive's bytes.
import hashlib, json, os, sys, time
print(os.getpid(), file=open({log!r}, "a"))
time.sleep(2)
content = open(sys.argv[2], "rb").read()
at = sys.argv[sys.argv.index("--tuning-db") + 1]
db = json.load(open(at)) if os.path.exists(at) else {{"version": 2, "records": []}}
for n in range(3):
    ns = int(hashlib.sha256(content + bytes([n])).hexdigest()[:6], 16)
    db["records"].append({{"contract": f"gemm {{n}} {{len(content) % 3}}", "machine": "m", "library": "l", "choice": f"gemm mr={{ns % 14}}", "ns": ns, "default_ns": ns + 1, "measured": 4}})
db["alternatives"] = [{{"program": hashlib.sha256(content).hexdigest(), "machine": "m", "library": "l", "tried": [], "complete": True, "seconds": 1}}]
json.dump(db, open(at, "w"))
"""


def make(o):
    import torch
    from torch import nn

    for n, name in enumerate(NAMES):
        torch.manual_seed(n)
        net = nn.Sequential(nn.Linear(48, 32 * (n + 1)), nn.ReLU(), nn.Linear(32 * (n + 1), 40)).eval()
        torch.export.save(torch.export.export(net, (torch.randn(8, 48),)), o.at(name + ".pt2"))


def run_tune(o, *arguments):
    return subprocess.Popen([sys.executable, os.path.join(ROOT, "samples", "ray", "tune.py"), *arguments], stdout=open(o.at("said"), "w"), stderr=subprocess.STDOUT)


def ended(o, p, code=0):
    assert p.wait(900) == code, open(o.at("said")).read()[-4000:]
    return open(o.at("said")).read()


def keys(db):
    return {(r["contract"], r["machine"], r["library"]) for r in db["records"]}, {(r["program"], r["machine"], r["library"]) for r in db.get("alternatives", [])}


def drive(o):
    from ray_cluster import Cluster, processes, until

    os.makedirs(o.at("log"), exist_ok=True)
    cluster = Cluster(o.at("log"), [])
    archives = [o.at(n + ".pt2") for n in NAMES]
    common = ["--address", cluster.address]

    def workers(program):
        """(process of the program, the Ray worker that started it)"""
        of = processes()
        return [(pid, parent) for pid, (parent, command) in of.items() if program in command and "ray::" in of.get(parent, (0, ""))[1]]

    try:
        stand_in, log = o.at("stand_in"), o.at("stand_in.log")
        with open(stand_in, "w") as f:
            f.write(STAND_IN.format(python=sys.executable, log=log))
        os.chmod(stand_in, 0o755)

        said = ended(o, run_tune(o, "tune", *common, "--aotc", stand_in, "--db", o.at("quiet.json"), *archives))
        assert "elsewhere" not in said and len(open(log).readlines()) == 6, said
        quiet = open(o.at("quiet.json"), "rb").read()

        p = run_tune(o, "tune", *common, "--aotc", stand_in, "--db", o.at("killed.json"), *archives)
        child, worker = until("a job runs", lambda: workers(stand_in))[0]
        os.kill(worker, signal.SIGKILL)
        until("what the lost worker had started is gone, too", lambda: child not in processes())
        said = ended(o, p)
        assert "goes elsewhere" in said and open(o.at("killed.json"), "rb").read() == quiet, said
        print("tune: a worker killed midway, the same bytes", flush=True)

        p = run_tune(o, "tune", *common, "--aotc", stand_in, "--db", o.at("stopped.json"), *archives)
        until("three jobs are done", lambda: len([f for f in os.listdir(o.at("stopped.json.jobs")) if not f.endswith(".part")] if os.path.exists(o.at("stopped.json.jobs")) else []) >= 3)
        p.kill()
        p.wait()
        before = len(open(log).readlines())
        until("its jobs have ended", lambda: not workers(stand_in))
        ended(o, run_tune(o, "tune", *common, "--aotc", stand_in, "--db", o.at("stopped.json"), *archives))
        assert len(open(log).readlines()) - before <= 3 and open(o.at("stopped.json"), "rb").read() == quiet
        print("tune: stopped and run again, the same bytes, without the jobs that were done", flush=True)

        p = run_tune(o, "tune", *common, "--aotc", stand_in, "--db", o.at("lost.json"), *archives)
        until("a job runs on each machine", lambda: len(workers(stand_in)) == 3)
        cluster.kill_raylet("127.0.0.4")
        said = ended(o, p)
        assert "goes elsewhere" in said and open(o.at("lost.json"), "rb").read() == quiet, said
        print("tune: a raylet killed midway, the same bytes", flush=True)

        few = archives[:2]
        flags = "--threads 1 -j 1"
        p = run_tune(o, "tune", *common, "--aotc", o.aotc, f"--flags={flags}", "--budget", "600", "--db", o.at("tuned.json"), *few)
        _, worker = until("a job runs", lambda: workers(o.aotc))[0]
        time.sleep(1)
        os.kill(worker, signal.SIGKILL)
        said = ended(o, p)
        assert "goes elsewhere" in said, said
        for a in few:
            subprocess.run([o.aotc, "tune", a, "--tuning-db", o.at("alone.json"), "--tune-budget", "600", "--quiet", *flags.split()])
        tuned, alone = (json.load(open(o.at(n + ".json"))) for n in ("tuned", "alone"))
        assert keys(tuned) == keys(alone) and tuned["records"], (keys(tuned), keys(alone))
        r = subprocess.run([o.aotc, "build", few[0], "-o", o.at("a.so"), "--quiet", "--threads", "1", "--tuning-db", o.at("tuned.json"), "--error-on-tuning-miss"], capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        print(f"tune: aotc itself, a worker killed midway: the {len(tuned['records'])} records of runs on one machine; a build takes all from them", flush=True)

        os.makedirs(o.at("families"))
        for a in few:
            shutil.copy(a, o.at("families"))
        ended(o, run_tune(o, "families", *common, "--aotc", o.aotc, "--work", o.at("families")))
        assert {n: r["stage"] for n, r in json.load(open(o.at("families", "results.json"))).items()} == {"a": "ok", "b": "ok"}
        os.makedirs(o.at("programs"))
        p = run_tune(o, "programs", *common, "--aotc", o.aotc, "--work", o.at("programs"), "--seeds", "0:6", "--pack", "3", "--runner", o.runner, "--source", os.path.abspath(ROOT),
                     "--python", o.torch_python)
        ended(o, p)
        verdicts = [json.loads(line) for line in open(o.at("programs", "verdicts.jsonl"))]
        assert sorted(v["seed"] for v in verdicts if "seed" in v) == list(range(6)), verdicts
        print("families and random programs: spread", flush=True)
    finally:
        cluster.stop()
    print("ray_tune: all as expected")


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--aotc", required=True)
    p.add_argument("--runner", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--torch-python", default=sys.executable)
    p.add_argument("--drive", action="store_true", help="with archives that are made, by a Python that has ray")
    o = p.parse_args()
    for name in ("aotc", "runner", "work"):
        setattr(o, name, os.path.abspath(getattr(o, name)))
    o.at = lambda *names: os.path.join(o.work, *names)
    sys.path.insert(0, HERE)
    if o.drive:
        drive(o)
    else:
        from ray_cluster import python_with_ray

        python = python_with_ray()
        if not thirds.takes(1, "Ray's sample of tuning"):
            sys.exit(77)
        shutil.rmtree(o.work, ignore_errors=True)
        os.makedirs(o.work)
        make(o)
        os.environ.setdefault("AOTC_LIBTORCH", sys.prefix)  # for aotc on the workers
        os.execv(python, [python, os.path.abspath(__file__), *sys.argv[1:], "--torch-python", sys.executable, "--drive"])
