"""emulated_compiler.py SOURCE LIBRARY: CUDA code, compiled for the host (AOTC_EMULATED_COMPILER of tests/cuda/host_nvrtc.c)."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import emulate

if __name__ == "__main__":
    source, library = sys.argv[1:]
    emulate.compile_host(source, library + ".host", library, os.environ.get("CXX", "c++"))
