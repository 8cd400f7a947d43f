"""Keys and values that states keep in 8 bits (--kv-cache) on GPUs: artifacts on the emulated GPU (tests/cuda). What a run writes is, to the bit, what
the artifact of the same program for CPUs writes, and attention gives what that one gives. Exits with 77 (skipped) where NVRTC is not installed.

    gpu_kv_cache.py --aotc BIN --work DIR --driver DIR_OF_LIBCUDA [--cxx CXX] [name ...]
"""
import os
import subprocess
import sys

import torch
import torch.nn.functional as F

here = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [here, os.path.join(os.path.dirname(here), "gpu")]
import arguments
import kv_cache
import emulate
import thirds


class Rows(torch.nn.Module):
    """Keys and values are given."""

    def __init__(self, dtype):
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, 40, 48, dtype=dtype))

    def forward(self, q, k, v, at):
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        return F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=(torch.arange(40) <= at[:, None])[None, None], enable_gqa=True)


def rows_of(dtype, n):
    """Usual rows, rows of zeros, of one number, far apart in size, halves between codes, beyond float8."""
    x = torch.randn(1, 2, n, 48) * 10.0 ** torch.randint(-4, 4, (1, 2, n, 1))
    x[0, 0, 0], x[0, 1, 1, 1:] = 0, 0
    x[0, 0, 2] = torch.arange(-24, 24) + 0.5
    x[0, 0, 2, 0] = 127
    x[0, 1, 3] = torch.arange(48) * 20.0
    return x.to(dtype)


class Test:
    def __init__(self, o):
        self.o = o
        self.plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        self.plain["VIRTUAL_ENV"] = os.environ.get("VIRTUAL_ENV", sys.prefix)  # where aotc looks for NVRTC

    def build(self, pt2, so, *options):
        r = subprocess.run([self.o.aotc, "build", pt2, "-o", so, "--quiet", *options], capture_output=True, text=True, env=self.plain)
        if "NVRTC was not found" in r.stderr:
            sys.exit(77)
        assert r.returncode == 0, r.stderr

    def load(self, path):
        """The kernels of PATH.so, which was built with --keep, are those of the emulated GPU."""
        emulate.compile_host(os.path.join(path + ".keep", "kernels.cu"), path + ".host", path + ".host.so", self.o.cxx)
        os.environ["AOTC_EMULATED_KERNELS"] = path + ".host.so"

    def bits(self, dtype_name, stored):
        dtype, path = kv_cache.TORCH[dtype_name], os.path.join(self.o.work, f"bits_{dtype_name}_{stored}")
        torch.manual_seed(3)
        n = torch.export.Dim("n", min=1, max=40)
        example = (torch.randn(1, 4, 5, 48).to(dtype), rows_of(dtype, 5), rows_of(dtype, 5), torch.arange(5))
        with torch.no_grad():
            torch.export.save(torch.export.export(Rows(dtype), example, dynamic_shapes=({2: n}, {2: n}, {2: n}, {0: n})), path + ".pt2")
        self.build(path + ".pt2", path + ".so", "--kv-cache", stored, "--cuda", "sm_90", "--keep", path + ".keep")
        self.build(path + ".pt2", path + "_cpu.so", "--kv-cache", stored, "--cpu", "avx2")
        self.load(path)
        gpu, cpu = kv_cache.Session(path + ".so"), kv_cache.Session(path + "_cpu.so")
        at = 0
        for rows in (23, 1, 9):
            inputs = [torch.randn(1, 4, rows, 48).to(dtype), rows_of(dtype, max(rows, 5))[:, :, :rows], rows_of(dtype, max(rows, 5))[:, :, :rows],
                      torch.arange(at, at + rows)]
            got, want = (s.run_all(inputs) for s in (gpu, cpu))
            for name in cpu.infos:
                a, b = gpu.bytes_of(name), cpu.bytes_of(name)
                assert (a == b).all() and b.any(), (name, (a != b).sum())
            off = ((got.double() - want.double()).norm() / want.double().norm()).item()
            assert off < (1e-5 if dtype == torch.float32 else 1e-2), off
            at += rows
        print(f"ok   bits {dtype_name} {stored}", flush=True)


def main():
    o = arguments.parse("driver", names="names", cxx="c++")
    if os.environ.get("LD_LIBRARY_PATH") != o.driver:  # which the loader reads as a process starts
        env = dict(os.environ, LD_LIBRARY_PATH=o.driver, VIRTUAL_ENV=os.environ.get("VIRTUAL_ENV", sys.prefix))
        sys.exit(subprocess.run([sys.executable, os.path.realpath(__file__), *sys.argv[1:]], env=env).returncode)
    t = Test(o)
    cases = {f"bits_{dtype}_{stored}": lambda d=dtype, s=stored: t.bits(d, s) for dtype in ("float32", "bfloat16") for stored in ("int8", "fp8")}
    for name in o.names or thirds.some(list(cases), "rows of caches of 8 bits on GPUs"):
        cases[name]()


if __name__ == "__main__":
    main()
