"""Weights above a budget of the GPU's memory (weights_budget): how long runs of a decoder take that copies a part of its weights each time, beside
one whose weights are all on the device, how many GB/s are copied, and that the results are the same bits.

    streaming.py make --aotc BIN --work DIR [--width 4096] [--hidden 14336] [--layers 8] [--tokens 512]     # needs torch and NVRTC, no GPU
    streaming.py run --work DIR [--seconds 2]                                                               # needs numpy, the CUDA driver and a GPU

`make` leaves the artifact and the form of its weights, not the weights: `run` fills them with random numbers of its own. Runs of one token and of
--tokens on tensors of the device, queued one after the other. "pinned" is a plain copy of 256 MB from pinned memory: what a stream of copies can reach.
Two contexts run at once, and a swap goes to the same numbers in another order.
"""
import ctypes as c
import os
import re
import subprocess
import threading
import time

import numpy as np

from binding import Artifact, Cuda, Failure, LaterApi, P, Source, make_or_run, tensors

I64, F16, NOT_STREAMED = 6, 7, (1 << 64) - 1

def make(o):
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, width, hidden):
            super().__init__()
            self.before, self.after, self.heads = nn.RMSNorm(width), nn.RMSNorm(width), width // 128
            self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.gate, self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

        def forward(self, x):
            y = self.before(x)
            q, k, v = (f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
            z = self.after(x)
            return x + self.down(nn.functional.silu(self.gate(z)) * self.up(z))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(o.vocabulary, o.width)
            self.layers = nn.ModuleList(Layer(o.width, o.hidden) for _ in range(o.layers))
            self.head = nn.Linear(o.width, o.vocabulary, bias=False)

        def forward(self, ids):
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x[:, -1:])

    os.makedirs(o.work, exist_ok=True)
    at = lambda name: os.path.join(o.work, name)
    torch.manual_seed(0)
    with torch.device("meta"):
        net = Decoder()
    net = net.to(torch.float16).to_empty(device="cpu").eval()
    for p in net.parameters():
        p.data.normal_(0, 0.02)
    shape = ({1: torch.export.Dim("seq", min=1, max=o.tokens)},)
    torch.export.save(torch.export.export(net, (torch.zeros(1, 8, dtype=torch.int64),), dynamic_shapes=shape), at("model.pt2"))
    subprocess.run([o.aotc, "build", at("model.pt2"), "-o", at("model.so"), "--quiet", "--cuda", o.target, "--weights-file", *o.options], check=True)
    whole = os.path.getsize(at("model.weights"))
    with open(at("model.weights"), "rb") as f:
        f.seek(whole - 64)  # aotc_weights_trailer
        trailer = np.frombuffer(f.read(64), np.uint8)
    np.savez(at("form.npz"), trailer=trailer, bytes=whole, vocabulary=o.vocabulary, tokens=o.tokens)
    os.remove(at("model.pt2"))
    os.remove(at("model.weights"))


