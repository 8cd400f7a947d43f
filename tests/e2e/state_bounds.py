"""Positions past what a state holds, beside eager: a run whose inputs would write there is refused with the input, the value and the bounds, and
every state has its bytes of before; the next run goes on from there. On the CPU, and on the emulated GPU where that is built.

    state_bounds.py --aotc BIN --work DIR [--driver DIR_OF_LIBCUDA] [name ...]
"""
import argparse
import copy
import json
import os
import subprocess
import sys
import traceback
import warnings

import numpy as np
import torch
import torch.nn as nn

GPU = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu")
sys.path[:0] = [GPU, os.path.join(GPU, "..")]
import binding
import emulate
import thirds

ROWS, WIDTH, BATCH = 16, 4, 2
INDEX_OUT_OF_RANGE, ASSERTION_FAILED = 9, 12
DTYPES = {torch.int64: 6, torch.int32: 5, torch.float32: 9}
FAR = 1 << 40
CASES = {}


class Net(nn.Module):
    """step(self, *inputs) is a run; states: name to tensor."""

    def __init__(self, states, step):
        super().__init__()
        self.step = step
        for name, t in states.items():
            self.register_buffer(name, t)

    def forward(self, *inputs):
        return self.step(self, *inputs)


def case(states, names, good, bad, dynamic=None, status=INDEX_OUT_OF_RANGE):
    """names: of the inputs. good: inputs of runs. bad: inputs and what the message has. dynamic: the dynamic shapes."""

    def take(step):
        CASES[step.__name__] = (states, names, step, good, bad, dynamic, status)
        return step

    return take


def cache(rows=ROWS, *lead):
    return torch.zeros(*lead, rows, WIDTH)


def x(*dims):
    return torch.arange(float(torch.Size(dims).numel())).reshape(dims) / 4 + 1


def at(*values, t=torch.int64):
    return torch.tensor(values, dtype=t)


ONE = x(1, WIDTH)


@case({"k": cache(), "v": cache()}, ["at", "x"], [(at(0), ONE), (at(15), ONE)],
      [((at(v), ONE), ["the input 'inputs_0' must be 0 to 15", f"is {v}; no state was changed", "'k' and 1 other"]) for v in (16, -1, FAR, -FAR, (1 << 63) - 1)])
def copied(s, at, x):
    s.k.index_copy_(0, at, x)
    s.v.index_copy_(0, at, x * 2)
    return s.k.sum(0) + s.v.sum(0)


@case({"k": cache(), "v": cache()}, ["at", "x"], [(at(0), ONE), (at(15), ONE), (at(-15), ONE)],
      [((at(v), ONE), ["must be -16 to 15", f"is {shown}; no state was changed", name])
       for v, shown, name in ((16, 16, "the input 'inputs_0'"), (-17, -17, "the input 'inputs_0'"), (-16, -17, "an index computed from 'inputs_0'"))])
def put(s, at, x):
    s.k[at] = x
    s.v[at - 1] = x * 2
    return s.k.sum(0) + s.v.sum(0)


@case({"k": cache(), "v": cache()}, ["at", "x"], [(at(3, 5), x(2, WIDTH)), (at(15, 0), x(2, WIDTH))],
      [((at(0, v), x(2, WIDTH)), ["the input 'inputs_0' must be 0 to 15", f"is {v};"]) for v in (16, -1, FAR)])
def scattered(s, at, x):
    where = at[:, None].expand(-1, WIDTH)
    s.k.scatter_(0, where, x)
    s.v.scatter_add_(0, where, x)
    return s.k.sum(0) + s.v.sum(0)


@case({"k": cache(), "runs": torch.zeros(1, dtype=torch.int64)}, ["at", "x"], [(at(0), ONE), (at(11), ONE)],
      [((at(15), ONE), ["an index computed from 'inputs_0' and the state 'runs' must be 0 to 15"]), ((at(-FAR), ONE), [])])
def counted(s, at, x):
    """The run's own count, which a refused run does not raise, is in the position."""
    s.runs.add_(1)
    s.k.index_copy_(0, at + s.runs, x)
    return s.k.sum(0)


@case({"k": cache(), "v": cache()}, ["at", "x"], [(at(0, t=torch.int32), ONE), (at(15, t=torch.int32), ONE)],
      [((at(v, t=torch.int32), ONE), ["the input 'inputs_0'", f"is {v};"]) for v in (16, -1)])
