"""Keys and values that states keep in 8 bits (--kv-cache): small decoders against eager with a cache that this file rounds by itself, what is refused and why.

    kv_cache.py --aotc BIN --work DIR

On GPUs: gpu_kv_cache.py. After each run every row of the cache is compared with the rule: codes and scales of what eager's layer makes, from the artifact's own cache before it. A number that lies
within the noise of its type between two codes may have either. Outputs are eager's with the artifact's cache, so that such a number spoils nothing after it.
"""
import ctypes as c
import json
import os
import random
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "..", "gpu"), os.path.join(here, "..")]
import arguments
import binding
import thirds

TORCH = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8, "float8_e4m3fn": torch.float8_e4m3fn}
CODES = {torch.int64: 6, torch.bfloat16: 8, torch.float32: 9}  # of the C API
NOISE = {torch.float32: 1e-3, torch.bfloat16: 1.5}  # of a code's step
WIDTH, HEAD, CACHE, WORDS = 48, 16, 24, 50
KINDS = ("copy", "put", "slice", "rows", "softmax", "sinks")  # of a decoder
COMBINATIONS = [(kind, stored, dtype) for kind in KINDS for stored in ("int8", "fp8") for dtype in ("float32", "bfloat16")]
# Each kind, and each pair of types.
ALWAYS = [("copy", "int8", "float32"), ("put", "fp8", "float32"), ("slice", "int8", "bfloat16"), ("rows", "fp8", "bfloat16"), ("softmax", "int8", "float32"), ("sinks", "int8", "bfloat16")]


