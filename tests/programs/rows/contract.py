"""Products of every type: matrices, batches, einsum, linear; with what may be fused before and after."""
import torch

from generator import FLOATS, INTS, NUMBERS, Skip, row

EVERY = FLOATS + INTS


def operand(g, dtype, dims):
    """A leaf of these dims, sometimes through a view or with something to compute on the way."""
    kind = g.int(0, 9)
    if dtype in INTS:
        data = ("full", "0", "1") if g.chance(0.3) else ("ints", "0" if not dtype.is_signed else "-6", "7")
    else:
        data = (None, "0", "1")
    if kind == 0 and len(dims) >= 2:
        swapped = [*dims[:-2], dims[-1], dims[-2]]
        return f"{g.leaf(dtype, swapped, *data)}.transpose(-1, -2)"
    x = g.leaf(dtype, dims, *data)
    if kind == 1:
        return f"({x} * {g.number(dtype)})"
    if kind == 2 and dtype.is_floating_point:
        return f"torch.{g.choice(['relu', 'tanh', 'sigmoid'])}({x})"
    if kind == 3 and len(dims) >= 1:
        return f"torch.flip({x}, (-1,))"
    return str(x)


def epilogue(g, text, dtype):
    if g.chance(0.55):
        return text
    options = ["{} + 1", "{} * 2", "-{}", "({} > 0)", "{}.transpose(-1, -2)", "{}.sum(-1)", "{}.to(torch.float32)", "{}.abs()", "{}.reshape(-1)", "{}.clamp(-3, 5)"]
    if dtype.is_floating_point:
        options += ["torch.relu({})", "F.gelu({})", "torch.sigmoid({})", "{} / 3", "torch.softmax({}, -1)", "{}.to(torch.float16)"]
    else:
        options += ["{} % 7", "{} & 3", "{} // 2", "{}.to(torch.int64)", "{}.to(torch.int8)"]
    return g.choice(options).format(f"({text})")


@row("matmul", 7)
def matmul(g):
    dtype = g.dtype(EVERY)
    m, n, k = g.dim_text(), g.dim_text(), g.dim_text()
    batch = [g.dim_text() for _ in range(g.choice([0, 0, 1, 1, 2]))]
    kind = g.int(0, 7)
    if g.chance(0.35):  # a value so far on the left
        x = g.tensor(EVERY, (1, 4))
        dtype, left, k, batch = x.dtype, str(x), g.dim(x, -1), []
        if x.rank == 1:
            kind = g.choice([3, 5])
        right = operand(g, dtype, [k] if kind == 4 else [k, n])
        return epilogue(g, f"torch.matmul({left}, {right})", dtype)
    a, b = [*batch, m, k], [*batch, k, n]
    if kind == 0:
        return epilogue(g, f"{operand(g, dtype, a)} @ {operand(g, dtype, b)}", dtype)
    if kind == 1:
        return epilogue(g, f"torch.mm({operand(g, dtype, [m, k])}, {operand(g, dtype, [k, n])})", dtype)
    if kind == 2:
        s = batch[:1] or [g.dim_text()]
        return epilogue(g, f"torch.bmm({operand(g, dtype, s + [m, k])}, {operand(g, dtype, s + [k, n])})", dtype)
    if kind == 3:
        return epilogue(g, f"torch.matmul({operand(g, dtype, [k])}, {operand(g, dtype, b)})", dtype)
    if kind == 4:
        return epilogue(g, f"torch.mv({operand(g, dtype, [m, k])}, {operand(g, dtype, [k])})", dtype)
    if kind == 5:
        return f"torch.dot({operand(g, dtype, [k])}, {operand(g, dtype, [k])})"
    if kind == 6:
        return epilogue(g, f"torch.matmul({operand(g, dtype, a)}, {operand(g, dtype, [k, n])})", dtype)
    return epilogue(g, f"torch.matmul({operand(g, dtype, ['1' if g.chance(0.3) else d for d in batch] + [m, k])}, {operand(g, dtype, b)})", dtype)


@row("linear", 4)
def linear(g):
    x = g.tensor(EVERY, (1, 4))
    n = str(g.choice([1, 3, 8, 16, 17, 33]))
    w = g.leaf(x.dtype, [n, g.dim(x, -1)], role="const" if g.chance(0.6) and not g.dynamic else "input")
    bias = f", {g.leaf(x.dtype, [n])}" if g.chance(0.6) else ""
    return epilogue(g, f"F.linear({x}, {w}{bias})", x.dtype)


