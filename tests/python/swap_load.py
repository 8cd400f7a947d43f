#!/usr/bin/env python3
"""Weights swapped under load: threads run a model without a pause while another gives it one set of weights after the other.

    swap_load.py MODEL.so FILE.weights.. [--seconds 60] [--every 1] [--threads 2]

Every answer is compared, to the bit, with those that each set gives alone; that of the version that the context tells is expected. Prints the
times of runs with swaps and without, and the memory that the process has after a tenth of the time and at the end.
"""
import argparse
import threading
import time

import numpy as np

import aotc_runtime as aotc


def inputs_of(model):
    draw = np.random.default_rng(0)
    found = []
    for info in model.inputs:
        shape = [max(d.min, min(d.max or 4, 4)) if d.symbol else d.value for d in info.dims]
        found.append(draw.standard_normal(shape).astype(info.dtype) if "float" in info.dtype else np.ones(shape, info.dtype))
    return found


def resident_bytes():
    with open("/proc/self/status") as f:
        return {line.split(":")[0]: int(line.split()[1]) << 10 for line in f if line.startswith(("RssAnon", "RssFile"))}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("model")
    p.add_argument("weights", nargs="+")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--every", type=float, default=1)
    p.add_argument("--threads", type=int, default=2)
    o = p.parse_args()
    model = aotc.load(o.model)
    sets = [None, *o.weights]
    inputs = inputs_of(model)
    expected = []
    for source in sets:
        model.swap_weights(source)
        expected.append([a.tobytes() for a in model.context().run(inputs)])
    assert len({tuple(e) for e in expected}) == len(sets), "two sets give one answer"
    first = model.swap_weights(sets[0])  # version `first + i` has set i
    times, wrong, stop = ([], []), [], threading.Event()
    phase = 0

    def work():
        context = model.context()
        while not stop.is_set():
            begin, at = time.perf_counter_ns(), phase
            outputs = context.run(inputs)
            times[at].append(time.perf_counter_ns() - begin)
            version = context.info.weights_version
            if [a.tobytes() for a in outputs] != expected[(version - first) % len(sets)]:
                wrong.append(version)

    threads = [threading.Thread(target=work) for _ in range(o.threads)]
    for t in threads:
        t.start()
    time.sleep(o.seconds / 4)
    phase, swaps, began, early = 1, [], time.monotonic(), None
    while time.monotonic() - began < o.seconds:
        time.sleep(o.every)
        begin = time.perf_counter()
        model.swap_weights(sets[(len(swaps) + 1) % len(sets)])
        swaps.append(time.perf_counter() - begin)
        if early is None and time.monotonic() - began > o.seconds / 10:
            early = resident_bytes()
    late = resident_bytes()
    stop.set()
    for t in threads:
        t.join()
    assert all(times), "a thread ended early"
    for name, some in zip(("without swaps", "with swaps"), times):
        ms = np.percentile(np.array(some) / 1e6, (50, 99, 99.9))
        print(f"{name}: {len(some)} runs, p50 {ms[0]:.2f} ms, p99 {ms[1]:.2f} ms, p99.9 {ms[2]:.2f} ms")
    print(f"{len(swaps)} swaps, each {np.mean(swaps) * 1e3:.1f} ms, the slowest {max(swaps) * 1e3:.1f} ms; resident early {early}, at the end {late}")
    assert not wrong, f"{len(wrong)} answers are not those of the set of their version: {wrong[:5]}"
    print("ok   every answer is of one set")


main()
