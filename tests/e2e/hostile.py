"""Archives of a few kilobytes that say of more than any machine has, or that are in themselves: each is answered in seconds, in bounded
memory, with exit 3 or 4 and a message that says what was too much (or, where the model is one, with exit 0), and leaves nothing behind.

    hostile.py --aotc BIN --work DIR [--only NAME]
"""
import json
import os
import re
import resource
import struct
import subprocess
import sys
import time
import zipfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import arguments
import thirds

MEMORY = 4 << 30  # of addresses, LibTorch among them
SECONDS = 40      # of processor time; a machine may be busy
PATIENCE = 400    # seconds
F32, I64, BOOL = 7, 5, 12


def size(d):
    return {"as_int": d} if isinstance(d, int) else {"as_expr": {"expr_str": d, "hint": None}}


def meta(sizes, dtype=F32, strides=None):
    if strides is None:
        strides = [1] * len(sizes)
        for i in reversed(range(len(sizes) - 1)):
            strides[i] = strides[i + 1] * sizes[i + 1] if all(isinstance(d, int) for d in sizes[i + 1:]) else 1
    return {"dtype": dtype, "sizes": [size(d) for d in sizes], "requires_grad": False, "device": {"type": "cpu", "index": None},
            "strides": [size(d) for d in strides], "storage_offset": {"as_int": 0}, "layout": 7}


def tensor(name):
    return {"as_tensor": {"name": name}}


def argument(value):
    if isinstance(value, dict):
        return value
    if isinstance(value, str):
        return tensor(value)
    if isinstance(value, list):
        return {"as_tensors": [{"name": n} for n in value]}
    return {"as_int": value}


def node(target, inputs, output):
    """inputs: (name, value); a value is a tensor's name, a list of them, an int or an argument as it is written."""
    return {"target": "torch.ops." + target, "inputs": [{"name": n, "arg": argument(v), "kind": 1} for n, v in inputs],
            "outputs": [tensor(output)], "metadata": {}, "name": output, "is_hop_single_tensor_return": None}


def graph(inputs, nodes, outputs, tensors):
    return {"inputs": [tensor(n) for n in inputs], "outputs": [tensor(n) for n in outputs], "nodes": nodes, "tensor_values": tensors,
            "sym_int_values": {}, "sym_bool_values": {}, "sym_float_values": {}, "custom_obj_values": {}, "is_single_tensor_return": False}


def as_graph(name, g):
    return {"as_graph": {"name": name, "graph": g}}


LEAF = '{"type": null, "context": null, "children_spec": []}'


def in_spec(n, context="[]"):
    return ('[1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": "builtins.tuple", "context": "null", '
            f'"children_spec": [{", ".join([LEAF] * n)}]}}, {{"type": "builtins.dict", "context": {json.dumps(context)}, "children_spec": []}}]}}]')


def model(g, ranges=None, guards=(), buffers=(), spec=None):
    users = [i["as_tensor"]["name"] for i in g["inputs"] if i["as_tensor"]["name"] not in buffers]
    specs = [{"buffer": {"arg": {"name": b}, "buffer_name": b, "persistent": True}} for b in buffers]
    specs += [{"user_input": {"arg": tensor(n)}} for n in users]
    call = {"inputs": [], "outputs": [], "in_spec": spec or in_spec(len(users)), "forward_arg_names": users,
            "out_spec": f'[1, {{"type": "builtins.tuple", "context": "null", "children_spec": [{", ".join([LEAF] * len(g["outputs"]))}]}}]'}
    return {"graph_module": {"graph": g, "signature": {"input_specs": specs, "output_specs": [{"user_output": {"arg": o}} for o in g["outputs"]]},
                             "module_call_graph": [{"fqn": "", "signature": call}], "metadata": {}, "treespec_namedtuple_fields": {}},
            "opset_version": {"aten": 10}, "range_constraints": ranges or {}, "schema_version": {"major": 8, "minor": 20}, "verifiers": ["TRAINING"],
            "torch_version": "2.13.0", "guards_code": list(guards)}


