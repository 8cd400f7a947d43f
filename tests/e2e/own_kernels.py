"""Kernels of the user's own for custom operators: samples/custom_kernel built, verified against Python's operators and run; arguments of every kind;
objects and static libraries; what is refused, with its exit code, its place and what to do.

    own_kernels.py --aotc BIN --work DIR --include RUNTIME_INCLUDE
"""
import concurrent.futures
import ctypes
import glob
import json
import os
import shutil
import subprocess
import sys

import torch

here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(here, ".."))
import arguments
import thirds

root = os.path.abspath(os.path.join(here, "..", ".."))
sample = os.path.join(root, "samples", "custom_kernel")

try:
    import jsonschema
except ImportError:
    jsonschema = None

OPERATORS = '''
import torch
from typing import List, Optional
from torch import Tensor

@torch.library.custom_op("own::kinds", mutates_args=())
def kinds(x: Tensor, n: int, scale: float, on: bool, name: str, steps: List[int], weights: List[float], bias: Optional[Tensor]) -> Tensor:
    factor = scale * n + len(name) + sum(steps) + sum(weights) + (100 if on else 0)
    return x * factor + (0 if bias is None else bias)

@kinds.register_fake
def _(x, n, scale, on, name, steps, weights, bias):
    return torch.empty_like(x)

@torch.library.custom_op("own::narrow", mutates_args=())
def narrow(x: Tensor) -> Tensor:
    assert x.dtype == torch.float32, "float32 alone"
    return x[:, : x.shape[1] // 2].clone() + x.shape[0]

@narrow.register_fake
def _(x):
    return x.new_empty(x.shape[0], x.shape[1] // 2)

@torch.library.custom_op("own::numbers", mutates_args=())
def numbers(x: Tensor, n: int, scale: float, on: bool, steps: List[int], weights: List[float], y: Optional[Tensor], bias: Optional[Tensor]) -> Tensor:
    factor = scale * n + sum(weights) + steps[0] * 3 + steps[1] + (100 if on else 0)
    return x * factor + (0 if bias is None else bias)

@numbers.register_fake
def _(x, n, scale, on, steps, weights, y, bias):
    return torch.empty_like(x)

@torch.library.custom_op("own::clip", mutates_args=())
def clip(x: Tensor, y: Tensor, limit: float = 0.5) -> Tensor:
    t = torch.where(x > limit, limit + 0.1 * (x - limit), x)
    return torch.where(t < 0, torch.exp(t) - 1, t) * y

@clip.register_fake
def _(x, y, limit=0.5):
    return torch.empty_like(x)

@torch.library.custom_op("own::written", mutates_args=("x",))
def written(x: Tensor) -> None:
    x.add_(1)
'''

KINDS_C = r'''
#include <string.h>
#include "aotc/own_kernel.h"
static double sum; /* a name that nothing else may see */
void %(name)s(const aotc_op_args* a, int64_t begin, int64_t end) {
  (void)sum;
  double factor = a->attr[1].value.f * (double)a->attr[0].value.i + a->attr[3].count + (a->attr[2].value.i ? 100 : 0);
  if (a->n_in != 2 || a->n_out != 1 || a->n_attr != 6 || strlen(a->attr[3].value.text) != (size_t)a->attr[3].count) *a->fault = 1;
  for (int i = 0; i < a->attr[4].count; ++i) factor += (double)a->attr[4].value.ints[i];
  for (int i = 0; i < a->attr[5].count; ++i) factor += a->attr[5].value.reals[i];
  const float *x = a->in[0].data, *bias = a->in[1].data;
  float* out = a->out[0].data;
  for (int64_t i = begin; i < end; ++i) out[i] = (float)(x[i] * factor) + (bias ? bias[i %% a->in[0].dims[1]] : 0.0f);
}
void relu(void) {} /* as generated code has it */
'''

NARROW_C = r'''
#include "aotc/own_kernel.h"
void narrow(const aotc_op_args* a, int64_t begin, int64_t end) {
  const int64_t n = a->in[0].dims[1], m = a->out[0].dims[1];
  for (int64_t r = begin; r < end; ++r)
    for (int64_t i = 0; i < m; ++i)
      ((float*)a->out[0].data)[r * m + i] = ((const float*)a->in[0].data)[r * n + i] + (float)a->in[0].dims[0];
}
'''


