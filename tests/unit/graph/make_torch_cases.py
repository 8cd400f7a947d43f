"""Writes torch_cases.graph: small graphs of one operator each, with the results that PyTorch gives as constants.

Each graph's outputs come in pairs (ours, PyTorch's); interp_test.cpp compares them. Run with a Python that has torch."""
import math
import sys

import torch
import torch.nn.functional as F

NAMES = {torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "bfloat16", torch.float16: "float16", torch.int64: "int64",
         torch.int32: "int32", torch.int16: "int16", torch.int8: "int8", torch.uint8: "uint8", torch.bool: "bool",
         torch.float8_e4m3fn: "float8_e4m3fn", torch.float8_e5m2: "float8_e5m2"}


def number(v):
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, int):
        return str(v)
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return repr(v)


def type_text(t):
    return f"{NAMES[t.dtype]}[{', '.join(map(str, t.shape))}]"


def const(name, t):
    assert t.numel() <= 16, (name, t.shape)
    t = t.contiguous()
    data = f" = [{', '.join(number(v) for v in (t.float() if t.dtype.is_floating_point and t.element_size() == 1 else t).flatten().tolist())}]" if t.numel() else ""
    return f'const %{name} : {type_text(t)} "{name}"{data}\n'


def case(title, op, inputs, results, attrs=""):
    out = f"graph @{title}\n"
    results = results if isinstance(results, (list, tuple)) else [results]
    for i, x in enumerate(inputs):
        out += const(f"x{i}", x)
    for i, r in enumerate(results):
        out += const(f"want{i}", r)
    outs = ", ".join(f"%r{i}" for i in range(len(results)))
    ins = ", ".join(f"%x{i}" for i in range(len(inputs)))
    out += f"{outs} = {op}({ins}){' {' + attrs + '}' if attrs else ''} : {', '.join(type_text(r) for r in results)}\n"
    for i in range(len(results)):
        out += f'output %r{i} "r{i}"\noutput %want{i} "want{i}"\n'
    return out


cases = []
add = lambda *a: cases.append(case(*a))
torch.manual_seed(0)

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
wild = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.5, 2.5, 0.25, 3.7, -3.7, math.inf, -math.inf, math.nan, 10.0], dtype=torch.float64)

unary = dict(neg=torch.neg, abs=torch.abs, sign=torch.sign, ceil=torch.ceil, floor=torch.floor, round=torch.round, trunc=torch.trunc, sqrt=torch.sqrt,
             rsqrt=torch.rsqrt, reciprocal=torch.reciprocal, exp=torch.exp, exp2=torch.exp2, expm1=torch.expm1, log=torch.log, log2=torch.log2,
             log10=torch.log10, log1p=torch.log1p, sin=torch.sin, cos=torch.cos, tan=torch.tan, asin=torch.asin, acos=torch.acos, atan=torch.atan,
             sinh=torch.sinh, cosh=torch.cosh, tanh=torch.tanh, asinh=torch.asinh, acosh=torch.acosh, atanh=torch.atanh, erf=torch.erf,
             erfc=torch.erfc, erfinv=torch.erfinv, lgamma=torch.lgamma, digamma=torch.digamma, sigmoid=torch.sigmoid, relu=torch.relu,
             isnan=torch.isnan, isinf=torch.isinf)
for name, f in unary.items():
    for t in FLOATS:
        try:
            r = f(wild.to(t))
        except RuntimeError:
            continue
        add(f"{name}_{NAMES[t]}", name, [wild.to(t)], r)
whole = torch.tensor([0, 1, -1, 2, -2, 3, -7, 100, -128, 127])
for name in ("neg", "abs", "sign", "relu", "isnan", "isinf"):
    for t in INTS:
        add(f"{name}_{NAMES[t]}", name, [whole.to(t)], unary[name](whole.to(t)))
for t in INTS:
    add(f"bitwise_not_{NAMES[t]}", "bitwise_not", [whole.to(t)], torch.bitwise_not(whole.to(t)))