def contents(form):
    """Two contents of a weights file: float16 numbers that are no larger than a layer's may be, and the same from the middle on."""
    n = (int(form["bytes"]) - 64) // 2
    piece = (np.random.default_rng(1).standard_normal(1 << 24) * 0.02).astype(np.float16)
    all_of = [np.empty(int(form["bytes"]), np.uint8) for _ in range(2)]
    for k, content in enumerate(all_of):
        numbers = content[:2 * n].view(np.float16)
        for begin in range(0, n, piece.size):
            turned = np.roll(piece, begin // piece.size * 4099 + k)
            numbers[begin:begin + piece.size] = turned[:min(piece.size, n - begin)]
        content[-64:] = form["trailer"]
    return all_of


class Run:
    """A context of its own stream, with the tensors of a length."""

    def __init__(self, artifact, cuda, length, vocabulary):
        self.cuda, self.stream = cuda, cuda.stream()
        self.context = artifact.context(self.stream)
        self.ids = (np.arange(length, dtype=np.int64) * 7919 % vocabulary).reshape(1, length)
        self.y = np.empty((1, 1, vocabulary), np.float16)
        self.at = [cuda.alloc(a.nbytes) for a in (self.ids, self.y)]
        cuda.upload(self.at[0], self.ids)
        self.tensors = [tensors([a], [t], cuda.ordinal, [p]) for a, t, p in ((self.ids, I64, self.at[0]), (self.y, F16, self.at[1]))]

    def answer(self):
        self.context.run(*self.tensors)
        self.context.synchronize()
        self.cuda.download(self.y, self.at[1])
        return self.y.tobytes()

    def microseconds(self, seconds):
        """Of a run, of many that are queued."""
        self.answer()
        begin = time.perf_counter()
        self.answer()
        n = max(3, int(seconds / (time.perf_counter() - begin)))
        start = self.cuda.event(self.stream)
        for _ in range(n):
            self.context.run(*self.tensors)
        return self.cuda.microseconds(start, self.cuda.event(self.stream)) / n

    def close(self):
        self.context.close()
        for p in self.at:
            self.cuda.free(p)


def pinned_rate(cuda, nbytes=256 << 20):
    host, to, stream = P(), cuda.alloc(nbytes), cuda.stream()
    cuda("cuMemHostAlloc", c.byref(host), c.c_size_t(nbytes), 1)
    us = []
    for _ in range(5):
        start = cuda.event(stream)
        cuda("cuMemcpyHtoDAsync_v2", c.c_uint64(to), host, c.c_size_t(nbytes), stream)
        us.append(cuda.microseconds(start, cuda.event(stream)))
    cuda("cuMemFreeHost", host)
    cuda.free(to)
    return nbytes / 1e3 / max(min(us), 1e-3)


def free_memory(cuda):
    free, total = c.c_size_t(), c.c_size_t()
    cuda("cuMemGetInfo_v2", c.byref(free), c.byref(total))
    return free.value


def together(o, artifact, cuda, vocabulary, expected):
    """Two contexts at once, in threads: every answer is right."""
    lengths = list(expected)
    wrong, counts, over = [], [0, 0], time.monotonic() + o.seconds

    def work(k):
        cuda.make_current()
        run = Run(artifact, cuda, lengths[k], vocabulary)
        while time.monotonic() < over or counts[k] < 2:
            counts[k] += 1
            if run.answer() != expected[lengths[k]]:
                wrong.append(lengths[k])
        run.close()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong
    print(f"ok   two contexts at once: {counts[0]} runs of {lengths[0]} tokens, {counts[1]} of {lengths[1]}")


def run(o):
    cuda, form = Cuda(), np.load(os.path.join(o.work, "form.npz"))
    vocabulary, lengths, (first, second) = int(form["vocabulary"]), (1, int(form["tokens"])), contents(form)
    artifact = Artifact(os.path.join(o.work, "model.so"))
    print(f"{cuda.name}; pinned {pinned_rate(cuda):.1f} GB/s")
    try:
        artifact.create(cuda.ordinal, first, 1)
        raise AssertionError("a budget of one byte is enough")
    except Failure as f:
        least = int(re.search(r"at least (\d+) bytes", str(f)).group(1))
    whole, expected, second_of = None, {}, {}
    for of, content in ((expected, first), (second_of, second)):
        artifact.create(cuda.ordinal, content, NOT_STREAMED)
        for length in lengths:
            one = Run(artifact, cuda, length, vocabulary)
            of[length] = one.answer()
            assert np.isfinite(one.y.astype(np.float32)).all()
            one.close()
        whole = artifact.info().weights_bytes
        artifact.close()
    assert expected != second_of
    budgets = [NOT_STREAMED, whole * 9 // 10, whole * 3 // 4, whole // 2, whole // 4, least]
    resident = {}
    for budget in budgets:
        if budget < least:
            continue
        before = free_memory(cuda)
        begin = time.perf_counter()
        artifact.create(cuda.ordinal, first, budget)
        loaded, info = time.perf_counter() - begin, artifact.info()
        for length in lengths:
            one = Run(artifact, cuda, length, vocabulary)
            assert one.answer() == expected[length], f"budget {budget}, {length} tokens: other bits"
            us = max(one.microseconds(o.seconds), 1e-3)
            taken = before - free_memory(cuda)
            resident.setdefault(length, us)
            print(f"budget {'none' if budget == NOT_STREAMED else f'{budget / 1e9:.2f} GB'} of {whole / 1e9:.2f} GB, {length} tokens: {us:.0f} us, {us / resident[length]:.2f} "
                  f"of resident; {info.weights_streamed / 1e9:.2f} GB copied a run, {info.weights_streamed / us / 1e3:.1f} GB/s; ring {info.weights_ring / 1e6:.0f} MB; "
                  f"device memory {taken / 1e9:.2f} GB; loaded in {loaded:.1f} s")
            one.close()
        if budget == whole // 2:
            together(o, artifact, cuda, vocabulary, expected)
            swapped(artifact, cuda, vocabulary, second, second_of)
        artifact.close()
    print("ok   every answer has the bits of the resident run")


def swapped(artifact, cuda, vocabulary, content, expected):
    api = c.cast(c.pointer(artifact.api), c.POINTER(LaterApi)).contents
    source = Source(struct_size=c.sizeof(Source), data=content.ctypes.data, bytes=content.nbytes, fd=-1)
    one = Run(artifact, cuda, 1, vocabulary)
    one.answer()
    begin = time.perf_counter()
    artifact.check(api.swap(artifact.model, c.byref(source), None))
    took = time.perf_counter() - begin
    assert one.answer() == expected[1], "a swap of streamed weights"
    one.close()
    print(f"ok   swapped in {took:.1f} s")


more = {"type": str.split, "default": [], "help": "more options of aotc build, as one word: --options=\"--mode max-autotune\""}
make_or_run(__doc__, make, run, {"width": 4096, "hidden": 14336, "layers": 8, "tokens": 512, "vocabulary": 32000, "target": "sm_90a", "options": more, "seconds": 2.0})