NARROW_CU = r'''
#include "aotc/own_kernel.h"
__device__ void narrow(const aotc_op_args* a) {
  extern __shared__ float row[];
  const int64_t n = a->in[0].dims[1], m = a->out[0].dims[1], r = blockIdx.x;
  const float* x = static_cast<const float*>(a->in[0].data) + r * n;
  const int at = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
  for (int64_t i = at; i < n; i += threads) row[i] = x[i];
  __syncthreads();
  for (int64_t i = at; i < m; i += threads) static_cast<float*>(a->out[0].data)[r * m + i] = row[i] + static_cast<float>(a->in[0].dims[0]);
}
'''


NUMBERS_CU = r'''
#include "aotc/own_kernel.h"
// x, bias, result; 2 + 1 + 2 sizes, n, scale, on, steps, weights
extern "C" __global__ void numbers(const __grid_constant__ aotc_op_launch<3, 12> a) {
  const int64_t *w = a.words + 5, count = a.words[0] * a.words[1];
  const double factor = __longlong_as_double(w[1]) * static_cast<double>(w[0]) + __longlong_as_double(w[5]) + __longlong_as_double(w[6]) +
                        static_cast<double>(w[3] * 3 + w[4] + (w[2] ? 100 : 0));
  const float *x = static_cast<const float*>(a.data[0]), *bias = static_cast<const float*>(a.data[1]);
  float *out = static_cast<float*>(a.data[2]), *scratch = static_cast<float*>(a.scratch);
  extern __shared__ float block[];
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    block[threadIdx.x] = scratch[i] = static_cast<float>(x[i] * factor);
    out[i] = scratch[i] + bias[i % a.words[1]];
  }
  if (a.words[0] != a.words[3] || a.words[1] != a.words[4]) *a.fault = 1;
}
'''


class Nvrtc:
    """NVIDIA's compiler for kernels, where the environment of the test has it."""

    def __init__(self):
        found = [f for folder in sys.path for f in sorted(glob.glob(os.path.join(folder, "nvidia", "c*", "lib", "libnvrtc.so.1[0-9]")))]
        self.library = ctypes.CDLL(found[-1]) if found else None

    def compile(self, text, include, architecture, kind):
        """kind: "CUBIN" or "PTX". The headers are those of the runtime; of the C library's, NVRTC has none."""
        names = ["stdint.h", "aotc/own_kernel.h", "aotc/dtype.h"]
        texts = ["typedef unsigned char uint8_t; typedef int int32_t; typedef unsigned uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;"]
        texts += [open(os.path.join(include, n)).read() for n in names[1:]]
        program, strings = ctypes.c_void_p(), lambda all: (ctypes.c_char_p * len(all))(*[s.encode() for s in all])

        def call(name, *arguments):
            if code := getattr(self.library, "nvrtc" + name)(*arguments):
                log = ctypes.create_string_buffer(1 << 16)
                self.library.nvrtcGetProgramLog(program, log)
                raise AssertionError(f"nvrtc{name}: {code}\n{log.value.decode()}")

        call("CreateProgram", ctypes.byref(program), text.encode(), b"own.cu", len(names), strings(texts), strings(names))
        options = [f"--gpu-architecture={architecture}", "--std=c++17"]
        call("CompileProgram", program, len(options), strings(options))
        size = ctypes.c_size_t()
        call(f"Get{kind}Size", program, ctypes.byref(size))
        out = ctypes.create_string_buffer(size.value)
        call("Get" + kind, program, out)
        return out.raw if kind == "CUBIN" else out.value


