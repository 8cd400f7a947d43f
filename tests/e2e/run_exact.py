"""Builds the suites of exact_*.py, many cases to an artifact, for each instruction set; runs them through the C API and compares element by
element with eager.

    run_exact.py --aotc BIN --work DIR [--cpu avx2,avx512] [suite ...]
"""
import argparse
import os
import subprocess
import sys
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(HERE, "..", "gpu")]
import binding
import exact_autocast  # noqa: F401  (they fill SUITES and FAULTS)
import exact_complex  # noqa: F401
import exact_fourier  # noqa: F401
import exact_indices  # noqa: F401
import exact_matrices  # noqa: F401
import exact_moments  # noqa: F401
import exact_nan  # noqa: F401
import exact_places  # noqa: F401
import exact_products  # noqa: F401
import exact_quantized  # noqa: F401
import exact_resize  # noqa: F401
import exact_rounding  # noqa: F401
import exact_signs  # noqa: F401
import thirds
from exact import FAULTS, SUITES, Module

CODES = {torch.bool: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 4, torch.int32: 5, torch.int64: 6, torch.float16: 7, torch.bfloat16: 8,
         torch.float32: 9, torch.float64: 10}


def to_numpy(t):
    t = t.detach().contiguous()
    return (t.view(torch.uint16) if t.dtype == torch.bfloat16 else t).numpy()


def from_numpy(a, dtype):
    t = torch.from_numpy(a)
    return t.view(torch.bfloat16) if dtype == torch.bfloat16 else t


def command(*words):
    r = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: exit {r.returncode}\n{r.stdout}{r.stderr}"[:4000])


def build(o, name, cpu, module, args, moves=()):
    """The artifact of a module for an instruction set; moves: dims of every input that are dynamic."""
    pt2, so = os.path.join(o.work, name + ".pt2"), os.path.join(o.work, f"{name}_{cpu}.so")
    if cpu == o.cpus[0]:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            shapes = (tuple({d: torch.export.Dim.AUTO for d in moves} for _ in args),) if moves else None
            torch.export.save(torch.export.export(module.eval(), tuple(args), dynamic_shapes=shapes, strict=False), pt2)
    command(o.aotc, "build", pt2, "-o", so, "--cpu", cpu, "--quiet")
    return so


class Session:
    """An artifact ready to run."""

    def __init__(self, so):
        self.artifact = binding.Artifact(so).create()
        self.context = self.artifact.context()

    def __call__(self, args):
        arrays = [to_numpy(t) for t in args]
        inputs = binding.tensors(arrays, [CODES[t.dtype] for t in args])
        infos = self.context.out_infos
        out = self.context.output_arrays(inputs)
        self.context.run(inputs, binding.tensors(out, [i.dtype for i in infos]))
        kinds = {v: k for k, v in CODES.items()}
        return [from_numpy(a, kinds[i.dtype]) for a, i in zip(out, infos)]

    def close(self):
        self.context.close()
        self.artifact.close()


def equal(got, want, signs=False):
    """Element by element; any NaN is a NaN, and zeros have signs where they are asked for."""
    if not got.dtype.is_floating_point:
        return got == want
    there = got == want
    if signs:
        there &= (got != 0) | (got.signbit() == want.signbit())
    return there | got.isnan() & want.isnan()


def same(got, want, signs=False):
    return got.shape == want.shape and got.dtype == want.dtype and bool(equal(got, want, signs).all())


def near(case, got, want):
    """Elements that are as they must be: where one of the two is no other finite number, it is what eager has."""
    g, w = got.double(), want.double()
    scale = w.where(w.isfinite(), 0).abs()
    scale = scale.amax(-1, keepdim=True) if scale.shape[-1:] == (2,) else scale
    tiny = 4 * torch.finfo(want.dtype).smallest_normal
    return equal(got, want, case.signs) | (g != w) & g.isfinite() & w.isfinite() & ((g - w).abs() <= case.near * scale + tiny)


def error(x, truth):
    """Of what is finite."""
    x, truth = x.double(), truth.double()
    both = x.isfinite() & truth.isfinite()
    x, truth = x[both], truth[both]
    scale = truth.norm().item()
    return (x - truth).norm().item() / (scale if scale > 0 else 1.0)


EPSILON = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float32: 2**-21, torch.float64: 2**-46}  # sums of some twenty terms, in any order


def judge(case, number, args, got, want):
    if case.norm:
        return got.shape == want.shape and got.dtype == want.dtype and bool(got.isfinite().all()) and error(got, want) <= case.norm
    if case.near:
        return got.shape == want.shape and got.dtype == want.dtype and bool(near(case, got, want).all())
    if not (case.close and want.dtype.is_floating_point):
        return same(got, want, case.signs)
    wide = lambda t: t.double() if t.dtype.is_floating_point else t
    truth = case.want(*map(wide, args), *map(wide, case.constants))[number]
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    wild = ~got.isfinite() | ~want.isfinite()
    zero = (got == 0) & (want == 0)
    return same(got[wild], want[wild]) and same(got[zero], want[zero], case.signs) and error(got, truth) <= 2 * error(want, truth) + EPSILON[want.dtype]