add("logical_not", "logical_not", [torch.tensor([True, False])], torch.tensor([False, True]))

fa = torch.tensor([7.0, -7.0, 7.0, -7.0, 0.0, 1.0, -1.0, 0.3, math.inf, math.nan, 5.5, -0.0], dtype=torch.float64)
fb = torch.tensor([2.0, 2.0, -2.0, -2.0, 3.0, 0.0, 0.0, 0.1, 2.0, 1.0, math.nan, 1.0], dtype=torch.float64)
ia = torch.tensor([7, -7, 7, -7, 0, 1, -1, 100, -128, 5, 2, -1, 3])
ib = torch.tensor([2, 2, -2, -2, 3, 1, -1, 7, -1, 3, -1, -3, 0])
binary = dict(add=torch.add, sub=torch.sub, mul=torch.mul, div=torch.div, div_trunc=lambda a, b: torch.div(a, b, rounding_mode="trunc"),
              div_floor=lambda a, b: torch.div(a, b, rounding_mode="floor"), remainder=torch.remainder, fmod=torch.fmod, pow=torch.pow,
              atan2=torch.atan2, hypot=torch.hypot, copysign=torch.copysign, nextafter=torch.nextafter, minimum=torch.minimum, maximum=torch.maximum,
              eq=torch.eq, ne=torch.ne, lt=torch.lt, le=torch.le, gt=torch.gt, ge=torch.ge)
for name, f in binary.items():
    for t in FLOATS:
        try:
            r = f(fa.to(t), fb.to(t))
        except RuntimeError:
            continue
        add(f"{name}_{NAMES[t]}", name, [fa.to(t), fb.to(t)], r)
for name in ("add", "sub", "mul", "div_trunc", "div_floor", "remainder", "fmod", "minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge"):
    for t in INTS:
        a, b = ia[:12].to(t), ib[:12].to(t)
        keep = (b != 0) & ~((a == torch.iinfo(t).min) & (b == -1))
        add(f"{name}_{NAMES[t]}", name, [a[keep], b[keep]], binary[name](a[keep], b[keep]))
for t in INTS:
    a, b = ia.to(t), ib.to(t).abs()
    add(f"pow_{NAMES[t]}", "pow", [a, b], a ** b)
    for name, f in dict(bit_and=torch.bitwise_and, bit_or=torch.bitwise_or, bit_xor=torch.bitwise_xor, gcd=torch.gcd).items():
        add(f"{name}_{NAMES[t]}", name, [a, b], f(a, b))
    s = torch.arange(len(a)).to(t) % 8
    add(f"shl_{NAMES[t]}", "shl", [a, s], a << s)
    add(f"shr_{NAMES[t]}", "shr", [a, s], a >> s)
signed = lambda words: torch.tensor([w - (1 << 64) if w >> 63 else w for w in words])
# at::philox_engine(seed = key, subsequence 0, offset = counter), two words each
add("philox_int64", "philox", [signed([0, 1, 0x123456789abcdef0, (1 << 64) - 1, 5]), signed([0, 0, 0xfedcba9876543210, (1 << 64) - 1, 1 << 40])],
    signed([0xe169c58d6627e8d5, 0x5cb200dbf8e4cca4, 0x61176af13640118f, 0x430ac65a4d18d7d2, 0xaf00a86129377652]))
TF = torch.tensor([True, True, False, False])
FT = torch.tensor([True, False, True, False])
for name, f in dict(bit_and=torch.bitwise_and, bit_or=torch.bitwise_or, bit_xor=torch.bitwise_xor, eq=torch.eq, lt=torch.lt, maximum=torch.maximum).items():
    add(f"{name}_bool", name, [TF, FT], f(TF, FT))
add("where", "where", [TF, torch.arange(4.0), -torch.arange(4.0)], torch.where(TF, torch.arange(4.0), -torch.arange(4.0)))