def narrow_positions(s, at, x):
    s.k.index_copy_(0, at.long(), x)
    s.v.index_add_(0, at, x)
    return s.k.sum(0) + s.v.sum(0)


@case({"k": cache(ROWS, BATCH)}, ["at", "x"], [(at(0, 15), x(BATCH, WIDTH)), (at(-1, 7), x(BATCH, WIDTH))],
      [((at(3, 16), x(BATCH, WIDTH)), ["the input 'inputs_0'", "is 16;"]), ((at(-17, 3), x(BATCH, WIDTH)), ["is -17;"])])
def positions_of_rows(s, at, x):
    """Each sequence writes at its own position."""
    s.k[torch.arange(BATCH), at] = x
    return s.k.sum(1)


def layers_states():
    out = {}
    for i, rows in enumerate((ROWS, ROWS, ROWS // 2)):
        out.update({f"k{i}": cache(rows), f"v{i}": cache(rows)})
    return out


@case(layers_states(), ["at", "x"], [(at(0), ONE), (at(7), ONE)],
      [((at(8), ONE), ["the input 'inputs_0' must be 0 to 7", "'k2' and 1 other", "is 8;"]), ((at(16), ONE), ["is 16;"]), ((at(-1), ONE), [])])
def last_layer_alone(s, at, x):
    """What the first layers would take is past the last one's cache."""
    for i in range(3):
        k, v = getattr(s, f"k{i}"), getattr(s, f"v{i}")
        k.index_copy_(0, at, x)
        v.index_copy_(0, at, x + 1)
        x = x + torch.softmax(x @ k.T, -1) @ v
    return x


N = torch.export.Dim("n", min=1, max=12)


@case({"k": cache(), "v": cache()}, ["start", "x"], [(at(0), x(5, WIDTH)), (at(5), ONE), (at(6), x(10, WIDTH)), (at(4), x(12, WIDTH))],
      [((at(6), x(11, WIDTH)), ["an index computed from 'inputs_0' must be 0 to 15", "is 16;"]), ((at(-1), ONE), ["is -1;"]), ((at(FAR), x(12, WIDTH)), [])],
      dynamic=(None, {0: N}))
def prompt(s, start, x):
    """Any number of rows from a position on."""
    at = torch.arange(x.shape[0]) + start
    s.k.index_copy_(0, at, x)
    s.v.index_copy_(0, at, x * 3)
    return x @ s.k.T @ s.v


@case({"big": torch.zeros(300, 64), "k": cache()}, ["at", "x"], [(at(2), ONE), (at(3), ONE)], [((at(16), ONE), ["is 16;"]), ((at(-1), ONE), ["is -1;"])])
def average_beside(s, at, x):
    """A state that is written whole, before the others, stays as well."""
    s.big.mul_(0.5).add_(x.sum())
    s.k.index_copy_(0, at, x)
    return s.k.sum(0) + s.big.sum(0)[:4]


@case({"line": torch.zeros(400, 64), "k": cache()}, ["at", "x"], [(at(2), x(1, 64)), (at(3), x(1, 64))], [((at(16), x(1, 64)), ["is 16;"])])
def line_moved_up(s, at, x):
    s.line.copy_(torch.cat([s.line[1:], x]))
    s.k.index_copy_(0, at, x[:, :WIDTH])
    return s.k.sum(0) + s.line[-2:].sum()


@case({"table": torch.zeros(8, dtype=torch.int64), "pool": torch.zeros(ROWS, 4, WIDTH)}, ["slot", "page", "x"],
      [(at(0), at(3), ONE), (at(7), at(15), ONE)],
      [((at(1), at(16), ONE), ["an index computed from"]), ((at(8), at(3), ONE), []), ((at(8), at(16), ONE), [])])
def pages(s, slot, page, x):
    """Where a state is written is what the run has just written into another one."""
    s.table.index_copy_(0, slot, page)
    s.pool[s.table[slot], 1] = x
    return s.pool.sum((0, 1)) + s.table.sum()


@case({"k": cache()}, ["x", "w"], [(x(1, WIDTH), x(WIDTH, 24).flip(1)), (x(1, WIDTH), x(WIDTH, 24).flip(1) * 2)],
      [((x(1, WIDTH), x(WIDTH, 24)), ["is 23;"])])
def place_of_the_largest(s, x, w):
    """The position is the result of a product."""
    s.k.index_copy_(0, (x @ w).argmax(-1), x)
    return s.k.sum(0)


@case({"k": cache(), "v": cache()}, ["at", "x"], [(at(0), ONE), (at(15), ONE)], [((at(16), ONE), []), ((at(-1), ONE), [])], status=ASSERTION_FAILED)
def slices(s, at, x):
    """A condition of the program itself comes before the writes, too."""
    p = at.item()
    torch._check(p >= 0)
    torch._check(p + 1 <= ROWS)
    s.v.add_(1)
    s.k[p:p + 1] = x
    return s.k.sum(0) + s.v.sum(0)


@case({"k": cache()}, ["ids", "at", "x"], [(at(0), at(3), ONE), (at(6), at(15), ONE)],
      [((at(v), at(4), ONE), ["the input 'inputs_0' must be 0 to 6, as an index into 7 elements", f"is {v}; no state was changed"]) for v in (7, -1, FAR)]
      + [((at(2), at(16), ONE), ["the input 'inputs_1' must be 0 to 15", "is 16;"])])
def tokens(s, ids, at, x):
    """What is looked up by an input comes behind the write."""
    s.k.index_copy_(0, at, x)
    return s.k.sum(0) + torch.nn.functional.embedding(ids, torch.arange(28.0).reshape(7, WIDTH))[0]


@case({"k": cache()}, ["ids", "at", "x"], [(at(2, 0), at(3), ONE), (at(3, 3), at(15), ONE), (at(-1, 1), at(0), ONE)],
      [((at(0, 4), at(4), ONE), ["an index computed from 'inputs_0'", "is 4;"]), ((at(0, -6), at(4), ONE), ["is -5;"])])
def channels_picked(s, ids, at, x):
    """Lookups by integers that the run computes of an input, of a value that it computes."""
    s.k.index_copy_(0, at, x)
    return s.k.sum(0)[ids + 1 - (ids > 1).long()].sum() + s.k.sum(0)


def near(got, want):
    return np.allclose(got, want, rtol=2e-6, atol=2e-6)


class Runner:
    def __init__(self, path, device):
        self.artifact = binding.Artifact(path).create(device)
        self.context = self.artifact.context()

    def run(self, inputs):
        self.kept = [np.ascontiguousarray(t.numpy()) for t in inputs]
        given = binding.tensors(self.kept, [DTYPES[t.dtype] for t in inputs])
        out = self.context.output_arrays(given)
        self.context.run(given, binding.tensors(out, [9]))
        return out[0]

    def states(self):
        out = {}
        for i in self.artifact.io(2):
            array = np.empty([i.dims[d].value for d in range(i.rank)], binding.CODES[i.dtype])
            self.artifact.check(self.artifact.api.state_read(self.context.handle, i.name, binding.tensors([array], [i.dtype])))
            out[i.name.decode()] = array
        return out

    def close(self):
        self.context.close()
        self.artifact.close()


def run_case(name, path, device):
    """All runs of one artifact."""
    _, _, _, good, bad, _, status = CASES[name]
    eager = torch.export.load(path + ".pt2").module()
    made = Runner(path + ".so", device)
    for inputs in good:
        assert near(made.run(inputs), eager(*inputs).numpy()), f"{name}: {inputs}"
        before = made.states()
        for other, want in eager.named_buffers():
            assert near(before[other], want.numpy()), f"{name}: state {other} after {inputs}"
        for wrong, words in bad:
            try:
                copy.deepcopy(eager)(*wrong)
                raise AssertionError(f"{name}: eager takes {wrong}")
            except (IndexError, RuntimeError):
                pass
            try:
                made.run(wrong)
                raise AssertionError(f"{name}: {wrong} is taken")
            except binding.Failure as e:
                assert e.status == status, str(e)
                assert all(w in str(e) for w in words), f"{name}: {words} of {e}"
            after = made.states()
            assert all(before[k].tobytes() == after[k].tobytes() for k in before), f"{name}: a run of {wrong} changed a state"
    made.close()


def queued_runs(path):
    """GPU: errors of runs on its own tensors come with synchronize; the refused one changed nothing, those queued before it did."""
    eager = torch.export.load(path + ".pt2").module()
    made, cuda = Runner(path + ".so", 0), binding.Cuda()
    kept = []
    for position in (3, 5, 99):
        inputs = [at(position), ONE * (position + 1)]
        arrays = [t.numpy() for t in inputs]
        pointers = [cuda.alloc(a.nbytes) for a in arrays]
        for p, a in zip(pointers, arrays):
            cuda.upload(p, a)
        out = np.zeros(WIDTH, np.float32)
        given, made_out = binding.tensors(arrays, [6, 9], 0, pointers), binding.tensors([out], [9], 0, [cuda.alloc(out.nbytes)])
        made.context.run(given, made_out)
        kept += [given, made_out]
        if position < ROWS:
            eager(*inputs)
    try:
        made.context.synchronize()
        raise AssertionError("a queued run past the cache is no error")
    except binding.Failure as e:
        assert e.status == INDEX_OUT_OF_RANGE and "is 99;" in str(e), str(e)
    for name, array in made.states().items():
        assert near(array, dict(eager.named_buffers())[name].numpy()), name
    assert near(made.run((at(1), ONE)), eager(at(1), ONE).numpy())
    made.close()


def export(o, name):
    states, _, step, good, _, dynamic, _ = CASES[name]
    path = os.path.join(o.work, name)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        net = Net(copy.deepcopy(states), step)
        shapes = None if dynamic is None else {"inputs": dynamic}
        torch.export.save(torch.export.export(net, good[0], dynamic_shapes=shapes, strict=False), path + ".pt2")
    return path


class Emulated:
    """The emulated GPU's processes: each has the kernels of one artifact. They are forks of one that has imported torch, beside the driver."""

    def __init__(self, driver):
        command = [sys.executable, os.path.abspath(__file__), "--work", "", "--forks"]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ, LD_LIBRARY_PATH=driver))

    def run(self, name, path, kernels, queued=False):
        print(json.dumps([name, path, kernels, queued]), file=self.server.stdin, flush=True)
        code = self.server.stdout.readline().strip()
        assert code == "0", f"{name}: the process on the emulated GPU ended with {code or 'nothing'}"

    def close(self):
        self.server.stdin.close()
        assert self.server.wait() == 0


