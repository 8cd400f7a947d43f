"""Buffers, constants and parameters that share storage, beside the loaded archive's own module: outputs of runs that follow each other, what the
states hold, resets; that verify passes, and sees a state that lost its other name; what is stored once; what is refused.

    shared_storage.py --aotc BIN --work DIR
"""
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import torch
import torch.nn as nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
import arguments
import binding

CASES = []
RUNS = 4


class Case(nn.Module):
    """setup(self) makes the tensors, step(self, x) is a run; x: float32 [3, 4]."""

    def __init__(self, setup, step):
        super().__init__()
        self.step = step
        setup(self)

    def forward(self, x):
        return self.step(self, x)

    def buffers_of(self, **tensors):
        for name, t in tensors.items():
            self.register_buffer(name, t)


def case(setup):
    return lambda step: CASES.append((step.__name__, setup, step)) or step


def numbers(*dims):
    return torch.arange(float(torch.Size(dims).numel())).reshape(dims) / 8


def pool(s):
    s.register_buffer("pool", numbers(3, 3, 4))
    s.buffers_of(k0=s.pool[0], k1=s.pool[1], k2=s.pool[2])


@case(pool)
def layer_written_pool_read(s, x):
    s.k1.index_copy_(0, torch.tensor([1]), x[:1])
    return s.pool * 2


@case(pool)
def pool_written_layers_read(s, x):
    before = s.k0 + s.k2
    s.pool.mul_(0.5)
    s.pool[2].add_(x)
    return before, s.k0 + 1, s.k1 + s.k2


@case(pool)
def layers_written_in_turn(s, x):
    s.k0.copy_(x)
    s.k1[1:].add_(s.k0[:2])
    s.k2.copy_(s.k1 * 2)
    s.pool[0, 0, 0] += 1
    return s.k0 + 0, s.pool.sum(0), s.k2.t() + 0


@case(pool)
def layers_by_themselves(s, x):
    """Nothing reads the pool: three states."""
    s.k0.add_(x)
    s.k2.mul_(s.k0)
    return s.k0 + s.k1, s.k2 * 1


def slices(s):
    t = numbers(12)
    s.buffers_of(a=t[1:7], b=t[4:11])


@case(slices)
def overlapping_slices_without_base(s, x):
    s.a.add_(x.flatten()[:6])
    out = s.b * 2
    s.b[0] = 3
    return out, s.a + 0


@case(lambda s: s.buffers_of(w=numbers(3, 4), wt=numbers(1, 1)) or s.buffers_of(wt=s.w.t()))
def transposed(s, x):
    s.wt.add_(1)
    out = x @ s.w.t()
    s.w[1].mul_(2)
    return out, s.wt + 0


def turned_alone(s):
    t = numbers(4, 3).t()
    s.buffers_of(a=t, b=t[1])


@case(turned_alone)
def rows_of_what_lies_turned(s, x):
    s.b.add_(x[0])
    return s.a * 2


@case(lambda s: s.buffers_of(w=numbers(3, 4)) or s.buffers_of(flat=s.w.view(-1), six=s.w.view(2, 6)))
def flattened(s, x):
    s.flat[3:6] += 2
    s.w.add_(x)
    s.six[:, 1] = -1
    return s.w + 0, s.flat * 3, s.six + 0


@case(lambda s: s.buffers_of(w=numbers(3, 4)) or s.buffers_of(v=s.w.detach()))
def detached(s, x):
    s.v.add_(x)
    return s.w * 2


def attributes(s):
    s.c = numbers(3, 4)
    s.d, s.row = s.c.view(-1), s.c[1]


@case(attributes)
def plain_attributes(s, x):
    s.d.add_(1)
    return s.c * x, s.row + 0


def kept_out(s):
    s.register_buffer("w", numbers(3, 4), persistent=False)
    s.register_buffer("column", s.w[:, 2], persistent=False)
    s.last = s.w[2]


@case(kept_out)
def not_persistent(s, x):
    s.column.add_(x[:, 0])
    return s.w * 2, s.last - 1


@case(lambda s: s.buffers_of(w=numbers(3, 4)) or s.buffers_of(bits=s.w.view(torch.int32)))
def of_another_type(s, x):
    """torch.export.save writes two storages."""
    s.w.add_(x)
    return s.bits + 0, s.w * 2


def diagonals(s):
    s.w = nn.Buffer(numbers(4, 4))
    s.buffers_of(diagonal=s.w.diagonal(), windows=s.w.view(-1).unfold(0, 4, 2), stepped=s.w.view(-1)[1::3], wide=s.w[:, :1].expand(4, 3))


