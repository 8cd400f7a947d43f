"""What inputs, outputs, dimensions and states are called, beside torch's own trees: results by their place in what the program returns, dimensions
by the first input that has them, states by the module and the attribute. In the artifact, its metadata, its header, `inspect` and `--dim`.

    names.py --aotc BIN --work DIR
"""
import collections
import dataclasses
import json
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import torch
import torch.nn as nn
from torch.utils import _pytree as pytree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
import arguments
import binding

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import thirds

INPUT, OUTPUT, STATE = 0, 1, 2
NUMBERED = re.compile(r"\b(s\d+|lifted_tensor_\d+)\b")


@dataclasses.dataclass
class Result:
    logits: object
    past: object = None
    hidden: object = None


torch.export.register_dataclass(Result, serialized_type_name="aotc_names_Result")


class Fields(nn.Module):
    """A dataclass with a field that is None, lists, dicts, None within; nested inputs."""

    def forward(self, input_ids, options, keys):
        y = input_ids * 2 + options["shift"]
        a, b = options["pair"]
        return Result(logits=y, past=[{"keys": y + 1, "values": y + 2, "none": None}, {"keys": a + keys[0], "values": b * 2}])


class Mixed(nn.Module):
    """A tuple with None and dicts, keys that are no identifiers, one name twice."""

    def forward(self, x, y):
        shared = x + 1
        return shared, None, {"a b": x * 2, "a.b": x * 3, "a_b": [y + 1, shared]}, collections.OrderedDict(q=y * 2)


class Plain(nn.Module):
    def forward(self, x, y):
        return x * 2, y + x.shape[1]


class Halves(nn.Module):
    """A size that no input has by itself, and an input that is called as a dimension is."""

    def forward(self, x, x_1):
        return {"sum": x.reshape(2, -1).sum(0), "other": x_1 + 1}


class Store:
    def __init__(self):
        self.rows, self.more = torch.zeros(8, 4), torch.zeros(8, 4)
        self.both = [torch.zeros(8, 4), torch.zeros(8, 4)]

    def update(self, first, second, at):
        for t, x in zip(self.both, (first, second)):
            t.index_copy_(0, at, x)
        return self.both


def put(t, at, x):
    t.index_copy_(0, at, x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 4))
        self.register_buffer("aside", torch.zeros(8, 4), persistent=False)
        self.values = torch.zeros(8, 4)
        self.store = Store()

    def forward(self, at, x):
        self.keys.index_copy_(0, at, x)
        self.aside[at] = x * 2
        self.values.index_copy_(0, at, x * 3)
        self.store.rows.index_copy_(0, at, x * 4)
        put(self.store.more, at, x * 5)
        first, second = x * 6, x * 7
        first, second = self.store.update(first, second, at)
        return x + sum(t.sum(0) for t in (self.keys, self.aside, self.values, self.store.rows, self.store.more, first, second))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, at, x):
        for layer in self.layers:
            x = layer(at, x)
        return {"hidden": x}


