"""Sizes that a run finds in its data, through `aotc run` and the C ABI: numbers of 0 and of all, eager as the oracle; conditions that fail the
run; what is refused, and what the refusal says.

    found_sizes.py --aotc BIN --work DIR
"""
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import torch
from torch.export import Dim

sys.path.insert(0, os.path.dirname(__file__))
import arguments
from models import Fn
from run_models import MODELS, export, sh
import thirds

FOUND = ["found_places", "selected_rows", "sorted_boxes", "routed_tokens", "rows_split_by_counts", "joined_selections", "distinct_values", "counted_and_repeated", "chained_selections", "found_matrices", "slices_in_read_steps"]


def turned(args, kind):
    """The inputs with floats of one sign: masks by sign then select nothing, or all."""
    sign = {"own": None, "none": -1, "all": 1}[kind]
    return tuple(a if sign is None or not a.is_floating_point() else sign * (a.abs() + 1) for a in args)


def run(o, so, names, args, work):
    """`aotc run` on these inputs: the outputs in order, or the failure's text."""
    os.makedirs(work, exist_ok=True)
    given = []
    for name, a in zip(names, args):
        np.save(os.path.join(work, name + ".npy"), np.array(a.numpy(), order="C"))
        given += ["--input", f"{name}={work}/{name}.npy"]
    r = subprocess.run([o.aotc, "run", so, "--json", "-o", os.path.join(work, "out"), *given], capture_output=True, text=True)
    if r.returncode:
        return r.stdout + r.stderr
    return [np.load(x["file"]) for x in json.loads(r.stdout)["outputs"]]


def names_of(pt2):
    program = torch.export.load(pt2)
    return list(program.graph_signature.user_inputs)


def check(o, name):
    pt2, so = os.path.join(o.work, name + ".pt2"), os.path.join(o.work, name + ".so")
    export(name, pt2)
    sh(o.aotc, "build", pt2, "-o", so, "--quiet")
    torch.manual_seed(1)
    module, args, _ = MODELS[name]()
    names, module = names_of(pt2), module.eval()
    module.load_state_dict(torch.export.load(pt2).state_dict, strict=False)
    for kind in ("own", "none", "all"):
        inputs = turned(args, kind)
        with torch.no_grad():
            want = module(*inputs)
        want = want if isinstance(want, (tuple, list)) else [want]
        got = run(o, so, names, inputs, os.path.join(o.work, name + "_run"))
        assert not isinstance(got, str), got
        for i, (g, w) in enumerate(zip(got, want)):
            w = np.asarray(w)
            assert g.shape == w.shape, f"{kind}: output {i} is {g.shape}, eager gives {w.shape}"
            assert np.allclose(g, w, rtol=2e-4, atol=2e-5, equal_nan=True), f"{kind}: output {i} differs"


def exported(o, name, f, args, dims):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Fn(f), args, dynamic_shapes=(dims,) if dims else None, strict=False)
    path = os.path.join(o.work, name + ".pt2")
    torch.export.save(program, path)
    return path


def check_conditions(o):
    """A false condition fails the run with its text; the next run is none the worse."""

    def f(x, k):
        n = k.item()
        torch._check(n >= 1)
        torch._check(n <= x.shape[0])
        torch._check(x[x > 0].shape[0] <= 3, lambda: "too many are positive")
        return x[:n] * 2

    pt2 = exported(o, "conditions", f, (torch.tensor([1.0, -1, 2, -3]), torch.tensor(2)), ({0: Dim("n", min=2, max=9)}, None))
    so = pt2[:-4] + ".so"
    sh(o.aotc, "build", pt2, "-o", so, "--quiet")
    names = names_of(pt2)
    x = torch.tensor([1.0, -1, 2, -3, 5])
    for k in (1, 5):
        got = run(o, so, names, (x, torch.tensor(k)), o.work + "/conditions_run")
        assert not isinstance(got, str) and np.array_equal(got[0], x[:k].numpy() * 2), got
    for bad in ((x, torch.tensor(0)), (x, torch.tensor(6)), (x.abs(), torch.tensor(2))):
        told = run(o, so, names, bad, o.work + "/conditions_run")
        assert isinstance(told, str) and "condition of the model" in told, told