def compiled_kernels(o, work, module):
    """Kernels for GPUs that are compiled already: machine code and PTX. What runs them is tests/gpu/README.md's; here they are built and refused."""
    nvrtc = Nvrtc()
    kernel = {"schema": "own::numbers(Tensor x, SymInt n, float scale, bool on, SymInt[] steps, float[] weights, Tensor? y, Tensor? bias) -> Tensor",
              "inputs": {"x": {"dtype": "float32", "rank": 2}, "y": {"dtype": "float32"}, "bias": {"dtype": "float32", "rank": 1}},
              "results": [{"dtype_of": "x", "shape_of": "x"}]}
    model = os.path.join(work, "numbers.pt2")

    def build(name, cubin, target, code=0, said=()):
        path, so = os.path.join(work, name + ".json"), os.path.join(work, name + ".so")
        cuda = {"cubin": cubin, "function": "numbers", "grid": "x.0", "block": 64, "shared_bytes": 256, "scratch_bytes": "x.numel * 4"}
        with open(path, "w") as f:
            json.dump({"kernels": [{**kernel, "cuda": cuda}]}, f)
        r = run(o.aotc, "build", model, "--kernels", path, "--cuda", target, "-o", so, "--quiet")
        assert r.returncode == code and all(s in r.stderr for s in said), f"{name}: exit {r.returncode}\n{r.stderr}"
        return so

    with open(os.path.join(work, "text.cubin"), "w") as f:
        f.write("neither")
    build("numbers-text", "text.cubin", "sm_90a", 3, ("text.cubin is neither a cubin nor PTX", "$.kernels[0].cuda.cubin"))
    for i, sm in enumerate(("99999999999999999999", "", "a")):
        with open(os.path.join(work, f"far{i}.ptx"), "w") as f:
            f.write(f".version 8.0\n.target sm_{sm}\n.visible .entry numbers()\n{{\n}}\n")
        build("numbers-far", f"far{i}.ptx", "sm_90a", 3, ("is neither a cubin nor PTX",))
    if not nvrtc.library:
        print("skip compiled kernels: NVRTC was not found")
        return
    for name, architecture, kind in (("sm_90a.cubin", "sm_90a", "CUBIN"), ("sm_80.cubin", "sm_80", "CUBIN"), ("compute_80.ptx", "compute_80", "PTX")):
        with open(os.path.join(work, name), "wb") as f:
            f.write(nvrtc.compile(NUMBERS_CU, o.include, architecture, kind))
    so = build("numbers-cubin", "sm_90a.cubin", "sm_90a")
    meta = json.loads(good(o.aotc, "inspect", so, "--json"))
    assert meta["own_kernels"][0]["cuda"]["file"] == "sm_90a.cubin" and meta["own_kernels"][0]["cuda"]["function"] == "numbers", meta["own_kernels"]
    assert open(os.path.join(work, "sm_90a.cubin"), "rb").read() in open(so, "rb").read(), "the code in the artifact is another"
    build("numbers-ptx", "compute_80.ptx", "sm_90a")
    with open(os.path.join(work, "compute_80.ptx")) as f, open(os.path.join(work, "longer.ptx"), "w") as longer:
        longer.write("// .entry numbers_and_more comes first\n" + f.read().rstrip("\0"))
    build("numbers-longer", "longer.ptx", "sm_90a")
    both = build("numbers-both", ["sm_80.cubin", "sm_90a.cubin"], "sm_80,sm_90a")
    assert json.loads(good(o.aotc, "inspect", both, "--json"))["own_kernels"][0]["cuda"]["others"][0]["file"] == "sm_90a.cubin"
    build("numbers-86", "sm_80.cubin", "sm_86")
    for cubin, target in (("sm_90a.cubin", "sm_80"), ("sm_80.cubin", "sm_90a"), ("sm_90a.cubin", "sm_100"), (["sm_80.cubin", "sm_90a.cubin"], "sm_80,sm_120")):
        build("numbers-other", cubin, target, 3, ("no code for " + target.split(",")[-1], "has code for sm_"))
    renamed = nvrtc.compile(NUMBERS_CU.replace("numbers(", "numbers2("), o.include, "sm_90a", "CUBIN")
    with open(os.path.join(work, "renamed.cubin"), "wb") as f:
        f.write(renamed)
    build("numbers-missing", "renamed.cubin", "sm_90a", 3, ("has no kernel 'numbers'",))
    good(o.aotc, "references", so, "--against", model, "-o", os.path.join(work, "numbers.refs"), "--torch-module", module)
    print("ok   compiled kernels")


