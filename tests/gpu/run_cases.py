"""Runs the artifacts of make_cases.py on this machine's GPU and compares with fp64: the error may be twice that of eager PyTorch in the
model's own precision, plus a few units in the last place. Needs numpy and the CUDA driver, nothing else.

    run_cases.py DIR [--once] [--graphs] [--time] [--devices 0,1] [name ...]
      --once   one run a sample (for compute-sanitizer)
      --graphs of the runs of one shape all but the first are launches of CUDA graphs
      --time   microseconds of the first sample: queued runs, and replays of a captured graph
      --devices  each case on all of these GPUs at once, a thread of this process each; another GPU's memory is refused
"""
import argparse
import concurrent.futures
import glob
import json
import os
import sys

import numpy as np

import binding
from binding import BF16, CODES, HOST, Artifact, Cuda, Failure, tensors

ULPS = {7: 2.0**-10, 8: 2.0**-7, 9: 2.0**-23, 10: 2.0**-52}
PARTS = {11: 9, 12: 10}  # the type of a complex type's parts
POISON, GRAPHS = 2, 8
GUARD, GUARD_BYTE = 512, 0xA5  # bytes on either side of a tensor on the device
OUT_OF_RANGE = 9


def value(a, dtype):
    return (a.astype(np.uint32) << 16).view("f4").astype("f8") if dtype == BF16 else a


def compare(outputs, dtypes, eager, exact):
    """The worst error as a share of what is allowed."""
    worst = 0.0
    for o, t, e, x in zip(outputs, dtypes, eager, exact):
        if o.shape != x.shape:
            raise AssertionError(f"shape {o.shape}, not {x.shape}")
        if o.size == 0:
            continue
        if t in PARTS:
            o, e, x, t = *(np.ascontiguousarray(a, "c16").view("f8") for a in (o, e, x)), PARTS[t]
        if t not in ULPS:
            if not np.array_equal(o, x):
                raise AssertionError(f"{(o != x).sum()} of {o.size} integers differ")
            continue
        got, e, x = value(o, t).astype("f8"), np.asarray(e, "f8"), np.asarray(x, "f8")
        odd = ~np.isfinite(x) | ~np.isfinite(e)  # eager's infinities and NaN are right where fp64 overflows the type
        same = (np.isnan(got) == np.isnan(e)) & (np.isnan(got) | (np.isfinite(got) == np.isfinite(e)))
        if not same[odd].all():
            raise AssertionError("infinities or NaN differ from eager's")
        fine = ~odd
        if not fine.any():
            continue
        error, theirs, scale = np.abs(got - x)[fine].max(), np.abs(e - x)[fine].max(), np.abs(x[fine]).max()
        if not np.isfinite(error):
            raise AssertionError("not finite")
        worst = max(worst, error / (2 * theirs + 4 * ULPS[t] * scale + 1e-300))
    if worst > 1:
        raise AssertionError(f"error is {worst:.2f} of what is allowed")
    return worst