def check_stated(o):
    """Numbers of rows, and numbers that are read, of which the program says that they are multiples, or floats on one side of another."""

    def f(x, k, scale):
        n, s = k.item(), scale.item()
        torch._check(s > 0.25)
        torch._check(n >= 0)
        torch._check(n <= 8)
        torch._check(n % 4 == 0)
        y = x[x > 0]
        torch._check(y.shape[0] % 2 == 0)
        return y.view(-1, 2).sum(1), torch.ones(n).view(-1, 4).sum(1), k * s

    pt2 = exported(o, "stated", f, (torch.tensor([1.0, -1, 2, -3]), torch.tensor(4), torch.tensor(0.5)), ({0: Dim("n", min=2, max=9)}, None, None))
    so = pt2[:-4] + ".so"
    sh(o.aotc, "build", pt2, "-o", so, "--quiet")
    names = names_of(pt2)
    nan = float("nan")
    for x, k, scale in (([1.0, -1, 2, 3], 4, 0.5), ([1.0, -1, 2, 3, 4], 8, 9.0), ([-1.0, -2], 0, 0.375), ([1.0, 2, 3], 4, 0.5), ([1.0, 2], 2, 0.5), ([3.0, -1], 8, 0.5),
                        ([3.0, 1], -4, 0.5), ([3.0, 1], 12, 0.5), ([3.0, 1], 4, 0.25), ([3.0, 1], 4, -1.0), ([3.0, 1], 4, nan)):
        args = torch.tensor(x), torch.tensor(k), torch.tensor(scale)
        got = run(o, so, names, args, o.work + "/stated_run")
        if k in (0, 4, 8) and sum(v > 0 for v in x) % 2 == 0 and scale > 0.25:
            assert not isinstance(got, str) and all(np.array_equal(g, w.numpy()) for g, w in zip(got, f(*args))), got
        else:
            assert isinstance(got, str) and ("the program excludes" in got or "assertion" in got), got


def check_branches(o):
    """What a branch of torch.cond says of numbers that are read and of counts, and what its operators refuse, fails a run that takes it, no other."""

    def f(x, k):
        def inner(x, k):
            n = k.item()
            torch._check(n >= 4)
            torch._check(n <= x.shape[0])
            torch._check(n % 3 == 0)
            return x[:n].sum(0) + torch.linalg.cholesky(x[:2, :2]).sum()

        def yes(x, k):
            y = x[x > 0]
            torch._check(y.shape[0] % 2 == 0)
            return torch.cond(k.sum() > 0, inner, lambda x, k: x[0] * 3, (x, k)) + y.view(-1, 2).sum()

        return torch.cond(x.sum() > 0, yes, lambda x, k: x.sum(0) * 2, (x, k))

    x = torch.ones(6, 2)
    x[0, 0], x[5] = 3, -1
    negative, odd, three, short, indefinite = -x, x.clone(), x.clone(), x[:5], x.clone()
    odd[5, 0], three[:, 1], indefinite[0, 0] = 1, -2, -3
    three[0, 1] = 20
    pt2 = exported(o, "branches", f, (x, torch.tensor(6)), ({0: Dim("n", min=5, max=9)}, None))
    so = pt2[:-4] + ".so"
    sh(o.aotc, "build", pt2, "-o", so, "--quiet")
    names, module = names_of(pt2), torch.export.load(pt2).module()
    failed = 0
    for values in (x, negative, odd, three, short, indefinite, -odd, -three, -short):
        for k in (6, 4, 3, 9, 0, -3):
            args = values, torch.tensor(k)
            try:
                want = module(*args)
            except RuntimeError:
                want = None
            got = run(o, so, names, args, o.work + "/branches_run")
            failed += want is None
            if want is None:
                assert isinstance(got, str) and "a condition of the model does not hold" in got, (values, k, got)
            else:
                assert not isinstance(got, str) and np.allclose(got[0], want.numpy()), (values, k, got, want)
    assert 20 < failed < 50, failed


