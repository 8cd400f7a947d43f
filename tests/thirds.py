"""What a run of the tests takes of long lists (random programs, emulated GPU cases, models, suites of exact results, cases of the tests of verbs): a
third, another one with each commit, so that three commits run all; of the longest a ninth, so that nine do. AOTC_TEST_ALL=1 takes all of them;
AOTC_TEST_THIRD=0 .. 8 names one: of thirds the one that the remainder by three names.

    thirds.py                        says what this run takes
    thirds.py exec WHAT COMMAND ...  runs a command that takes a ninth of WHAT by itself: AOTC_TEST_NINTH names it, and is not set where all are run
"""
import os
import shutil
import subprocess
import sys

# This folder was on the path to find this file. It has a folder `triton`, which torch would take for the package of that name.
_HERE = os.path.dirname(os.path.realpath(__file__))
if __name__ != "__main__":
    sys.path[:] = [p for p in sys.path if os.path.realpath(p) != _HERE]

ALL = "AOTC_TEST_ALL=1 packaging/test.sh"


PARTS = {3: "third", 9: "ninth"}


def turn(of=3):
    """0 .. of - 1; None: all. By the number of commits, in a clone that lacks some by this one's hash, without git all."""
    if os.environ.get("AOTC_TEST_ALL", "0") not in ("", "0"):
        return None
    named = os.environ.get("AOTC_TEST_THIRD", "")
    if named:
        if named not in [str(n) for n in range(9)]:
            raise SystemExit(f"AOTC_TEST_THIRD={named}: a number from 0 to 8 was expected")
        return int(named) % of

    def git(*words):
        if not shutil.which("git"):
            return ""
        r = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), *words], capture_output=True, text=True)
        return r.stdout.strip() if r.returncode == 0 else ""

    shallow = git("rev-parse", "--is-shallow-repository")
    if shallow == "false":
        return int(git("rev-list", "--count", "HEAD")) % of
    return int(git("rev-parse", "HEAD")[:8], 16) % of if shallow else None


def some(items, what, of=3, always=()):
    """Those of `items` that this run takes, in their order: those of `always`, of the others a part of `of`; says which on stdout."""
    items, n = list(items), turn(of)
    if n is None:
        print(f"thirds: all {len(items)} {what}", flush=True)
        return items
    fixed = [i for i, item in enumerate(items) if item in always]
    others = [i for i in range(len(items)) if i not in fixed]
    taken = [items[i] for i in sorted(fixed + others[n::of])]
    print(f"thirds: {len(taken)} of {len(items)} {what} ({PARTS[of]} {n}; all: {ALL})", flush=True)
    return taken


def takes(n, what):
    """Whether this run takes a test that is part n of 3 itself; says so on stdout."""
    now = turn()
    print(f"thirds: {what}: {'all' if now is None else 'taken' if now == n else 'not taken'}"
          + ("" if now is None else f" (third {now}, it is of {n}; all: {ALL})"), flush=True)
    return now in (None, n)


def seeds(first, last, what, of=3):
    """The seeds that this run takes of first .. last - 1, neighbours: (first, last)."""
    n, count = turn(of), last - first
    if n is None:
        print(f"thirds: all {count} {what}", flush=True)
        return first, last
    begin, end = first + count * n // of, first + count * (n + 1) // of
    print(f"thirds: {end - begin} of {count} {what} ({PARTS[of]} {n}; all: {ALL})", flush=True)
    return begin, end


if __name__ == "__main__":
    n = turn(9)
    if sys.argv[1:2] == ["exec"]:
        what, command = sys.argv[2], sys.argv[3:]
        print(f"thirds: all {what}" if n is None else f"thirds: a ninth of {what} (ninth {n}; all: {ALL})", flush=True)
        os.environ.pop("AOTC_TEST_NINTH", None)
        if n is not None:
            os.environ["AOTC_TEST_NINTH"] = str(n)
        os.execv(command[0], command)
    print("all" if n is None else f"third {n % 3} of 0, 1, 2; ninth {n} of 0 .. 8")
