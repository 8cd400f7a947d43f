"""Many programs as one exported module and one artifact; what the archive accepts, and the calls of the runner."""
import dataclasses
import logging
import os
import re
import struct
import subprocess
import sys
import warnings

import torch

from program import base_env, quiet

logging.getLogger("torch").setLevel(logging.CRITICAL)
os.environ.setdefault("TORCH_LOGS", "")

CODES = [None, torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]
SHAPE_MISMATCH = 2


FIRST_CALL = 3  # line of the first program's call in the source of Pack.forward


class Pack(torch.nn.Module):
    """Calls every program on its own inputs and gives all outputs."""

    def __init__(self, programs, made):
        super().__init__()
        calls, inputs, env = [], [], base_env()
        for p in programs:
            exec(compile(p.source(), p.name, "exec"), env)
            arguments = []
            for x in p.leaves():
                name = f"{p.name}_{x.name}"
                if x.role == "input":
                    inputs.append(name)
                else:
                    self.register_buffer(name, x.viewed(getattr(self, f"{p.name}_{x.of}")) if x.of else made[p.name][x.name].clone())
                    name = "self." + name
                arguments.append(name)
            calls.append(f"    out += {p.name}({', '.join(arguments)})")
        body = [f"def forward(self, {', '.join(inputs)}):", "    out = []", *calls, "    return tuple(out)"]
        exec(compile("\n".join(body), "pack", "exec"), env)
        self.inputs = inputs
        self.run = env["forward"]


def module_of(programs, made):
    pack = Pack(programs, made)
    names = ", ".join(pack.inputs)
    env = {"Pack": Pack}
    exec(f"class Module(Pack):\n    def forward(self{', ' if names else ''}{names}):\n        return self.run(self{', ' if names else ''}{names})", env)
    pack.__class__ = env["Module"]
    return pack.eval()


def symbol(p, text):
    """A dim's text, traced to the symbol that it equals."""
    leaves = {x.name: x for x in p.leaves("input")}
    while (m := re.fullmatch(r"(x\d+)\.shape\[(\d+)\]", text)) and m[1] in leaves:
        text = leaves[m[1]].dims[int(m[2])]
    return text


def moving_dims(p):
    """For each input: its dims that are not fixed, and the symbol (or the text of a size) that each has."""
    return [{d: symbol(p, t) for d, t in enumerate(x.dims) if p.sizes and not symbol(p, t).isdigit()} for x in p.leaves("input")]


def named(p):
    """Are its dims named, and so may be 0 and 1 too? What torch.export gives Dim.AUTO begins at 2."""
    return p.named and all(t in p.sizes for dims in moving_dims(p) for t in dims.values())


def dynamic_shapes(programs):
    """Per input: None, or its moving dims with a named Dim or Dim.AUTO."""
    shapes = []
    for p in programs:
        moving = moving_dims(p)
        dims = {t: torch.export.Dim(f"{p.name}_{t}", min=0) if named(p) else torch.export.Dim.AUTO for m in moving for t in m.values()}
        shapes += [{d: dims[t] for d, t in m.items()} or None for m in moving]
    return tuple(shapes) if any(shapes) else None


@quiet
def export(programs, made, path):
    """Exports the programs as one archive. Gives the exported program."""
    module = module_of(programs, made)
    args = tuple(made[p.name][x.name].clone() for p in programs for x in p.leaves("input"))
    ep = torch.export.export(module, args, dynamic_shapes=dynamic_shapes(programs), strict=False)
    if path:
        torch.export.save(ep, path)
    return ep


def owners(programs):
    """What the artifact's outputs, inputs and states are: [(program, number of an output)], [(program, leaf)], {name: (program, leaf)}."""
    users = [(p, i) for p in programs for i in range(len(p.outputs))]
    inputs = [(p, x.name) for p in programs for x in p.leaves("input")]
    states = {f"{p.name}_{x.name}": (p, x.name) for p in programs for x in p.leaves("const", "state")}
    return users, inputs, states


# The runner

def tensor_bytes(t):
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def write_calls(path, calls):
    """calls: lists of input tensors."""
    with open(path, "wb") as f:
        f.write(struct.pack("<i", len(calls)))
        for inputs in calls:
            f.write(struct.pack("<i", len(inputs)))
            for t in inputs:
                data = tensor_bytes(t)
                f.write(struct.pack(f"<ii{t.dim()}qQ", CODES.index(t.dtype), t.dim(), *t.shape, len(data)))
                f.write(data)


@dataclasses.dataclass
class Result:
    status: int
    text: str
    runs: list  # of {"outputs": [(alias_input, tensor)], "states": {name: tensor}}


def read_results(path):
    data = open(path, "rb").read()
    at, results = 0, []

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values

    def text():
        nonlocal at
        (n,) = take("i")
        at += n
        return data[at - n : at].decode(errors="replace")

    def tensors():
        nonlocal at
        (n,) = take("i")
        outputs, states = [], {}
        for _ in range(n):
            (kind,) = take("i")
            name = text()
            alias, dtype, rank = take("iii")
            dims = take(f"{rank}q")
            (nbytes,) = take("Q")
            t = torch.frombuffer(bytearray(data[at : at + nbytes]), dtype=torch.uint8).view(CODES[dtype]).reshape(dims) if nbytes else torch.empty(dims, dtype=CODES[dtype])
            at += nbytes
            if kind == 1:
                outputs.append((alias, t))
            else:
                states[name] = t
        return {"outputs": outputs, "states": states} if n else None

    while at < len(data):
        try:
            (status,) = take("i")
            why = text()
            runs = [tensors(), tensors()] if status == 0 else []
            results.append(Result(status, why, runs))
        except struct.error:
            break
    return results


def on_emulated_gpu(tools):
    """Compiles the kernels that the build kept for the host; the environment in which a run takes these for a GPU's."""
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
    import emulate

    library = tools.path("kernels.so")
    source = tools.path("keep/kernels.cu")
    if os.path.exists(source):
        emulate.compile_host(source, tools.path("host"), library, "c++")
    return dict(os.environ, LD_LIBRARY_PATH=tools.emulate, AOTC_EMULATED_KERNELS=library)


def run_calls(runner, artifact, calls, work, seconds=120, env=None):
    """Results of the calls; fewer than asked for when the runner died, and then its exit status."""
    calls_file, results_file = os.path.join(work, "calls.bin"), os.path.join(work, "results.bin")
    write_calls(calls_file, calls)
    open(results_file, "wb").close()
    try:
        r = subprocess.run([runner, artifact, calls_file, results_file], capture_output=True, text=True, timeout=seconds, env=env)
        code, why = r.returncode, r.stderr[-500:]
    except subprocess.TimeoutExpired:
        code, why = "time out", ""
    return read_results(results_file), code, why


def aotc(binary, *arguments, seconds=300, env=None):
    with warnings.catch_warnings():
        try:
            r = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, timeout=seconds, env=env)
            return r.returncode, r.stdout + r.stderr
        except subprocess.TimeoutExpired:
            return -999, "time out"
