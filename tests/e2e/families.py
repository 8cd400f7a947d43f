"""A sweep over many families of models: how many are exported, built and verified, and why the others are not.

    families.py export --work DIR [--only REGEX] [--part K/N]        writes DIR/<case>.pt2 (kept between runs) and DIR/export[K].json
    families.py check  --work DIR --aotc BIN [--gate LINK_GATE] [--only REGEX] [--jobs N] [--again] [--flags=--cuda=sm_90a --gpus N]
                                                                     builds and verifies every .pt2, writes DIR/results.json
    families.py bench  --work DIR --aotc BIN [--only REGEX]          eager / aotc of every verified artifact, slowest first
    families.py report --work DIR [--markdown FILE]                  sums up

Each case is exported static, dynamic where it names dims, and a part of them in bfloat16 or after run_decompositions().
Needs transformers; not part of the fast tests."""
import argparse
import concurrent.futures
import contextlib
import glob
import io
import json
import os
import re
import signal
import subprocess
import sys
import warnings
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class TimeOut(Exception):
    pass


def time_out(*_):
    raise TimeOut("export took too long")


def wanted(o, name):
    return not o.only or re.search(o.only, name)


def variants(k, dims):
    """Which forms of case number k are exported: the name's suffix, dynamic, dtype, decomposed."""
    yield "", False, None, False
    if dims:
        yield ".dyn", True, None, False
    if k % 3 == 0:
        yield ".dec", bool(dims) and k % 2 == 0, None, True
    if k % 4 == 1:
        yield ".bf16", bool(dims) and k % 8 == 1, "bfloat16", False
    if k % 12 == 3:
        yield ".f16", False, "float16", False


def export_one(make, path, dynamic, dtype, decomposed):
    import torch
    from torch.utils import _pytree as pytree

    torch.manual_seed(1)
    module, args, dims = make()
    module = module.eval().requires_grad_(False)
    if dtype:
        to = getattr(torch, dtype)
        module = module.to(to)
        args = pytree.tree_map(lambda t: t.to(to) if t.is_floating_point() else t, args)
    spec = None
    if dynamic:
        spec = [{d: torch.export.Dim.AUTO(min=a, max=b) for d, (a, b) in (x or {}).items()} for x in dims]
        star = "args" in type(module).forward.__code__.co_varnames or "a" == type(module).forward.__code__.co_varnames[1:2][0]
        spec = (tuple(spec),) if star and type(module).forward.__code__.co_flags & 4 else tuple(spec)
    with torch.no_grad():
        module(*pytree.tree_map(lambda t: t.clone(), args))
        program = torch.export.export(module, args, dynamic_shapes=spec, strict=False)
        if decomposed:
            program = program.run_decompositions()
        torch.export.save(program, path)


def export(o):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.filterwarnings("ignore")
    import logging

    logging.disable(logging.WARNING)
    import families_case, families_nets, families_attention, families_heads

    cases = dict(families_case.CASES)
    if not o.nets:
        import families_hf

        cases.update({"hf_" + k: v for k, v in families_hf.CASES.items()})
    signal.signal(signal.SIGALRM, time_out)
    part, parts = (int(x) for x in o.part.split("/"))
    file = os.path.join(o.work, f"export{part or ''}.json")
    failed = json.load(open(file)) if os.path.exists(file) else {}
    for k, (name, make) in list(enumerate(cases.items()))[part::parts]:
        try:
            import torch

            has_dims = True
            forms = list(variants(k, has_dims))
        except Exception:
            continue
        for suffix, dynamic, dtype, decomposed in forms:
            full = name + suffix
            path = os.path.join(o.work, full + ".pt2")
            if not wanted(o, full) or os.path.exists(path) or (full in failed and not o.again):
                continue
            failed.pop(full, None)
            try:
                signal.alarm(120)
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    if dynamic and make()[2] is None:
                        if suffix == ".dyn":
                            continue
                        dynamic = False
                    export_one(make, path + ".part", dynamic, dtype, decomposed)
                os.rename(path + ".part", path)
                print("exported", full, flush=True)
            except (Exception, TimeOut) as e:
                failed[full] = f"{type(e).__name__}: {str(e)[:400]}"
                print("NOT     ", full, failed[full][:300].replace("\n", " | "), flush=True)
            finally:
                signal.alarm(0)
        json.dump(failed, open(file, "w"), indent=1, sort_keys=True)


def run(cmd, seconds, env=None):
    try:
        r = subprocess.run(cmd, capture_output=True, text=True, timeout=seconds, env=env)
        return r.returncode, r.stdout, r.stderr
    except subprocess.TimeoutExpired:
        return -999, "", "time out"


