"""Numbers rounded to grids of small integers, as PyTorch's export quantisation leaves them in a program, and products of such integers."""
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  (defines quantized_decomposed)

from exact import Case, suite

Q = torch.ops.quantized_decomposed
TYPES = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int16: (-32768, 32767)}
R = torch.randn


@suite
def quantized_tensors():
    cases = []
    for t, (lo, hi) in TYPES.items():
        for scale, zero in ((0.03, 4), (0.1, 0), (1 / 3, 100)):
            args = (scale, zero, lo, hi, t)
            cases.append(Case(f"quantize {t} {scale}", lambda x, a=args: Q.quantize_per_tensor(x, *a), [R(5, 40) * 9]))
            cases.append(Case(f"both ways {t} {scale}", lambda x, a=args: Q.dequantize_per_tensor(Q.quantize_per_tensor(x, *a), *a), [R(5, 40) * 9]))
        for out in (torch.float16, torch.bfloat16):
            cases.append(Case(f"{out} of {t}", lambda x, a=(0.07, 3, lo, hi, t), o=out: Q.dequantize_per_tensor(x, *a, out_dtype=o), [torch.randint(lo, hi, (90,)).to(t)]))
            cases.append(Case(f"{t} of {out}", lambda x, a=(0.07, 3, lo, hi, t): Q.quantize_per_tensor(x, *a), [(R(90) * 5).to(out)]))
    a = (-128, 127, torch.int8)
    scale, zero = torch.tensor([0.0371], dtype=torch.float64), torch.tensor([5])
    cases.append(Case("of tensors", lambda x, s, z: Q.dequantize_per_tensor.tensor(Q.quantize_per_tensor.tensor(x, s, z, *a), s, z, *a), [R(200) * 3, scale, zero]))
    ends = torch.tensor(-100), torch.tensor(99)
    cases.append(Case("of tensors with their bounds", lambda x, s, z, lo, hi: Q.quantize_per_tensor.tensor2(x, s, z, lo, hi, torch.int8), [R(200) * 3, scale[0].float(), zero[0], *ends]))
    cases.append(Case("another type", lambda x: Q.convert_element_type.no_fuse(x, torch.bfloat16), [R(50)]))
    return cases