def report(case, number, got, want):
    what = f"{case.label}[{number}]: {want.dtype}{list(want.shape)}"
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{what}: got {got.dtype}{list(got.shape)}"
    if case.norm:
        return f"{what}: error {error(got, want):.3g} of at most {case.norm:.3g}"
    bad = ~(near(case, got, want) if case.near else equal(got, want, case.signs))
    if case.close and (wild := bad & ~(got.isfinite() & want.isfinite())).any():
        bad = wild
    where = bad.flatten().nonzero().flatten()[:4].tolist()
    g, w = got.flatten(), want.flatten()
    inputs = [t.flatten() for t in case.inputs if t.numel() == want.numel()]
    at = "; ".join(f"at {i}: {g[i].item()!r}, eager {w[i].item()!r}" + "".join(f", of {t[i].item()!r}" for t in inputs[:2]) for i in where)
    return f"{what}: {int(bad.sum())} of {bad.numel()} differ ({at})"


def check(o, name):
    torch.manual_seed(3)
    cases = SUITES[name]()
    module = Module(cases)
    faults, checked = [], 0
    for cpu in o.cpus:
        run = Session(build(o, name, cpu, module, module.args, getattr(SUITES[name], "moves", ())))
        results = iter(run(module.args))
        for c, at in zip(cases, module.at):
            args = [module.args[i] for i in at]
            with torch.no_grad():
                want = c.want(*args, *c.constants)
            for i, w in enumerate(want):
                got = next(results)
                checked += 1
                if not judge(c, i, args, got, w):
                    faults.append(f"{cpu} {report(c, i, got, w)}")
        run.close()
    if faults:
        raise AssertionError(f"{len(faults)} of {checked} results differ\n  " + "\n  ".join(faults[:o.show]))
    return checked


def check_faults(o, name):
    """All cases in one artifact; each run has the first input of one of them replaced."""
    torch.manual_seed(3)
    cases = FAULTS[name]()
    module = Module(cases)
    found, checked = [], 0
    for cpu in o.cpus:
        run = Session(build(o, name, cpu, module, module.args))
        run(module.args)
        first = 0  # result of the case
        for c, at in zip(cases, module.at):
            length = len(c(*c.inputs))
            for other in c.others:
                args = list(module.args)
                args[at[0]] = other
                try:
                    want = c(other, *c.inputs[1:])
                except (IndexError, RuntimeError, ZeroDivisionError):
                    want = None
                try:
                    got = run(args)[first : first + length]
                except binding.Failure as e:
                    got = None if e.status == c.status and c.says in str(e) else str(e)
                checked += 1
                if (got is None) != (want is None) or isinstance(got, str) or (want is not None and not all(map(same, got, want))):
                    told = lambda r: "a fault" if r is None else r if isinstance(r, str) else "other results" if r is got and want is not None else "results"
                    found.append(f"{cpu} {c.label} of {other.flatten().tolist()}: {told(got)}, eager {told(want)}")
            first += length
        run.close()
    if found:
        raise AssertionError(f"{len(found)} of {checked} runs differ\n  " + "\n  ".join(found[: o.show]))
    return checked


FLAGS = {"avx2": "avx2", "avx512": "avx512bw", "avx512_bf16": "avx512_bf16"}  # of /proc/cpuinfo, that tells a machine with each


def instruction_sets(wanted):
    """Those of `wanted` that this machine has (but for AOTC_TEST_WITHOUT), and the others."""
    flags = next(line for line in open("/proc/cpuinfo") if line.startswith("flags")).split()
    without = os.environ.get("AOTC_TEST_WITHOUT", "").split(",")
    here = [c for c in wanted.split(",") if FLAGS[c] in flags and c not in without]
    return here, [c for c in wanted.split(",") if c not in here]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--cpu", default="avx2,avx512")
    p.add_argument("--show", type=int, default=12)
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    names = o.names or thirds.some([*SUITES, *FAULTS], "suites", 9)
    o.cpus, lacking = instruction_sets(o.cpu)
    total = 0
    os.makedirs(o.work, exist_ok=True)
    failed = []
    for name in names:
        try:
            checked = check(o, name) if name in SUITES else check_faults(o, name)
            total += checked
            print("ok  ", name, checked, "results" if name in SUITES else "runs", flush=True)
        except Exception as e:
            failed.append(name)
            print("FAIL", name, str(e)[:6000], flush=True)
    for cpu in lacking:
        print(f"run_exact: {cpu} not run here: {total // len(o.cpus) if o.cpus else 'all'} cases")
    print(f"{len(names) - len(failed)} of {len(names)} suites agree")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