@case(diagonals)
def diagonal_windows_steps(s, x):
    s.diagonal.add_(x[0])
    first = s.windows * 1
    s.stepped.mul_(0.5)
    s.w[2].add_(1)
    return first, s.wide + 0, s.diagonal + 0, s.windows.sum(0), s.stepped + 0


def columns(s):
    t = numbers(3, 8)
    s.buffers_of(left=t[:, :4], right=t[:, 4:], even=t[:, ::2])


@case(columns)
def columns_that_lie_between_each_other(s, x):
    s.left.add_(x)
    s.right.sub_(x)
    return s.even * 1


@case(columns)
def columns_apart(s, x):
    s.left.add_(x)
    s.right.mul_(s.left)
    return s.left + s.right


@case(lambda s: s.buffers_of(z=torch.view_as_complex(numbers(3, 4, 2))) or s.buffers_of(row=s.z[1], turned=s.z.t()))
def complex_numbers(s, x):
    s.row.mul_(1j)
    s.turned.add_(x.t())
    return torch.view_as_real(s.z * 2)


@case(lambda s: s.buffers_of(count=torch.zeros(2, 2, dtype=torch.int64)) or s.buffers_of(one=s.count[1, 0], flags=torch.zeros(3, dtype=torch.bool)) or s.buffers_of(flag=s.flags[1:2]))
def counters(s, x):
    s.one.add_(3)
    s.flag.logical_not_()
    return s.count + 0, s.flags | False


def running(s):
    s.register_buffer("moments", torch.stack([torch.zeros(4), torch.ones(4)]))
    s.buffers_of(mean=s.moments[0], var=s.moments[1])


@case(running)
def statistics(s, x):
    y = nn.functional.batch_norm(x, s.mean, s.var, training=True)
    return y, s.moments + 0


def layers(s):
    s.weights = nn.Parameter(numbers(2, 4, 4))
    s.first, s.second = nn.Parameter(s.weights.detach()[0]), nn.Parameter(s.weights.detach()[1].t())
    s.tied = s.first


@case(layers)
def only_read(s, x):
    """Only read: constants."""
    return x @ s.first @ s.second + (x @ s.tied), x @ s.weights[0]


class All(nn.Module):
    def __init__(self, cases):
        super().__init__()
        self.cases = nn.ModuleDict({name: Case(setup, step) for name, setup, step in cases})

    def forward(self, x):
        out = []
        for c in self.cases.values():
            y = c(x)
            out += y if isinstance(y, tuple) else [y]
        return tuple(out)


def sh(*cmd, code=0):
    r = subprocess.run([str(c) for c in cmd], capture_output=True, text=True)
    assert r.returncode == code, f"{' '.join(map(str, cmd))}: exit {r.returncode}\n{r.stdout}{r.stderr}"
    return r.stdout + r.stderr


def export(module, path, x):
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module.eval(), (x,), strict=False), path)
    return torch.export.load(path)


def held_by(module, name):
    """What the loaded archive's module holds under a name, as an artifact gives it; None where it has no such tensor."""
    for part in name.split("."):
        module = getattr(module, part, None)
    if not isinstance(module, torch.Tensor):
        return None
    return (torch.view_as_real(module) if module.is_complex() else module).detach().numpy()


def near(got, want):
    want = np.asarray(want)
    return got.shape == want.shape and got.dtype == want.dtype and np.allclose(got, want, rtol=2e-6, atol=2e-6)


class Opened:
    """An artifact with a context."""

    def __init__(self, path):
        self.artifact = binding.Artifact(path).create()
        self.context = self.artifact.context()
        self.infos = {i.name.decode(): i for i in self.artifact.io(2)}

    def run(self, x):
        given = binding.tensors([x.numpy()], [9])
        out = self.context.output_arrays(given)
        self.context.run(given, binding.tensors(out, [i.dtype for i in self.context.out_infos]))
        return out

    def state(self, name):
        info = self.infos[name]
        array = np.empty([info.dims[d].value for d in range(info.rank)], binding.CODES[info.dtype])
        self.artifact.check(self.artifact.api.state_read(self.context.handle, name.encode(), binding.tensors([array], [info.dtype])))
        return array

    def write(self, name, array):
        info = self.infos[name]
        self.artifact.check(self.artifact.api.state_write(self.context.handle, name.encode(), binding.tensors([array], [info.dtype])))

    def reset(self):
        self.artifact.check(self.artifact.api.state_reset(self.context.handle, None))


