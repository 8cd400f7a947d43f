"""The options of tests: --aotc, the compiler, and --work, a folder, which is made."""
import argparse
import os


def parse(*required, names=None, **defaults):
    """required: further options that must be given ("driver"); names: of the list of what is to run; defaults: of options with one."""
    p = argparse.ArgumentParser()
    for option in ("aotc", "work", *required):
        p.add_argument("--" + option, required=True)
    for option, default in defaults.items():
        p.add_argument("--" + option, default=default)
    if names:
        p.add_argument(names, nargs="*")
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    return o
