"""Weights swapped on a GPU while threads run the model: every answer is, to the bit, that of the set whose version the context tells.

    swaps.py make --aotc BIN --work DIR [--width 2048]    # needs torch and NVRTC, no GPU
    swaps.py run --work DIR [--seconds 20] [--every 1]    # needs numpy, the CUDA driver and a GPU

Runs with tensors in host memory, with tensors on the device launch by launch and as graphs, each for `seconds` with a swap every `every` and as long
without, in turns of two seconds. A graph that the caller captured goes on with the set that it was captured with. Says how long runs took with
swaps and without, how long swaps took, and the device's memory after a tenth of the time and at the end.
"""
import ctypes as c
import os
import subprocess
import threading
import time

import numpy as np

from binding import F32, I32, Artifact, Cuda, LaterApi, P, Source, make_or_run, tensors

GRAPHS, NO_GRAPHS = 8, 16  # AOTC_CONTEXT_*
SETS = 3


class ContextInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("sizes", c.c_uint64 * 4), ("variant", c.c_char_p), ("threads", I32), ("graphs", I32),
                ("weights_version", c.c_uint64)]


def make(o):
    import torch
    from torch import nn

    os.makedirs(o.work, exist_ok=True)
    at = lambda name: os.path.join(o.work, name)
    x, answers = None, {}
    for s in range(SETS):
        torch.manual_seed(s)
        net = nn.Sequential(nn.Linear(256, o.width), nn.GELU(), nn.Linear(o.width, o.width), nn.ReLU(), nn.LayerNorm(o.width), nn.Linear(o.width, 64)).eval()
        x = torch.randn(32, 256) if x is None else x
        torch.export.save(torch.export.export(net, (x,)), at(f"{s}.pt2"))
        with torch.no_grad():
            answers[f"y{s}"] = net.double()(x.double()).numpy()
        if s == 0:
            subprocess.run([o.aotc, "build", at("0.pt2"), "-o", at("model.so"), "--quiet", "--cuda", "sm_90a"], check=True)
        else:
            subprocess.run([o.aotc, "weights", at(f"{s}.pt2"), "--for", at("model.so"), "-o", at(f"{s}.weights"), "--quiet"], check=True)
    np.savez(at("data.npz"), x=x.numpy(), **answers)
    for s in range(SETS):
        os.remove(at(f"{s}.pt2"))


class Service:
    def __init__(self, o, cuda):
        self.o, self.cuda = o, cuda
        data = np.load(os.path.join(o.work, "data.npz"))
        self.x, self.right = data["x"], [data[f"y{s}"] for s in range(SETS)]
        self.artifact = Artifact(os.path.join(o.work, "model.so")).create()
        self.api = c.cast(c.pointer(self.artifact.api), c.POINTER(LaterApi)).contents
        assert self.artifact.api.struct_size >= c.sizeof(LaterApi), "the artifact is older than model_swap_weights"
        self.swaps, self.swap_ms = 0, []
        self.expected = []
        for s in range(SETS):
            assert s == 0 or self.swap() == s + 1
            run = Run(self, NO_GRAPHS, on_device=False)
            self.expected.append(run.once()[0])
            error = np.abs(run.y - self.right[s]).max() / np.abs(self.right[s]).max()
            print(f"ok   set {s}: {error:.1e} of the largest value from float64")
            assert error < 1e-4, error
            run.close()
        assert len(set(self.expected)) == SETS
        self.swap()

    def swap(self):
        """The next set; gives its version, which is one more than how many there were."""
        path = os.path.join(self.o.work, f"{(self.swaps + 1) % SETS}.weights").encode() if (self.swaps + 1) % SETS else None
        source, version = Source(struct_size=c.sizeof(Source), path=path, fd=-1), c.c_uint64()
        begin = time.perf_counter()
        self.artifact.check(self.api.swap(self.artifact.model, c.byref(source) if path else None, c.byref(version)))
        self.swap_ms.append((time.perf_counter() - begin) * 1e3)
        self.swaps += 1
        return version.value

    def set_of(self, version):
        return (version - 1) % SETS

    def used(self):
        free, total = c.c_size_t(), c.c_size_t()
        self.cuda("cuMemGetInfo_v2", c.byref(free), c.byref(total))
        return total.value - free.value