@suite
def quantized_channels():
    cases = []
    for t, (lo, hi) in TYPES.items():
        for axis in (0, 1, 2):
            shape = (6, 5, 7)
            scales, zeros = torch.rand(shape[axis]) * 0.1 + 0.01, torch.randint(lo // 8, hi // 8, (shape[axis],))
            for s, z in ((scales, zeros), (scales.double(), zeros.int())):
                cases.append(Case(f"channels {axis} {t} {s.dtype}", lambda x, s, z, a=(axis, lo, hi, t): Q.quantize_per_channel(x, s, z, *a), [R(shape) * 3, s, z]))
                cases.append(Case(f"of channels {axis} {t} {s.dtype}", lambda q, s, z, a=(axis, lo, hi, t): Q.dequantize_per_channel(q, s, z, *a), [torch.randint(lo, hi, shape).to(t), s, z]))
    cases.append(Case("of channels without zeros", lambda q, s: Q.dequantize_per_channel(q, s, None, 0, -127, 127, torch.int8, out_dtype=torch.float16),
                      [torch.randint(-127, 127, (6, 9)).to(torch.int8), torch.rand(6) * 0.1]))
    q, s, z = torch.randint(-8, 7, (6, 64)).to(torch.int8), torch.rand(6, 4) * 0.1 + 0.01, torch.randint(-3, 3, (6, 4))
    g = (-8, 7, torch.int8, 16)
    cases.append(Case("groups", lambda x, s, z: Q.quantize_per_channel_group(x, s, z, *g), [R(6, 64), s, z]))
    cases.append(Case("of groups", lambda q, s, z: Q.dequantize_per_channel_group(q, s, z, *g, torch.float32), [q, s, z]))
    cases.append(Case("of groups without zeros", lambda q, s: Q.dequantize_per_channel_group(q, s, None, *g, torch.bfloat16), [q, s]))
    return cases


@suite
def quantized_rows():
    cases = []
    a = (-128, 127, torch.int8)
    for t in (torch.float32, torch.float16, torch.bfloat16):
        for way in (Q.choose_qparams_per_token, Q.choose_qparams_per_token_asymmetric):
            if way is Q.choose_qparams_per_token and t == torch.bfloat16:
                continue  # the archive says that its scales are float64, in which they are computed then; eager rounds them to bfloat16
            x = (R(4, 3, 33) * 5).to(t)
            x[1] = x[1].abs()
            x[2] = 0
            if way is Q.choose_qparams_per_token_asymmetric:
                cases.append(Case(f"{way} {t}", lambda x, w=way: w(x, torch.int8), [x]))

            def both(x, w=way):
                s, z = w(x, torch.int8)
                q = Q.quantize_per_token(x, s, z, *a)
                return q, Q.dequantize_per_token(q, s, z, *a, torch.float32)

            cases.append(Case(f"rows by {way} {t}", both, [x]))
        for way in (Q.choose_qparams.tensor, Q.choose_qparams_symmetric.tensor):
            for x in (R(7, 9) * 4, R(40).abs(), torch.zeros(5)):
                cases.append(Case(f"{way} {t}", lambda x, w=way: w(x, -128, 127, 1e-6, torch.int8), [x.to(t)]))
        cases.append(Case(f"symmetric uint8 {t}", lambda x: Q.choose_qparams_symmetric.tensor(x, 0, 255, 1e-6, torch.uint8), [R(30).to(t)]))
    return cases


@suite
def quantized_products():
    whole = lambda *shape: torch.randint(-128, 128, shape).to(torch.int8)
    cases = [Case(f"int_mm {m}x{n}x{k}", torch._int_mm, [whole(m, k), whole(k, n)]) for m, n, k in ((32, 24, 64), (17, 8, 200))]
    for t in (torch.float32, torch.bfloat16):
        right = lambda x, w, s: ((x.double() @ w.double().T) * s.double()).to(x.dtype)
        cases.append(Case(f"int8pack {t}", torch._weight_int8pack_mm, [R(9, 64).to(t), whole(32, 64), torch.rand(32).to(t)], close=True, right=right))
    return cases


@suite
def products_of_dequantised():
    """Which products of (bytes - zero) * scale may sum bytes: what wraps before it is widened, zero points beyond bytes, weights by batch."""
    whole = lambda lo, hi, t, *shape: torch.randint(lo, hi, shape).to(t)
    u8, i8 = whole(0, 256, torch.uint8, 4, 20), whole(-128, 128, torch.int8, 4, 20)
    w, ws = whole(-128, 128, torch.int8, 6, 20), whole(-128, 128, torch.int8, 3, 20, 7)
    scaled = lambda w: w.float() * 0.02
    cases = []

    def product(label, rows, inputs, weight=w, mul=torch.nn.functional.linear):
        cases.append(Case(label, lambda *x: mul(rows(*x[:-1]).float() * 0.1, scaled(x[-1])), inputs, [weight], close=True))

    product("a difference of unsigned bytes", lambda x: x - 5, [u8])
    product("a difference of signed bytes", lambda x: x - 100, [i8])
    product("a large zero point", lambda x: x.int() - (1 << 28), [u8])
    product("a large zero point of wide type", lambda x, z: x.long() - z, [u8, torch.tensor([[1 << 33]])])
    product("zero points known at run time", lambda x, z: x.int() - z, [u8, whole(0, 255, torch.int32, 4, 1)])
    product("zero points of bytes", lambda x, z: x.int() - z, [u8, whole(-128, 128, torch.int8, 4, 1)])
    product("a zero point a column", lambda x, z: x.int() - z, [u8, whole(0, 255, torch.int32, 20)])
    product("half a zero point", lambda x: x.float() - 2.5, [u8])
    product("a weight each", lambda x: x - 3, [whole(-90, 128, torch.int8, 3, 4, 20)], ws, torch.matmul)
    product("a weight each of one operand", lambda x: x, [u8], ws, torch.matmul)
    product("one weight of many", lambda x: x, [whole(0, 256, torch.uint8, 3, 4, 20)], ws[:1], torch.matmul)
    most = whole(-128, -90, torch.int8, 2, 300)
    product("sums of more than 32 bits", lambda x: x.float() - 60000, [most], most)
    cases.append(Case("integers by integers, by batch", lambda x, w: torch.bmm(x.int(), w.int()), [whole(0, 256, torch.uint8, 3, 4, 20)], [ws]))
    return cases


@suite
def largest_of_dequantised():
    """Windows of dequantised values, some of which lie between the steps of a dilated window."""
    grid = lambda x, zero: Q.dequantize_per_tensor(Q.quantize_per_tensor(x, 0.05, zero, 0, 255, torch.uint8), 0.05, zero, 0, 255, torch.uint8)
    pool = torch.nn.functional.max_pool2d
    cases = []
    for shape, args in (((2, 5), (2, 1, 1, 3)), ((1, 1), (3, 1, 1)), ((8, 5), (3, 2, 1, 1, True)), ((4, 3), (3, 1, 1, 2))):
        cases.append(Case(f"{shape} {args}", lambda x, a=args: pool(grid(x, 7), *a), [R(1, 2, *shape)]))
    return cases