class Case:
    def __init__(self, path, cuda, o):
        self.cuda, self.o = cuda, o
        self.meta, self.data = json.load(open(path + ".json")), np.load(path + ".npz")
        self.artifact = Artifact(path + ".so")
        self.artifact.probe(cuda.ordinal)
        self.artifact.create(cuda.ordinal)
        self.in_dtypes, self.out_dtypes = ([i.dtype for i in self.artifact.io(k)] for k in (0, 1))

    def sample(self, s):
        n = self.meta["outputs"]
        inputs = [self.data[f"s{s}_in{i}"].copy(order="C") for i in range(self.meta[f"inputs{s}"])]
        return inputs, [self.data[f"s{s}_eager{i}"] for i in range(n)], [self.data[f"s{s}_exact{i}"] for i in range(n)]

    def on_host(self, context, inputs):
        views = tensors(inputs, self.in_dtypes)
        outputs = context.output_arrays(views)
        context.run(views, tensors(outputs, self.out_dtypes))
        return context.found(outputs)

    def device(self, context, inputs, misaligned=False):
        """Device copies: (input tensors, output tensors, host arrays of the outputs, pointers of both)."""
        outputs = context.output_arrays(tensors(inputs, self.in_dtypes))
        arrays = inputs + outputs
        offsets = [a.itemsize if misaligned else 0 for a in arrays]
        offsets = [off + GUARD for off in offsets]
        pointers = [self.cuda.alloc(a.nbytes + GUARD, off) for a, off in zip(arrays, offsets)]
        for p, off, a in zip(pointers, offsets, arrays):
            self.cuda.upload(p - off, np.full(off + a.nbytes + GUARD, GUARD_BYTE, "u1"))
            self.cuda.upload(p, a)
        n = len(inputs)
        on = self.cuda.ordinal
        return (tensors(inputs, self.in_dtypes, on, pointers[:n]), tensors(outputs, self.out_dtypes, on, pointers[n:]), outputs,
                list(zip(pointers, offsets)))

    def fetch(self, outputs, pointers):
        for a, (p, _) in zip(outputs, pointers[-len(outputs):]):
            self.cuda.download(a, p)
            before, after = np.empty(GUARD, "u1"), np.empty(GUARD, "u1")
            self.cuda.download(before, p - GUARD)
            self.cuda.download(after, p + a.nbytes)
            assert (before == GUARD_BYTE).all() and (after == GUARD_BYTE).all(), "memory beside an output was written"
        for p, off in pointers:
            self.cuda.free(p, off)
        return outputs

    def on_device(self, context, inputs, stream, misaligned=False):
        views, results, outputs, pointers = self.device(context, inputs, misaligned)
        context.run(views, results)
        if stream:
            self.cuda.wait(stream)
        context.synchronize()
        return context.found(self.fetch(outputs, pointers))

    def check(self):
        worst = 0.0
        stateful = len(self.artifact.io(2)) > 0
        stream = self.cuda.stream()
        flags = POISON | (GRAPHS if self.o.graphs else 0)
        contexts = [self.artifact.context(flags=flags), self.artifact.context(stream, flags)]
        try:
            for s in range(self.meta["samples"]):
                inputs, eager, exact = self.sample(s)
                first = self.on_host(contexts[0], inputs)
                worst = max(worst, compare(first, self.out_dtypes, eager, exact))
                if self.o.graphs and not stateful:
                    for a, b in zip(first, self.on_host(contexts[0], inputs)):
                        assert a.tobytes() == b.tobytes(), "a run as a graph differs"
                if self.o.once:
                    continue
                other = self.on_device(contexts[1], inputs, stream)
                worst = max(worst, compare(other, self.out_dtypes, eager, exact))
                if stateful:
                    continue
                again = self.on_device(contexts[0], inputs, None)
                for a, b in zip(other, again):
                    assert a.tobytes() == b.tobytes(), "two runs differ"
                worst = max(worst, compare(self.on_device(contexts[1], inputs, stream, True), self.out_dtypes, eager, exact))
        finally:
            for c in contexts:
                c.close()
        return worst

    def check_faults(self, name, bad_inputs):
        """An index out of range is reported by a run with host tensors, by synchronize otherwise, and the next run is fine."""
        inputs, eager, exact = self.sample(0)
        context = self.artifact.context()
        try:
            self.on_host(context, bad_inputs)
            raise AssertionError("an index out of range was not reported")
        except Failure as f:
            assert f.status == OUT_OF_RANGE, str(f)
        compare(self.on_host(context, inputs), self.out_dtypes, eager, exact)
        views, results, outputs, pointers = self.device(context, bad_inputs)
        context.run(views, results)
        try:
            context.synchronize()
            raise AssertionError("an index out of range was not reported by synchronize")
        except Failure as f:
            assert f.status == OUT_OF_RANGE, str(f)
        self.fetch(outputs, pointers)
        compare(self.on_host(context, inputs), self.out_dtypes, eager, exact)
        context.close()
        print(f"ok   {name}: faults", flush=True)

    def check_foreign(self, other):
        """Tensors in the memory of another GPU are refused, and the message names both."""
        context = self.artifact.context()
        try:
            inputs, _, _ = self.sample(0)
            outputs = context.output_arrays(tensors(inputs, self.in_dtypes))
            other.make_current()
            pointers = [other.alloc(a.nbytes) for a in inputs + outputs]
            self.cuda.make_current()
            n, on = len(inputs), self.cuda.ordinal
            try:
                context.run(tensors(inputs, self.in_dtypes, on, pointers[:n]), tensors(outputs, self.out_dtypes, on, pointers[n:]))
                raise AssertionError("memory of another GPU was taken")
            except Failure as f:
                assert f"are on GPU {other.ordinal}, but the model is on GPU {on}" in str(f), str(f)
        finally:
            context.close()

    def time(self, replays=200):
        inputs, _, _ = self.sample(0)
        return time_runs(self.cuda, self, inputs, replays)