class Run:
    """A context with its tensors."""

    def __init__(self, service, flags, on_device):
        self.service, self.cuda, self.on_device = service, service.cuda, on_device
        self.stream = self.cuda.stream()
        self.context = service.artifact.context(self.stream, flags)
        self.x, self.y = service.x, np.empty((service.x.shape[0], 64), np.float32)
        if on_device:
            self.at = [self.cuda.alloc(a.nbytes) for a in (self.x, self.y)]
            self.cuda.upload(self.at[0], self.x)
            self.tensors = [tensors([a], [F32], service.cuda.ordinal, [p]) for a, p in zip((self.x, self.y), self.at)]
        else:
            self.tensors = [tensors([a], [F32]) for a in (self.x, self.y)]

    def read(self):
        if self.on_device:
            self.cuda("cuMemcpyDtoHAsync_v2", P(self.y.ctypes.data), c.c_uint64(self.at[1]), c.c_size_t(self.y.nbytes), self.stream)
            self.cuda.wait(self.stream)
        return self.y.tobytes()

    def once(self, queued=1):
        """The answer of the latest of some runs that are queued, and the version that it had."""
        for _ in range(queued):
            self.context.run(*self.tensors)
        info = ContextInfo(struct_size=c.sizeof(ContextInfo))
        self.service.artifact.check(self.service.artifact.api.context_get_info(self.context.handle, c.byref(info)))
        self.graphs = info.graphs
        return self.read(), info.weights_version

    def close(self):
        self.context.close()
        for p in self.at if self.on_device else []:
            self.cuda.free(p)


def load(service, name, flags, on_device, seconds, every):
    times, wrong, stop, phase, graphs = ([], []), [], threading.Event(), [0], []

    def work():
        service.cuda.make_current()
        run, n = Run(service, flags, on_device), 0
        while not stop.is_set():
            at, begin, n = phase[0], time.perf_counter(), n + 1
            answer, version = run.once()
            times[at].append(time.perf_counter() - begin)
            if answer != service.expected[service.set_of(version)]:
                wrong.append(version)
            if n % 64 == 0 and on_device:  # many in the queue when a set goes
                answer, version = run.once(queued=32)
                if answer != service.expected[service.set_of(version)]:
                    wrong.append(version)
        graphs.append(run.graphs)
        run.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    time.sleep(0.5)
    service.swap_ms.clear()
    begin, next_swap, early = time.monotonic(), 0, None
    while (now := time.monotonic() - begin) < 2 * seconds:
        phase[0] = int(now / 2) % 2
        if phase[0] and now >= next_swap:
            service.swap()
            next_swap = now + every
        if early is None and now > seconds / 5:
            early = service.used()
        time.sleep(0.002)
    late = service.used()
    stop.set()
    for t in threads:
        t.join()
    p = [np.percentile(np.array(t) * 1e6, (50, 99)) for t in times]
    print(f"{name}: {len(times[0])} runs without swaps, p50 {p[0][0]:.0f} us, p99 {p[0][1]:.0f} us; {len(times[1])} with {len(service.swap_ms)} of "
          f"{np.mean(service.swap_ms):.1f} ms (at most {max(service.swap_ms):.1f}), p50 {p[1][0]:.0f} us, p99 {p[1][1]:.0f} us ({(p[1][1] / p[0][1] - 1) * 100:+.1f} %); "
          f"memory {early / 1e6:.1f}, {late / 1e6:.1f} MB")
    assert not wrong, f"{len(wrong)} answers are not those of their set: versions {wrong[:5]}"
    assert graphs == [1 if flags == GRAPHS else 0] * 2, graphs
    assert late - early < 64 << 20, "memory grows"
    print(f"ok   {name}: every answer is of one set")


def captured(service):
    """A graph of the caller's keeps its set, the context takes each new one."""
    run = Run(service, NO_GRAPHS, on_device=True)
    run.once()
    answer, version = run.once()
    replay = service.cuda.capture(run.stream, lambda: run.context.run(*run.tensors))
    for _ in range(4):
        now = service.swap()
        replay()
        assert run.read() == answer == service.expected[service.set_of(version)], "the captured graph's answer changed"
        new, told = run.once()
        assert told == now and new == service.expected[service.set_of(now)]
    run.close()
    print("ok   a captured graph goes on with its set")


def run(o):
    cuda = Cuda()
    print(cuda.name)
    service = Service(o, cuda)
    captured(service)
    for name, flags, on_device in (("host tensors", NO_GRAPHS, False), ("device tensors, launch by launch", NO_GRAPHS, True), ("device tensors, graphs", GRAPHS, True)):
        load(service, name, flags, on_device, o.seconds, o.every)


make_or_run(__doc__, make, run, {"width": 2048, "seconds": 20.0, "every": 1.0})
