"""The verbs that CI jobs call: check, verify with tolerances and JUnit, bench beside a baseline, diff.

    ci.py --aotc BIN --device BIN --work DIR [name ...]
"""
import argparse
import os
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import ci_bench  # noqa: F401  (they fill TESTS)
import ci_cache  # noqa: F401
import ci_check  # noqa: F401
import ci_diff  # noqa: F401
import ci_samples  # noqa: F401
import ci_verify  # noqa: F401
from ci_case import TESTS, Case


def main():
    p = argparse.ArgumentParser()
    for name in ("aotc", "device", "work"):
        p.add_argument("--" + name, required=True)
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    failed = 0
    for t in TESTS:
        if o.names and t.__name__ not in o.names:
            continue
        try:
            t(Case(os.path.abspath(o.aotc), os.path.abspath(o.device), os.path.join(os.path.abspath(o.work), t.__name__)))
            print("ok  ", t.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAIL", t.__name__, traceback.format_exc()[-4000:], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