def write(path, m, weights=None, samples=None):
    """weights: name: (meta, bytes stored)."""
    config = {}
    with zipfile.ZipFile(path, "w") as z:
        for i, (name, (m_of, data)) in enumerate((weights or {}).items()):
            z.writestr(f"a/data/weights/weight_{i}", data)
            config[name] = {"path_name": f"weight_{i}", "is_param": False, "use_pickle": False, "tensor_meta": m_of}
        z.writestr("a/data/weights/model_weights_config.json", json.dumps({"config": config}))
        z.writestr("a/data/constants/model_constants_config.json", json.dumps({"config": {}}))
        z.writestr("a/models/model.json", json.dumps(m))
        if samples:
            z.writestr("a/data/sample_inputs/model.pt", samples)
        for name, text in (("archive_format", "pt2"), ("archive_version", "0"), (".data/version", "3\n"), ("byteorder", "little")):
            z.writestr("a/" + name, text)


def pointwise(sizes, **more):
    """relu of an input of these sizes."""
    t = meta(sizes)
    return model(graph(["x"], [node("aten.relu.default", [("self", "x")], "y")], ["y"], {"x": t, "y": t}), **more)


def of_size(expression):
    """relu of [s0, 4], and an output of ones whose size is an expression of s0."""
    x = meta(["s0", 4])
    nodes = [node("aten.relu.default", [("self", "x")], "y"),
             node("aten.ones.default", [("size", {"as_sym_ints": [{"as_name": "n"}]})], "z")]
    g = graph(["x"], nodes, ["y", "z"], {"x": x, "y": x, "z": meta([expression])})
    g["sym_int_values"] = {"n": size(expression)}
    return model(g, ranges={"s0": {"min_val": 1, "max_val": 64}})


def while_loop(condition_nodes, result, values):
    """i counts to 3, x doubles; the condition's graph is as given, its first operand is i."""
    scalar, flag, x = meta([], I64), meta([], BOOL), meta([4])
    condition = graph(["i", "v"], condition_nodes, [result], {"i": scalar, "v": x, **{n: flag for n in values}})
    body = graph(["i", "v"], [node("aten.add.Tensor", [("self", "i"), ("other", 1)], "i1"),
                              node("aten.add.Tensor", [("self", "v"), ("other", "v")], "v1")], ["i1", "v1"],
                 {"i": scalar, "v": x, "i1": scalar, "v1": x})
    start = node("aten.full.default", [("size", {"as_ints": []}), ("fill_value", 0), ("dtype", {"as_scalar_type": I64})], "zero")
    loop = {"target": "torch.ops.higher_order.while_loop", "outputs": [tensor("n"), tensor("y")], "metadata": {}, "name": "loop",
            "is_hop_single_tensor_return": None,
            "inputs": [{"name": "", "arg": a, "kind": 1} for a in (as_graph("condition", condition), as_graph("body", body),
                                                                  argument(["zero", "x"]), {"as_tensors": []})]}
    return model(graph(["x"], [start, loop], ["n", "y"], {"x": x, "zero": scalar, "n": scalar, "y": x}))


LESS = node("aten.lt.Scalar", [("self", "i"), ("other", 3)], "less")


def both(a, b, out):
    return node("aten.__and__.Tensor", [("self", a), ("other", b)], out)


def while_itself():
    return while_loop([LESS, both("less", "both", "both")], "both", ["less", "both"])


def while_circle():
    return while_loop([LESS, both("less", "b", "a"), both("a", "less", "b")], "b", ["less", "a", "b"])


def while_doubled(n=40):
    nodes = [LESS, both("less", "less", "b0")] + [both(f"b{i}", f"b{i}", f"b{i + 1}") for i in range(n)]
    return while_loop(nodes, f"b{n}", ["less"] + [f"b{i}" for i in range(n + 1)])


def while_chained(n=20000):
    nodes = [LESS, both("less", "less", "b0")] + [both("less", f"b{i}", f"b{i + 1}") for i in range(n)]
    return while_loop(nodes, f"b{n}", ["less"] + [f"b{i}" for i in range(n + 1)])


def scans(depth, rounds):
    """Scans in each other, each over the same rows."""
    row, rows = meta([4]), meta([rows_of := rounds, 4])
    values = {"c": row, "v": row, "w": rows, "o": row}
    inner = graph(["c", "v", "w"], [node("aten.add.Tensor", [("self", "c"), ("other", "v")], "o")], ["o"], values)

    def scan(level, carried, over, out):
        return node("higher_order.scan", [("", as_graph(f"g{level}", inner)), ("", [carried]), ("", [over]), ("", [over])], out)

    for level in range(depth - 1):
        inner = graph(["c", "v", "w"], [scan(level, "c", "w", "o")], ["o"], values)
    assert rows_of == rounds
    return model(graph(["x", "c0"], [scan(depth, "c0", "x", "y")], ["y"], {"x": rows, "c0": row, "y": row}))


