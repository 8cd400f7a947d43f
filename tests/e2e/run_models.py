"""Builds the models of models.py with aotc (a ninth of them a commit, tests/thirds.py, or those that are named) and verifies each: against
LibTorch eager and fp64 (aotc verify), the link gate, what explain counts, what the other verbs say, the metadata and the report by their schemas,
the generated header as C and C++, the same bytes twice; the text of every stage parses to itself.

    run_models.py --aotc BIN --work DIR --gate LINK_GATE --filetests BIN [name ...]
"""
import json
import os
import shutil
import subprocess
import sys
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import arguments
import thirds
from json_schema import validate
from models import DECOMPOSED, EXPLAINED, MODELS, STORED_ONCE, TRAIN_MODE
from training_models import TRAINED, training_program


def sh(*cmd):
    r = subprocess.run([str(c) for c in cmd], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{' '.join(map(str, cmd))}: exit {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


def export(name, path):
    torch.manual_seed(1)
    module, args, dims = MODELS[name]()
    with warnings.catch_warnings(), torch.set_grad_enabled(name in TRAINED):
        warnings.simplefilter("ignore")
        module = module.train(name in TRAINED or name in TRAIN_MODE)
        program = torch.export.export(module, args, dynamic_shapes=dims_for(module, dims), strict=False)
        if name in TRAINED:
            program = training_program(program)
        if name in DECOMPOSED:
            program = program.run_decompositions()
        torch.export.save(program, path)


def dims_for(module, dims):
    """models.Fn takes *args, so its shapes stand in one tuple more."""
    return (dims,) if dims and type(module).__name__ == "Fn" else dims


def check_opt(o, dump, out):
    """The passes on the dumped text, its constants beside it, give what they gave in the build."""
    changed = {}
    for name in sorted(os.listdir(dump)):
        text = open(os.path.join(dump, name)).read() if name.endswith(".txt") else ""
        if text.startswith("graph @"):
            changed[name] = text
    names = list(changed)
    assert names[0].endswith("-decompose.txt"), names
    os.makedirs(os.path.dirname(out))
    sh(o.aotc, "opt", os.path.join(dump, names[0]), "--passes=all", "-o", out)
    assert open(out).read() == changed[names[-1]], f"aotc opt of {names[0]} does not give {names[-1]}"


def check_counts(o, name, pt2, so):
    """What `aotc explain` says of the archive, where models.py states it."""
    told = json.loads(sh(o.aotc, "explain", pt2, "--json"))
    if name in EXPLAINED:
        counted = len(told["steps"]), len(told["prologues"])
        assert counted == EXPLAINED[name], f"steps and prologues: {counted}, not {EXPLAINED[name]}: {told['not_fused']}"
    if name in STORED_ONCE:
        stored, given = json.load(open(so[:-3] + ".report.json"))["weights_bytes"], os.path.getsize(pt2)
        assert stored <= 1.02 * given, f"{stored} bytes of weights for an archive of {given}: {told['weights']}"


def check_gradients(o, name, so):
    metadata = json.loads(sh(o.aotc, "inspect", so, "--json"))
    gradients = {i: out["gradient_of"] for i, out in enumerate(metadata["outputs"]) if "gradient_of" in out}
    assert bool(gradients) == (name in TRAINED)
    for i, of in gradients.items():
        assert f'case {i}: return "{of}";' in open(so[:-3] + ".h").read(), f"the header does not say that output {i} is the gradient of {of}"


def check_dump(o, dump):
    if o.filetests:
        texts = [os.path.join(dump, f) for f in os.listdir(dump) if f.endswith(".txt") and not f.endswith(("-import.txt", "-expand.txt"))]
        assert len(texts) > 10
        sh(o.filetests, "--same", *texts)
    check_opt(o, dump, os.path.join(dump, "opt", "out.graph"))
    shutil.rmtree(dump)


def check_whole(o, name, pt2, so, options):
    first = open(so, "rb").read()
    validate("metadata", json.loads(sh(o.aotc, "inspect", so, "--json")))
    validate("report", json.load(open(so[:-3] + ".report.json")))
    for file in (so, pt2):
        assert "op " in sh(o.aotc, "inspect", file)
    assert "kernels" in sh(o.aotc, "explain", so)
    user = os.path.join(o.work, name + "_user")
    for suffix, compiler, std in ((".c", "cc", "c11"), (".cpp", "c++", "c++17")):
        with open(user + suffix, "w") as f:
            f.write(f'#include "{name}.h"\nint main(void) {{ return 0; }}\n')
        sh(compiler, f"-std={std}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_POSIX_C_SOURCE=200809L", "-fsyntax-only", "-Wno-unused-function", user + suffix)
    sh(o.aotc, "build", pt2, "-o", so, "--quiet", *options)
    assert open(so, "rb").read() == first, "two builds differ"


def check(o, name):
    pt2, so = os.path.join(o.work, name + ".pt2"), os.path.join(o.work, name + ".so")
    export(name, pt2)
    options = TRAINED.get(name, ())
    dump = os.path.join(o.work, name + "_dump")
    shutil.rmtree(dump, ignore_errors=True)
    sh(o.aotc, "build", pt2, "-o", so, "--quiet", "--dump-dir", dump, *options)
    verdict = json.loads(sh(o.aotc, "verify", so, "--against", pt2, "--json", "--samples", "4"))
    assert verdict["pass"] and verdict["outputs"]
    if o.gate:
        sh(o.gate, so)
    check_gradients(o, name, so)
    check_counts(o, name, pt2, so)
    check_dump(o, dump)
    check_whole(o, name, pt2, so, options)


def main():
    o = arguments.parse(names="names", gate="", filetests="")
    failed = []
    names = o.names or thirds.some(MODELS, "models", 9)
    for name in names:
        try:
            check(o, name)
            print("ok  ", name, flush=True)
        except Exception as e:
            failed.append(name)
            print("FAIL", name, str(e)[:3000], flush=True)
    print(f"{len(names) - len(failed)} of {len(names)} models pass")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
