"""verify --bisect of artifacts for GPUs: they and the parts of their programs are compiled for the emulated GPU (tests/cuda) and run on it.

    gpu_bisect.py --aotc BIN --device BIN --driver DIR_OF_LIBCUDA --nvrtc FILE_OF_HOST_NVRTC --cxx BIN --work DIR
"""
import argparse
import json
import os
import sys

import ci_bisect
from ci_case import Case

COMPILER = sys.executable, os.path.join(ci_bisect.HERE, "..", "gpu", "emulated_compiler.py")


def main():
    p = argparse.ArgumentParser()
    for name in ("aotc", "device", "driver", "nvrtc", "cxx", "work"):
        p.add_argument("--" + name, required=True)
    o = p.parse_args()
    env = dict(os.environ, LD_LIBRARY_PATH=o.driver, AOTC_NVRTC=o.nvrtc, AOTC_EMULATED_COMPILER=" ".join(COMPILER), CXX=o.cxx)
    env.pop("AOTC_EMULATED_KERNELS", None)
    case = lambda name: Case(os.path.abspath(o.aotc), os.path.abspath(o.device), os.path.join(os.path.abspath(o.work), name))

    c = case("own")
    module, kernels = ci_bisect.operators(c)
    pt2, so = ci_bisect.deep(c, depth=3), c.at("deep.so")
    env["XDG_CACHE_HOME"] = c.at("cache")
    c.run("build", pt2, "-o", so, "--cuda", "sm_90", "--kernels", kernels, "--quiet", env=env)
    ci_bisect.named(c, ("verify", so, "--against", pt2, "--torch-module", module, "--samples", "1"), kernels, env=env)
    print("ok   a kernel of the user's", flush=True)

    env.update(AOTC_EMULATED_COMPILER=ci_bisect.wrong_compiler(*COMPILER), MISCOMPILE=json.dumps(ci_bisect.FUSED_ON_GPU))
    ci_bisect.named_where_fused(case("fused"), env, "--cuda", "sm_90")
    print("ok   fused code", flush=True)


if __name__ == "__main__":
    main()