def check_other_sizes_than_fp64(o):
    """Float32 breaks a comparison the other way than float64 does: eager and the artifact find fewer than the truth, and verify passes."""

    def f(x):
        near = x[(x.abs() * 1e-10 + 1 > 1) | (x > 0)]
        return near * 2, near.sum()

    pt2 = exported(o, "other_sizes", f, (torch.tensor([1.0, -1, 2, -3, -4]),), None)
    so = pt2[:-4] + ".so"
    sh(o.aotc, "build", pt2, "-o", so, "--quiet")
    told = sh(o.aotc, "verify", so, "--against", pt2)
    assert "other sizes in the data than fp64" in told, told


def check_abi(o):
    """output_sizes through ctypes: before a run, after one, of a wrong output, after a failed one, of two contexts."""
    check(o, "selected_rows")
    so = os.path.join(o.work, "selected_rows.so")
    header = open(so[:-3] + ".h").read()
    assert "_sizes(const aotc_api* api, aotc_context* context, int64_t sizes[2])" in header and "ASSERTION_FAILED" in header
    user = os.path.join(o.work, "found_user.c")
    open(user, "w").write(USER)
    sh("cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-I", o.work, user, "-o", user[:-2], "-ldl", "-lm")
    sh(user[:-2], so)


USER = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "selected_rows.h"

#define NEED(c) if (!(c)) return printf("line %d: %s: %s\n", __LINE__, #c, api ? api->last_error() : ""), 1
enum { kRows = 6, kOut = 13 };

