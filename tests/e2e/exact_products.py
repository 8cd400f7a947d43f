"""Every form of a contraction, in every dtype, with constant and input operands and with what may follow it in one kernel."""
import torch
import torch.nn.functional as F

from exact import Case, suite

INTS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def make(dtype, *shape):
    """Integers of the whole range: products wrap."""
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    info = torch.iinfo(dtype)
    return torch.randint(max(info.min, -(2**62)), min(info.max, 2**62), shape, dtype=dtype)


# name -> f(a, b), shapes of both
FORMS = {
    "matmul": (torch.matmul, (2, 3, 19), (19, 37)),
    "matmul_batch": (torch.matmul, (2, 3, 19), (2, 19, 37)),
    "matmul_vector": (torch.matmul, (19,), (19, 5)),
    "mm": (torch.mm, (7, 33), (33, 16)),
    "mm_transposed": (lambda a, b: torch.mm(a, b.t()), (7, 33), (5, 33)),
    "bmm": (torch.bmm, (2, 5, 8), (2, 8, 3)),
    "linear": (F.linear, (2, 4, 18), (21, 18)),
    "mv": (torch.mv, (6, 40), (40,)),
    "dot": (torch.dot, (70,), (70,)),
    "inner": (torch.inner, (3, 9), (4, 9)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), (3, 4, 5), (4, 5, 6)),
    "einsum": (lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b), (2, 2, 3, 8), (2, 2, 5, 8)),
    "einsum_sum": (lambda a, b: torch.einsum("bi,ij->j", a, b), (3, 6), (6, 7)),
    "outer": (torch.outer, (9,), (11,)),
    "conv1d": (lambda a, b: F.conv1d(a, b, padding=1), (2, 3, 20), (5, 3, 3)),
    "conv2d": (lambda a, b: F.conv2d(a, b, stride=2, padding=1), (2, 3, 11, 9), (6, 3, 3, 3)),
    "conv2d_groups": (lambda a, b: F.conv2d(a, b, groups=2, padding=(0, 1)), (1, 4, 8, 7), (6, 2, 2, 3)),
    "conv2d_depthwise": (lambda a, b: F.conv2d(a, b, groups=4, padding=1), (2, 4, 9, 9), (4, 1, 3, 3)),
    "conv2d_pointwise": (F.conv2d, (1, 8, 5, 5), (12, 8, 1, 1)),
    "conv3d": (lambda a, b: F.conv3d(a, b, padding=1), (1, 2, 4, 5, 6), (3, 2, 2, 3, 3)),
    "conv_tbc": (lambda a, b: torch.conv_tbc(a, b, torch.zeros(4, dtype=a.dtype), 1), (9, 2, 3), (3, 3, 4)),
    # Eager has these for int64 and floats only.
    "conv2d_dilated": (lambda a, b: F.conv2d(a, b, dilation=2, padding=2), (1, 3, 9, 8), (4, 3, 3, 3)),
    "conv_transpose1d": (lambda a, b: F.conv_transpose1d(a, b, stride=2, padding=1), (2, 3, 7), (3, 4, 3)),
    "conv_transpose2d": (lambda a, b: F.conv_transpose2d(a, b, stride=2, output_padding=1), (1, 4, 5, 4), (4, 3, 3, 2)),
}
# name -> f(product, bias as long as the last dim, operand of the product's shape)
EPILOGUES = {
    "none": lambda y, bias, z: y,
    "bias": lambda y, bias, z: y + bias,
    "relu": lambda y, bias, z: y.relu(),
    "clamp": lambda y, bias, z: y.clamp(-20, 30),
    "residual": lambda y, bias, z: y + z,
    "scaled": lambda y, bias, z: y * 3 - z,
    "to_f32": lambda y, bias, z: y.float() * 0.5,
    "to_i64": lambda y, bias, z: (y.long() >> 1) if not y.dtype.is_floating_point else y.double(),
    "to_i8": lambda y, bias, z: y.to(torch.int8) if not y.dtype.is_floating_point else y.half(),
    "compared": lambda y, bias, z: y > z,
    "twice": lambda y, bias, z: (y, y.relu() + bias),
}
# Operands of their own, and numbers for both factors.
ADDED = {
    "addmm": (torch.addmm, (6,), (5, 9), (9, 6)),
    "addmm_matrix": (torch.addmm, (5, 6), (5, 9), (9, 6)),
    "baddbmm": (torch.baddbmm, (2, 5, 6), (2, 5, 9), (2, 9, 6)),
    "addbmm": (torch.addbmm, (5, 6), (2, 5, 9), (2, 9, 6)),
    "addmv": (torch.addmv, (5,), (5, 9), (9,)),
    "addr": (torch.addr, (5, 9), (5,), (9,)),
}


def takes(fn, *args):
    try:
        fn(*args)
        return True
    except (RuntimeError, NotImplementedError):
        return False


def products(dtype):
    cases = []

    def add(label, fn, tensors, constants, integral):
        cases.append(Case(f"{label} {dtype}", fn, tensors, constants, close=not integral))

    integral = not dtype.is_floating_point
    names = list(EPILOGUES)
    if not integral:
        names.remove("compared")  # a product's last bit decides
    for n, (form, (fn, sa, sb)) in enumerate(FORMS.items()):
        a, b = make(dtype, *sa), make(dtype, *sb)
        if not takes(fn, a, b):
            continue
        y = fn(a, b)
        bias, z = make(dtype, *y.shape[-1:]), make(dtype, *y.shape)
        # matmul and conv2d with everything, the others with some of it in turns.
        every = form in ("matmul", "conv2d")
        for i, e in enumerate(names):
            if not every and i and i % 3 != n % 3:
                continue
            after = EPILOGUES[e]
            f = lambda a, bias, z, b, fn=fn, after=after: after(fn(a, b), bias, z)
            if every or i % 2:
                add(f"{form} {e} constant", f, [a, bias, z], [b], integral)
            if every or not i % 2:
                add(f"{form} {e} input", f, [a, bias, z, b], [], integral)
    for form, (fn, *shapes) in ADDED.items():
        tensors = [make(dtype, *s) for s in shapes]
        add(form, fn, tensors, [], integral)
        add(form + " factors", lambda x, a, b, fn=fn: fn(x, a, b, beta=3, alpha=2), tensors[:2], tensors[2:], integral)
    # Both operands computed; long sums; nothing to sum.
    a, b = make(dtype, 33, 200), make(dtype, 200, 40)
    add("computed operands", lambda a, b: (a + 1) @ (b * 2), [a, b], [], integral)
    add("long sums", torch.mm, [make(dtype, 3, 3000)], [make(dtype, 3000, 17)], integral)
    add("no terms", torch.mm, [make(dtype, 3, 0), make(dtype, 0, 5)], [], integral)
    add("columns in parts", lambda a, b: [p.relu() for p in (a @ b).split([8, 20, 12], 1)], [a], [b], integral)
    return cases


for t in INTS + FLOATS:
    globals()[f"products_{str(t)[6:]}"] = (lambda t=t: products(t))
    globals()[f"products_{str(t)[6:]}"].__name__ = f"products_{str(t)[6:]}"
    suite(globals()[f"products_{str(t)[6:]}"])


@suite
def products_of_bools():
    """What eager has for bools."""
    a, b = torch.rand(9) > 0.5, torch.rand(11) > 0.5
    x = torch.rand(9, 11) > 0.5
    return [Case("outer", torch.outer, [a, b]), Case("einsum", lambda a, b: torch.einsum("i,j->ij", a, b), [a, b]),
            Case("kron", torch.kron, [a, b]), Case("addr", torch.addr, [x, a, b])]
