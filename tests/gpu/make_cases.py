"""Builds the cases of cases.py as GPU artifacts, with inputs, fp64 references and eager results beside them. Needs torch, no GPU.

    make_cases.py --aotc BIN --out DIR [--sm sm_90a] [--reuse] [--keep] [name ...]
"""
import argparse
import copy
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import torch

import cases_attention  # noqa: F401, its cases join CASES, as do those of
import cases_convs  # noqa: F401
import cases_kernels  # noqa: F401
import cases_lines  # noqa: F401
import cases_products  # noqa: F401
import cases_sequences  # noqa: F401
from cases import CASES, OPTIONS, REDUCED, SPREADING


def doubled(x):
    if not isinstance(x, torch.Tensor):
        return x
    return x.to(torch.complex128) if x.is_complex() else x.double() if x.is_floating_point() else x


def reduced(x, to):
    return x.to(to) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def flat(out):
    return [out] if isinstance(out, torch.Tensor) else [t for o in out for t in flat(o)]


def array(t):
    t = t.detach().contiguous()
    return t.view(torch.int16).numpy().view("u2") if t.dtype == torch.bfloat16 else t.numpy()


def build(o, path):
    command = [o.aotc, "build", path + ".pt2", "--cuda", o.sm, "-o", path + ".so", "--quiet"] + OPTIONS.get(os.path.basename(path), [])
    command += ["--keep", path + ".keep"] if o.keep else []
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"exit {r.returncode}: {r.stderr.strip()}")


def make(o, name):
    torch.manual_seed(1)
    module, samples, dims = CASES[name]()
    module = module.eval()
    path = os.path.join(o.out, name)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        shapes = (dims,) if dims and type(module).__name__ == "Fn" else dims
        torch.export.save(torch.export.export(copy.deepcopy(module), samples[0], dynamic_shapes=shapes, strict=False), path + ".pt2")
    build(o, path)
    data, meta = {}, {"samples": len(samples), "dtypes": []}
    for s, args in enumerate(samples):
        with torch.no_grad():
            eager = flat(copy.deepcopy(module)(*args))
            own = [t.dtype for t in eager]
            if name in REDUCED:
                eager = [t.to(d) for t, d in zip(flat(copy.deepcopy(module).to(REDUCED[name])(*[reduced(a, REDUCED[name]) for a in args])), own)]
            exact = flat(copy.deepcopy(module).double()(*[doubled(a) for a in args]))
            if name in SPREADING:
                eager = [torch.where(x.isfinite() & e.isfinite(), e, x.to(e.dtype)) for e, x in zip(eager, exact)]
        meta["dtypes"] = [str(t.dtype)[6:] for t in eager]
        for i, a in enumerate(args):
            data[f"s{s}_in{i}"] = array(a)
        for i, (e, x) in enumerate(zip(eager, exact)):
            data[f"s{s}_eager{i}"] = doubled(e).resolve_conj().numpy()
            data[f"s{s}_exact{i}"] = (x if e.is_floating_point() or e.is_complex() else e).resolve_conj().numpy()
        meta[f"inputs{s}"], meta["outputs"] = len(args), len(eager)
    np.savez(path + ".npz", **data)
    json.dump(meta, open(path + ".json", "w"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--sm", default="sm_90a")
    p.add_argument("--reuse", action="store_true", help="the models and references that are in DIR; only the artifacts are made anew")
    p.add_argument("--keep", action="store_true", help="the generated code, too (NAME.keep), for emulate.py")
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    os.makedirs(o.out, exist_ok=True)
    failed = 0
    for name in o.names or CASES:
        try:
            if o.reuse:
                build(o, os.path.join(o.out, name))
            else:
                make(o, name)
            print("ok  ", name, flush=True)
        except Exception as e:
            failed += 1
            print("FAIL", name, str(e)[:1500], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