class Decoder(torch.nn.Module):
    """`heads` query heads read `groups` heads of keys; kind: how the cache is written and read."""

    def __init__(self, kind, dtype, layers=2, heads=4, groups=2, head=HEAD, cache=CACHE):
        super().__init__()
        self.kind, self.layers, self.heads, self.groups, self.head, self.cache = kind, layers, heads, groups, head, cache
        linear = lambda n, m: torch.nn.Linear(n, m, dtype=dtype)
        self.embed = torch.nn.Embedding(WORDS, WIDTH, dtype=dtype)
        self.q, self.o = (torch.nn.ModuleList(linear(*s) for _ in range(layers)) for s in ((WIDTH, heads * head), (heads * head, WIDTH)))
        self.k, self.v = (torch.nn.ModuleList(linear(WIDTH, groups * head) for _ in range(layers)) for _ in range(2))
        if kind == "sinks":
            self.sinks = torch.nn.Parameter(torch.randn(heads, dtype=dtype))
        for l in range(layers):
            for name in "kv":
                shape = (1, cache, groups, head) if kind == "rows" else (1, groups, cache, head)
                self.register_buffer(f"{name}_cache_{l}", torch.zeros(shape, dtype=dtype))

    def write(self, cache, rows, pos):
        if self.kind == "rows":
            cache[:, pos] = rows.transpose(1, 2)
            return cache.transpose(1, 2)
        if self.kind == "slice":
            first = pos[0].item()
            torch._check(first >= 0)
            torch._check(first + rows.shape[2] <= self.cache)
            cache[:, :, first:first + rows.shape[2]] = rows
        elif self.kind == "put":
            cache[:, :, pos] = rows
        else:
            cache.index_copy_(2, pos, rows)
        return cache

    def layer(self, l, x):
        split = lambda y, n: y.view(1, -1, n, self.head).transpose(1, 2)
        return split(self.q[l](x), self.heads), split(self.k[l](x), self.groups), split(self.v[l](x), self.groups)

    def attend(self, q, k, v, mask):
        each = lambda t: t[:, :, None].expand(1, self.groups, self.heads // self.groups, self.cache, self.head).reshape(1, self.heads, self.cache, self.head)
        if self.kind not in ("softmax", "sinks"):
            return F.scaled_dot_product_attention(q, each(k), each(v), attn_mask=mask)
        scores = (q @ each(k).transpose(2, 3) * self.head**-0.5).masked_fill(~mask, float("-inf"))
        if self.kind == "sinks":
            scores = torch.cat([scores, self.sinks.reshape(1, -1, 1, 1).expand(1, -1, q.shape[2], 1)], -1)
        return torch.softmax(scores.float(), -1).to(q.dtype)[..., :self.cache] @ each(v)

    def after(self, l, x, y):
        return x + self.o[l](y.transpose(1, 2).reshape(1, -1, self.heads * self.head))

    def forward(self, ids, pos):
        x = self.embed(ids)
        mask = (torch.arange(self.cache)[None] <= pos[:, None])[None, None]
        for l in range(self.layers):
            q, k, v = self.layer(l, x)
            k, v = (self.write(getattr(self, f"{n}_cache_{l}"), r, pos) for n, r in (("k", k), ("v", v)))
            x = self.after(l, x, self.attend(q, k, v, mask))
        return x @ self.embed.weight.T


def rounded(rows, stored):
    """Codes before they are rounded to integers (int8) or numbers that float8 holds, and the scales."""
    rows = rows.float()
    if stored == "fp8":
        return rows.clamp(-448, 448), None
    scale = rows.abs().amax(-1, keepdim=True) / 127
    return rows / torch.where(scale > 0, scale, torch.ones_like(scale)), scale


class Session:
    def __init__(self, path):
        self.artifact = binding.Artifact(path).create()
        self.infos = {i.name.decode(): i for i in self.artifact.io(2)}
        self.context = self.artifact.context()

    def bytes_of(self, name, context=None):
        info = self.infos[name]
        size = {9: 4, 8: 2}.get(info.dtype, 1)
        array = np.empty([info.dims[d].value for d in range(info.rank)] + [size], "u1")
        tensor = binding.tensors([array], [info.dtype])
        tensor[0].rank = info.rank
        self.artifact.check(self.artifact.api.state_read((context or self.context).handle, name.encode(), tensor))
        return array

    def write(self, name, array, context):
        tensor = binding.tensors([array], [self.infos[name].dtype])
        tensor[0].rank = self.infos[name].rank
        self.artifact.check(self.artifact.api.state_write(context.handle, name.encode(), tensor))

    def state(self, name, dtype):
        array = self.bytes_of(name)
        return torch.from_numpy(array.copy()).view(dtype)[..., 0]

    def run(self, ids, pos, context=None):
        return self.run_all((ids, pos), context)

    def run_all(self, tensors, context=None):
        """The first output."""
        context = context or self.context
        arrays = [np.ascontiguousarray((x.view(torch.int16) if x.dtype == torch.bfloat16 else x).numpy()) for x in tensors]
        inputs = binding.tensors(arrays, [CODES[x.dtype] for x in tensors])
        out = context.output_arrays(inputs)
        context.run(inputs, binding.tensors(out, [context.out_infos[0].dtype]))
        dtype = torch.bfloat16 if context.out_infos[0].dtype == binding.BF16 else torch.float32
        return torch.from_numpy(out[0].view("i2")).view(torch.bfloat16) if dtype == torch.bfloat16 else torch.from_numpy(out[0])


def build(aotc, work, name, model, *options, code=0):
    path = os.path.join(work, name)
    n = torch.export.Dim("n", min=1, max=8)
    example = (torch.randint(0, WORDS, (1, 5)), torch.arange(5))
    with torch.no_grad():
        torch.export.save(torch.export.export(model, example, dynamic_shapes={"ids": {1: n}, "pos": {0: n}}, strict=False), path + ".pt2")
    r = subprocess.run([aotc, "build", path + ".pt2", "-o", path + ".so", "--quiet", *options], capture_output=True, text=True)
    assert (r.returncode == 0) == (code == 0), f"{name}: {r.returncode} {r.stdout}{r.stderr}"
    return path, r.stderr


def decoded(session, name, stored):
    if stored == "fp8":
        return session.state(name, torch.float8_e4m3fn).float(), None, None
    codes, scales = session.state(name, torch.int8), session.state(name + ".scales", torch.float32)
    return codes.float() * scales, codes, scales


def check_step(model, session, ids, pos, stored, dtype, got):
    """The rows that a run wrote and its output, layer after layer with the artifact's own cache."""
    mask = (torch.arange(model.cache)[None] <= pos[:, None])[None, None]
    heads_first = lambda t: t.transpose(1, 2) if model.kind == "rows" else t
    with torch.no_grad():
        x = model.embed(ids)
        for l in range(model.layers):
            q, k, v = model.layer(l, x)
            caches = []
            for name, rows in (("k", k), ("v", v)):
                numbers, codes, scales = (None if t is None else heads_first(t) for t in decoded(session, f"{name}_cache_{l}", stored))
                exact, scale = rounded(rows, stored)
                if stored == "int8":
                    written = scales[:, :, pos]
                    assert torch.allclose(written, scale, rtol=1e-5 if dtype == torch.float32 else 2e-2), (l, name, (written - scale).abs().max())
                    off = (codes[:, :, pos].float() - exact).abs().max().item()
                    assert off <= 0.5 + NOISE[dtype], (l, name, off)
                    assert codes.abs().max() <= 127 and (codes[:, :, pos].abs().amax(-1) >= (127 if dtype == torch.float32 else 125)).all()
                else:
                    near = exact.to(torch.float8_e4m3fn).float()
                    off = (numbers[:, :, pos] - exact).abs() - (near - exact).abs()
                    assert (off <= exact.abs().amax(-1, keepdim=True) * (1e-5 if dtype == torch.float32 else 2e-2)).all(), (l, name, off.max())
                caches.append(numbers.to(torch.float32))
            y = model.attend(q.float(), *caches, mask).to(dtype)
            x = model.after(l, x, y)
        want = (x @ model.embed.weight.T).float()
    off = ((got.float() - want).norm() / want.norm()).item()
    assert off <= (2e-5 if dtype == torch.float32 else 2e-2), off


def drawn(seed):
    """A decoder's kind, type, stored type and sizes."""
    r = random.Random(seed)
    groups = r.choice((1, 2, 3))
    sizes = dict(layers=r.choice((1, 2, 3)), heads=groups * r.choice((1, 2, 4)), groups=groups, head=r.choice((8, 24, 32, 40, 64)), cache=r.choice((17, 33, 80, 200)))
    return r.choice(("copy", "put", "slice", "rows", "softmax")), r.choice(("float32", "bfloat16")), r.choice(("int8", "fp8")), sizes


def decoder(aotc, work, kind, dtype_name, stored, *options, title=None, **sizes):
    dtype = TORCH[dtype_name]
    torch.manual_seed(len(kind) * 7 + len(stored))
    model = Decoder(kind, dtype, **(sizes or {"groups": 1 if kind == "put" else 2})).eval()
    title = title or f"{kind}_{dtype_name}_{stored}"
    path, _ = build(aotc, work, title, model, "--kv-cache", stored, *options)
    session = Session(path + ".so")
    report = json.load(open(path + ".report.json"))["kv_cache"]
    elem, elems, states = (4 if dtype_name == "float32" else 2), model.cache * model.head * model.groups, 2 * model.layers
    assert report["as"] == stored and len(report["states"]) == states and not report["left"], report
    assert report["bytes_before"] == states * elems * elem, report
    assert report["bytes"] == states * (elems + (4 * elems // model.head if stored == "int8" else 0)), report
    kinds = {n: i.dtype for n, i in session.infos.items()}
    wanted = {f"{n}_cache_{l}" for n in "kv" for l in range(model.layers)}
    assert set(kinds) == wanted | ({n + ".scales" for n in wanted} if stored == "int8" else set()), kinds
    at = 0
    for n in (5, 1, 1, 3, 1):
        ids, pos = torch.randint(0, WORDS, (1, n)), torch.arange(at, at + n)
        check_step(model, session, ids, pos, stored, dtype, session.run(ids, pos))
        at += n
    # Another context that has the states goes on as this one does; one that has the values of another position does not.
    other, other_pos = session.artifact.context(), torch.tensor([at])
    for name in session.infos:
        session.write(name, session.bytes_of(name), other)
    ids = torch.tensor([[7]])
    got = session.run(ids, other_pos, other)
    assert torch.equal(got, session.run(ids, other_pos)), "a context with the same states says something else"
    session.artifact.check(session.artifact.api.state_reset(other.handle, None))
    assert not torch.equal(session.run(ids, other_pos, other), got)
    other.close()
    text = subprocess.run([aotc, "inspect", path + ".so"], capture_output=True, text=True, check=True).stdout
    assert f"as {stored}" in text and ("int8" if stored == "int8" else "float8_e4m3fn") in text, text
    r = subprocess.run([aotc, "verify", path + ".so", "--against", path + ".pt2", "--json"], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
    assert all("err_archive" in row for row in json.loads(r.stdout)["outputs"]), r.stdout
    print(f"ok   {title} {kind} {dtype_name} {stored} {sizes or ''} {' '.join(options)}", flush=True)


def memory_reused(aotc, work):
    """verify's oracle rounds what is written to a cache; memory that had been a cache's within the run is none."""
    class Beside(Decoder):
        def write(self, cache, rows, pos):
            cache.copy_(cache.index_copy(2, pos, rows))
            beside.append(torch.zeros_like(cache).index_copy_(2, pos, rows))
            return cache

        def forward(self, ids, pos):
            beside.clear()
            return super().forward(ids, pos), beside[-1]

    beside = []
    torch.manual_seed(5)
    path, _ = build(aotc, work, "beside", Beside("copy", torch.float32).eval(), "--kv-cache", "int8", "--cpu", "avx2")
    r = subprocess.run([aotc, "verify", path + ".so", "--against", path + ".pt2", "--json"], capture_output=True, text=True)
    rows = {row["name"]: row for row in json.loads(r.stdout)["outputs"]}
    copied = [row["err_aotc"] for name, row in rows.items() if name.startswith("index_copy")]
    assert r.returncode == 0 and copied and max(copied) < 1e-5, r.stdout + r.stderr
    print("ok   memory of a cache that is used again", flush=True)


class Read(Decoder):
    """Something else than attention reads the keys of the last layer."""

    def forward(self, ids, pos):
        return super().forward(ids, pos) + getattr(self, f"k_cache_{self.layers - 1}").sum()


class Columns(torch.nn.Module):
    """Keys lie across: a write is no row."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, HEAD, CACHE))

    def forward(self, ids, pos):
        q = ids.float().reshape(1, 1, -1, 1).expand(1, 2, -1, HEAD)
        self.keys.index_copy_(3, pos, q.transpose(2, 3))
        k = self.keys.transpose(2, 3)
        return F.scaled_dot_product_attention(q, k, k)


class Stateless(torch.nn.Module):
    def forward(self, ids, pos):
        return ids + pos


def refusals(aotc, work):
    _, text = build(aotc, work, "none", Stateless(), "--kv-cache", "int8", code=1)
    assert "no state" in text and "index_copy_" in text, text
    _, text = build(aotc, work, "across", Columns(), "--kv-cache", "int8", code=1)
    assert "'keys'" in text and "no state" in text, text
    path, text = build(aotc, work, "partly", Read("copy", torch.float32).eval(), "--kv-cache", "int8")
    left = {s["name"]: s["why"] for s in json.load(open(path + ".report.json"))["kv_cache"]["left"]}
    assert set(left) == {"k_cache_1", "v_cache_1"} and "sum" in left["k_cache_1"] and "k_cache_1" in left["v_cache_1"], left
    warnings = " ".join(json.load(open(path + ".report.json"))["warnings"])
    assert "k_cache_1" in warnings and "v_cache_1" in warnings, warnings
    print("ok   refusals", flush=True)


def main():
    o = arguments.parse()
    refusals(o.aotc, o.work)
    memory_reused(o.aotc, o.work)
    for kind, stored, dtype in thirds.some(COMBINATIONS, "combinations of a cache's kind and types", always=ALWAYS):
        decoder(o.aotc, o.work, kind, dtype, stored, *(["--cpu", "avx2"] if kind == "copy" else []))
    for seed in thirds.some(list(range(27)), "drawn decoders with caches of 8 bits", 9):
        kind, dtype, stored, sizes = drawn(seed)
        decoder(o.aotc, o.work, kind, dtype, stored, title=f"drawn_{seed}", **sizes)


if __name__ == "__main__":
    main()
