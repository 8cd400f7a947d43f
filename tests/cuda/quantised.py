"""Products by weights of few bits (forms/cuda) on the emulated GPU, beside the same with the weights rounded: rows of random numbers, and rows
that pick single weights, which must come out bit by bit.

    quantised.py --kernels build/release/tests/cuda/quantised_kernels --work DIR [--cxx c++]
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "gpu"))
import emulate


class Map(ctypes.Structure):  # EmulatedMap of tensor_map.h
    _fields_ = [("data", ctypes.c_uint64), ("strides", ctypes.c_uint64 * 4), ("dims", ctypes.c_uint32 * 5), ("box", ctypes.c_uint16 * 5),
                ("lower", ctypes.c_int16 * 3), ("upper", ctypes.c_int16 * 3), ("steps", ctypes.c_uint8 * 5), ("rank", ctypes.c_uint8),
                ("bytes", ctypes.c_uint8), ("swizzle", ctypes.c_uint8), ("windows", ctypes.c_uint8)]


def rounded(x, kind):
    """float64 rounded once to the type, as float64."""
    x = np.asarray(x, np.float64)
    digits, least = (11, -14) if kind == "float16" else (8, -126)
    exponent = np.maximum(np.frexp(x)[1] - 1, least)  # of the number's first digit
    unit = np.ldexp(1.0, exponent - digits + 1)
    return np.round(x / unit) * unit


def bits(x, kind):
    if kind == "float16":
        return np.ascontiguousarray(x, np.float16).view(np.uint16)
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def numbers(x, kind):
    return (x.view(np.float16) if kind == "float16" else (x.astype(np.uint32) << 16).view(np.float32)).astype(np.float64)


def e4m3(x):
    exponent, digits = x >> 3 & 15, x & 7
    v = np.where(exponent > 0, np.ldexp(8.0 + digits, exponent.astype(int) - 10), np.ldexp(digits.astype(float), -9))
    return np.where(x & 0x80, -v, v)


def slabs(values, four):
    """[n, k] bytes in the form of kernels/cuda/slabs.cuh, element by element."""
    n, k = values.shape
    deep = 128 if four else 64
    strips, count = (n + 15) // 16, (k + deep - 1) // deep
    out = np.zeros((strips, count, 16, 64), np.uint8)
    for j in range(n):
        for i in range(k):
            q, x, at = i // deep, i % deep // 16, i % 16
            t, jj = at % 8 // 2, at % 2 + at // 8 * 2
            if four:
                word, pair = x // 2, 2 * (x % 2) + (jj >> 1)
                bit = 4 * pair + 16 * (jj & 1)
                out[j // 16, q, j % 16, t * 16 + word * 4 + bit // 8] |= (values[j, i] & 15) << bit % 8
            else:
                out[j // 16, q, j % 16, t * 16 + 4 * x + jj] = values[j, i]
    return out


def aligned(x):
    """A copy from a multiple of 64 bytes on."""
    room = np.zeros(x.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    at = room[start:start + x.nbytes].view(x.dtype).reshape(x.shape)
    at[...] = x
    return at


def run(c, library, random, pick):
    kind, m, n, k = c["type"], c["m"], c["n"], c["k"]
    groups = -(-k // c["group"])
    if c["bits"] == 4:
        values = random.integers(0, 16, (n, k)).astype(np.uint8)
        integers = values.astype(np.float64)
    else:
        values = random.integers(0, 256, (n, k)).astype(np.uint8)
        values[(values & 0x7f) == 0x7f] = 5  # no NaN
        integers = e4m3(values) if c["values"].startswith("float8") else values.view(np.int8).astype(np.float64)
    small = lambda shape: rounded(random.standard_normal(shape), kind)
    as_scale = (lambda v: v.astype(np.float32).astype(np.float64)) if c["wide"] else lambda v: rounded(v, kind)
    scales, offsets = as_scale(random.uniform(-0.02, 0.02, (n, groups))), as_scale(random.uniform(-0.3, 0.3, (n, groups)))
    of = np.repeat(np.arange(groups), c["group"])[:k]
    weights = integers * scales[:, of] + (offsets[:, of] if c["offsets"] else 0)
    weights = rounded(weights.astype(np.float32) if c["wide"] else weights, kind)
    stored = (lambda v: v.astype(np.float32)) if c["wide"] else lambda v: bits(v, kind)
    x, bias, residual = small((m, k)), small(n), small((m, n)) if c["residual"] else np.zeros((m, n))
    if pick:
        x, bias, residual = np.zeros((m, k)), np.zeros(n), np.zeros((m, n))
        chosen = random.integers(0, k, m)
        chosen[:2] = 0, k - 1
        x[np.arange(m), chosen] = 1
    out = aligned(np.full((m, n), 0x7fff, np.uint16))
    arrays = [aligned(bits(x.T if c["across"] else x, kind)), aligned(slabs(values, c["bits"] == 4)), aligned(stored(scales)), aligned(stored(offsets)), aligned(bits(bias, kind)),
              aligned(bits(residual, kind)), out]
    words = [0, 0] + [a.ctypes.data for a in arrays] + [0]  # fault, scratch, pointers, one size that is none
    head = np.array(words, np.uint64).tobytes()
    head += b"\0" * (-len(head) % 64)
    for made in c["maps"]:
        e = Map(data=arrays[made["arg"]].ctypes.data, rank=len(made["dims"]), bytes=made["bytes"], swizzle={0: 0, 32: 1, 64: 2, 128: 3}[made["swizzle"]])
        for name in ("dims", "strides", "box"):
            for i, v in enumerate(made[name]):
                getattr(e, name)[i] = v
        head += bytes(e).ljust(128, b"\0")
    args = aligned(np.frombuffer(head, np.uint8))
    cluster = ctypes.c_uint.in_dll(library, c["name"] + "_cluster").value
    # Some blocks compute several tiles.
    grid = (ctypes.c_uint * 3)(c["grid"] if cluster > 1 else max(1, c["grid"] // 2), 1, 1)
    library.aotc_host_launch(getattr(library, c["name"] + "_host"), cluster, grid, (ctypes.c_uint * 3)(c["threads"], 1, 1), c["shared"],
                             ctypes.c_void_p(args.ctypes.data))
    got = numbers(out, kind)
    if pick:
        wrong = got != weights[:, chosen].T
        return None if not wrong.any() else f"{wrong.sum()} of {wrong.size} weights, the first at {np.argwhere(wrong)[0]}"
    want = x @ weights.T + bias + residual
    room = abs(want) * (2.0 ** -10 if kind == "float16" else 2.0 ** -7) + 1e-5 * (abs(x) @ abs(weights.T)) + 1e-6
    wrong = ~(abs(got - want) <= room)
    return None if not wrong.any() else f"{wrong.sum()} of {wrong.size} sums, the first at {np.argwhere(wrong)[0]}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--kernels", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--cxx", default="c++")
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    source, shared = os.path.join(o.work, "kernels.cu"), os.path.join(o.work, "kernels.so")
    cases = [json.loads(line) for line in subprocess.run([o.kernels, source], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()]
    emulate.compile_host(source, os.path.join(o.work, "host"), shared, o.cxx)
    library, failed, random = ctypes.CDLL(shared), 0, np.random.default_rng(3)
    for c in cases:
        for pick in (False, True):
            wrong = run(c, library, random, pick)
            failed += wrong is not None
            print("ok  " if wrong is None else "FAIL", c["name"], "picked" if pick else "random", c["type"], c["values"], c["bits"], c["group"],
                  "x".join(str(c[d]) for d in "mnk"), wrong or "", flush=True)
    sys.exit(1 if failed or not cases else 0)


if __name__ == "__main__":
    main()