def build(o, module, name, x, *options):
    path = os.path.join(o.work, name)
    program = export(module, path + ".pt2", x)
    sh(o.aotc, "build", path + ".pt2", "-o", path + ".so", "--quiet", *options)
    assert json.loads(sh(o.aotc, "verify", path + ".so", "--against", path + ".pt2", "--json"))["pass"], name
    return program, path


def check_runs(o):
    """All cases as one model: RUNS runs, a reset, the first run again."""
    torch.manual_seed(3)
    inputs = [torch.randn(3, 4) for _ in range(RUNS)]
    program, path = build(o, All(CASES), "all", inputs[0])
    results = {name: Case(setup, step)(inputs[0]) for name, setup, step in CASES}
    owners = [name for name, y in results.items() for _ in (y if isinstance(y, tuple) else [y])]
    opened = Opened(path + ".so")
    told = sorted(n[len("cases."):] for n in opened.infos)
    assert told == STATES, f"the states are {told}"
    for again in range(2):
        module = program.module()
        saved = {n: held_by(module, n).copy() for n in opened.infos if held_by(module, n) is not None}
        assert all(near(opened.state(n), t) for n, t in saved.items()), "initial values"
        for k, x in enumerate(inputs):
            want = module(x.clone())
            for i, (g, w) in enumerate(zip(opened.run(x), want, strict=True)):
                assert near(g, w.detach().numpy()), f"{owners[i]}: output {i} of run {k}: {g.tolist()}, the archive's module gives {w.tolist()}"
            for name in saved:
                assert near(opened.state(name), held_by(module, name)), f"state {name} after run {k}"
        opened.reset()
        program = torch.export.load(path + ".pt2")
    opened.context.close()


STATES = sorted("""
layer_written_pool_read.pool pool_written_layers_read.pool layers_written_in_turn.pool layers_by_themselves.k0 layers_by_themselves.k2
overlapping_slices_without_base.a.storage transposed.w rows_of_what_lies_turned.a.storage flattened.w detached.w plain_attributes.d not_persistent.w of_another_type.w
diagonal_windows_steps.w columns_that_lie_between_each_other.left.storage columns_apart.left columns_apart.right complex_numbers.z counters.count counters.flags
statistics.moments""".split())


def check_verify(o):
    """An artifact in which one tensor's two names are two states does what the program says of each name; verify must not pass it."""
    setup, step = next((setup, step) for name, setup, step in CASES if name == "detached")
    apart = Case(setup, step)
    apart.w = apart.w.clone()
    x = torch.randn(3, 4)
    _, wrong = build(o, apart, "apart", x)
    _, right = build(o, Case(setup, step), "shared", x)
    r = subprocess.run([o.aotc, "verify", wrong + ".so", "--against", right + ".pt2", "--json"], capture_output=True, text=True)
    assert r.returncode and not json.loads(r.stdout)["pass"], r.stdout + r.stderr


def check_parameters(o):
    """Parameters that the caller changes: views of one see what is written to it."""
    setup, step = next((setup, step) for name, setup, step in CASES if name == "only_read")
    x = torch.randn(3, 4)
    program, path = build(o, Case(setup, step), "parameters", x, "--parameters-as-states")
    opened, module = Opened(path + ".so"), program.module()
    assert list(opened.infos) == ["weights"], list(opened.infos)
    new = torch.randn(2, 4, 4)
    with torch.no_grad():
        module.weights.copy_(new)
        want = module(x)
    opened.write("weights", new.numpy())
    assert all(near(g, w.detach().numpy()) for g, w in zip(opened.run(x), want, strict=True))
    # A buffer that the program does not read becomes a state, and what it writes lies in that.
    setup, step = next((setup, step) for name, setup, step in CASES if name == "layers_by_themselves")
    program, path = build(o, Case(setup, step), "chosen", x, "--states", "pool")
    opened, module = Opened(path + ".so"), program.module()
    assert list(opened.infos) == ["pool"], list(opened.infos)
    for _ in range(2):
        assert all(near(g, w.detach().numpy()) for g, w in zip(opened.run(x), module(x.clone()), strict=True))
    assert near(opened.state("pool"), module.pool.numpy())


def main():
    o = arguments.parse()
    for check in (check_runs, check_verify, check_parameters):
        check(o)
        print(f"{check.__name__}: ok")


if __name__ == "__main__":
    main()
