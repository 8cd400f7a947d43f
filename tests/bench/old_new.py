"""Two compilers over the same archives: which artifacts differ and in which parts, how long builds take, p50 of both in turns.

    old_new.py --old BIN --new BIN --work DIR [--old-options TEXT] [--new-options TEXT] [--threads 1,2] [--rounds 7] [--seconds 0.5]
               [--run-prefix TEXT] ARCHIVE.pt2 ...

Parts are the plan and the generated sources without what they tell of the build (metadata). Builds take every object from no cache and take
turns, too; the least time counts. In every round of runs the one that goes first changes. Ratios are new over old: the median of the rounds' p50, and the least
time of all rounds, which says more where the machine is loaded. --run-prefix ("nice -n -10") stands before the runs. Writes DIR/old_new.jsonl,
a line an archive, and prints a table.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import time

KINDS = ("old", "new")


def in_turns(rounds, f):
    """[{kind: f(kind)}], a dict a round."""
    return [{k: f(k) for k in (KINDS if r % 2 == 0 else KINDS[::-1])} for r in range(rounds)]


class Archive:
    def __init__(self, o, path):
        self.o, self.path, self.name = o, path, os.path.basename(path)[:-4]

    def folder(self, kind):
        return os.path.join(self.o.work, kind, self.name)

    def artifact(self, kind):
        return os.path.join(self.folder(kind), self.name + ".so")

    def build(self, kind, *more):
        """Seconds of a build without a cache."""
        shutil.rmtree(self.folder(kind), ignore_errors=True)
        os.makedirs(self.folder(kind))
        shapes = self.path[:-4] + ".shapes.json"
        words = [getattr(self.o, kind), "build", self.path, "-o", self.artifact(kind), "--quiet", *shlex.split(getattr(self.o, kind + "_options")), *more]
        started = time.perf_counter()
        subprocess.run(words + (["--shapes", shapes] if os.path.exists(shapes) else []), check=True,
                       env=dict(os.environ, XDG_CACHE_HOME=os.path.join(self.folder(kind), "cache")))
        return time.perf_counter() - started

    def parts(self, kind):
        folder = os.path.join(self.folder(kind), "parts")
        self.build(kind, "--keep", folder)
        text = lambda f: re.sub(r'"\{\\"aotc_version\\":.*', "", open(os.path.join(folder, f)).read())
        return {f: text(f) for f in os.listdir(folder) if f.endswith((".cpp", ".cu")) or f == "plan.txt"}

    def times_us(self, kind, threads):
        words = [*shlex.split(self.o.run_prefix), getattr(self.o, kind), "bench", self.artifact(kind), "--threads", str(threads), "--seconds", str(self.o.seconds), "--json"]
        told = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        return told["p50_us"], told["min_us"]


def compare(o, path):
    a = Archive(o, path)
    row = {"archive": a.name}
    old, new = (a.parts(k) for k in KINDS)
    row["parts_that_differ"] = sorted(f for f in old.keys() | new.keys() if old.get(f) != new.get(f))
    builds = in_turns(o.builds, a.build)
    row["build_s"] = {k: round(min(b[k] for b in builds), 2) for k in KINDS}
    row["same_bytes"] = open(a.artifact("old"), "rb").read() == open(a.artifact("new"), "rb").read()
    for threads in o.threads:
        times = in_turns(o.rounds, lambda k: a.times_us(k, threads))
        p50 = {k: statistics.median(t[k][0] for t in times) for k in KINDS}
        least = {k: min(t[k][1] for t in times) for k in KINDS}
        row[f"us_{threads}"] = {"old_p50": round(p50["old"], 1), "new_p50": round(p50["new"], 1),
                                "ratio_p50": round(statistics.median(t["new"][0] / t["old"][0] for t in times), 3),
                                "old_least": round(least["old"], 1), "new_least": round(least["new"], 1),
                                "ratio_least": round(least["new"] / least["old"], 3)}
    for k in KINDS:
        shutil.rmtree(a.folder(k))
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for k in KINDS:
        p.add_argument("--" + k, required=True)
        p.add_argument(f"--{k}-options", default="")
    p.add_argument("--work", required=True)
    p.add_argument("--threads", type=lambda s: [int(x) for x in s.split(",")], default=[1, 2])
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--builds", type=int, default=2)
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--run-prefix", default="")
    p.add_argument("archives", nargs="+")
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    print("| archive | same bytes | parts that differ | build s, old | new |" + "".join(f" p50 us at {t}, old | new | ratio | least, old | new | ratio |" for t in o.threads))
    print("|---" * (5 + 6 * len(o.threads)) + "|", flush=True)
    with open(os.path.join(o.work, "old_new.jsonl"), "w") as out:
        for path in o.archives:
            r = compare(o, path)
            out.write(json.dumps(r) + "\n")
            out.flush()
            cells = [r["archive"], "yes" if r["same_bytes"] else "no", " ".join(r["parts_that_differ"]) or "none", r["build_s"]["old"], r["build_s"]["new"]]
            for t in o.threads:
                cells += r[f"us_{t}"].values()
            print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