class States(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Model()

    def forward(self, at, x):
        return self.model(at, x)


R = torch.randn
AUTO, B = torch.export.Dim.AUTO, torch.export.Dim("batch", min=1, max=64)
HALF = torch.export.Dim("half", min=1, max=32)
CASES = {
    "fields": (Fields(), (R(3, 4), {"shift": R(3, 4), "pair": (R(2), R(2))}, [R(2)]), ({0: B}, {"shift": {0: B}, "pair": (None, None)}, [None]),
               ["input_ids_0"], None),
    "mixed": (Mixed(), (R(3, 4), R(5)), ({0: AUTO, 1: AUTO}, {0: AUTO}), ["x_0", "x_1", "y_0"], None),
    "plain": (Plain(), (R(3, 4), R(5)), (None, {0: AUTO}), ["y_0"], None),
    "halves": (Halves(), (R(6), R(4)), ({0: 2 * HALF}, {0: B}), ["x_0_part", "x_1_0"], None),
    "states": (States(), (torch.tensor([1]), R(1, 4)), None, [],
               {f"model.layers.{i}.{n}" for i in range(2) for n in ("keys", "aside", "values", "rows", "state_0", "first", "second")}),
}


def name_of_key(key):
    for field in ("key", "idx", "name"):
        if hasattr(key, field):
            return getattr(key, field)
    raise AssertionError(key)


def expected_results(program):
    """By torch's tree of what the program returns: a name for each tensor; None where no key leads to it."""
    spec = program.call_spec.out_spec
    leaves = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    places, _ = pytree.tree_flatten_with_path(leaves)
    tensors = [s.arg.__class__.__name__ == "TensorArgument" for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    out = []
    for (path, _), is_tensor in zip(places, tensors):
        keys = [name_of_key(k) for k in path]
        if not is_tensor:
            continue
        if not any(isinstance(k, str) for k in keys):
            out.append(None)
            continue
        text = ".".join(re.sub(r"[^\w.-]", "_", str(k)) for k in keys)
        out.append(text if isinstance(keys[0], str) else "output_" + text)
    return out


def export(path, net, example, shapes):
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(net, example, dynamic_shapes=shapes, strict=False), path)
        return torch.export.load(path)


def run(o, *arguments, ok=True):
    r = subprocess.run([o.aotc, *arguments], capture_output=True, text=True)
    assert (r.returncode == 0) == ok, f"{arguments}: {r.stdout}{r.stderr}"
    return r.stdout + r.stderr


def check(o, name):
    net, example, shapes, dims, states = CASES[name]
    path = os.path.join(o.work, name)
    program = export(path + ".pt2", net, example, shapes)
    run(o, "build", path + ".pt2", "-o", path + ".so", "--quiet")
    artifact = binding.Artifact(path + ".so").create()
    names = [[i.name.decode() for i in artifact.io(kind)] for kind in range(3)]
    meta = json.loads(artifact.api.metadata_json())

    assert names[INPUT] == [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"], names[INPUT]
    want = expected_results(program)
    assert len(want) == len(names[OUTPUT]) == len(set(names[OUTPUT])), names[OUTPUT]
    for got, expected in zip(names[OUTPUT], want):
        again = expected and re.fullmatch(re.escape(expected) + r"_\d+", got) and want.count(expected) + names[OUTPUT].count(expected) > 1
        assert expected is None or got == expected or again, f"{name}: {names[OUTPUT]}, not {want}"
    if states is not None:
        assert set(names[STATE]) == states, names[STATE]
    assert {s["name"] for s in meta["symbols"]} == set(dims), meta["symbols"]
    for kind, of in (("inputs", INPUT), ("outputs", OUTPUT), ("states", STATE)):
        assert [t["name"] for t in meta[kind]] == names[of]
    # The same values under those names: the order is that of the tree.
    given = [t for t in pytree.tree_leaves(example)]
    arrays = [np.ascontiguousarray(t.numpy()) for t in given]
    tensors = binding.tensors(arrays, [6 if t.dtype == torch.int64 else 9 for t in given])
    context = artifact.context()
    out = context.output_arrays(tensors)
    context.run(tensors, binding.tensors(out, [i.dtype for i in artifact.io(OUTPUT)]))
    eager = [t for t in pytree.tree_leaves(program.module()(*example)) if isinstance(t, torch.Tensor)]
    for got, expected, called in zip(out, eager, names[OUTPUT]):
        assert np.allclose(got, expected.numpy(), rtol=2e-6, atol=2e-6), f"{name}: {called}"

    header = open(path + ".h").read()
    generated = header[header.index("/* The dimensions that vary. */"):] + header[:header.index("#ifndef")]
    texts = {"header": generated, "inspect": run(o, "inspect", path + ".so"), "inspect of the archive": run(o, "inspect", path + ".pt2")}
    for where, text in texts.items():
        # the lines of the program itself may have what they like
        assert not NUMBERED.search(text), f"{name}: {where}: {NUMBERED.search(text).group()} in {text[-3000:]}"
        for n in names[OUTPUT] + [d for d in dims] + names[STATE]:
            assert n in text or where != "header", f"{name}: {where} has no {n}"
    archive_of = {s["name"]: s["archive"] for s in meta["symbols"]}
    for symbol in meta["symbols"]:
        assert re.fullmatch(r"s\d+", symbol["archive"]), symbol
        for spelling in (symbol["name"], symbol["archive"]):
            run(o, "verify", path + ".so", "--against", path + ".pt2", "--dim", f"{spelling}=6", "--samples", "2")
            run(o, "bench", path + ".so", "--dim", f"{spelling}=6", "--seconds", "0.01")
        said = run(o, "verify", path + ".so", "--against", path + ".pt2", "--dim", f"{symbol['name']}=100000000", ok=False) if symbol["max"] else ""
        assert not NUMBERED.search(said), said
    if dims:
        said = run(o, "bench", path + ".so", "--dim", "nothing=3", ok=False)
        assert ", ".join(sorted(dims)) in said or all(d in said for d in dims), said
        bad = [a if a.ndim == 0 else a[:0] if i == 0 else a for i, a in enumerate(arrays)]
        try:
            context.output_arrays(binding.tensors(bad, [9] * len(bad)))
        except binding.Failure as e:
            assert not NUMBERED.search(str(e)), str(e)
    # A name of the caller's own goes before; the archive's is still taken.
    if dims:
        first = next(i for i in meta["inputs"] if dims[0] in i["shape"] or any(dims[0] in str(d) for d in i["shape"]))
        at = next(i for i, d in enumerate(first["shape"]) if dims[0] in str(d))
        if first["shape"][at] == dims[0]:
            shape = [("mine" if i == at else d if isinstance(d, int) else d) for i, d in enumerate(first["shape"])]
            spec = os.path.join(o.work, name + ".json")
            with open(spec, "w") as f:
                json.dump({"inputs": {first["name"]: {"shape": shape}}}, f)
            run(o, "build", path + ".pt2", "--shapes", spec, "-o", path + "_mine.so", "--quiet")
            mine = binding.Artifact(path + "_mine.so")
            symbols = json.loads(mine.api.metadata_json())["symbols"]
            assert {s["archive"]: s["name"] for s in symbols}[archive_of[dims[0]]] == "mine", symbols
            run(o, "bench", path + "_mine.so", "--dim", f"{archive_of[dims[0]]}=6", "--seconds", "0.01")
    context.close()
    artifact.close()


def main():
    o = arguments.parse(names="names")
    for name in o.names or thirds.some(CASES, "programs whose names are compared"):
        check(o, name)
        print(f"{name}: ok", flush=True)


if __name__ == "__main__":
    main()
