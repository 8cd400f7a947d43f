#!/usr/bin/env python3
"""Random torch programs through aotc: exported, built, run twice from C, compared with eager and fp64.

    programs.py run --aotc BIN --runner RUN_TWICE --work DIR --seeds 0:1000 [--pack 24] [--seconds 100]   writes DIR/verdicts.jsonl
    programs.py show --seeds SEED                                      the program of a seed
    programs.py repeat --aotc .. --runner .. --work DIR --seeds SEED [--reduce]      one program, with its script; smaller with --reduce
    programs.py cases --aotc .. --runner .. --work DIR [--only REGEX]        the programs of cases.py
    programs.py report --work DIR                               counts of what ran there
"""
import argparse
import collections
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import torch

import thirds

import apart
from check import DIED, NO_FAULT, OK, Check, Tools, Verdict
from generator import KINDS, generate
from program import script


def tools_of(o):
    os.makedirs(o.work, exist_ok=True)
    env = dict(os.environ)
    env.setdefault("AOTC_LIBTORCH", sys.prefix)
    if o.own_cache:
        env["XDG_CACHE_HOME"] = os.path.join(o.work, "cache")
    flags = o.flags.split()
    if o.emulate:
        if "--cuda" not in flags:
            flags += ["--cuda", "sm_90"]
        env.setdefault("VIRTUAL_ENV", sys.prefix)  # where aotc looks for NVRTC
    return Tools(os.path.abspath(o.aotc), os.path.abspath(o.runner), os.path.abspath(o.work), tuple(flags), env, o.emulate and os.path.abspath(o.emulate))


def judged(o, tools, watch, seeds):
    """([a line of verdicts.jsonl], [a fault as text], counts) of the programs of these seeds; of fewer where the time is over."""
    programs = []
    for s in seeds:
        if watch.over():
            break
        watch.at(s)
        programs.append(generate(s, kind=o.kind))
    check = Check(tools, programs, watch)
    lines, faults = [], []
    for v in check.run():
        line = {"seed": v.program.data_seed, "kind": v.kind, "why": v.why[:1500], "dynamic": bool(v.program.sizes), "statements": len(v.program.statements()), "rows": v.program.rows}
        if v.kind not in NO_FAULT:
            line["source"] = v.program.source()
            line["sizes"] = v.sizes
            faults.append(f"{v.kind}: seed {v.program.data_seed} {v.why[:600]}\n{v.program.source()}\n")
        lines.append(line)
    return lines, faults, check.counts


def run(o):
    apart.warm()
    tools, watch = tools_of(o), apart.Watch(o.seconds)
    first, last = map(int, o.seeds.split(":"))
    if o.thirds:
        first, last = thirds.seeds(first, last, f"random programs {o.kind}".strip(), 9)
    start, faults, died, end = time.monotonic(), 0, 0, first
    with open(tools.path("verdicts.jsonl"), "a") as log:
        while end < last and not watch.over():
            begin, end = end, min(end + o.pack, last)
            for seeds, answer in apart.each(watch, lambda some: judged(o, tools, watch, some), range(begin, end), lambda s: s):
                if isinstance(answer, apart.Died):
                    died += 1
                    print(f"{DIED}: seed {seeds[0]}: {answer.why}", flush=True)
                    answer = [{"seed": seeds[0], "kind": DIED, "why": answer.why, "dynamic": False, "statements": 0, "rows": []}], [], {}
                lines, texts, counts = answer
                faults += len(texts)
                for text in texts:
                    print(text, flush=True)
                for line in lines:
                    log.write(json.dumps(line) + "\n")
                log.write(json.dumps({"counts": counts, "seconds": time.monotonic() - start}) + "\n")
            log.flush()
    print(f"seeds {first} to {end - 1}: {faults} faults in {time.monotonic() - start:.0f} s" + (f"; torch died of {died}" if died else ""))
    return 1 if faults else 0


