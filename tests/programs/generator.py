"""Makes random typed programs: picks a row, the row picks operands among the values so far (or asks for a new leaf) and gives Python text;
the text is run at once in eager, and kept when it runs."""
import contextlib
import dataclasses
import io
import random
import re

import torch

from program import COMPLEX, FLOATS, INTS, MAX_ELEMS, Leaf, Program, Statement, base_env, make_leaf, quiet

MAX_VALUE = 6000  # elements of a value at export, but in large programs
DTYPES = set(FLOATS) | set(INTS) | set(COMPLEX) | {torch.bool}
ROWS = []  # (name, weight, function)
# Further rows of programs of a kind: sizes found in data and checks; complex numbers; types that meet, memory and rarer operators; branches, loops and maps.
KINDS = {"found": [], "complex": [], "wide": [], "control": []}

F_ANY = FLOATS
F_WIDE = FLOATS[:2]
NUMBERS = FLOATS + INTS
REAL = NUMBERS + (torch.bool,)
BOOL = (torch.bool,)
INTEGRAL = INTS + BOOL


class Skip(Exception):
    """The row does not fit here."""


def row(name, weight=1.0, kind=""):
    def add(f):
        (KINDS[kind] if kind else ROWS).append((name, weight, f))
        return f

    return add


class Value:
    """A tensor of the program; str() is its name."""

    def __init__(self, name, tensor, leaf=None, found=False):
        self.name, self.t, self.leaf = name, tensor, leaf
        self.found = found  # made from what has a size that depends on data: its sizes have no numbers in texts

    def __str__(self):
        return self.name

    @property
    def dtype(self):
        return self.t.dtype

    @property
    def shape(self):
        return tuple(self.t.shape)

    @property
    def rank(self):
        return self.t.dim()