def export(folder):
    """Models of the operators above: four dynamic ones, one that writes."""
    with open(os.path.join(folder, "own_operators.py"), "w") as f:
        f.write(OPERATORS)
    sys.path.insert(0, folder)
    import own_operators  # noqa: F401

    class Kinds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.randn(6))

        def forward(self, x):
            n = x.shape[0]
            y = torch.ops.own.kinds(x, n, 0.5, True, "four\n%", [n, 3], [1.5, -2.0], self.bias)
            return torch.relu(torch.ops.own.kinds(y, 2, 0.25, False, "", [], [0.125], None)) + 1

    class Numbers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.randn(6))

        def forward(self, x):
            n = x.shape[0]
            y = torch.ops.own.numbers(x * 2, n, 0.5, True, [n, 3], [1.5, -2.25], None, self.bias)
            return torch.relu(y) + 1

    class Narrow(torch.nn.Module):
        def forward(self, x):
            return torch.ops.own.narrow(x * 2).sum(1)

    class Clip(torch.nn.Module):
        def forward(self, x):
            return torch.ops.own.clip(x * 3, x.sum(1, keepdim=True)).to(torch.bfloat16)

    class Written(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            torch.ops.own.written(y)
            return y

    batch = torch.export.Dim("batch", min=1, max=64)
    for name, net in (("kinds", Kinds()), ("numbers", Numbers()), ("narrow", Narrow()), ("clip", Clip()), ("written", Written())):
        program = torch.export.export(net.eval(), (torch.randn(3, 6),), dynamic_shapes=({0: batch},))
        torch.export.save(program, os.path.join(folder, name + ".pt2"))


def run(*words, env=None, cwd=None):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, env=env, cwd=cwd)


def good(*words, **how):
    r = run(*words, **how)
    assert r.returncode == 0, f"{' '.join(map(str, words))}: exit {r.returncode}\n{r.stdout}{r.stderr}"
    return r.stdout


class Refusals:
    """Descriptions that must be refused."""

    def __init__(self, o, folder, model, kernel):
        self.o, self.folder, self.model, self.kernel, self.jobs = o, folder, model, kernel, []
        with open(os.path.join(root, "schemas", "kernels.schema.json")) as f:
            self.schema = json.load(f)
        if jsonschema:
            jsonschema.Draft202012Validator.check_schema(self.schema)

    def text(self, *case, **how):
        self.jobs.append((len(self.jobs), case, how))

    def all(self):
        jobs = thirds.some(self.jobs, "descriptions of kernels that are refused")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            faults = [f for f in pool.map(lambda job: self.one(job[0], *job[1], **job[2]), jobs) if f]
        assert not faults, "\n\n".join(faults)
        return len(jobs)

    def one(self, n, text, code, *said, well_formed=None, model=None):
        """What is wrong with how it is refused; empty: nothing."""
        path, so = os.path.join(self.folder, f"refused{n}.json"), os.path.join(self.folder, f"refused{n}.so")
        with open(path, "w") as f:
            f.write(text)
        r = run(self.o.aotc, "build", model or self.model, "--kernels", path, "-o", so, "--quiet")
        fault = "" if r.returncode == code else f"exit {r.returncode}, expected {code}"
        fault += "".join(f"; lacks '{s}'" for s in said if s not in r.stderr) + ("; left an artifact" if os.path.exists(so) else "")
        if jsonschema and well_formed is not None:
            valid = jsonschema.Draft202012Validator(self.schema).is_valid(json.loads(text))
            fault += "" if valid == well_formed else f"; the schema {'accepts' if valid else 'refuses'} it"
        return f"{text[:600]}\n{fault}\n{r.stdout}{r.stderr}" if fault else ""

    def changed(self, change, code, *said, well_formed=True, **how):
        kernel = json.loads(json.dumps(self.kernel))
        change(kernel)
        self.text(json.dumps({"kernels": [kernel]}), code, *said, well_formed=well_formed, **how)