def check_at_once(cases):
    """The worst error of cases on GPUs of their own, a thread each."""
    def check(case):
        case.cuda.make_current()
        return case.check()

    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        return max(pool.map(check, cases))


def queued_run(cuda, case, inputs, stream):
    """A run of the case on device tensors in the stream, queued; and what ends it."""
    context = case.artifact.context(stream)
    views, results, outputs, pointers = case.device(context, inputs)
    run = lambda: context.run(views, results)

    def end():
        context.synchronize()
        case.fetch(outputs, pointers)
        context.close()

    run()
    context.synchronize()
    return run, end


def time_each(cuda, stream, work, repeats):
    """Microseconds of one: the median of 5 groups, which follow each other without rests."""
    times = []
    for _ in range(5):
        start = cuda.event(stream)
        for _ in range(repeats):
            work()
        times.append(cuda.microseconds(start, cuda.event(stream)) / repeats)
    return sorted(times)[2]


def time_runs(cuda, case, inputs, replays):
    """(microseconds of a queued run, of a graph replay)."""
    stream = cuda.stream()
    run, end = queued_run(cuda, case, inputs, stream)
    groups = []
    for work in (run, cuda.capture(stream, run)):
        for _ in range(20):
            work()
        groups.append(time_each(cuda, stream, work, replays))
    end()
    return groups


def captured(cuda, case, inputs):
    """A run of the case as a graph, launched once: its stream, and a function that launches it again."""
    stream = cuda.stream()
    run, _ = queued_run(cuda, case, inputs, stream)
    replay = cuda.capture(stream, run)
    replay()
    return stream, replay


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("--once", action="store_true")
    p.add_argument("--graphs", action="store_true")
    p.add_argument("--time", action="store_true")
    p.add_argument("--devices", type=lambda s: [int(x) for x in s.split(",")], default=[0])
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    devices = [Cuda(n) for n in o.devices]
    cuda = devices[0]
    cuda.make_current()
    names = o.names or sorted(os.path.basename(f)[:-4] for f in glob.glob(os.path.join(o.dir, "*.npz")))
    failed = 0
    for name in names:
        try:
            case, *others = all_cases = [Case(os.path.join(o.dir, name), d, o) for d in devices]
            line = f"ok   {name}: error {check_at_once(all_cases) if others else case.check():.2f} of the allowed"
            if others and name == names[0]:
                case.check_foreign(devices[1])
            if o.time:
                line += ", %.1f us queued, %.1f us as a graph" % tuple(case.time())
            print(line, flush=True)
            if name == "gather_ops":
                inputs = case.sample(0)[0]
                for index in (12, -13, 2**40):
                    case.check_faults(name, [inputs[0], np.array([3, 0, index, 7]), inputs[2]])
            if name == "embedding_dynamic":
                case.check_faults(name, [np.full((3, 9), 50)])
            for c in all_cases:
                c.artifact.close()
        except Exception as e:
            failed += 1
            print(f"FAIL {name}: {type(e).__name__}: {str(e)[:600]}", flush=True)
    print(f"{len(names) - failed} of {len(names)} cases pass on {', '.join(d.name for d in devices)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