class Generator:
    def __init__(self, name, seed, dynamic=False, kind=""):
        self.rng = random.Random(seed)
        self.kind = kind  # of KINDS, or ""
        self.program = Program(name, [], [], {}, seed)
        self.dynamic = dynamic
        self.env = base_env()
        self.values = []
        self.used, self.rows_used = set(), []
        self.counts = {"x": 0, "v": 0}
        self.favourite = self.rng.choice(FLOATS + (torch.float32,) * 4 + INTS)
        self.limit = MAX_VALUE if self.rng.random() < 0.97 else 40 * MAX_VALUE
        self.odd = self.rng.random() < 0.2  # inputs with NaN and infinities
        self.pending = []  # leaves that the row under way asked for
        if kind == "complex":
            self.favourite = self.rng.choice(COMPLEX)
        if dynamic:
            for s, hint in zip("ABCD", self.rng.sample([2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16], self.rng.choice([1, 2, 2, 3]))):
                self.program.sizes[s] = hint
                self.env[s] = hint

    # Choices of numbers and types

    def chance(self, p):
        return self.rng.random() < p

    def choice(self, xs):
        return self.rng.choice(list(xs))

    def int(self, lo, hi):
        return self.rng.randint(lo, hi)

    def size(self):
        r = self.rng.random()
        if r < 0.10:
            return 1
        if r < 0.12:
            return 0
        if r < 0.80:
            return self.int(2, 9)
        return self.choice([15, 16, 17, 31, 32, 33, 40, 63, 64, 65])

    def dim_text(self):
        """Size of a new dimension."""
        if self.dynamic and self.chance(0.6):
            return self.choice(self.program.sizes)
        return str(self.size())

    def extent(self):
        """Size of a dimension in a statement's text, where the symbols have no name: as some leaf's size."""
        known = [f"{v}.shape[{d}]" for v in self.values if v.leaf for d, text in enumerate(v.leaf.dims) if text in self.program.sizes]
        return self.choice(known) if known and self.chance(0.6) else str(self.size())

    def dtype(self, kinds):
        return self.favourite if self.favourite in kinds and self.chance(0.6) else self.choice(kinds)

    def number(self, dtype):
        if dtype.is_floating_point:
            return self.choice(["0.5", "-1.25", "2", "0.1", "-3", "1e-3", "7.5", "1", "0", "3.0"])
        if dtype == torch.bool:
            return self.choice(["True", "False"])
        return self.choice(["0", "1", "2", "3", "5", "7"] + (["-1", "-4"] if dtype != torch.uint8 else []))

    # Leaves

    def leaf(self, dtype, dims, data=None, lo="0", hi="1", role=None):
        """A new input or constant. dims: sizes or Python expressions, not of what is found."""
        if any(v.name in re.findall(r"\w+", str(d)) for d in dims for v in self.values if v.found):
            raise Skip("an input of a size that depends on data")
        if data is None:
            if dtype.is_complex:
                data = "normal"
            elif dtype.is_floating_point:
                data = self.choice(["special", "special", "scaled", "shifted", "normal"]) if self.odd else self.choice(["normal"] * 6 + ["halves", "positive", "unit"])
            elif dtype == torch.bool:
                data = "bools"
            else:
                data, lo, hi = ("full", lo, hi) if self.chance(0.3) else ("ints", "0" if dtype == torch.uint8 else "-6", "7")
        if role is None:
            role = "const" if not any(d in str(x) for x in dims for d in self.program.sizes) and "shape" not in str(dims) and self.chance(0.2) else "input"
        name = f"x{self.counts['x']}"
        self.counts["x"] += 1
        leaf = Leaf(name, dtype, [str(d) for d in dims], data, str(lo), str(hi), role)
        if self.kind == "wide" and role == "input" and len(dims) >= 2 and self.chance(0.15):
            leaf.order = tuple(self.rng.sample(range(len(dims)), len(dims)))
        t = make_leaf(leaf, self.env, (self.program.data_seed, 0))
        if t.numel() > self.limit:
            raise Skip("too large")
        self.env[name] = t
        v = Value(name, t, leaf)
        self.pending.append(v)
        return v

    def view_leaf(self, base, text):
        """A constant that is a view of another one."""
        t = eval(text, self.env)
        leaf = Leaf(f"x{self.counts['x']}", t.dtype, [str(n) for n in t.shape], role="const", of=base.name, view=text)
        self.counts["x"] += 1
        self.env[leaf.name] = t
        self.pending.append(Value(leaf.name, t, leaf))
        return self.pending[-1]

    def fresh(self, kinds, rank=(0, 4), data=None):
        r = min(max(self.choice([1, 2, 2, 3, 3, 4, 4, 5, 0]), rank[0]), rank[1])
        return self.leaf(self.dtype(kinds), [self.dim_text() for _ in range(r)], data)

    def index(self, dims, hi, dtype=torch.int64, lo="0"):
        """Integers in [lo, hi), hi a Python expression."""
        return self.leaf(dtype, dims, "ints", lo, hi, None if self.chance(0.2) and not self.dynamic else "input")

    # Picking among the values

    def tensor(self, kinds=NUMBERS, rank=(0, 5), where=None, new=0.12, data=None):
        """A value whose type is of `kinds`: one of those so far (late ones more often), or a new leaf."""
        if self.kind == "complex" and torch.float32 in kinds and self.chance(0.7):
            kinds, data = COMPLEX, None
        fits = [v for v in self.values if v.dtype in kinds and rank[0] <= v.rank <= rank[1] and (not where or where(v))]
        if fits and not self.chance(new):
            k = min(int(self.rng.expovariate(0.6)), len(fits) - 1)
            return fits[-1 - k]
        v = self.fresh(kinds, rank, data)
        if where and not where(v):
            raise Skip("no value fits")
        return v

    def dim(self, v, d):
        """Text of a size of v."""
        d = d % v.rank
        return f"{v}.shape[{d}]" if self.dynamic or v.found else str(v.shape[d])

    def axis(self, v):
        if v.rank == 0:
            raise Skip("rank 0")
        d = self.int(0, v.rank - 1)
        return d - v.rank if self.chance(0.4) else d

    def axes(self, v, least=1):
        n = self.int(min(least, v.rank), v.rank)
        return [d - v.rank if self.chance(0.3) else d for d in self.rng.sample(range(v.rank), n)]

    def dims_like(self, v, broadcast=False):
        dims = [self.dim(v, d) for d in range(v.rank)]
        if broadcast:
            if self.chance(0.3):
                dims = dims[self.int(0, len(dims)) :]
            dims = ["1" if self.chance(0.2) else d for d in dims]
        return dims

    def like(self, v, kinds=None, broadcast=False, data=None, new=0.4):
        """A tensor of v's shape (or broadcastable to it)."""
        kinds = kinds or (v.dtype,)

        def fits(w):
            if w is v and self.chance(0.7):
                return False
            if not broadcast:
                return w.shape == v.shape
            try:
                torch.broadcast_shapes(w.shape, v.shape)
                return True
            except RuntimeError:
                return False

        found = [w for w in self.values if w.dtype in kinds and fits(w)]
        if found and not self.chance(new):
            return self.choice(found[-6:])
        return self.leaf(self.dtype(kinds), self.dims_like(v, broadcast), data)

    # Running

    @quiet
    def step(self):
        name, _, make = self.rng.choices(self.rows(), self.weights())[0]
        self.pending = []
        try:
            made = make(self)
            if made is None:
                raise Skip(name)
            text, n = made if isinstance(made, tuple) else (made, 1)
            targets = [f"v{self.counts['v'] + k}" for k in range(n)]
            statement = Statement(targets, text)
            exec(statement.line(), self.env)
            results = [self.env[t] for t in targets]
            if len(targets) > 1 or not targets or isinstance(results[0], torch.Tensor):
                for t in results:
                    if not isinstance(t, torch.Tensor) or t.dtype not in DTYPES or t.numel() > self.limit or t.is_sparse or t.is_nested:
                        raise Skip("result")
            else:
                raise Skip("not a tensor")
            found = self.kind == "found" and (make in [f for _, _, f in KINDS["found"]] or any(v.found and v.name in re.findall(r"\w+", text) for v in self.values))
            if found and not self.exports(statement):
                raise Skip("torch.export does not take it")
        except (Skip, RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, AssertionError, ZeroDivisionError) as e:
            if type(e) is not Skip and self.trace is not None:
                self.trace.append((name, f"{type(e).__name__}: {str(e)[:200]}"))
            for v in self.pending:
                self.env.pop(v.name, None)
                self.counts["x"] = min(self.counts["x"], int(v.name[1:]))
            return False
        for v in self.pending:
            self.program.items.append(v.leaf)
            self.values.append(v)
        self.program.items.append(statement)
        self.counts["v"] += n
        self.values += [Value(t, r, None, found) for t, r in zip(targets, results)]
        self.rows_used.append(name)
        for word in text.replace("(", " ").replace(")", " ").replace(",", " ").replace(".", " ").replace("[", " ").replace("]", " ").split():
            self.used.add(word)
        return True

    def exports(self, statement):
        """Does torch.export take the program with this statement at its end?"""
        import pack

        items = self.program.items + [v.leaf for v in self.pending] + [statement]
        outputs = statement.targets or [v.name for v in self.values[-1:]] + [v.name for v in self.pending]
        p = dataclasses.replace(self.program, items=items, outputs=outputs)
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):  # the graph so far, of each refusal
                pack.export([p], {p.name: p.replay()[0]}, None)
            return True
        except Exception:
            return False

    trace = None
    _weights = None

    def rows(self):
        return ROWS + KINDS[self.kind] if self.kind else ROWS

    def weights(self):
        """A program of a kind is made of its own rows by half."""
        if self._weights is None:
            own = sum(w for _, w, _ in KINDS.get(self.kind, ()))
            scale = sum(w for _, w, _ in ROWS) / own if own else 0
            self._weights = [w for _, w, _ in ROWS] + [w * scale for _, w, _ in KINDS.get(self.kind, ())]
        return self._weights

    def run(self, statements):
        tries = 0
        while len(self.program.statements()) < statements and tries < 12 * statements:
            tries += 1
            self.step()
        values = [v for v in self.values if v.leaf is None]
        ends = [v for v in values if v.name not in self.used]
        others = [v for v in self.values if v not in ends and self.chance(0.15 if v.leaf is None else 0.03)]
        out = (ends + others) or self.values[-1:]
        self.rng.shuffle(out)
        self.program.outputs = [v.name for v in out]
        self.program.rows = tuple(self.rows_used)
        return self.program


@quiet
def generate(seed, dynamic=None, kind=""):
    """The program of a seed, of a kind of KINDS or of rows for all."""
    import rows  # noqa: F401  fills ROWS

    rng = random.Random(seed * 2 + 1)
    g = Generator(f"p{seed}", seed, rng.random() < 0.35 if dynamic is None else dynamic, kind)
    p = g.run(rng.choice([1, 2, 3, 4, 5, 6, 8, 10, 14]))
    p.named = seed % 3 == 0
    settle_roles(p)
    return p if p.outputs else generate(seed + (1 << 40), dynamic, kind)


def settle_roles(p):
    """Constants that the program writes are states; an input of no use is left out."""
    used = set(p.outputs)
    words = "".join(c if c.isalnum() or c == "_" else " " for s in p.statements() for c in s.line() + "\n")
    used |= set(words.split())
    used |= {x.of for x in p.leaves() if x.name in used}
    p.items = [i for i in p.items if isinstance(i, Statement) or i.name in used or any(i.name in " ".join(j.dims + [j.lo, j.hi]) for j in p.leaves())]
    live = p.replay()[1]
    for x in p.leaves("const"):
        if live[x.name]._version:  # written, if only with what stood there
            x.role = "state"