finite = torch.tensor([0.0, -0.4, 0.6, 2.5, -2.5, 3.99, -100.7, 100.2, 1e-3, 65504.0, 3.14159, 0.1, 127.0, -128.0, 1e-8, 33000.5])
for s in FLOATS:
    for t in FLOATS:
        if s != t:
            add(f"cast_{NAMES[s]}_{NAMES[t]}", "cast", [finite.to(s)], finite.to(s).to(t))
    for t in INTS + [torch.bool]:
        x = finite[:8].to(s)
        if t == torch.uint8:
            x = x.abs()
        add(f"cast_{NAMES[s]}_{NAMES[t]}", "cast", [x], x.to(t))
for s in INTS + [torch.bool]:
    for t in INTS + FLOATS + [torch.bool]:
        if s != t:
            add(f"cast_{NAMES[s]}_{NAMES[t]}", "cast", [whole.to(s)], whole.to(s).to(t))
for t in (torch.float8_e4m3fn, torch.float8_e5m2):
    for name, x in {"near": [448.0, 464, 465, -449, 2**-10, 1.0001 * 2**-10, -(2**-9), 2**-17, 3 * 2**-18, -0.0, 0.3, -17, 19, 1e-9, 0.0078125, 240],
                    "far": [1e9, -1e9, math.inf, -math.inf, math.nan, 57344, 61439, 61440, -61440, 65536, 1e30, 480, 512, 3.4e38, 1e-38, 0.0]}.items():
        x = torch.tensor(x)
        add(f"cast_float32_{NAMES[t]}_{name}", "cast", [x], x.to(t))
        add(f"cast_{NAMES[t]}_float32_{name}", "cast", [x.to(t)], x.to(t).float())
        add(f"cast_{NAMES[t]}_bfloat16_{name}", "cast", [x.to(t)], x.to(t).bfloat16())
        add(f"cast_bfloat16_{NAMES[t]}_{name}", "cast", [x.bfloat16()], x.bfloat16().to(t))
add("bitcast", "bitcast", [finite], finite.view(torch.int32))
add("bitcast_bf16", "bitcast", [finite.bfloat16()], finite.bfloat16().view(torch.int16))

x = torch.arange(12.0).reshape(2, 3, 2)
add("reshape", "reshape", [x], x.reshape(4, 3))
add("permute", "permute", [x], x.permute(2, 0, 1), "perm=[2, 0, 1]")
add("expand", "expand", [x[:, :1, :1].clone()], x[:, :1, :1].expand(2, 3, 2))
add("slice", "slice", [x], x[:, 1:3:2], "dim=1, start=1, step=2")
add("flip", "flip", [x], x.flip(0, 2), "dims=[0, 2]")
add("strided", "strided", [x], x.as_strided((3, 2), (2, 5), 1), "strides=[2, 5], start=1")
add("pad", "pad", [x[0]], F.pad(x[0], (1, 0, 0, 1), value=-2.0), "lo=[0, 1], value=-2.0")
add("pad_crop", "pad", [x[0]], F.pad(x[0], (-1, 1, 0, -1), value=9.0), "lo=[0, -1], value=9.0")
add("window", "window", [torch.arange(6.0).reshape(1, 6)], F.pad(torch.arange(6.0).reshape(1, 6), (1, 1)).unfold(1, 3, 2),
    "kernel=[3], stride=[2], padding=[1], dilation=[1], value=0.0")
add("cat", "cat", [x[:, :1], x[:, 1:]], x, "dim=1")
add("cat_empty", "cat", [x[:, :0], x], x, "dim=1")

