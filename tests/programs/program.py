"""A random program as data: leaves (inputs, constants, states) and statements of Python text, in order.

Sizes of leaves are Python expressions over the program's size symbols and over values computed before, so that the same program can be
replayed at other sizes: each leaf is made when the replay reaches it.
"""
import dataclasses
import hashlib
import math
import re
import warnings

import torch
import torch.nn.functional as F

from control import HELPERS

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
COMPLEX = (torch.complex64, torch.complex128)
MAX_ELEMS = 1 << 21  # of a value in a replay: larger ones stop it


class TooLarge(RuntimeError):
    """A value of this replay would not be small."""


@dataclasses.dataclass
class Leaf:
    name: str
    dtype: torch.dtype
    dims: list  # of Python expressions
    data: str = "normal"  # a row of DATA
    lo: str = "0"  # integers: lo <= element < hi, Python expressions
    hi: str = "1"
    role: str = "input"  # or "const" (a buffer that is only read), "state" (a buffer that is written)
    order: tuple = ()  # of its dims in memory, the outermost first; empty: as they are
    of: str = ""  # the constant or state that it is a view of
    view: str = ""  # and the Python expression that makes it of that

    def viewed(self, base):
        return eval(self.view, {**base_env(), self.of: base})


@dataclasses.dataclass
class Statement:
    targets: list  # names; empty for a statement that only writes in place
    text: str

    def line(self):
        return f"{', '.join(self.targets)} = {self.text}" if self.targets else self.text


@dataclasses.dataclass
class Program:
    name: str
    items: list
    outputs: list
    sizes: dict = dataclasses.field(default_factory=dict)  # symbol -> size at export; empty: a static program
    data_seed: int = 0
    rows: tuple = ()  # names of the rows that it was made from
    named: bool = False  # export with named dims, that may be 0 and 1, where it can

    def leaves(self, *roles):
        return [i for i in self.items if isinstance(i, Leaf) and (not roles or i.role in roles)]

    def statements(self):
        return [i for i in self.items if isinstance(i, Statement)]

    def source(self):
        names = [x.name for x in self.leaves()]
        body = [f"    {s.line()}" for s in self.statements()]
        outputs = ", ".join(self.outputs)
        return "\n".join([f"def {self.name}({', '.join(names)}):", *body, f"    return ({outputs},)"])

    def function(self):
        env = base_env()
        exec(compile(self.source(), self.name, "exec"), env)
        return env[self.name]

    def replay(self, sizes=None, salt=0, given=None):
        """Runs the statements. Gives (leaves as made, leaves after the run, outputs). `given`: values of leaves instead of random ones."""
        env = base_env()
        env.update(sizes or self.sizes)
        made, live = {}, {}
        for item in self.items:
            if isinstance(item, Leaf):
                if item.of:
                    t = item.viewed(live[item.of])
                else:
                    t = given[item.name].clone() if given else make_leaf(item, env, (self.data_seed, salt))
                made[item.name], live[item.name] = item.viewed(made[item.of]) if item.of else t.clone(), t
                env[item.name] = t
            else:
                exec(item.line(), env)
                for t in (env[n] for n in item.targets):
                    if isinstance(t, torch.Tensor) and t.numel() > MAX_ELEMS:
                        raise TooLarge(f"{t.numel()} elements")
        return made, live, [env[n] for n in self.outputs]


def base_env():
    return {"torch": torch, "F": F, "math": math, "inf": math.inf, "nan": math.nan, **HELPERS}


def dims_of(leaf, env):
    dims = [int(eval(d, env)) for d in leaf.dims]
    if math.prod(dims) > MAX_ELEMS:
        raise TooLarge(f"{leaf.name} {dims}")
    return dims


def make_leaf(leaf, env, seed):
    g = torch.Generator()
    g.manual_seed(int.from_bytes(hashlib.sha256(repr((leaf.name, seed)).encode()).digest()[:7], "little"))
    t = DATA[leaf.data](leaf, dims_of(leaf, env), g, env).to(leaf.dtype)
    return t.permute(leaf.order).contiguous().permute([leaf.order.index(d) for d in range(t.dim())]) if leaf.order else t


def uniform(dims, g):
    return torch.rand(dims, generator=g, dtype=torch.float64)


def normal(leaf, dims, g, env):
    t = torch.randn(dims, generator=g, dtype=torch.float64)
    return torch.complex(t, torch.randn(dims, generator=g, dtype=torch.float64)) if leaf.dtype.is_complex else t


