"""What programs.py does with a program that ends the process, or its time: the others have their verdicts.   apart_test.py --aotc BIN --runner RUN_TWICE --work DIR"""
import json
import mmap
import os
import shutil
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import torch

import apart
import program
import programs
from program import Leaf, Program, Statement


def die(x):
    os.kill(os.getpid(), signal.SIGFPE)


def die_in_export(x):
    return die(x) if torch.compiler.is_exporting() else x + 1


def made(seed, text):
    return Program(f"p{seed}", [Leaf("x0", torch.float32, ["3"]), Statement(["v0"], text)], ["v0"], data_seed=seed, rows=("row",))




def run(arguments, texts, watch=None):
    """{seed: kind} of a run over programs of these texts."""
    own, programs.generate = programs.generate, lambda seed, kind="": made(seed, texts[seed])
    clock, apart.Watch = apart.Watch, watch or apart.Watch
    words, work = sys.argv, arguments[arguments.index("--work") + 1]
    shutil.rmtree(work, ignore_errors=True)
    try:
        sys.argv = ["programs.py", "run", *arguments, "--seeds", f"0:{len(texts)}"]
        status = programs.main()
    finally:
        programs.generate, apart.Watch, sys.argv = own, clock, words
    lines = [json.loads(line) for line in open(os.path.join(work, "verdicts.jsonl"))]
    return status, {line["seed"]: (line["kind"], line["why"]) for line in lines if "seed" in line}


def main():
    program.HELPERS.update(die=die, die_in_export=die_in_export)
    arguments = sys.argv[1:]
    died, good = ("torch died", "SIGFPE"), ("correct", "")
    # The one that eager dies of is known; the one that an export of all dies of is found by halves.
    status, kinds = run([*arguments, "--pack", "5"], ["x0 * 2", "die(x0)", "x0 + 3", "die_in_export(x0)", "x0 - 1", "die(x0)", "x0 * 5"])
    assert status == 0 and kinds == {0: good, 1: died, 2: good, 3: died, 4: good, 5: died, 6: good}, (status, kinds)
    # The time ends as eager has come to the third program of the first pack. The clock counts programs, made and run, not seconds.
    seen = mmap.mmap(-1, 1)

    class Counted(apart.Watch):
        def __init__(self, seconds=0):
            super().__init__(seconds, clock=lambda: seen[0])

        def at(self, seed):
            super().at(seed)
            seen[0] += seed is not None

    status, kinds = run([*arguments, "--pack", "8", "--seconds", "10.5"], ["x0 * 2"] * 30, Counted)
    assert status == 0 and kinds == {0: good, 1: good, 2: good}, (status, kinds)
    print("ok")


if __name__ == "__main__":
    main()