def refusals(o, work, kinds):
    r = Refusals(o, work, os.path.join(work, "kinds.pt2"), kinds)
    r.text("{", 3, "refused")
    r.text("[]", 3, "expected an object")
    r.text('{"kernels": []}', 3, "$.kernels", "expected 1 to 256", well_formed=False)
    r.text('{"kernels": [1]}', 3, "$.kernels[0]", "expected an object", well_formed=False)
    r.text('{"kernels": [' * 80, 3)
    r.changed(lambda k: k.update(colour=1), 3, "$.kernels[0].colour", "known keys", well_formed=False)
    r.changed(lambda k: k.pop("schema"), 3, 'missing key "schema"', well_formed=False)
    r.changed(lambda k: k.update(schema="own::kinds"), 3, "$.kernels[0].schema", "expected an operator's schema", well_formed=False)
    r.changed(lambda k: k.update(schema="aten::relu(Tensor self) -> Tensor"), 3, "PyTorch's own")
    r.changed(lambda k: k.update(schema="own::kinds(Tensor x, Tensr y) -> Tensor"), 3, "$.kernels[0].schema")
    r.changed(lambda k: k.update(schema="own::other(Tensor(a!) x) -> Tensor"), 4, "writes its argument 'x'")
    r.changed(lambda k: k.update(schema="own::lists(Tensor[] x) -> Tensor"), 4, "list of tensors")
    r.changed(lambda k: k["inputs"].pop("bias"), 3, "$.kernels[0].inputs", "'bias'")
    r.changed(lambda k: k["inputs"].update(z={"dtype": "float32"}), 3, "$.kernels[0].inputs.z", "no tensor argument")
    r.changed(lambda k: k["inputs"]["x"].update(dtype="real"), 3, "$.kernels[0].inputs.x.dtype", "expected bool", well_formed=False)
    r.changed(lambda k: k["inputs"]["x"].update(dtype="float64"), 4, "takes float64")
    r.changed(lambda k: k["inputs"]["x"].update(rank=3), 4, "it takes 3")
    r.changed(lambda k: k["results"][0].update(dtype="int32"), 3, "$.kernels[0].results[0]", well_formed=False)
    r.changed(lambda k: k.update(results=[{"dtype": "int32", "shape_of": "x"}]), 3, "$.kernels[0].results[0].dtype", "the archive says float32")
    r.changed(lambda k: k.update(results=k["results"] * 2), 3, "2 entries for the 1 results")
    shape = lambda *s: lambda k: k.update(results=[{"dtype": "float32", "shape": list(s)}])
    r.changed(shape("x.0"), 3, "$.kernels[0].results[0].shape", "of rank 1", "of rank 2")
    r.changed(shape("x.0", "x.1 + 1"), 3, "7 in dimension 1", "the archive says 6")
    r.changed(shape("x.0", "y.1"), 3, "$.kernels[0].results[0].shape[1]", '"y.1" is no size here')
    r.changed(shape("x.0", "x.9"), 3, '"x.9" is no size here')
    r.changed(shape("x.0", "floordiv(6, x.0 - x.0)"), 3, "$.kernels[0].results[0].shape[1]")
    r.changed(shape("x.0", "floordiv(36, x.0 - 3)"), 3, "may be less than 1")
    r.changed(shape("x.0", "x.1 *"), 3, "$.kernels[0].results[0].shape[1]", "expected")
    r.changed(shape("x.0", "9223372036854775807 * 2"), 3, "64 bits")
    r.changed(shape("x.0", "(" * 119 + "1" + ")" * 118), 3, "expected ')'")
    r.changed(shape("x.0", "(" * 120 + "1" + ")" * 120), 3, "at most 240", well_formed=False)
    r.changed(shape("x.0", -1), 3, "-1 is not within", well_formed=False)
    r.changed(shape("x.0", 1.5), 3, "expected an integer", well_formed=False)
    cpu = lambda **c: lambda k: k["cpu"].update(c)
    r.changed(cpu(function="a b"), 3, "no name of a C function", well_formed=False)
    r.changed(cpu(function="aotc_get_api"), 3, "aotc's own", well_formed=False)
    r.changed(cpu(function="missing"), 3, "$.kernels[0].cpu.source", "has no function 'missing'", "kinds")
    r.changed(cpu(source="nowhere.c"), 6, "$.kernels[0].cpu.source", "no such file")
    r.changed(cpu(source="."), 6, "no such file")
    r.changed(cpu(source="own_operators.py"), 3, "expected .c")
    r.changed(cpu(object="kinds.o"), 3, "expected one of", well_formed=False)
    r.changed(lambda k: k.update(cpu={"object": "kinds.c", "function": "kinds"}), 3, "no object file")
    r.changed(lambda k: k.update(cpu={"library": "kinds.c", "function": "kinds"}), 3, "no static library")
    r.changed(cpu(flags=["-fplugin=x.so"]), 3, "$.kernels[0].cpu.flags[0]", "no flag", well_formed=False)
    r.changed(lambda k: k.update(pointwise="x"), 3, 'stands beside "pointwise"', well_formed=False)
    for name, text in (("broken.c", "void f( {"), ("needs.c", '#include "aotc/own_kernel.h"\nvoid elsewhere(void);\nvoid f(const aotc_op_args* a, '
                                                              "int64_t b, int64_t e) { (void)a, (void)b, (void)e; elsewhere(); }")):
        with open(os.path.join(work, name), "w") as f:
            f.write(text)
    r.changed(cpu(source="broken.c", function="f"), 5, "$.kernels[0].cpu.source", "compiling")
    r.changed(cpu(source="needs.c", function="f"), 5, "does not link", "elsewhere")
    clip = os.path.join(work, "clip.pt2")
    pointwise = lambda e: {"schema": "own::clip(Tensor x, Tensor y, float limit=0.5) -> Tensor", "pointwise": e}
    for expression, said in (("x +", "expected a number"), ("x + z", '"z" is no argument'), ("f(x)", "'f' is no function"), ("exp(x, y)", "takes 1"),
                             ("x & y", "integers"), ("a = 1; a = 2; a", "named twice"), ("a = 1 a", "expected ';'"), ("1e999 * x", "expected a number"),
                             ("(" * 300 + "x" + ")" * 300, "nested too deeply"), ("x" * 5000, "4000"), ("99999999999999999999", "too large"),
                             ("x y", "expected an operator"), ("", "expected a number"), ("1x", "runs into a name")):
        r.text(json.dumps({"kernels": [pointwise(expression)]}), 3, "$.kernels[0].pointwise", said, model=clip)
    r.text(json.dumps({"kernels": [pointwise(["x", "y"])]}), 3, "2 entries for the 1 results", model=clip, well_formed=True)
    r.text(json.dumps({"kernels": [pointwise("x")]}), 4, "only writes its arguments", model=os.path.join(work, "written.pt2"))
    print(f"ok   {r.all()} descriptions are refused")