def forks():
    """The server of Emulated: a fork a line, whose exit status is answered. What a fork tells goes to stderr."""
    for line in sys.stdin:
        name, path, kernels, queued = json.loads(line)
        torch.export.load(path + ".pt2").module()  # for what it imports
        pid = os.fork()
        if pid == 0:
            os.environ["AOTC_EMULATED_KERNELS"] = kernels
            code = 1
            try:
                queued_runs(path) if queued else run_case(name, path, 0)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(os.waitpid(pid, 0)[1], flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc")
    p.add_argument("--work", required=True)
    p.add_argument("--driver", default="", help="the folder of the emulated GPU's libcuda.so.1")
    p.add_argument("--forks", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    if o.forks:
        return forks()
    os.makedirs(o.work, exist_ok=True)
    env = dict(os.environ, VIRTUAL_ENV=os.environ.get("VIRTUAL_ENV", sys.prefix))  # where aotc looks for NVRTC
    on_gpus = set(o.names or thirds.some(CASES, "cases on the emulated GPU")) if o.driver else set()
    emulated = Emulated(o.driver) if o.driver else None
    for name in o.names or CASES:
        path = export(o, name)
        subprocess.run([o.aotc, "build", path + ".pt2", "-o", path + ".so", "--quiet"], check=True)
        run_case(name, path, -1)
        where = "CPU"
        if o.driver and name in on_gpus:
            gpu = path + "_gpu"
            os.path.lexists(gpu + ".pt2") or os.symlink(path + ".pt2", gpu + ".pt2")
            r = subprocess.run([o.aotc, "build", path + ".pt2", "-o", gpu + ".so", "--cuda", "sm_90", "--keep", gpu + ".keep", "--quiet"],
                               capture_output=True, text=True, env=env)
            if "NVRTC was not found" in r.stderr:
                o.driver = ""
            else:
                assert r.returncode == 0, r.stderr
                emulate.compile_host(os.path.join(gpu + ".keep", "kernels.cu"), gpu + ".host", gpu + ".host.so", "c++")
                emulated.run(name, gpu, gpu + ".host.so")
                if name == "copied":
                    emulated.run(name, gpu, gpu + ".host.so", queued=True)
                where += ", GPU"
        print(f"{name}: ok ({where})", flush=True)
    if emulated:
        emulated.close()


if __name__ == "__main__":
    main()