def cases(o):
    import cases as written

    apart.warm()
    tools, watch, faults, done = tools_of(o), apart.Watch(), 0, 0
    all_programs = written.programs(o.only)
    if o.thirds:
        all_programs = thirds.some(all_programs, "programs of cases.py", 9)
    for begin in range(0, len(all_programs), o.pack):
        verdicts = []
        for programs, answer in apart.each(watch, lambda some: Check(tools, some, watch).run(), all_programs[begin : begin + o.pack], lambda p: p.data_seed):
            verdicts += [Verdict(programs[0], DIED, answer.why)] if isinstance(answer, apart.Died) else answer
        for v in verdicts:
            done += v.kind == OK
            if v.kind != OK:
                faults += 1
                print(f"{v.kind}: {v.program.rows[0]}: {v.why[:500]}\n{v.program.source()}\n", flush=True)
    print(f"{len(all_programs)} programs, {done} correct, {faults} faults")
    return 1 if faults else 0


def report(o):
    kinds, why, counts, rows = collections.Counter(), collections.defaultdict(collections.Counter), collections.Counter(), collections.Counter()
    for text in open(os.path.join(o.work, "verdicts.jsonl")):
        line = json.loads(text)
        if "counts" in line:
            counts.update(line["counts"])
            continue
        kinds[line["kind"], line["dynamic"]] += 1
        counts["statements"] += line["statements"]
        rows.update(line["rows"])
        if line["kind"] != OK:
            why[line["kind"]][re.sub(r"\d+", "#", line["why"].strip().split("\n")[0])[:150]] += 1
    total = sum(kinds.values())
    print(f"{total} programs, {counts['statements']} statements, {dict(counts)}")
    for (kind, dynamic), n in sorted(kinds.items()):
        print(f"{n:7} {kind}, {'dynamic' if dynamic else 'static'}")
    for kind, texts in why.items():
        for text, n in texts.most_common(o.top):
            print(f"{kind:16}{n:6}  {text}")
    print("rows:", ", ".join(f"{r} {n}" for r, n in rows.most_common()))
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("verb", choices=["run", "show", "repeat", "cases", "report"])
    p.add_argument("--aotc", default="aotc")
    p.add_argument("--runner", default="run_twice")
    p.add_argument("--work", default=".")
    p.add_argument("--seeds", default="0:100", help="FIRST:LAST, or one seed")
    p.add_argument("--kind", default="", choices=["", *KINDS], help="found: sizes that depend on data, and checks; complex: complex numbers; wide: types that meet, memory, rarer operators; control: branches, loops, maps")
    p.add_argument("--pack", type=int, default=24)
    p.add_argument("--seconds", type=float, default=0, help="stop when this time is over; a pack that is being built and run then is finished, if it does not take two minutes more")
    p.add_argument("--flags", default="", help="further flags of aotc build")
    p.add_argument("--emulate", default="", metavar="DRIVER", help="build for a GPU and run on the emulated one (build/release/tests/cuda/driver)")
    p.add_argument("--own-cache", action="store_true", help="keep the compiler's object cache under --work")
    p.add_argument("--reduce", action="store_true")
    p.add_argument("--thirds", action="store_true", help="run, cases: of these the ninth that the commit takes (tests/thirds.py)")
    p.add_argument("--only", default="", help="cases: names that match")
    p.add_argument("--top", type=int, default=12)
    o = p.parse_args()
    seed = int(o.seeds.split(":")[0])
    torch.set_num_threads(1)
    if o.verb == "show":
        program = generate(seed, kind=o.kind)
        print(script(program, program.replay()[0]))
        return 0
    if o.verb == "repeat":
        from reduce import repeat

        return repeat(o, tools_of(o), generate(seed, kind=o.kind))
    return {"run": run, "cases": cases, "report": report}[o.verb](o)


if __name__ == "__main__":
    sys.exit(main())