def special(leaf, dims, g, env):
    """A quarter of the elements is a NaN, an infinity, a signed zero, tiny or a tie, in half of the leaves also huge."""
    info = torch.finfo(leaf.dtype)
    odd = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, info.max, -info.max, info.tiny, info.tiny / 4, 0.5, -2.5, 1.0, -1.0, 1 / 3], dtype=torch.float64)
    t = torch.randn(dims, generator=g, dtype=torch.float64)
    pick = torch.randint(0, len(odd), dims, generator=g)
    if leaf.name[-1] in "02468":  # so that sums stay in range and what is NaN is known
        odd = torch.where(odd.abs() == info.max, 2.0, odd)
    return torch.where(uniform(dims, g) < 0.25, odd[pick], t)


def scaled(leaf, dims, g, env):
    """Magnitudes over the whole range of the type."""
    info = torch.finfo(leaf.dtype)
    t = torch.randn(dims, generator=g, dtype=torch.float64)
    return t * torch.exp((uniform(dims, g) * 2 - 1) * math.log(info.max) * 0.5)


def shifted(leaf, dims, g, env):
    """Numbers near to each other and far from 0: their mean is up to 2^17 times as large as their deviation."""
    largest = min(17.0, math.log2(torch.finfo(leaf.dtype).max) - 2)
    return torch.randn(dims, generator=g, dtype=torch.float64) + 2.0 ** (float(uniform((), g)) * largest)


def small_halves(leaf, dims, g, env):
    return torch.randint(-9, 10, dims, generator=g).double() / 2


def integers(leaf, dims, g, env):
    lo, hi = int(eval(leaf.lo, env)), int(eval(leaf.hi, env))
    return torch.randint(lo, max(hi, lo + 1), dims, generator=g)


def full_range(leaf, dims, g, env):
    info = torch.iinfo(leaf.dtype)
    t = torch.randint(info.min, info.max, dims, generator=g)  # the top value comes from the edges
    edges = torch.tensor([info.min, info.max, 0, 1, info.max - 1, info.min + 1])
    return torch.where(uniform(dims, g) < 0.2, edges[torch.randint(0, 6, dims, generator=g)], t)


DATA = {
    "normal": normal,
    "special": special,
    "scaled": scaled,
    "shifted": shifted,
    "halves": small_halves,
    "positive": lambda leaf, dims, g, env: uniform(dims, g) * 3 + 0.05,
    "unit": lambda leaf, dims, g, env: uniform(dims, g),
    "ints": integers,
    "full": full_range,
    "bools": lambda leaf, dims, g, env: torch.randint(0, 2, dims, generator=g),
    "sorted": lambda leaf, dims, g, env: torch.sort(torch.randn(dims, generator=g, dtype=torch.float64))[0] if dims else torch.zeros(()),
    "equal": lambda leaf, dims, g, env: torch.full(dims, 0.75, dtype=torch.float64),
}


def quiet(f):
    def call(*args, **kwargs):
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return f(*args, **kwargs)

    return call


def literal(t):
    """Python text that gives the tensor again."""
    if t.numel() > 256:
        return f"torch.randn({tuple(t.shape)}).to({t.dtype})"
    return f"torch.tensor({t.tolist()}, dtype={t.dtype}).reshape({tuple(t.shape)})"


def script(program, made):
    """A program that repeats the case by hand."""
    lines = ["import math, torch, torch.nn.functional as F", "from math import inf, nan", "", "", "class M(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
    buffers = program.leaves("const", "state")
    for x in buffers:
        text = re.sub(rf"\b{x.of}\b", f"self.{x.of}", x.view) if x.of else literal(made[x.name])
        lines.append(f"        self.register_buffer({x.name!r}, {text})")
    inputs = [x.name for x in program.leaves("input")]
    lines += ["", f"    def forward(self, {', '.join(inputs)}):"]
    lines += [f"        {x.name} = self.{x.name}" for x in buffers]
    lines += [f"        {s.line()}" for s in program.statements()]
    lines += [f"        return ({', '.join(program.outputs)},)", "", ""]
    lines += [f"{n} = {literal(made[n])}" for n in inputs]
    if program.sizes:
        lines.append(f"# dynamic: {', '.join(f'{x.name}[{chr(44).join(x.dims)}]' for x in program.leaves('input'))}; sizes at export {program.sizes}")
    lines += [f"print(M()({', '.join(n + '.clone()' for n in inputs)}))"]
    return "\n".join(lines) + "\n"
