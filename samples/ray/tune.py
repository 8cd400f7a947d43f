"""Jobs of aotc spread over a Ray cluster. A job is files, commands and the files that they leave; one whose worker or machine is lost goes elsewhere.

    tune.py tune --db tuning.json net.pt2 bert.pt2 [--flags="--threads 4"] [--budget 60]     aotc tune on each kind of machine of the cluster
    tune.py families --work DIR [--flags=..]                           aotc build and verify of every DIR/*.pt2: DIR/results.json (families.py report)
    tune.py programs --work DIR --seeds 0:10000 --runner BIN --source ROOT        random programs (ROOT/tests/programs): DIR/verdicts.jsonl

Machines need aotc (and `families` and `programs` torch) at the same paths; archives and results travel. What is done lies in DB.jobs or DIR/jobs, so that
a run that was stopped goes on. NAME.shapes.json beside an archive is used. Exit 1: some jobs failed, which are listed.
"""
import argparse
import collections
import hashlib
import json
import os
import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

LOSSES = 5  # times that a job may lose its worker before it counts as the cause

# files: {name: path}; leaves: names; kind: of machines, None: any. Commands are run in an empty folder that has the files, until one fails.
Job = collections.namedtuple("Job", "name files commands leaves kind", defaults=[None])


def kind():
    """What tuning databases tell machines apart by, roughly: the processor and how many there are."""
    with open("/proc/cpuinfo") as f:
        return f"{next((line.split(':')[1].strip() for line in f if line.startswith('model name')), '')} x{os.cpu_count()}"


