"""--reproducible over the models of a zoo, with a batch of 1 to 32: rows of the results for each batch, 1 and 2 threads, by code for AVX2 and for
AVX-512, beside those of the largest batch; and how long a run takes beside an artifact without the option.

    reproducible_zoo.py ZOO.py --aotc BIN --python-package DIR --work DIR [--batches 1,2,..] [--names NAME,..]

ZOO.py has build(name), which gives (module, example inputs, dynamic shapes or None), and REG, the names. The first dimension of inputs that share
theirs is made the batch. Instruction sets that this machine lacks are said to be left out.
"""
import argparse
import importlib.util
import os
import subprocess
import sys
import time

import numpy
import torch

MOST = 32


def export(zoo, name, path):
    """Inputs of MOST rows, or why there are none."""
    module, args, _ = zoo.build(name)
    if any(not isinstance(a, torch.Tensor) or a.dim() < 2 or a.shape[0] != args[0].shape[0] for a in args):
        return None, "its inputs have no batch"
    torch.manual_seed(0)
    rows = [torch.randn(MOST, *a.shape[1:]).to(a.dtype) if a.is_floating_point() else torch.randint(0, 2, (MOST, *a.shape[1:]), dtype=a.dtype) for a in args]
    batch = torch.export.Dim("batch", min=1, max=MOST)
    try:
        with torch.no_grad():
            torch.export.save(torch.export.export(module, tuple(r[:4] for r in rows), dynamic_shapes=tuple({0: batch} for _ in rows), strict=False), path)
    except Exception as e:  # a model whose batch is a constant
        return None, f"not exported: {str(e).splitlines()[0][:120]}"
    return [r.view(torch.uint16).numpy() if r.dtype == torch.bfloat16 else r.numpy() for r in rows], ""


def bits(a):
    return numpy.ascontiguousarray(a).view(numpy.uint8).reshape(len(a), -1)


def best_ms(contexts, x, least_rounds=5, seconds=2):
    """The least processor time of a run of each, in turns: other work on the machine hardly changes it. Short runs are timed several at once."""
    begin = time.monotonic()
    contexts[0].run(x)
    runs = max(1, int(2e-3 / (time.monotonic() - begin)))
    best = [1e9] * len(contexts)
    rounds, end = 0, time.monotonic() + seconds
    while rounds < least_rounds or time.monotonic() < end:
        rounds += 1
        for i, c in enumerate(contexts):
            begin = time.thread_time()
            for _ in range(runs):
                c.run(x)
            best[i] = min(best[i], (time.thread_time() - begin) / runs * 1e3)
    return best


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("zoo")
    for name in ("aotc", "python-package", "work"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--batches", default=",".join(map(str, range(1, MOST + 1))))
    p.add_argument("--names", type=lambda s: s.split(","))
    o = p.parse_args()
    sys.path.insert(0, o.python_package)
    import aotc_runtime

    spec = importlib.util.spec_from_file_location("zoo", o.zoo)
    zoo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(zoo)
    os.makedirs(o.work, exist_ok=True)
    failed, ratios = 0, []
    for name in o.names or zoo.REG:
        pt2 = os.path.join(o.work, name + ".pt2")
        rows, why = export(zoo, name, pt2)
        if rows is None:
            print(f"skip {name}: {why}", flush=True)
            continue
        models, first = {}, None
        for isa in ("avx2", "avx512"):
            for option in (["--reproducible"], []):
                so = os.path.join(o.work, f"{name}.{isa}{'' if option else '.plain'}.so")
                subprocess.run([o.aotc, "build", pt2, "-o", so, "--cpu", isa, "--quiet", *option], check=True)
                try:
                    models[isa, bool(option)] = aotc_runtime.load(so)
                except aotc_runtime.Error as e:
                    print(f"     {name}: {isa} left out: {e}")
        differ = []
        for isa in ("avx2", "avx512"):
            model = models.get((isa, True))
            for threads in (1, 2) if model else ():
                with model.context(threads=threads) as c:
                    if first is None:
                        first = [bits(a) for a in c.run(rows)]
                    for n in map(int, o.batches.split(",")):
                        for at in {0, MOST - n}:
                            got = c.run([numpy.ascontiguousarray(r[at:at + n]) for r in rows])
                            if any(not numpy.array_equal(bits(g), f[at:at + n]) for g, f in zip(got, first)):
                                differ.append((isa, threads, n, at))
        failed += bool(differ)
        told = []
        for isa in ("avx2", "avx512"):
            if (isa, True) not in models:
                continue
            with models[isa, True].context(threads=1) as a, models[isa, False].context(threads=1) as b:
                for n in (1, MOST):
                    x = [numpy.ascontiguousarray(r[:n]) for r in rows]
                    for c in (a, b):
                        c.run(x)
                    mine, plain = best_ms((a, b), x)
                    ratios.append(mine / plain)
                    told.append(f"{isa} batch {n}: {mine:.3g} ms, {mine / plain:.2f} of plain")
        print(f"{'FAIL' if differ else 'ok  '} {name}: {'; '.join(told)}{' ' + str(differ[:4]) if differ else ''}", flush=True)
    if ratios:
        print(f"times: geometric mean {numpy.exp(numpy.log(ratios).mean()):.3f}, most {max(ratios):.2f} of an artifact without the option")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
