"""Contexts share a GPU by the streams that they are made with: one of a higher priority overtakes others, one of a green context keeps to some of
the multiprocessors. Answers are, to the bit, those of a stream that is alone.

    streams.py --work DIR     # made by swaps.py make; needs numpy, the CUDA driver (green contexts: 12.4) and a GPU
"""
import argparse
import ctypes as c
import os
import threading
import time

import numpy as np

from binding import F32, P, Artifact, Cuda, tensors

NON_BLOCKING, SM, GREEN_DEFAULT_STREAM = 1, 1, 1


class SmResource(c.Structure):
    """CUdevResource, of multiprocessors."""
    _fields_ = [("type", c.c_int), ("padding", c.c_ubyte * 92), ("count", c.c_uint), ("rest", c.c_ubyte * 44)]


class Caller:
    def __init__(self, cuda, artifact, x, stream):
        self.cuda, self.artifact, self.x, self.stream = cuda, artifact, x, stream
        self.y = np.empty((x.shape[0], 64), np.float32)
        self.at = [cuda.alloc(a.nbytes) for a in (x, self.y)]
        cuda.upload(self.at[0], x)
        self.tensors = [tensors([a], [F32], cuda.ordinal, [p]) for a, p in zip((x, self.y), self.at)]
        self.context = artifact.context(stream)
        self.answer()

    def run(self):
        self.context.run(*self.tensors)

    def answer(self):
        self.run()
        self.cuda("cuMemcpyDtoHAsync_v2", P(self.y.ctypes.data), c.c_uint64(self.at[1]), c.c_size_t(self.y.nbytes), self.stream)
        self.cuda.wait(self.stream)
        return self.y.tobytes()

    def times(self, seconds, pause=0.0):
        """Microseconds of runs with their waits."""
        out, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end:
            begin = time.perf_counter()
            self.run()
            self.cuda.wait(self.stream)
            out.append((time.perf_counter() - begin) * 1e6)
            time.sleep(pause)
        return np.percentile(out, (50, 99))


def priorities(cuda, artifact, x, alone):
    least, greatest = c.c_int(), c.c_int()
    cuda("cuCtxGetStreamPriorityRange", c.byref(least), c.byref(greatest))

    def stream(priority):
        s = P()
        cuda("cuStreamCreateWithPriority", c.byref(s), NON_BLOCKING, priority)
        return s

    told = {}
    for name, priority in (("the same priority", least.value), ("the highest priority", greatest.value)):
        mine, others = Caller(cuda, artifact, x, stream(priority)), [Caller(cuda, artifact, x, stream(least.value)) for _ in range(4)]
        stop = threading.Event()

        def work(caller):
            cuda.make_current()
            while not stop.is_set():
                for _ in range(16):
                    caller.run()
                cuda.wait(caller.stream)

        threads = [threading.Thread(target=work, args=[o]) for o in others]
        for t in threads:
            t.start()
        time.sleep(0.3)
        told[name] = mine.times(3, pause=0.001)
        right = mine.answer() == alone
        stop.set()
        for t in threads:
            t.join()
        assert right and all(o.answer() == alone for o in others)
    for name, (p50, p99) in told.items():
        print(f"ok   beside four contexts that never rest, with {name}: p50 {p50:.0f} us, p99 {p99:.0f} us")


def partitions(cuda, artifact, x, alone):
    device, whole = c.c_int(), SmResource()
    cuda("cuDeviceGet", c.byref(device), cuda.ordinal)
    if not hasattr(cuda.d, "cuGreenCtxStreamCreate"):
        print("skip green contexts: the driver has none")
        return
    cuda("cuDeviceGetDevResource", device, c.byref(whole), SM)
    for count in (16, 64, whole.count):
        part, rest, groups, description, context, stream = SmResource(), SmResource(), c.c_uint(1), P(), P(), P()
        if count < whole.count:
            cuda("cuDevSmResourceSplitByCount", c.byref(part), c.byref(groups), c.byref(whole), c.byref(rest), 0, count)
        else:
            part = whole
        cuda("cuDevResourceGenerateDesc", c.byref(description), c.byref(part), 1)
        cuda("cuGreenCtxCreate", c.byref(context), description, device, GREEN_DEFAULT_STREAM)
        cuda("cuGreenCtxStreamCreate", c.byref(stream), context, NON_BLOCKING, 0)
        caller = Caller(cuda, artifact, x, stream)
        p50, p99 = caller.times(1)
        assert caller.answer() == alone, "the answer is another"
        caller.context.close()
        print(f"ok   on {part.count} of {whole.count} multiprocessors: p50 {p50:.0f} us, p99 {p99:.0f} us")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--work", required=True)
    o = p.parse_args()
    cuda = Cuda()
    artifact, x = Artifact(os.path.join(o.work, "model.so")).create(), np.load(os.path.join(o.work, "data.npz"))["x"]
    caller = Caller(cuda, artifact, x, cuda.stream())
    alone = caller.answer()
    p50, p99 = caller.times(1)
    print(f"{cuda.name}: alone p50 {p50:.0f} us, p99 {p99:.0f} us")
    priorities(cuda, artifact, x, alone)
    partitions(cuda, artifact, x, alone)


main()