i1 = torch.tensor([[0, -1], [2, 1]])
m = torch.arange(12).reshape(3, 4)
add("index_rows", "index", [m, torch.tensor([2, 0, -1])], m[torch.tensor([2, 0, -1])], "dims=[0], out_pos=0")
add("index_mid", "index", [x, i1], x[:, i1], "dims=[1], out_pos=1")
add("index_two", "index", [x, torch.tensor([1, 0]), torch.tensor([1, -2])], x[torch.tensor([1, 0]), :, torch.tensor([1, -2])], "dims=[0, 2], out_pos=0")
add("gather", "gather", [m.float(), i1], torch.gather(m.float(), 1, i1 % 4), "dim=1")
g = torch.tensor([[0, 1, 1], [2, 0, 2]])
src = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
base = torch.arange(9.0).reshape(3, 3)
add("scatter", "scatter", [base, torch.tensor([[0, 1, 2], [1, 2, 0]]), src], base.scatter(0, torch.tensor([[0, 1, 2], [1, 2, 0]]), src), "dim=0")
for kind in ("sum", "prod", "amax", "amin", "mean"):
    for self in (True, False):
        add(f"scatter_{kind}_{self}", "scatter", [base, g, src], base.scatter_reduce(0, g, src, kind, include_self=self),
            f"dim=0, reduce={kind}, include_self={str(self).lower()}")
add("scatter_mean_int", "scatter", [base.long() - 5, g, src.long()], (base.long() - 5).scatter_reduce(0, g, src.long(), "mean"), "dim=0, reduce=mean")
for acc in (True, False):
    ix = torch.tensor([0, 2, 0]) if acc else torch.tensor([0, 2, 1])
    add(f"index_put_{acc}", "index_put", [base, src[:, :1].expand(2, 3).reshape(-1)[:3].clone().reshape(3, 1).expand(3, 3).clone(), ix],
        base.index_put((ix,), src[:, :1].expand(2, 3).reshape(-1)[:3].reshape(3, 1).expand(3, 3), accumulate=acc),
        f"dims=[0], out_pos=0, accumulate={str(acc).lower()}")

r = torch.tensor([[1.0, -2.0, 3.0, 3.0], [0.5, 4.0, -4.0, 4.0]])
rn = r.clone()
rn[0, 1] = math.nan
for t in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
    y = r.abs().to(t) if t == torch.uint8 else r.to(t)
    add(f"reduce_sum_{NAMES[t]}", "reduce", [y], y.sum(1, dtype=t), "kind=sum, dims=[1]")
    add(f"reduce_prod_{NAMES[t]}", "reduce", [y], y.prod(0, dtype=t), "kind=prod, dims=[0]")
    for k in ("max", "min"):
        add(f"reduce_{k}_{NAMES[t]}", "reduce", [y], getattr(torch, "a" + k)(y, (0, 1)), f"kind={k}, dims=[0, 1]")
        add(f"reduce_arg{k}_{NAMES[t]}", "reduce", [y], getattr(torch, "arg" + k)(y, 1), f"kind=arg{k}, dims=[1]")
for k in ("max", "min"):
    add(f"reduce_{k}_nan", "reduce", [rn], getattr(torch, "a" + k)(rn, 1), f"kind={k}, dims=[1]")
    add(f"reduce_arg{k}_nan", "reduce", [rn], getattr(torch, "arg" + k)(rn, 1), f"kind=arg{k}, dims=[1]")
    v, i = getattr(torch, "cum" + k)(rn, 1)
    add(f"scan_{k}", "scan", [rn], v, f"kind={k}, dim=1")
    add(f"scan_arg_{k}", "scan_arg", [rn], i, f"kind={k}, dim=1")
    v, i = getattr(torch, "cum" + k)(r.long(), 1)
    add(f"scan_arg_{k}_int", "scan_arg", [r.long()], i, f"kind={k}, dim=1")
add("reduce_any", "reduce", [r > 2], (r > 2).any(1), "kind=max, dims=[1]")
add("reduce_empty", "reduce", [torch.zeros(2, 0)], torch.zeros(2, 0).sum(1), "kind=sum, dims=[1]")
add("scan_sum", "scan", [r], r.cumsum(0), "kind=sum, dim=0")
add("scan_prod", "scan", [r.long()], r.long().cumprod(1), "kind=prod, dim=1")
add("scan_logsumexp", "scan", [r], r.logcumsumexp(1), "kind=logsumexp, dim=1")