def long_arguments(n=150000):
    t = meta([4])
    relu = node("aten.relu.default", [("self", "x")] + [(f"a{i}", 1) for i in range(n)], "y")
    return model(graph(["x"], [relu], ["y"], {"x": t, "y": t}))


def unknown_arguments(n=150000):
    t = meta([4])
    relu = node("mine.relu.default", [("", 1)] * n, "y")
    return model(graph(["x"], [relu], ["y"], {"x": t, "y": t}))


def arange(summed):
    out = meta([], I64) if summed else meta([1 << 40], I64)
    nodes = [node("aten.relu.default", [("self", "x")], "y"), node("aten.arange.default", [("end", 1 << 40)], "r")]
    tensors = {"x": meta([4]), "y": meta([4]), "r": meta([1 << 40], I64)}
    if summed:
        nodes.append(node("aten.sum.default", [("self", "r")], "s"))
        tensors["s"] = out
    return model(graph(["x"], nodes, ["y", "s" if summed else "r"], tensors))


def expanded(n=40, elements=1 << 26):
    names = [f"b_{i}" for i in range(n)]
    tensors = {"x": meta([4]), **{b: meta([elements], strides=[0]) for b in names}, **{f"s_{i}": meta([]) for i in range(n)}}
    nodes = [node("aten.sum.default", [("self", b)], f"s_{i}") for i, b in enumerate(names)]
    m = model(graph(names + ["x"], nodes, [f"s_{i}" for i in range(n)], tensors), buffers=names)
    return m, {b: (meta([elements], strides=[0]), struct.pack("f", i)) for i, b in enumerate(names)}


def folded(n=100):
    """Constants of 4 MB each, made of nothing."""
    nodes, tensors = [], {"x": meta([4])}
    for i in range(n):
        count = 500000 + i
        nodes.append(node("aten.arange.default", [("end", count)], f"r{i}"))
        nodes.append(node("aten.sin.default", [("self", f"r{i}")], f"c{i}"))
        nodes.append(node("aten.cumsum.default", [("self", f"c{i}"), ("dim", 0)], f"d{i}"))
        nodes.append(node("aten.select.int", [("self", f"d{i}"), ("dim", 0), ("index", 7)], f"o{i}"))
        tensors.update({f"r{i}": meta([count], I64), f"c{i}": meta([count]), f"d{i}": meta([count]), f"o{i}": meta([])})
    return model(graph(["x"], nodes, [f"o{i}" for i in range(n)], tensors))


def nested_tuples(depth=60):
    """Example inputs of which no one tells how many there are: a tuple of the tuple before, twice."""
    code = b"\x80\x02)q\x00"
    for i in range(depth):
        code += b"h" + bytes([i]) + b"\x86q" + bytes([i + 1])
    code += b"}\x86."
    import io
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("m/data.pkl", code)
        z.writestr("m/byteorder", "little")
    return file.getvalue()


def nested(function, depth, text="s0", second=""):
    for _ in range(depth):
        text = f"{function}({text}{second})"
    return text


SUM = "(" + " + ".join(f"({i} + s0)//{i + 2}" for i in range(38)) + ")"
TEN = "(" + " + ".join(f"(s0 + {i})//{i + 3}" for i in range(12)) + ")"


