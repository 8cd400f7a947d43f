"""Cases whose results must be PyTorch's to the bit: tables of small functions in exact_*.py, run by run_exact.py."""
import torch

SUITES = {}
FAULTS = {}


def suite(f):
    """A function that gives a list of cases. Its attribute `moves`: dims of every input that are exported as dynamic."""
    SUITES[f.__name__] = f
    return f


class Case:
    """fn(*inputs, *constants) -> a tensor or a tuple of them. close: floats whose sums may take another order are judged as `aotc verify`
    does, within twice eager's error against fp64. right: what to compare with where eager is wrong (it takes what fn takes). signs: zeros
    have signs. near: each float is so near eager's, relative to the larger of the pair that the last dim has. norm: all together are, by the
    norm of what differs relative to that of the whole."""

    def __init__(self, label, fn, inputs, constants=(), close=False, right=None, signs=False, near=0.0, norm=0.0):
        self.label, self.fn, self.inputs, self.constants, self.close = label, fn, list(inputs), list(constants), close
        self.right, self.signs, self.near, self.norm = right, signs, near, norm

    def __call__(self, *tensors):
        return self._list(self.fn(*tensors))

    def want(self, *tensors):
        return self._list((self.right or self.fn)(*tensors))

    @staticmethod
    def _list(y):
        return list(y) if isinstance(y, (tuple, list)) else [y]


def faults(f):
    """A function that gives a list of Indexed."""
    FAULTS[f.__name__] = f
    return f


class Indexed(Case):
    """A case whose first input may hold what eager refuses: each of `others` takes its place in turn."""

    status = 9  # AOTC_STATUS_INDEX_OUT_OF_RANGE
    says = ""

    def __init__(self, label, fn, inputs, others):
        super().__init__(label, fn, inputs)
        self.others = others


class Checked(Indexed):
    """One of which eager refuses the values; `says`: what the run's message has."""

    status = 12  # AOTC_STATUS_ASSERTION_FAILED

    def __init__(self, label, fn, inputs, others, says):
        super().__init__(label, fn, inputs, others)
        self.says = says


class Module(torch.nn.Module):
    """All cases over the distinct tensors among their inputs."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases
        self.args, self.at = [], []
        known = {}
        for n, c in enumerate(cases):
            for t in c.inputs:
                if id(t) not in known:
                    known[id(t)] = len(self.args)
                    self.args.append(t)
            self.at.append([known[id(t)] for t in c.inputs])
            for i, t in enumerate(c.constants):
                self.register_buffer(f"c{n}_{i}", t)

    def forward(self, *args):
        out = []
        for n, c in enumerate(self.cases):
            out += c(*(args[i] for i in self.at[n]), *(getattr(self, f"c{n}_{i}") for i in range(len(c.constants))))
        return tuple(t.contiguous() for t in out)