a, b = torch.randn(2, 2, 3), torch.randn(2, 3, 2)
for t in (torch.float32, torch.bfloat16, torch.float64):
    add(f"matmul_{NAMES[t]}", "matmul", [a.to(t), b.to(t)], a.to(t) @ b.to(t))
add("matmul_int", "matmul", [(a * 5).int(), (b * 5).int()], (a * 5).int() @ (b * 5).int())
add("conv1d", "conv", [torch.arange(12.0).reshape(1, 2, 6), torch.arange(6.0).reshape(2, 1, 3)],
    F.conv1d(torch.arange(12.0).reshape(1, 2, 6), torch.arange(6.0).reshape(2, 1, 3), stride=2, padding=2, dilation=2, groups=2),
    "stride=[2], padding=[2], dilation=[2], groups=2")
add("conv2d", "conv", [torch.arange(16.0).reshape(1, 1, 4, 4), torch.arange(8.0).reshape(2, 1, 2, 2)],
    F.conv2d(torch.arange(16.0).reshape(1, 1, 4, 4), torch.arange(8.0).reshape(2, 1, 2, 2), stride=2), "stride=[2, 2]")
add("conv3d", "conv", [torch.arange(8.0).reshape(1, 1, 2, 2, 2), torch.arange(8.0).reshape(1, 1, 2, 2, 2)],
    F.conv3d(torch.arange(8.0).reshape(1, 1, 2, 2, 2), torch.arange(8.0).reshape(1, 1, 2, 2, 2)), "")
add("conv_transpose1d", "conv_transpose", [torch.arange(6.0).reshape(1, 2, 3), torch.arange(12.0).reshape(2, 2, 3)],
    F.conv_transpose1d(torch.arange(6.0).reshape(1, 2, 3), torch.arange(12.0).reshape(2, 2, 3), stride=2, padding=1, output_padding=1),
    "stride=[2], padding=[1], output_padding=[1]")
add("conv_transpose_groups", "conv_transpose", [torch.arange(6.0).reshape(1, 2, 3), torch.arange(6.0).reshape(2, 1, 3)],
    F.conv_transpose1d(torch.arange(6.0).reshape(1, 2, 3), torch.arange(6.0).reshape(2, 1, 3), dilation=2, groups=2), "dilation=[2], groups=2")
q, k, v = torch.randn(1, 2, 2, 4), torch.randn(1, 1, 3, 4), torch.randn(1, 1, 3, 4)
mask = torch.tensor([[True, False, True], [False, True, True]]).reshape(1, 1, 2, 3)
kk, vv = k.expand(1, 2, 3, 4), v.expand(1, 2, 3, 4)
add("attention", "attention", [q, k, v], F.scaled_dot_product_attention(q, kk, vv, scale=0.5), "scale=0.5")
add("attention_causal", "attention", [q, k, v], F.scaled_dot_product_attention(q, kk, vv, scale=0.5, is_causal=True), "scale=0.5, causal=true")
add("attention_mask", "attention", [q, k, v, mask], F.scaled_dot_product_attention(q, kk, vv, attn_mask=mask, scale=0.5), "scale=0.5")
add("attention_bias", "attention", [q, k, v, mask.float()], F.scaled_dot_product_attention(q, kk, vv, attn_mask=mask.float(), scale=0.5), "scale=0.5")
for desc in (False, True):
    add(f"sort_{desc}", "sort", [rn], torch.sort(rn, dim=1, descending=desc, stable=True), f"dim=1, descending={str(desc).lower()}, stable=true")
add("sort_first_dim", "sort", [r], torch.sort(r, dim=0, stable=True), "dim=0, stable=true")
z = torch.tensor([[4.0, -1.0, 9.0, 2.0], [0.5, 7.0, 3.0, -8.0]])
add("topk", "topk", [z], torch.topk(z, 2, 1), "dim=1, k=2")
add("topk_smallest", "topk", [z], torch.topk(z, 1, 0, largest=False), "dim=0, k=1, largest=false")

open(sys.argv[1], "w").write("---\n".join(cases))
print(len(cases), "cases")
