"""What a run of the tests takes of long lists (random programs, emulated GPU cases, models, suites of exact results): a third, another one with
each commit, so that three commits run all. AOTC_TEST_ALL=1 takes all of them; AOTC_TEST_THIRD=0, 1 or 2 names one.

    thirds.py      says what this run takes
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


def third():
    """0, 1 or 2; None: all. By the number of commits, in a clone that lacks some by this one's hash, without git all."""
    if os.environ.get("AOTC_TEST_ALL", "0") not in ("", "0"):
        return None
    named = os.environ.get("AOTC_TEST_THIRD", "")
    if named:
        if named not in ("0", "1", "2"):
            raise SystemExit(f"AOTC_TEST_THIRD={named}: 0, 1 or 2 was expected")
        return int(named)

    def git(*words):
        if not shutil.which("git"):
            return ""
        r = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), *words], capture_output=True, text=True)
        return r.stdout.strip() if r.returncode == 0 else ""

    shallow = git("rev-parse", "--is-shallow-repository")
    if shallow == "false":
        return int(git("rev-list", "--count", "HEAD")) % 3
    return int(git("rev-parse", "HEAD")[:8], 16) % 3 if shallow else None


def some(items, what):
    """Those of `items` that this run takes; says which on stdout."""
    items, n = list(items), third()
    if n is None:
        print(f"thirds: all {len(items)} {what}", flush=True)
        return items
    taken = items[n::3]
    print(f"thirds: {len(taken)} of {len(items)} {what} (third {n}; all: {ALL})", flush=True)
    return taken


def seeds(first, last, what):
    """The seeds that this run takes of first .. last - 1, neighbours: (first, last)."""
    n, count = third(), last - first
    if n is None:
        print(f"thirds: all {count} {what}", flush=True)
        return first, last
    begin, end = first + count * n // 3, first + count * (n + 1) // 3
    print(f"thirds: {end - begin} of {count} {what} (third {n}; all: {ALL})", flush=True)
    return begin, end


if __name__ == "__main__":
    n = third()
    print("all" if n is None else f"third {n} of 0, 1, 2")