int main(int argc, char** argv) {
  (void)argc;
  const aotc_api* api = NULL;
  aotc_library lib;
  if (selected_rows_library_open(argv[1], &lib) != AOTC_STATUS_OK) return 2;
  api = lib.api;
  aotc_model* model;
  aotc_context *one, *two;
  NEED(api->model_create(NULL, &model) == AOTC_STATUS_OK);
  NEED(selected_rows_context_create(api, model, 1, 0, &one) == AOTC_STATUS_OK);
  NEED(selected_rows_context_create(api, model, 1, 0, &two) == AOTC_STATUS_OK);
  int32_t n_out;
  NEED(api->io_count(model, AOTC_OUTPUT, &n_out) == AOTC_STATUS_OK && n_out == kOut);  // sizes and conditions are not among them
  aotc_io_info info = AOTC_IO_INFO_INIT;
  NEED(api->io_get(model, AOTC_OUTPUT, 0, &info) == AOTC_STATUS_OK && info.found && info.found[0] && !info.found[1]);
  NEED(api->io_get(model, AOTC_OUTPUT, 3, &info) == AOTC_STATUS_OK && !info.found);
  float x[kRows * 4], s[kRows];
  int64_t ids[kRows], sizes[4] = {-1, -1, -1, -1};
  for (int i = 0; i < kRows * 4; ++i) x[i] = (float)i;
  for (int i = 0; i < kRows; ++i) s[i] = i % 2 ? 1.0f : -1.0f, ids[i] = i;
  const int64_t dx[2] = {kRows, 4}, ds[1] = {kRows};
  aotc_tensor in[3] = {aotc_host_tensor(x, dx, 2, AOTC_DTYPE_F32, sizeof x), aotc_host_tensor(s, ds, 1, AOTC_DTYPE_F32, sizeof s),
                       aotc_host_tensor(ids, ds, 1, AOTC_DTYPE_I64, sizeof ids)};
  static int64_t shapes[kOut][4];
  int64_t* to[kOut];
  for (int i = 0; i < kOut; ++i) to[i] = shapes[i];
  NEED(api->output_sizes(one, 0, sizes) == AOTC_STATUS_WRONG_STATE && sizes[0] == -1);
  NEED(api->output_bounds(one, in, 3, to, kOut) == AOTC_STATUS_OK && shapes[0][0] == kRows && shapes[0][1] == 4);
  aotc_tensor out[kOut];
  for (int i = 0; i < kOut; ++i) {
    info = (aotc_io_info)AOTC_IO_INFO_INIT;
    NEED(api->io_get(model, AOTC_OUTPUT, i, &info) == AOTC_STATUS_OK);
    size_t bytes = info.dtype == AOTC_DTYPE_I64 ? 8 : 4;
    for (int d = 0; d < info.rank; ++d) bytes *= (size_t)shapes[i][d];
    out[i] = aotc_host_tensor(calloc(bytes + 1, 1), shapes[i], info.rank, info.dtype, bytes);
  }
  out[0].byte_size -= 4;  // room for what there is would do, but how much that is nobody knows yet
  NEED(api->run(one, in, 3, out, kOut) == AOTC_STATUS_INVALID_ARGUMENT);
  out[0].byte_size += 4;
  NEED(api->run(one, in, 3, out, kOut) == AOTC_STATUS_OK);
  NEED(api->output_sizes(one, 0, sizes) == AOTC_STATUS_OK && sizes[0] == 3 && sizes[1] == 4);
  NEED(((float*)out[0].data)[0] == 4 * 2 + 1 && ((float*)out[0].data)[8] == 20 * 2 + 1);
  NEED(api->output_sizes(two, 0, sizes) == AOTC_STATUS_WRONG_STATE);
  for (int i = 0; i < kRows; ++i) s[i] = -1;
  NEED(api->run(two, in, 3, out, kOut) == AOTC_STATUS_OK && api->output_sizes(two, 0, sizes) == AOTC_STATUS_OK && sizes[0] == 0 && sizes[1] == 4);
  NEED(api->output_sizes(one, 0, sizes) == AOTC_STATUS_OK && sizes[0] == 3);
  NEED(api->output_sizes(one, 3, sizes) == AOTC_STATUS_OK && sizes[0] == 4);
  NEED(api->output_sizes(one, kOut, sizes) == AOTC_STATUS_INVALID_ARGUMENT && api->output_sizes(one, 0, NULL) == AOTC_STATUS_INVALID_ARGUMENT);
  const int64_t fewer[2] = {2, 4}, few[1] = {2};  // shapes that are only asked for change nothing
  aotc_tensor other[3] = {in[0], in[1], in[2]};
  other[0].shape = fewer, other[1].shape = other[2].shape = few;
  NEED(api->output_bounds(one, other, 3, to, kOut) == AOTC_STATUS_OK && api->output_sizes(one, 0, sizes) == AOTC_STATUS_OK && sizes[0] == 3);
  api->context_destroy(one);
  api->context_destroy(two);
  api->model_destroy(model);
  return 0;
}
"""


def check_refusals(o):
    cases = {
        "no_bound": (lambda i: torch.bincount(i) + 1, (torch.randint(0, 5, (6,)),), "torch._check"),
        "images": (lambda x: torch.nn.functional.conv2d(torch.ones(1, 1, 5, 5), x[x[:, 0] > 0][:, None, None]), (torch.randn(5, 3),), "depends on data"),
        "rank": (lambda x: torch.unique_consecutive(x, dim=-1), (torch.randint(0, 2, (2, 3, 4)),), "count the dim from the front"),  # torch.export says 6
    }
    for name, (f, args, text) in cases.items():
        pt2 = exported(o, name, f, args, None)
        r = subprocess.run([o.aotc, "build", pt2, "-o", pt2[:-4] + ".so", "--quiet"], capture_output=True, text=True)
        assert r.returncode and text in r.stderr, f"{name}: {r.returncode}: {r.stderr}"


def main():
    o = arguments.parse(names="names")
    failed = 0
    cases = {name: (lambda name=name: check(o, name)) for name in FOUND}
    cases.update(conditions=lambda: check_conditions(o), stated=lambda: check_stated(o), branches=lambda: check_branches(o), other_sizes=lambda: check_other_sizes_than_fp64(o), abi=lambda: check_abi(o), refusals=lambda: check_refusals(o))
    for name in o.names or thirds.some(cases, "programs with sizes that depend on data"):
        try:
            cases[name]()
            print("ok  ", name, flush=True)
        except Exception as e:
            failed += 1
            print("FAIL", name, str(e)[:3000], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
