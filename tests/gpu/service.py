"""What a service meets on a GPU: how much memory contexts take, a GPU that the artifact has no code for, pointers that are not the GPU's, no
memory left, and that none of it leaks.

    service.py make --aotc BIN --work DIR     # needs torch and NVRTC, no GPU
    service.py run --work DIR                 # needs numpy, the CUDA driver and a GPU with nothing else on it
"""
import argparse
import ctypes as c
import os
import subprocess

import numpy as np

from binding import Artifact, Cuda, Failure, tensors

INVALID_ARGUMENT, INCOMPATIBLE, OUT_OF_MEMORY = 1, 3, 5  # statuses of aotc.h
MB = 1 << 20
NOT_STREAMED = (1 << 64) - 1  # weights_budget
ROWS, GRAIN = 4096, 4 * MB  # the driver gives memory in pieces of 2 MB, and contexts have small ones of their own


class Memory:
    def __init__(self, cuda):
        self.cuda, self.held = cuda, []

    def free(self):
        free, total = c.c_size_t(), c.c_size_t()
        self.cuda("cuMemGetInfo_v2", c.byref(free), c.byref(total))
        return free.value

    def leave(self, nbytes):
        """Takes all but about so many bytes, as far as the driver gives what it calls free."""
        for piece in (1024 * MB, 64 * MB, 2 * MB):
            while self.free() >= nbytes + piece:
                try:
                    self.held.append(self.cuda.alloc(piece))
                except RuntimeError:
                    break

    def give_back(self):
        while self.held:
            self.cuda.free(self.held.pop())


def refused(artifact, status, words, call):
    """The call fails with this status, and its message has all the words."""
    try:
        call()
    except Failure as f:
        name = artifact.api.status_name(f.status).decode()
        assert f.status == status, f"{f.status} ({name}), not {status}: {f}"
        assert all(w in str(f) for w in words), f"{words} not in: {f}"
        print(f"ok   {name}: {str(f)[:200]}")
        return
    raise AssertionError(f"not refused: {words}")


def make(o):
    import torch
    import torch.nn as nn

    os.makedirs(o.work, exist_ok=True)
    at = lambda name: os.path.join(o.work, name)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 512)).half().eval()
    x = torch.randn(ROWS, 512).half()
    torch.export.save(torch.export.export(model, (x,)), at("model.pt2"))
    with torch.no_grad():
        np.savez(at("data.npz"), x=x.numpy(), y=model(x).numpy(), weights=sum(p.numel() * 2 for p in model.parameters()))
    for name, sm in (("model.so", "sm_90a"), ("other.so", "sm_80")):
        subprocess.run([o.aotc, "build", at("model.pt2"), "-o", at(name), "--quiet", "--cuda", sm], check=True)


class Service:
    def __init__(self, o, cuda):
        self.cuda, self.memory = cuda, Memory(cuda)
        data = np.load(os.path.join(o.work, "data.npz"))
        self.x, self.y, self.weights = data["x"], data["y"].astype("f4"), int(data["weights"])
        self.artifact, self.other = (Artifact(os.path.join(o.work, name)) for name in ("model.so", "other.so"))

    def right(self, context):
        y = np.empty((ROWS, 512), "f2")
        context.run(tensors([self.x], [7]), tensors([y], [7]))
        assert np.abs(y.astype("f4") - self.y).max() < 0.01

    def on_device(self, context, source):
        y = self.cuda.alloc(ROWS * 512 * 2)
        try:
            out = np.empty((ROWS, 512), "f2")
            context.run(tensors([self.x], [7], self.cuda.ordinal, [source]), tensors([out], [7], self.cuda.ordinal, [y]))
            context.synchronize()
        finally:
            self.cuda.free(y)

    def memory_of_contexts(self):
        before = self.memory.free()
        self.artifact.create(self.cuda.ordinal)
        model = before - self.memory.free()
        assert model <= self.weights + 2 * GRAIN, f"a model takes {model} bytes of {self.weights} of weights"
        contexts, each = [], []
        for _ in range(8):
            free = self.memory.free()
            contexts.append(self.artifact.context())
            self.right(contexts[-1])
            each.append(free - self.memory.free())
        print(f"ok   a model {model / MB:.0f} MB (weights {self.weights / MB:.0f}), contexts " + " ".join(f"{e / MB:.0f}" for e in each) + " MB each")
        assert max(each[1:]) - min(each[1:]) <= GRAIN, each
        for context in contexts:
            context.close()
        self.artifact.close()

    def another_architecture(self):
        refused(self.other, INCOMPATIBLE, ["sm_80"], lambda: self.other.probe(self.cuda.ordinal))
        refused(self.other, INCOMPATIBLE, ["sm_80"], lambda: self.other.create(self.cuda.ordinal))

    def pointers(self):
        self.artifact.create(self.cuda.ordinal)
        context = self.artifact.context()
        refused(self.artifact, INVALID_ARGUMENT, ["input"], lambda: self.on_device(context, self.x.ctypes.data))
        refused(self.artifact, INVALID_ARGUMENT, ["input"], lambda: self.on_device(context, 4096))
        self.right(context)
        context.close()
        self.artifact.close()

    def no_memory(self):
        self.memory.leave(self.weights // 2)
        refused(self.artifact, OUT_OF_MEMORY, ["memory"], lambda: self.artifact.create(self.cuda.ordinal, budget=NOT_STREAMED))
        self.memory.give_back()
        self.artifact.create(self.cuda.ordinal)
        self.memory.leave(8 * MB)
        context = []

        def start():
            context.append(self.artifact.context())
            self.right(context[0])

        refused(self.artifact, OUT_OF_MEMORY, ["memory"], start)
        self.memory.give_back()
        if not context:
            context.append(self.artifact.context())
        self.right(context[0])  # the same context, once there is memory
        context[0].close()
        self.artifact.close()


def run(o):
    service = Service(o, Cuda())
    steps = [service.memory_of_contexts, service.another_architecture, service.pointers, service.no_memory]
    for step in steps:  # what the driver takes for itself with the first of anything
        step()
    free = service.memory.free()
    for _ in range(3):
        for step in steps:
            step()
    lost = free - service.memory.free()
    assert lost <= GRAIN, f"{lost} bytes are lost after three rounds"
    print(f"ok   nothing leaks: {lost / MB:.1f} MB after three rounds")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("verb", choices=("make", "run"))
    p.add_argument("--aotc")
    p.add_argument("--work", required=True)
    o = p.parse_args()
    make(o) if o.verb == "make" else run(o)


if __name__ == "__main__":
    main()