def check_one(o, name):
    pt2, so = os.path.join(o.work, name + ".pt2"), os.path.join(o.work, name + ".so")
    rc, out, err = run([o.aotc, "build", pt2, "-o", so, "--quiet", "-j", "2", *o.flags.split()], 600)
    if rc:
        return {"stage": "unsupported" if rc == 4 else "build", "why": (err + out)[-3000:], "rc": rc}
    env = dict(os.environ, CUDA_VISIBLE_DEVICES=str(zlib.crc32(name.encode()) % o.gpus)) if o.gpus else None
    rc, out, err = run([o.aotc, "verify", so, "--against", pt2, "--samples", "3", "--json"], 600, env)
    if rc:
        outputs = ""
        with contextlib.suppress(Exception):
            outputs = json.dumps(json.loads(out)["outputs"])
        return {"stage": "verify", "why": (err or outputs or out)[-3000:], "rc": rc}
    if o.gate:
        rc, out, err = run([o.gate, so], 60)
        if rc:
            return {"stage": "gate", "why": (err + out)[-2000:], "rc": rc}
    return {"stage": "ok", "why": "", "rc": 0}


def check(o):
    file = os.path.join(o.work, "results.json")
    results = json.load(open(file)) if os.path.exists(file) else {}
    names = sorted(f[:-4] for f in os.listdir(o.work) if f.endswith(".pt2"))
    names = [n for n in names if wanted(o, n) and (o.again or results.get(n, {}).get("stage") != "ok")]
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for name, r in zip(names, pool.map(lambda n: check_one(o, n), names)):
            results[name] = r
            print(f"{r['stage']:12}{name}  {r['why'][:300]}".replace("\n", " | "), flush=True)
            json.dump(results, open(file, "w"), indent=1, sort_keys=True)


def bench(o):
    results = json.load(open(os.path.join(o.work, "results.json")))
    rows = {}
    for name in sorted(n for n, r in results.items() if r["stage"] == "ok" and wanted(o, n)):
        so = os.path.join(o.work, name)
        rc, out, err = run([o.aotc, "bench", so + ".so", "--against", so + ".pt2", "--json", "--seconds", "0.1", "--threads", "1"], 120)
        if rc == 0:
            b = json.loads(out)
            rows[name] = {"aotc_us": b["min_us"], "eager_us": b["eager"]["min_us"]}
            json.dump(rows, open(os.path.join(o.work, "bench.json"), "w"), indent=1)
    for ratio, name in sorted((r["eager_us"] / r["aotc_us"], n) for n, r in rows.items()):
        print(f"{ratio:8.2f}  {rows[name]['aotc_us']:10.1f} us  eager {rows[name]['eager_us']:10.1f} us  {name}")


def short(why):
    lines = [l.strip() for l in why.splitlines() if l.strip()]
    return re.sub(r"/\S+/", "", " ".join(lines))[:240].replace("|", "\\|")


def report(o):
    results = json.load(open(os.path.join(o.work, "results.json")))
    failed = {}
    for file in glob.glob(os.path.join(o.work, "export*.json")):
        failed.update(json.load(open(file)))
    count = lambda *stages: sum(r["stage"] in stages for r in results.values())
    families = {n.split(".")[0] for n in results}
    whole = {f for f in families if all(r["stage"] == "ok" for n, r in results.items() if n.split(".")[0] == f)}
    text = [f"exported {len(results)} (and {len(failed)} could not be), built {count('ok', 'verify', 'gate')}, verified {count('ok')}; {len(families)} families, {len(whole)} with every form verified", ""]
    text += ["| case | stage | why |", "|---|---|---|"]
    text += [f"| {n} | {r['stage']} | {short(r['why'])} |" for n, r in sorted(results.items()) if r["stage"] != "ok"]
    text += ["", "Not exported by torch.export:", "", "| case | why |", "|---|---|"] + [f"| {n} | {short(w)[:120]} |" for n, w in sorted(failed.items())]
    text += ["", "Verified: " + ", ".join(n for n, r in sorted(results.items()) if r["stage"] == "ok"), ""]
    print("\n".join(text))
    if o.markdown:
        with open(o.markdown, "w") as f:
            f.write("# Families of models: what `families.py` found\n\n" + "\n".join(text))


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("verb", choices=["export", "check", "bench", "report"])
    p.add_argument("--work", required=True)
    p.add_argument("--aotc", default="aotc")
    p.add_argument("--gate", default="")
    p.add_argument("--only", default="")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--again", action="store_true", help="also what passed (check) or failed (export) before")
    p.add_argument("--part", default="0/1", help="every N-th case from the K-th on")
    p.add_argument("--flags", default="", help="further flags of aotc build")
    p.add_argument("--gpus", type=int, default=0, help="the artifacts take turns on as many GPUs")
    p.add_argument("--nets", action="store_true", help="without the transformers library")
    p.add_argument("--markdown", default="")
    o = p.parse_args()
    os.makedirs(o.work, exist_ok=True)
    {"export": export, "check": check, "bench": bench, "report": report}[o.verb](o)