def cases():
    """name: (model, weights, samples, exit codes, what the message says)"""
    refused = (3, 4)
    plain = pointwise(["s0", 4], ranges={"s0": {"min_val": 1, "max_val": 64}})
    for name, m, codes, says in (
            ("while_itself", while_itself(), refused, "used before it is defined"),
            ("while_circle", while_circle(), refused, "used before it is defined"),
            ("while_doubled", while_doubled(), (0,), ""),
            ("while_chained", while_chained(), (0,) + refused, ""),
            ("scans", scans(2, 1000), refused, "nodes once its loops"),
            ("scans_3", scans(3, 100), refused, "nodes once its loops"),
            ("power", of_size(f"({SUM})**8"), refused, "parts"),
            ("powers", of_size(f"({SUM})**s0"), refused, "parts|bound"),
            ("product", of_size("*".join([TEN] * 12)), refused, "parts"),
            ("many_products", of_size(" + ".join(f"{TEN}*{TEN}*{k}" for k in range(1, 40))), (0,) + refused, ""),
            ("truncs", of_size(nested("TruncToInt", 60, second="/3 - 7")), refused, "parts"),
            ("abs", of_size(nested("Abs", 60, second=" - 7")), refused, "parts"),
            ("maxima", of_size(nested("Max", 60, second=" - 7, 5 - s0")), (0,) + refused, ""),
            ("or_2000", pointwise(["s0", "s1"], ranges={s: {"min_val": 1, "max_val": 9999} for s in ("s0", "s1")},
                                  guards=[" or ".join(f"L['x'].size()[0]*{i + 2} > L['x'].size()[1] + {i * i}" for i in range(1000))]), (0,) + refused, ""),
            ("guards", pointwise(["s0", "s1"], ranges={s: {"min_val": 1, "max_val": 9999} for s in ("s0", "s1")},
                                 guards=[f"L['x'].size()[0]*{i + 2} > L['x'].size()[1] + {i * i} or L['x'].size()[0] < {i}" for i in range(1000)]),
             (0,) + refused, ""),
            ("arguments", long_arguments(), refused, "no argument"),
            ("unknown_arguments", unknown_arguments(), refused, "mine.relu"),
            ("arange", arange(False), (0,) + refused, ""),
            ("arange_sum", arange(True), (0,) + refused, ""),
            ("folded", folded(), (0,) + refused, ""),
            ("deep_context", pointwise([4], spec=in_spec(1, "[" * 200000)), refused, "nests deeper"),
            ("deep_spec", pointwise([4], spec="[1, " + '{"children_spec": [' * 50000), refused, "nests deeper"),
            ("deep_model", {"graph_module": json.loads("[" * 900 + "]" * 900)}, refused, "nested deeper"),
    ):
        yield name, m, None, None, codes, says
    m, weights = expanded()
    yield "expanded", m, weights, None, refused, "bytes of expanded tensors"
    yield "tuples", plain, None, nested_tuples(), (0,), ""


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer(o, args):
    begun = time.monotonic()
    try:
        r = subprocess.run([o.aotc] + args, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=limited)
        return r.returncode, r.stderr, time.monotonic() - begun
    except subprocess.TimeoutExpired:
        return None, f"not answered in {PATIENCE} s", PATIENCE


def check(o, name, args, so, codes, says):
    if os.path.exists(so):
        os.remove(so)
    code, text, seconds = answer(o, args)
    good = code in codes and (code == 0 or re.search(says, text) is not None) and (code == 0) == os.path.exists(so)
    shown = "" if good else f"\n     expected {codes} and '{says}', got {code}: {text[:600]}"
    print(f"{'ok  ' if good else 'FAIL'} {name}: exit {code}, {seconds:.1f} s{shown}", flush=True)
    return good


def main():
    o = arguments.parse(only="")
    failed = 0
    so = os.path.join(o.work, "out.so")
    made = {name: what for name, *what in cases()}
    names = [o.only] if o.only else thirds.some([*made, "tuning"], "hostile archives")
    for name in [n for n in made if n in names]:
        m, weights, samples, codes, says = made[name]
        pt2 = os.path.join(o.work, name + ".pt2")
        write(pt2, m, weights, samples)
        failed += not check(o, name, ["build", pt2, "-o", so, "--quiet", "--cpu", "avx2"], so, codes, says)
    if "tuning" in names:
        pt2, db = os.path.join(o.work, "plain.pt2"), os.path.join(o.work, "tuning.json")
        write(pt2, pointwise([4]))
        record = '{"contract": "c", "machine": "m", "library": "l", "choice": "x", "ns": 1, "default_ns": 1, "measured": 1, "more": ' + "[" * 300000 + "]" * 300000 + "}"
        with open(db, "w") as f:
            f.write('{"version": 2, "records": [' + record + "]}")
        failed += not check(o, "tuning", ["build", pt2, "-o", so, "--quiet", "--cpu", "avx2", "--tuning-db", db], so, (3,), "nests deeper")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
