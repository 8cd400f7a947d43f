"""The verbs that CI jobs call: check, verify with tolerances and JUnit, bench beside a baseline, diff.

    ci.py --aotc BIN --device BIN --work DIR [name ...]
"""
import ci_bench  # noqa: F401  (they fill TESTS)
import ci_cache  # noqa: F401
import ci_check  # noqa: F401
import ci_diff  # noqa: F401
import ci_samples  # noqa: F401
import ci_uarch  # noqa: F401
import ci_verify  # noqa: F401
from ci_case import main

if __name__ == "__main__":
    main()
