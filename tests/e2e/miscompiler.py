"""A compiler that is wrong: miscompiler.py COMPILER... compiles as COMPILER, but functions that MISCOMPILE's "where" matches have its "new" for its "old".

As CXX, and as AOTC_EMULATED_COMPILER (tests/cuda/host_nvrtc.c), of which a source is one kernel. MISCOMPILE is JSON, "where" a regular expression.
"""
import json
import os
import re
import sys

if __name__ == "__main__":
    command = sys.argv[1:]
    fault = json.loads(os.environ["MISCOMPILE"])
    for path in command:
        if path.endswith((".cpp", ".cu")) and os.path.exists(path):
            with open(path) as f:
                functions = re.split(r'^(?=extern "C")', f.read(), flags=re.M)
            with open(path, "w") as f:
                f.write("".join(x.replace(fault["old"], fault["new"]) if re.search(fault["where"], x, re.S) else x for x in functions))
    os.execvp(command[0], command)
