"""The command line on what is not as it should be: files that are none, damaged caches, interrupted builds, wrong archives. Needs no torch: the
archive in archives/ is the model.

    cli_test.py --aotc BIN --work DIR --seal-check BIN [name ...]
"""
import argparse
import os
import shutil
import sys
import traceback

import cli_artifacts  # noqa: F401  (they fill TESTS)
import cli_builds  # noqa: F401
import cli_files  # noqa: F401
import cli_words  # noqa: F401
from cli_bench import TESTS, Bench

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import thirds


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--seal-check", required=True, help="the program seal_check of tests/abi")
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    failed = 0
    cache = os.path.join(os.path.abspath(o.work), "cache")  # of all tests that are not about it
    shutil.rmtree(cache, ignore_errors=True)
    for t, own_cache in [t for t in TESTS if t[0].__name__ in o.names] if o.names else thirds.some(TESTS, "tests of the command line"):
        try:
            t(Bench(os.path.abspath(o.aotc), os.path.abspath(o.seal_check), os.path.join(os.path.abspath(o.work), t.__name__), None if own_cache else cache))
            print("ok  ", t.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAIL", t.__name__, traceback.format_exc()[-4000:], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
