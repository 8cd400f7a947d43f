#!/usr/bin/env python3
"""Operator coverage from PyTorch's own test suites.

  opinfo_sweep.py export DIR [--suite op|module] [--ops REGEX] [--dtypes float32,int64] [--samples N] [--decompose] [--dynamic]
                             writes DIR/manifest.json, one .pt2 and raw inputs and outputs a case, and DIR/export.json (failures)
  opinfo_sweep.py report DIR  sums up DIR/report.jsonl, which decompose_check wrote

Each sample becomes a module whose inputs are the sample's tensors and which closes over the rest.
"""
import argparse, collections, json, os, re, signal, sys, warnings

warnings.filterwarnings("ignore")


class TimeOut(Exception): pass


def raise_time_out(*_): raise TimeOut("export took too long")


def raw(t):
    import torch
    t = t.detach().contiguous()
    return (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes()


def describe(tensors, stem, out):
    items = []
    for i, t in enumerate(tensors):
        name = f"{stem}.{i}.bin"
        open(os.path.join(out, name), "wb").write(raw(t))
        items.append({"file": name, "dtype": str(t.dtype)[6:], "dims": list(t.shape)})
    return items


def op_cases(args):
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    for op in op_db:
        full = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if not re.search(args.ops, full): continue
        for dtype in args.dtypes:
            if dtype not in op.supported_dtypes("cpu"): continue
            try:
                samples = list(op.sample_inputs("cpu", dtype))
            except Exception as e:
                yield f"{full}/{str(dtype)[6:]}", None, None, e
                continue
            step = max(1, len(samples) / args.samples)
            for k in range(min(args.samples, len(samples))):
                s = samples[int(k * step)]
                yield f"{full}/{str(dtype)[6:]}/{int(k * step)}", op.get_op(), (s.input, list(s.args), dict(s.kwargs)), None


def module_cases(args):
    import torch
    from torch.testing._internal.common_modules import module_db
    for info in module_db:
        if not re.search(args.ops, info.name): continue
        for dtype in args.dtypes:
            try:
                inputs = list(info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=False))
            except Exception as e:
                yield f"{info.name}/{str(dtype)[6:]}", None, None, e
                continue
            step = max(1, len(inputs) / args.samples)
            for k in range(min(args.samples, len(inputs))):
                m = inputs[int(k * step)]
                if m.forward_input is None: continue
                try:
                    torch.manual_seed(0)
                    module = info.module_cls(*m.constructor_input.args, **m.constructor_input.kwargs).to(dtype).eval().requires_grad_(False)
                except Exception as e:
                    yield f"{info.name}/{str(dtype)[6:]}/{k}", None, None, e
                    continue
                call = lambda first, rest, kw, module=module: module(first, *rest, **kw) if first is not None else module(*rest, **kw)
                yield f"{info.name}/{str(dtype)[6:]}/{k}", (module, call), (None, list(m.forward_input.args), dict(m.forward_input.kwargs)), None


def export(args):
    import torch
    from torch.utils import _pytree as pytree
    args.dtypes = [getattr(torch, d) for d in args.dtypes.split(",")]
    os.makedirs(args.dir, exist_ok=True)
    manifest, failures = [], {}
    signal.signal(signal.SIGALRM, raise_time_out)

    class Case(torch.nn.Module):
        def __init__(self, fn, spec, fixed, places):
            super().__init__()
            if isinstance(fn, tuple): self.module, self.fn = fn
            else: self.fn = fn
            self.spec, self.fixed, self.places = spec, fixed, places
        def forward(self, *tensors):
            leaves = list(self.fixed)
            for p, t in zip(self.places, tensors): leaves[p] = t
            first, rest, kw = pytree.tree_unflatten(leaves, self.spec)
            r = self.fn(first, *rest, **kw) if not hasattr(self, "module") else self.fn(first, rest, kw)
            return [x for x in pytree.tree_leaves(r) if isinstance(x, torch.Tensor)]

    for n, (name, fn, sample, error) in enumerate(op_cases(args) if args.suite == "op" else module_cases(args)):
        if error is not None:
            failures[name] = repr(error)[:300]
            continue
        try:
            signal.alarm(20)
            leaves, spec = pytree.tree_flatten(sample)
            places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
            tensors = tuple(leaves[i].detach().clone(memory_format=torch.contiguous_format) for i in places)
            case = Case(fn, spec, [None if i in places else x for i, x in enumerate(leaves)], places).eval()
            with torch.no_grad():
                want = case(*[t.clone() for t in tensors])
                shapes = (tuple({d: torch.export.Dim.AUTO for d in range(t.dim()) if t.shape[d] > 1} for t in tensors),) if args.dynamic else None
                ep = torch.export.export(case, tuple(t.clone() for t in tensors), dynamic_shapes=shapes, strict=False)
                if args.decompose: ep = ep.run_decompositions()
            if any(t.is_complex() or t.is_sparse or t.is_quantized for t in want + list(tensors)): raise ValueError("complex, sparse or quantized")
            stem = f"{n:05d}"
            torch.export.save(ep, os.path.join(args.dir, stem + ".pt2"))
            manifest.append({"name": name, "pt2": stem + ".pt2", "inputs": describe(tensors, stem + ".in", args.dir), "outputs": describe(want, stem + ".out", args.dir)})
        except (Exception, TimeOut) as e:
            failures[name] = f"{type(e).__name__}: {str(e)[:200]}"
        finally:
            signal.alarm(0)
    json.dump(manifest, open(os.path.join(args.dir, "manifest.json"), "w"))
    json.dump(failures, open(os.path.join(args.dir, "export.json"), "w"), indent=1)
    print(f"exported {len(manifest)}, failed {len(failures)}")


def report(args):
    failures = json.load(open(os.path.join(args.dir, "export.json")))
    lines = [json.loads(l) for l in open(os.path.join(args.dir, "report.jsonl"))]
    counts = collections.Counter(l["status"] for l in lines)
    done = len(lines) - counts["import"] - counts["unsupported"]
    print(f"exported {len(lines)} (and {len(failures)} could not be), decomposed {done}, correct {counts['ok']}; {dict(counts)}")
    ops = collections.defaultdict(set)
    for l in lines: ops[l["name"].split("/")[0]].add(l["status"])
    print(f"operators: {len(ops)} exported, {sum('ok' in s for s in ops.values())} with a correct case, {sum(s == {'ok'} for s in ops.values())} with only correct ones")
    for status in ("decompose", "passes", "loop", "import", "unsupported"):
        why = collections.defaultdict(list)
        for l in lines:
            if l["status"] == status: why[re.sub(r"%\w+|\d+", "#", l["why"])[:160]].append(l)
        for text, cases in sorted(why.items(), key=lambda x: -len(x[1])):
            print(f"{status:12} {len(cases):4}  {cases[0]['name']}: {cases[0]['why'][:args.width]}")
    if args.failures:
        for name, text in failures.items(): print(f"not exported  {name}: {text[:args.width]}")


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("verb", choices=["export", "report"])
    p.add_argument("dir")
    p.add_argument("--suite", choices=["op", "module"], default="op")
    p.add_argument("--ops", default="")
    p.add_argument("--dtypes", default="float32")
    p.add_argument("--samples", type=int, default=4)
    p.add_argument("--decompose", action="store_true", help="export with run_decompositions()")
    p.add_argument("--dynamic", action="store_true", help="every dimension above 1 is symbolic")
    p.add_argument("--width", type=int, default=200)
    p.add_argument("--failures", action="store_true")
    a = p.parse_args()
    (export if a.verb == "export" else report)(a)
