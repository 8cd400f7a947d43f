"""What finds the cause of a failure: captured runs, verify --bisect, reduce, explain --html.

    diagnosis.py --aotc BIN --device BIN --work DIR [name ...]
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import ci_bisect  # noqa: F401  (they fill TESTS)
import ci_capture  # noqa: F401
import ci_page  # noqa: F401
import ci_reduce  # noqa: F401
from ci_case import main

if __name__ == "__main__":
    main()
