"""Several programs as the methods of one artifact: a decoder as prefill and decode (weights and states shared), unrelated programs, one program
twice, an archive with several programs. Each method answers as the artifact that is built alone, bit for bit, and as eager; what is refused says
why and names the methods.

    methods.py --aotc BIN --work DIR --cc CC --include RUNTIME_INCLUDE
"""
import json
import os
import subprocess
import sys

import numpy
import torch
from torch import nn

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import arguments
import run_models

LENGTH, VOCABULARY, WIDTH, HEADS, LAYERS = 48, 8000, 256, 4, 3


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)


class Decoder(nn.Module):
    """A cache a layer, which every run writes at `position`."""

    def __init__(self, length=LENGTH):
        super().__init__()
        self.length = length
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        for i in range(LAYERS):
            self.register_buffer(f"k{i}", torch.zeros(1, HEADS, length, WIDTH // HEADS))
            self.register_buffer(f"v{i}", torch.zeros(1, HEADS, length, WIDTH // HEADS))

    def forward(self, ids, position):
        x = self.embed(ids)
        seen = torch.arange(self.length)[None, :] <= position[:, None]
        for i, layer in enumerate(self.layers):
            h = layer.norm(x)
            q, k, v = (p(h).view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for p in (layer.q, layer.k, layer.v))
            keys, values = getattr(self, f"k{i}"), getattr(self, f"v{i}")
            keys.index_copy_(2, position, k)
            values.index_copy_(2, position, v)
            a = nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
            x = x + layer.o(a.transpose(1, 2).reshape(1, -1, WIDTH))
            x = x + layer.down(nn.functional.gelu(layer.up(layer.norm2(x))))
        return x @ self.embed.weight.t()


class Peek(nn.Module):
    """Reads a buffer that another method writes, and writes nothing."""

    def __init__(self):
        super().__init__()
        self.register_buffer("k0", torch.zeros(1, HEADS, LENGTH, WIDTH // HEADS))

    def forward(self, scale):
        return (self.k0 * scale).sum((1, 3))


class Net(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.a, self.b = nn.Linear(width, 64), nn.Linear(64, out)

    def forward(self, x):
        return self.b(self.a(x).relu()).softmax(-1)


C_MAIN = r"""
#include "both.h"
#include "prefill.h" /* beside another artifact's header */
#include <stdlib.h>

static void* whole(const char* path, size_t bytes) {
  void* p = malloc(bytes);
  FILE* f = fopen(path, "rb");
  if (!f || fread(p, 1, bytes, f) != bytes) exit(2);
  fclose(f);
  return p;
}

int main(int argc, char** argv) {
  const int64_t n = atoll(argv[2]), steps = atoll(argv[3]);
  aotc_library lib;
  aotc_model* model;
  aotc_context* context;
  int64_t* ids = (int64_t*)whole("ids.bin", (size_t)(n + steps) * 8);
  int64_t* at = (int64_t*)malloc((size_t)(n + steps) * 8);
  float *logits = (float*)malloc((size_t)n * VOCABULARY * 4), *last = (float*)malloc(VOCABULARY * 4), seen[LENGTH], one = 1;
  both_prefill_sizes sizes;
  prefill_sizes alone;
  both_decode_sizes none = {0};
  both_peek_sizes nothing = {0};
  FILE* out = fopen("out.bin", "wb");
  (void)argc;
  if (!out || both_library_open(argv[1], &lib) != AOTC_STATUS_OK) return puts(lib.error), 2;
  if (lib.api->model_create(NULL, &model) != AOTC_STATUS_OK || both_context_create(lib.api, model, 2, 0, &context) != AOTC_STATUS_OK) return 2;
  for (int64_t i = 0; i < n + steps; ++i) at[i] = i;
  sizes.seq = alone.seq = n;
  if (both_prefill_ids_elems(&sizes) != n) return 3;
  if (both_prefill_run(lib.api, context, &sizes, ids, at, logits) != AOTC_STATUS_OK) return puts(lib.api->last_error()), 2;
  fwrite(logits, 4, (size_t)n * VOCABULARY, out);
  for (int64_t s = n; s < n + steps; ++s) {
    if (both_decode_run(lib.api, context, &none, ids + s, at + s, last) != AOTC_STATUS_OK) return puts(lib.api->last_error()), 2;
    fwrite(last, 4, VOCABULARY, out);
  }
  if (both_peek_run(lib.api, context, &nothing, &one, seen) != AOTC_STATUS_OK) return puts(lib.api->last_error()), 2;
  fwrite(seen, 4, LENGTH, out);
  fclose(out);
  lib.api->context_destroy(context);
  lib.api->model_destroy(model);
  aotc_library_close(&lib);
  return both_method_peek == 2 && prefill_ids_elems(&alone) == n ? 0 : 4;
}
"""


def aotc(o, *words, code=0):
    r = subprocess.run([o.aotc, *words], capture_output=True, text=True, cwd=o.work)
    assert r.returncode == code, f"{words}: exit {r.returncode}, not {code}\n{r.stdout}{r.stderr}"
    return r.stdout if "--json" in words else r.stdout + r.stderr


def refused(o, *words, code=2, says=()):
    text = aotc(o, *words, code=code)
    for s in says:
        assert s in text, (words, s, text)


def save(o, name, module, example, dynamic=None):
    exported = torch.export.export(module.eval(), example, dynamic_shapes=dynamic)
    torch.export.save(exported, os.path.join(o.work, name + ".pt2"))
    return exported


def size(o, name):
    return os.path.getsize(os.path.join(o.work, name))


def build(o, so, *words):
    report = json.loads(aotc(o, "build", *words, "-o", so, "--cpu", o.cpu, "--json"))
    run_models.validate("report", report)
    meta = json.loads(aotc(o, "inspect", so, "--json"))
    run_models.validate("metadata", {k: v for k, v in meta.items() if k not in ("seal", "file", "kind", "system")})
    return report


def same_as_alone(o, so, method, alone, inputs):
    """One run of the method and of the artifact that was built alone: the same bytes."""
    given = []
    for name, array in inputs.items():
        path = os.path.join(o.work, f"in_{name}.npy")
        numpy.save(path, array)
        given += ["--input", f"{name}={path}"]
    told = []
    for artifact, more, out in ((so, ["--method", method], "of_method"), (alone, [], "of_alone")):
        outputs = json.loads(aotc(o, "run", artifact, *given, *more, "-o", out, "--json"))["outputs"]
        told.append([open(os.path.join(o.work, r["file"]), "rb").read() for r in outputs])
    assert told[0] == told[1] and told[0], f"{so}, {method}: not what {alone} gives"


def decoder(o):
    torch.manual_seed(1)
    model = Decoder()
    seq, n, steps = torch.export.Dim("seq", min=2, max=32), 7, 5
    ids = torch.randint(0, VOCABULARY, (1, n + steps))
    save(o, "prefill", model, (ids[:, :n], torch.arange(n)), ({1: seq}, {0: seq}))
    save(o, "decode", model, (ids[:, :1], torch.arange(1)))
    save(o, "peek", Peek(), (torch.ones(1),))
    with open(os.path.join(o.work, "prefill.json"), "w") as f:
        json.dump({"inputs": {"ids": {"shape": [1, "seq"]}, "position": {"shape": ["seq"]}}, "dims": {"seq": {"min": 2, "max": 32}}}, f)
    report = build(o, "both.so", "prefill=prefill.pt2", "decode=decode.pt2", "peek=peek.pt2", "--shapes", "prefill=prefill.json")
    assert [m["name"] for m in report["methods"]] == ["prefill", "decode", "peek"], report["methods"]
    print("     " + "; ".join(f"{m['name']} adds {m['added_bytes']} of {m['weights_bytes']} bytes, {len(m['second_layouts'])} second layouts"
                              for m in report["methods"]))
    build(o, "prefill.so", "prefill.pt2", "--shapes", "prefill.json")
    build(o, "decode.so", "decode.pt2")
    share = size(o, "both.so") / max(size(o, "prefill.so"), size(o, "decode.so"))
    assert share <= 1.03, f"both.so is {share:.3f} times the larger artifact"
    same_as_alone(o, "both.so", "prefill", "prefill.so", {"ids": ids[:, :n].numpy(), "position": numpy.arange(n)})
    same_as_alone(o, "both.so", "decode", "decode.so", {"ids": ids[:, :1].numpy(), "position": numpy.arange(1)})

    # In one context, through the generated header, beside eager whose caches the runs share.
    want = [model(ids[:, :n], torch.arange(n))] + [model(ids[:, s : s + 1], torch.tensor([s])) for s in range(n, n + steps)]
    want.append(model.k0.sum((1, 3)))
    ids.numpy().tofile(os.path.join(o.work, "ids.bin"))
    text = C_MAIN.replace("VOCABULARY", str(VOCABULARY)).replace("LENGTH", str(LENGTH))
    for file, standard in (("main.c", "-std=c11"), ("main.cpp", "-std=c++17")):
        with open(os.path.join(o.work, file), "w") as f:
            f.write(text)
        run_models.sh(*o.cc.split(), "-x", "c" if standard == "-std=c11" else "c++", standard, "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
                      os.path.join(o.work, file), "-o", os.path.join(o.work, "main"), "-ldl")
        r = subprocess.run(["./main", "./both.so", str(n), str(steps)], capture_output=True, text=True, cwd=o.work)
        assert r.returncode == 0, (r.returncode, r.stdout, r.stderr)
        got = torch.from_numpy(numpy.fromfile(os.path.join(o.work, "out.bin"), dtype=numpy.float32))
        flat = torch.cat([w.detach().reshape(-1) for w in want])
        off = ((got - flat).norm() / flat.norm()).item()
        assert got.shape == flat.shape and off < 1e-5, off
    print(f"ok   prefill, decode and peek share weights ({share:.3f} of the larger artifact) and states (off eager by {off:.1g})")


def verify(o):
    against = ["--against", "prefill=prefill.pt2", "--against", "decode=decode.pt2", "--against", "peek=peek.pt2"]
    told = json.loads(aotc(o, "verify", "both.so", *against, "--samples", "2", "--json"))
    assert told["pass"] and {r["method"] for r in told["outputs"]} == {"prefill", "decode", "peek"}, told
    aotc(o, "verify", "both.so", "--method", "decode", "--against", "decode.pt2", "--samples", "1")
    refused(o, "verify", "both.so", *against[:2], says=["'decode'", "--against decode=FILE.pt2"])
    refused(o, "verify", "both.so", "--against", "nope=peek.pt2", says=["no method 'nope'", "prefill, decode, peek"])
    # The second method is not what it should be: its archive has another model's weights.
    torch.manual_seed(2)
    save(o, "wrong", Decoder(), (torch.zeros(1, 1, dtype=torch.long), torch.arange(1)))
    told = json.loads(aotc(o, "verify", "both.so", *against[:2], "--against", "decode=wrong.pt2", *against[4:], "--samples", "1", "--json", code=1))
    assert not told["pass"] and {r["method"] for r in told["outputs"] if not r["pass"]} == {"decode"}, told
    print("ok   verify checks every method, and fails where the second is wrong")


def verbs(o):
    for verb in (["run", "both.so", "-o", "x"], ["bench", "both.so"], ["explain", "both.so"], ["references", "both.so", "--against", "decode.pt2", "-o", "refs"]):
        refused(o, *verb, says=["has 3 methods", "--method", "prefill, decode, peek"])
        refused(o, *verb, "--method", "nope", says=["no method 'nope'", "prefill, decode, peek"])
    timed = json.loads(aotc(o, "bench", "both.so", "--method", "decode", "--seconds", "0.1", "--against", "decode.pt2", "--profile", "--json"))
    assert timed["inputs"]["ids"] == [1, 1] and timed["first_call_us"] > 0 and timed["profile"], timed
    assert json.loads(aotc(o, "explain", "both.so", "--method", "decode", "--json"))["kernels"]
    text = aotc(o, "inspect", "both.so")
    assert all(f"method          {m}" in text for m in ("prefill", "decode", "peek")) and "scale" in text, text
    assert json.loads(aotc(o, "inspect", "both.so", "--method", "peek", "--json"))["inputs"][0]["name"] == "scale"
    aotc(o, "references", "both.so", "--method", "decode", "--against", "decode.pt2", "-o", "refs")
    aotc(o, "verify", "both.so", "--method", "decode", "--inputs", "refs/inputs", "--expected", "refs/expected")
    print("ok   run, bench, explain, inspect and references by --method")


def names_and_states(o):
    if os.path.exists(os.path.join(o.work, "x.so")):
        os.remove(os.path.join(o.work, "x.so"))
    for name in ("1x", "a-b", "int", "_x", "a__b", ""):
        refused(o, "build", f"{name}=peek.pt2", "-o", "x.so", says=[f"'{name}' is no name for a method"])
    refused(o, "build", "a=peek.pt2", "a=decode.pt2", "-o", "x.so", says=["'a' is no name", "another method has it"])
    refused(o, "build", "peek.pt2", "b=decode.pt2", "-o", "x.so", says=["'peek.pt2' has no name", "prefill=a.pt2"])
    refused(o, "build", "a=peek.pt2", "b=decode.pt2", says=["-o model.so"])
    short = Decoder(length=32)
    save(o, "short", short, (torch.zeros(1, 1, dtype=torch.long), torch.arange(1)))
    refused(o, "build", "prefill=prefill.pt2", "decode=short.pt2", "-o", "x.so", code=3,
            says=["state 'k0' of method 'decode'", "method 'prefill'", "float32[1, 4, 32, 64]", "float32[1, 4, 48, 64]"])
    other = Decoder()
    other.v1.fill_(1)
    save(o, "other", other, (torch.zeros(1, 1, dtype=torch.long), torch.arange(1)))
    refused(o, "build", "prefill=prefill.pt2", "decode=other.pt2", "-o", "x.so", code=3, says=["state 'v1' of method 'decode'", "initial content", "'prefill'"])
    assert not os.path.exists(os.path.join(o.work, "x.so"))
    print("ok   names of methods and states that do not fit are refused")


def batches(width, most):
    return {"inputs": {"x": {"shape": ["batch", width]}}, "dims": {"batch": {"min": 1, "max": most}}}


def unrelated(o):
    torch.manual_seed(3)
    batch = torch.export.Dim("batch", min=1, max=64)
    save(o, "one", Net(32, 10), (torch.randn(3, 32),), ({0: batch},))
    save(o, "two", Net(48, 7), (torch.randn(3, 48),), ({0: batch},))
    with open(os.path.join(o.work, "shapes.json"), "w") as f:
        json.dump({"methods": {"one": batches(32, 16), "two": batches(48, 8)}}, f)
    build(o, "nets.so", "one=one.pt2", "two=two.pt2", "--shapes", "shapes.json")
    for name, *sizes in (("one", 32, 16), ("two", 48, 8)):  # of the same ranges: what is chosen depends on them, and tiles sum in their order
        with open(os.path.join(o.work, name + ".json"), "w") as f:
            json.dump(batches(*sizes), f)
        build(o, name + ".so", name + ".pt2", "--shapes", name + ".json")
    for name, width in (("one", 32), ("two", 48)):
        same_as_alone(o, "nets.so", name, name + ".so", {"x": numpy.random.randn(5, width).astype(numpy.float32)})
    aotc(o, "verify", "nets.so", "--against", "one=one.pt2", "--against", "two=two.pt2")
    numpy.save(os.path.join(o.work, "large.npy"), numpy.zeros((9, 48), numpy.float32))
    refused(o, "run", "nets.so", "--method", "two", "--input", "x=large.npy", "-o", "x", code=3, says=["1 to 8"])
    build(o, "named.so", "one=one.pt2", "two=two.pt2", "--shapes", "one=one.json")
    refused(o, "build", "one=one.pt2", "two=two.pt2", "--shapes", "one.json", "-o", "x.so", says=["whose shapes", "--shapes NAME=FILE"])
    refused(o, "build", "one=one.pt2", "two=two.pt2", "--shapes", "three=one.json", "-o", "x.so", says=["no method 'three'", "one, two"])
    # The same program twice: nothing of its weights is there twice.
    report = build(o, "twice.so", "first=decode.pt2", "second=decode.pt2")
    assert [m["added_bytes"] == 0 for m in report["methods"]] == [False, True], report["methods"]
    assert size(o, "twice.so") <= 1.03 * size(o, "decode.so")
    same_as_alone(o, "twice.so", "second", "decode.so", {"ids": numpy.array([[5]]), "position": numpy.array([0])})
    aotc(o, "build", "one=one.pt2", "two=two.pt2", "-o", "kept.so", "--cpu", o.cpu, "--keep", "kept", "--quiet")
    r = subprocess.run(["kept/build.sh", "again.so"], capture_output=True, text=True, cwd=o.work, env={**os.environ, "AOTC": o.aotc})
    assert r.returncode == 0, r.stderr
    assert open(os.path.join(o.work, "kept.so"), "rb").read() == open(os.path.join(o.work, "again.so"), "rb").read()
    print("ok   unrelated programs, one program twice, shapes by method, the script of --keep")


def package(o):
    """An archive with several programs: its methods are called as they are there."""
    try:
        from torch.export.pt2_archive._package import package_pt2
    except ImportError:
        return print("--   this torch writes no archives of several programs")
    exported = {n: torch.export.load(os.path.join(o.work, n + ".pt2")) for n in ("one", "two")}
    package_pt2(os.path.join(o.work, "nets.pt2"), exported_programs=exported)
    report = build(o, "packed.so", "nets.pt2")
    assert [m["name"] for m in report["methods"]] == ["one", "two"], report["methods"]
    aotc(o, "verify", "packed.so", "--against", "nets.pt2")
    build(o, "picked.so", "two=nets.pt2")
    aotc(o, "verify", "picked.so", "--against", "nets.pt2")
    refused(o, "build", "three=nets.pt2", "-o", "x.so", code=3, says=["no program 'three'", "one, two"])
    text = aotc(o, "inspect", "nets.pt2")
    assert "method          one" in text and "method          two" in text, text
    print("ok   an archive with several programs")


def main():
    o = arguments.parse(names="parts", cc="cc", cpu="avx2")
    o.aotc, o.work = os.path.abspath(o.aotc), os.path.abspath(o.work)
    for part in (decoder, verify, verbs, names_and_states, unrelated, package):
        if not o.parts or part.__name__ in o.parts:
            part(o)


if __name__ == "__main__":
    main()