def main():
    o = arguments.parse("include")
    shutil.rmtree(o.work, ignore_errors=True)
    os.makedirs(o.work)
    os.environ.setdefault("VIRTUAL_ENV", sys.prefix)
    work = os.path.abspath(o.work)

    # The sample.
    pt2, so = os.path.join(work, "net.pt2"), os.path.join(work, "net.so")
    good(sys.executable, "-IS", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "torch_process.py"), "export.py", pt2, cwd=sample)
    kernels = os.path.join(sample, "kernels.json")
    plain = run(o.aotc, "build", pt2, "-o", so, "--quiet")
    assert plain.returncode == 4 and "--kernels" in plain.stderr, plain.stderr
    good(o.aotc, "build", pt2, "--kernels", kernels, "-o", so, "--quiet")
    operators = os.path.join(sample, "operators.py")
    good(o.aotc, "verify", so, "--against", pt2, "--torch-module", operators, "--threads", 2, "--quiet")
    alone = run(o.aotc, "verify", so, "--against", pt2, "--quiet")
    assert alone.returncode == 4 and "--torch-module" in alone.stderr, alone.stderr
    meta = json.loads(good(o.aotc, "inspect", so, "--json"))
    assert [k["op"] for k in meta["own_kernels"]] == ["samples::gated", "samples::lookup", "samples::ranked"], meta["own_kernels"]
    assert "lookup of lookup.c" in good(o.aotc, "inspect", so)
    forms = [c["choice"] for c in meta["explain"]["choices"]]
    assert forms.count("own_kernel") >= 2, forms
    assert not any("gated" == k["name"] and k["kind"] == "own kernel" for k in meta["explain"]["kernels"])
    again = os.path.join(work, "again")
    shutil.copytree(sample, again, ignore=shutil.ignore_patterns("__pycache__"))
    os.makedirs(os.path.join(work, "other"))
    copy = os.path.join(work, "other", "net.so")
    good(o.aotc, "build", pt2, "--kernels", os.path.join(again, "kernels.json"), "-o", copy, "--quiet")
    assert open(so, "rb").read() == open(copy, "rb").read(), "the sample from another folder gives other bytes"
    with open(os.path.join(again, "lookup.c"), "a") as f:
        f.write("/* another text, the same code */\n")
    good(o.aotc, "build", pt2, "--kernels", os.path.join(again, "kernels.json"), "-o", copy, "--quiet")
    assert open(so, "rb").read() != open(copy, "rb").read(), "the source's hash is no part of the artifact"
    print("ok   samples/custom_kernel")

    export(work)
    module, temporary = os.path.join(work, "own_operators.py"), os.path.join(work, "temporary")
    os.makedirs(temporary)

    def build_and_verify(name, *kernel, target=(), verify=True):
        path, out = os.path.join(work, name + ".json"), os.path.join(work, name + ".so")
        with open(path, "w") as f:
            json.dump({"kernels": list(kernel)}, f)
        model = os.path.join(work, name.split("-")[0] + ".pt2")
        good(o.aotc, "build", model, "--kernels", path, "-o", out, "--quiet", *target)
        if verify:
            good(o.aotc, "verify", out, "--against", model, "--torch-module", module, "--samples", 2, "--quiet", env=dict(os.environ, TMPDIR=temporary))
            assert not [f for f in os.listdir(temporary) if f.startswith("aotc")], os.listdir(temporary)  # aotc has left nothing
        print("ok  ", name)
        return out

    # Arguments of every kind, from a source, an object and a static library with two objects.
    kinds = {"schema": "own::kinds(Tensor x, SymInt n, float scale, bool on, str name, SymInt[] steps, float[] weights, Tensor? bias) -> Tensor",
             "inputs": {"x": {"dtype": ["float32"], "rank": 2}, "bias": {"dtype": "float32"}},
             "results": [{"dtype_of": "x", "shape_of": "x"}],
             "cpu": {"source": "kinds.c", "function": "kinds", "work": "x.numel", "grain": 64, "flags": ["-O2", "-DUNUSED=1"]}}
    with open(os.path.join(work, "kinds.c"), "w") as f:
        f.write(KINDS_C % {"name": "kinds"})
    build_and_verify("kinds", kinds)
    build_and_verify("kinds-portable", kinds, target=("--cpu", "portable"), verify=False)
    flags = ["-O2", "-fPIC", "-I", o.include]
    good("cc", "-c", *flags, os.path.join(work, "kinds.c"), "-o", os.path.join(work, "kinds.o"))
    build_and_verify("kinds-object", {**kinds, "cpu": {"object": "kinds.o", "function": "kinds", "work": "x.numel"}})
    with open(os.path.join(work, "narrow.c"), "w") as f:
        f.write(NARROW_C)
    good("cc", "-c", *flags, os.path.join(work, "narrow.c"), "-o", os.path.join(work, "narrow.o"))
    good("ar", "rcs", os.path.join(work, "libmine.a"), os.path.join(work, "kinds.o"), os.path.join(work, "narrow.o"))
    build_and_verify("kinds-library", {**kinds, "cpu": {"library": "libmine.a", "function": "kinds", "work": "x.numel"}})
    # An operator without float64; the first row does not take the types.
    narrow = {"schema": "own::narrow(Tensor x) -> Tensor", "inputs": {"x": {"dtype": "float32"}},
              "results": [{"dtype": "float32", "shape": ["x.0", "floordiv(x.last, 2)"]}],
              "cpu": {"library": "libmine.a", "function": "narrow", "work": "x.0"}}
    build_and_verify("narrow", {**narrow, "inputs": {"x": {"dtype": "float16"}}}, narrow)
    # For GPUs it is compiled, where NVRTC is there.
    with open(os.path.join(work, "narrow.cu"), "w") as f:
        f.write(NARROW_CU)
    path = os.path.join(work, "narrow-gpu.json")
    with open(path, "w") as f:
        json.dump({"kernels": [{**narrow, "cuda": {"source": "narrow.cu", "function": "narrow", "grid": "x.0", "block": [32, 2],
                                                   "shared_bytes": "x.1 * 4", "scratch_bytes": "x.0 * 4"}}]}, f)
    gpu = run(o.aotc, "build", os.path.join(work, "narrow.pt2"), "--kernels", path, "--cuda", "sm_90a", "-o", os.path.join(work, "gpu.so"), "--quiet")
    assert gpu.returncode == 0 or (gpu.returncode == 5 and "NVRTC was not found" in gpu.stderr), gpu.stderr
    print("ok  " if gpu.returncode == 0 else "skip", "narrow on a GPU")
    compiled_kernels(o, work, module)
    # An expression: fused, no kernel of its own.
    clip = build_and_verify("clip", {"schema": "own::clip(Tensor x, Tensor y, float limit=0.5) -> Tensor",
                                     "pointwise": "t = x > limit ? limit + 0.1f * (x - limit) : x; (t < 0 ? exp(t) - 1 : t) * y"})
    e = json.loads(good(o.aotc, "inspect", clip, "--json"))["explain"]
    assert all(k["kind"] == "fused loops" for k in e["kernels"]) and len(e["kernels"]) == 1, e["kernels"]
    refusals(o, work, kinds)


if __name__ == "__main__":
    main()