@row("addmm and kin", 4)
def addmm(g):
    dtype = g.dtype(EVERY)
    m, n, k, s = g.dim_text(), g.dim_text(), g.dim_text(), g.dim_text()
    scale = g.choice(["", ", beta=2", ", alpha=3", ", beta=0", ", beta=2, alpha=-1", ", alpha=0", ", beta=-2, alpha=0", ", beta=0, alpha=0"]) if dtype != torch.uint8 else g.choice(["", ", beta=2"])
    kind = g.int(0, 5)

    def rows_of(*dims):
        return g.leaf(dtype, ["1" if g.chance(0.15) else d for d in dims][g.choice([0, 0, 0, len(dims) - 1]) :])

    a, b = operand(g, dtype, [m, k]), operand(g, dtype, [k, n])
    if kind <= 1:
        return epilogue(g, f"torch.addmm({rows_of(m, n)}, {a}, {b}{scale})", dtype)
    if kind == 2:
        return f"torch.addmv({g.leaf(dtype, [m])}, {a}, {operand(g, dtype, [k])}{scale})"
    if kind == 3:
        return f"torch.addr({g.leaf(dtype, [m, n])}, {operand(g, dtype, [m])}, {operand(g, dtype, [n])}{scale})"
    x, y = operand(g, dtype, [s, m, k]), operand(g, dtype, [s, k, n])
    if kind == 4:
        return epilogue(g, f"torch.baddbmm({g.leaf(dtype, [s, m, n])}, {x}, {y}{scale})", dtype)
    return f"torch.addbmm({g.leaf(dtype, [m, n])}, {x}, {y}{scale})"


EINSUMS = ["ij,jk->ik", "bij,bjk->bik", "ij,ij->", "i,j->ij", "bhqd,bhkd->bhqk", "ij,kj->ik", "bij,kj->bik", "ijk,k->ij", "ij->ji", "ii->i", "bij->bj", "ij,ij->i", "bij,bij->b",
           "ab,bc,cd->ad", "bi,ij,bj->b", "ibj,jbk->bik", "abc,acd->abd", "ij,ik->jk", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd"]


@row("einsum", 3)
def einsum(g):
    dtype = g.dtype(EVERY)
    equation = g.choice(EINSUMS)
    sizes = {c: g.dim_text() for c in equation if c.isalpha()}
    if "ii" in equation and g.dynamic:
        raise Skip
    operands = [operand(g, dtype, [sizes[c] for c in term]) for term in equation.split("->")[0].split(",")]
    return epilogue(g, f"torch.einsum({equation!r}, {', '.join(operands)})", dtype)


@row("tensordot, inner, bilinear", 1.5)
def tensordot(g):
    dtype = g.dtype(EVERY)
    m, n, k, p = (g.dim_text() for _ in range(4))
    kind = g.int(0, 4)
    if kind == 0:
        return f"torch.tensordot({operand(g, dtype, [m, k, p])}, {operand(g, dtype, [p, k, n])}, dims=([1, 2], [1, 0]))"
    if kind == 1:
        return f"torch.inner({operand(g, dtype, [m, k])}, {operand(g, dtype, [n, k])})"
    if kind == 2:
        f = g.dtype(FLOATS)
        return f"F.bilinear({g.leaf(f, [m, '3'])}, {g.leaf(f, [m, '4'])}, {g.leaf(f, ['5', '3', '4'])}, {g.leaf(f, ['5'])})"
    if kind == 3:
        return f"torch.linalg.multi_dot([{operand(g, dtype, [m, k])}, {operand(g, dtype, [k, n])}, {operand(g, dtype, [n, p])}])"
    return f"torch.outer({operand(g, dtype, [m])}, {operand(g, dtype, [n])})"


@row("product of a value with itself", 2)
def gram(g):
    x = g.tensor(EVERY, (2, 3), where=lambda v: 0 not in v.shape)
    return g.choice([f"{x} @ {x}.transpose(-1, -2)", f"{x}.mT @ {x}", f"torch.trace({x}[..., 0, :, None] @ {x}[..., 0, None, :])" if x.rank == 2 else f"{x} @ {x}.mT",
                     f"torch.linalg.vecdot({x}, {x})" if x.dtype in FLOATS else f"({x} * {x}).sum(-1)"])


@row("small linear algebra", 1)
def algebra(g):
    n = str(g.int(1, 5))
    batch = [g.dim_text()] if g.chance(0.4) else []
    a = g.leaf(g.choice(FLOATS[:2]), [*batch, n, n], "unit")
    eye = f"({a} + {n} * torch.eye({n}, dtype={a.dtype}))"
    return g.choice([f"torch.linalg.det({eye})", f"torch.linalg.inv({eye})", f"torch.linalg.solve({eye}, {g.leaf(a.dtype, [*batch, n, '2'])})", f"torch.linalg.cholesky({eye} @ {eye}.mT)",
                     f"torch.matrix_power({a}, {g.int(0, 3)})", f"torch.linalg.qr({eye})[1].abs()", f"torch.linalg.slogdet({eye})[1]", f"torch.linalg.matrix_norm({a})",
                     f"torch.linalg.cross({g.leaf(a.dtype, ['4', '3'])}, {g.leaf(a.dtype, ['4', '3'])})"])