def work(commands, leaves, names, *contents):
    """On the worker: (exit code, which command, what it said, {name: bytes})."""
    import ctypes
    import os
    import signal
    import subprocess
    import tempfile

    die_with_me = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: a lost worker leaves nothing that measures
    with tempfile.TemporaryDirectory() as folder:
        for name, content in zip(names, contents):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(content)
        for n, command in enumerate(commands):
            r = subprocess.run(command, cwd=folder, preexec_fn=die_with_me, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
            if r.returncode:
                break
        left = {}
        for name in leaves:
            if os.path.exists(os.path.join(folder, name)):
                with open(os.path.join(folder, name), "rb") as f:
                    left[name] = f.read()
        return r.returncode, n, (r.stderr + r.stdout)[-3000:], left


def alive():
    return {n["NodeID"]: n["Resources"].get("CPU", 0) for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU", 0) >= 1}


def spread(jobs, folder, cpus):
    """Yields (job, result) as they end; of those that ended in an earlier run, too. cpus: of a job; 0: a machine at a time."""
    os.makedirs(folder, exist_ok=True)
    waiting, running, lost, kinds, stored = [], {}, collections.defaultdict(list), {}, {}

    def file_of(job):
        return os.path.join(folder, job.name + "." + hashlib.sha256(repr((job.commands, job.kind)).encode()).hexdigest()[:12])

    for job in jobs:
        if os.path.exists(file_of(job)):
            with open(file_of(job)) as f:
                code, n, said, left = json.load(f)
            yield job, (code, n, said, {name: bytes.fromhex(x) for name, x in left.items()})
        else:
            waiting.append(job)

    def put(path):
        if path not in stored:
            with open(path, "rb") as f:
                stored[path] = ray.put(f.read())
        return stored[path]

    def start(job, node, most):
        on = NodeAffinitySchedulingStrategy(node, soft=False)
        task = ray.remote(work).options(num_cpus=cpus or most, max_retries=0, scheduling_strategy=on, name=job.name)
        running[task.remote(job.commands, job.leaves, list(job.files), *map(put, job.files.values()))] = job, node

    def takes(node, job, nodes):
        """Whether the job may run there: not where it lost its worker, while there are others."""
        able = lambda n: job.kind in (None, kinds.get(n))
        return able(node) and (node not in lost[job.name] or all(n in lost[job.name] for n in nodes if able(n)))

    while waiting or running:
        nodes, busy = alive(), collections.Counter(node for _, node in running.values())
        for node, most in nodes.items():
            if not kinds.get(node) and any(j.kind for j in waiting):
                kinds[node] = kind_of(node)
            fitting = [j for j in waiting if takes(node, j, nodes)]
            for job in fitting[:max(0, int(most // cpus if cpus else 1) - busy[node])]:
                waiting.remove(job)
                start(job, node, most)
        if waiting and not running:
            raise SystemExit(f"tune: no machine is left for {waiting[0].name} ({waiting[0].kind or 'any'}), {len(waiting)} jobs are not done; run again to go on")
        done, _ = ray.wait(list(running), timeout=1)
        for ref in done:
            job, node = running.pop(ref)
            try:
                code, n, said, left = ray.get(ref)
            except ray.exceptions.RayTaskError:
                raise
            except ray.exceptions.RayError as e:  # of the worker or its machine
                lost[job.name].append(node)
                print(f"{job.name}: {type(e).__name__}: goes elsewhere", flush=True)
                if len(lost[job.name]) < LOSSES:
                    waiting.append(job)
                else:
                    yield job, (-1, 0, f"lost its worker {LOSSES} times", {})
                continue
            keep(file_of(job), json.dumps([code, n, said, {name: x.hex() for name, x in left.items()}]))
            yield job, (code, n, said, left)


def kind_of(node):
    try:
        return ray.get(ray.remote(kind).options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote())
    except ray.exceptions.RayError:
        return None


def keep(path, text):
    with open(path + ".part", "w") as f:
        f.write(text)
    os.replace(path + ".part", path)


LISTS = {"records": "contract", "alternatives": "program", "comparisons": "program", "trades": "program"}


def merge(databases):
    """One tuning database: of two records for one contract, machine and library the faster stays, of a program's verdicts the later one's."""
    merged = {name: {} for name in LISTS}
    for db in databases:
        if db.get("version") != 2:
            raise SystemExit(f"tune: a tuning database of version {db.get('version')}: expected 2")
        for name, by in LISTS.items():
            for r in db.get(name, []):
                key = (r[by], r["machine"], r["library"])
                if name != "records" or key not in merged[name] or r["ns"] < merged[name][key]["ns"]:
                    merged[name][key] = r
    return {"version": 2, **{name: [of[key] for key in sorted(of)] for name, of in merged.items() if of or name == "records"}}


def tune(o):
    start = json.load(open(o.db)) if os.path.exists(o.db) else None
    kinds = sorted({kind_of(n) for n in alive()} - {None})
    jobs = []
    for archive in o.archives:
        stem = os.path.splitext(os.path.basename(archive))[0]
        files, command = {"model.pt2": archive}, [o.aotc, "tune", "model.pt2", "--tuning-db", "tuning.json", "--tune-budget", str(o.budget), "--quiet", *o.flags.split()]
        shapes = os.path.splitext(archive)[0] + ".shapes.json"
        if os.path.exists(shapes):
            files["shapes.json"] = shapes
            command += ["--shapes", "shapes.json"]
        if start:
            files["tuning.json"] = o.db
        jobs += [Job(f"{stem}.{k}", files, [command], ["tuning.json"], name) for k, name in enumerate(kinds)]
    if len({j.name for j in jobs}) != len(jobs):
        raise SystemExit("tune: two archives have one name")
    ended = {}
    for job, (code, _, said, left) in spread(jobs, o.db + ".jobs", o.cpus):
        ended[job.name] = left
        # 1: some contracts are left for another run, which goes on from here
        print(f"{job.name}: {'tuned' if code == 0 else 'the budget ran out' if code == 1 and left else f'exit {code}: {said}'}", flush=True)
    # By the order of the jobs, not by that in which they ended.
    found = [json.loads(ended[j.name]["tuning.json"]) for j in jobs if "tuning.json" in ended[j.name]]
    keep(o.db, json.dumps(merge(([start] if start else []) + found), indent=1) + "\n")
    return [j.name for j in jobs if "tuning.json" not in ended[j.name]]


def families(o):
    names = sorted(f[:-4] for f in os.listdir(o.work) if f.endswith(".pt2"))
    jobs = [Job(n, {"model.pt2": os.path.join(o.work, n + ".pt2")},
                [[o.aotc, "build", "model.pt2", "-o", "model.so", "--quiet", *o.flags.split()],
                 [o.aotc, "verify", "model.so", "--against", "model.pt2", "--samples", "3", "--json"]], []) for n in names]
    results = {}
    for job, (code, n, said, _) in spread(jobs, os.path.join(o.work, "jobs"), o.cpus or 1):
        stage = "ok" if code == 0 else "unsupported" if n == 0 and code == 4 else ("build", "verify")[n]
        results[job.name] = {"stage": stage, "why": said if code else "", "rc": code}
        print(f"{stage:12}{job.name}", flush=True)
    keep(os.path.join(o.work, "results.json"), json.dumps(results, indent=1, sort_keys=True))
    return [n for n, r in results.items() if r["stage"] not in ("ok", "unsupported")]


def programs(o):
    first, last = map(int, o.seeds.split(":"))
    script = os.path.join(o.source, "tests", "programs", "programs.py")
    jobs = [Job(f"seeds_{a}", {}, [[o.python, script, "run", "--aotc", o.aotc, "--runner", o.runner, "--work", ".", f"--seeds={a}:{min(a + o.pack, last)}",
                                    f"--flags={o.flags}"]], ["verdicts.jsonl"]) for a in range(first, last, o.pack)]
    ended = {job.name: (code, said, left) for job, (code, _, said, left) in spread(jobs, os.path.join(o.work, "jobs"), o.cpus or 1)}
    keep(os.path.join(o.work, "verdicts.jsonl"), "".join(ended[j.name][2].get("verdicts.jsonl", b"").decode() for j in jobs))
    for j in jobs:
        if ended[j.name][0]:
            print(f"{j.name}: {ended[j.name][1]}", flush=True)
    return [j.name for j in jobs if ended[j.name][0]]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = p.add_subparsers(dest="verb", required=True)
    for does, about in ((tune, "a tuning database"), (families, "archives built and verified"), (programs, "random programs")):
        v = verbs.add_parser(does.__name__, help=about)
        v.set_defaults(does=does)
        v.add_argument("--address", default="auto", help="of the cluster")
        v.add_argument("--aotc", default="aotc")
        v.add_argument("--flags", default="", help="further options of aotc")
        v.add_argument("--cpus", type=int, default=0, help="that a job holds; default: of tune all of a machine, else 1")
        if does is tune:
            v.add_argument("archives", nargs="+")
            v.add_argument("--db", required=True)
            v.add_argument("--budget", type=float, default=60, help="seconds to measure for, an archive")
        else:
            v.add_argument("--work", required=True)
        if does is programs:
            v.add_argument("--seeds", required=True)
            v.add_argument("--pack", type=int, default=96, help="seeds of a job")
            v.add_argument("--runner", required=True)
            v.add_argument("--source", required=True)
            v.add_argument("--python", default="python3", help="one with torch")
    o = p.parse_args()
    ray.init(address=o.address, log_to_driver=False, logging_level="ERROR")
    failed = o.does(o)
    print(f"{len(failed)} jobs failed: {', '.join(failed)}" if failed else "all jobs are done")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
