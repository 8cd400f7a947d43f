"""Memory: other formats, out= and further writes in place, other types of the same bytes, tensors of five dims and more."""
import torch

from generator import BOOL, FLOATS, INTS, NUMBERS, REAL, Skip, row


def image(g, rank=4):
    return g.tensor(REAL, (rank, rank), new=0.5 if any(v.rank == rank for v in g.values) else 1.0)


@row("another memory format", 6, "wide")
def formats(g):
    rank = g.choice([4, 4, 5])
    x = image(g, rank)
    f = "torch.channels_last" if rank == 4 else "torch.channels_last_3d"
    y = g.choice([f"{x}.to(memory_format={f})", f"{x}.contiguous(memory_format={f})", f"{x}.clone(memory_format={f})"])
    nd = rank - 2
    more = ["{}", "{}.contiguous()", "{}.flatten(1)", "{} * 2", "torch.empty_like({}).copy_({x})", "torch.zeros_like({}).add_(1)", "{}.permute(0, *range(2, {r}), 1).reshape(-1)", "{}.permute(0, *range(2, {r}), 1).view(-1)", "{}.mean(1)", "{}.sum((2, 3))",
            "{}.reshape({x}.shape[0], -1)", "{}[:, 1:]", "{}.clone().as_strided((2,), (1,))", "{}.view_as({})", "{}.new_zeros(3)", "torch.cat([{}, {x}], 1)", "{}.cumsum(1)", "{}.argmax(1)", "torch.flip({}, (1, 3))", "{}.softmax(1)" if x.dtype.is_floating_point else "{}.amax(1)",
            "{}.transpose(1, -1)", "{}.to(torch.float16)" if x.dtype.is_floating_point else "{}.to(torch.int64)", "{}.clone().mul_(2)", "{}.expand(2, *{}.shape)", "{}.unfold(2, 1, 1)", "{}.squeeze()", "{}.unsqueeze(0)"]
    if x.dtype.is_floating_point:
        more += [f"F.avg_pool{nd}d({{}}, 1)", f"F.adaptive_avg_pool{nd}d({{}}, 1)", "F.interpolate({}, scale_factor=2)", "F.batch_norm({}, None, None, training=True)", "F.group_norm({}, 1)", f"F.max_pool{nd}d({{}}, 2, 1, 1)", "F.pad({}, (1, 1))"]
    return g.choice(more).replace("{x}", str(x)).replace("{r}", str(rank)).replace("{}", y)


@row("out=", 6, "wide")
def out(g):
    x = g.tensor(NUMBERS)
    y = g.like(x, broadcast=True)
    d = g.axis(x) if x.rank else 0
    fits = [v for v in g.values if v.leaf is None and v.dtype == x.dtype and v.shape == x.shape and v.t.numel() and all(s or n == 1 for s, n in zip(v.t.stride(), v.t.shape))]
    where = g.choice([f"torch.empty_like({x})", f"torch.zeros_like({x})", f"torch.empty(0, dtype={x.dtype})", *[str(v) for v in fits[-2:]]])
    float_out = f"torch.zeros_like({x}, dtype=torch.float64)"
    return g.choice([f"torch.add({x}, {y}, out={where})", f"torch.mul({x}, {y}, out={where})", f"torch.sub({x}, {y}, alpha=2, out={where})", f"torch.maximum({x}, {y}, out={where})", f"torch.neg({x}, out={where})", f"torch.abs({x}, out={where})",
                     f"torch.add({x}, {x}, out={float_out})", f"torch.clamp({x}, 0, 2, out={where})", f"torch.cumsum({x}, {d}, out={where})", f"torch.sum({x}, {d}, out=torch.empty(0, dtype={x.dtype}))" if x.dtype.is_floating_point else f"torch.sign({x}, out={where})",
                     f"torch.cat([{x}, {x}], {d}, out=torch.empty(0, dtype={x.dtype}))", f"torch.pow({x}, 2, out={where})", f"torch.where({x} > 0, {x}, {y}, out={where})", f"torch.lt({x}, {y}, out=torch.empty(0, dtype=torch.bool))",
                     f"torch.exp({x}, out={where})", f"torch.div({x}, {y}, out={float_out})", f"torch.index_select({x}, {d}, torch.tensor([0]), out=torch.empty(0, dtype={x.dtype}))", f"torch.sort({x}, dim={d}, stable=True, out=(torch.empty_like({x}), torch.empty_like({x}, dtype=torch.int64)))[0]",
                     f"torch.amax({x}, {d}, out=torch.empty(0, dtype={x.dtype}))", f"torch.stack([{x}, {x}], out=torch.empty(0, dtype={x.dtype}))", f"torch.tril({x}, out={where})", f"torch.square({x}, out={where})", f"torch.matmul({x}, {x}.mT, out=torch.empty(0, dtype={x.dtype}))"])


def writable(g, kinds=NUMBERS, rank=(0, 5)):
    def fits(v):
        return v.t.numel() > 0 and all(s or n == 1 for s, n in zip(v.t.stride(), v.t.shape)) and (v.leaf is None or g.chance(0.35))

    return g.tensor(kinds, rank, where=fits, new=0.05)


def part(g, x):
    if not x.rank or g.chance(0.4):
        return str(x)
    return g.choice([f"{x}[0]", f"{x}[..., -1:]", f"{x}[::2]", f"{x}.T" if x.rank == 2 else f"{x}[-1:]", f"{x}.diagonal()" if x.rank >= 2 else f"{x}[:1]", f"{x}.transpose(0, -1)", f"{x}.select(-1, 0)", f"{x}.unsqueeze(0)", f"{x}.narrow(0, 0, 1)"])


@row("further writes in place", 8, "wide")
def writes(g):
    x = writable(g)
    t = part(g, x)
    v = eval(t, g.env)
    f, i = x.dtype.is_floating_point, x.dtype in INTS
    d = g.int(-v.dim(), v.dim() - 1) if v.dim() else 0
    same = str(g.leaf(x.dtype, list(v.shape))) if not g.dynamic else f"{t}.clone()"
    n = v.shape[d] if v.dim() else 1
    k = f"torch.arange({min(n, 2)})" if n else "torch.arange(0)"
    texts = [f"{t}.cumsum_({d})", f"{t}.tril_()", f"{t}.triu_(1)", f"{t}.lerp_({same}, 0.25)", f"{t}.addcmul_({same}, {same})", f"{t}.clamp_(0, 2)", f"{t}.clamp_max_(1)", f"{t}.masked_scatter_({t} > 0, {same})", f"{t}.masked_fill_({t} > 0, 2)", f"{t}.index_copy_({d}, {k}, {same}.narrow({d}, 0, {min(n, 2)}).clone())",
             f"{t}.index_fill_({d}, {k}, 3)", f"{t}.index_add_({d}, {k}, {same}.narrow({d}, 0, {min(n, 2)}).clone(), alpha=2)", f"{t}.scatter_reduce_({d}, torch.zeros({t}.shape, dtype=torch.int64), {same}, 'amax')", f"{t}.scatter_add_({d}, torch.zeros({t}.shape, dtype=torch.int64), {same})",
             f"{t}.put_(torch.tensor([0]), torch.ones(1, dtype={x.dtype}))", f"{t}.fill_diagonal_(2)", f"{t}.copysign_(-1)", f"{t}.fmod_(2)", f"{t}.floor_divide_(2)", f"{t}.logical_not_()", f"{t}.gt_(0)", f"{t}.ne_({same})", f"{t}.swapaxes(0, -1).add_(1)", f"{t}.fill_({t}.flatten()[0])", f"{t}.copy_({t}.flip({d}))",
             f"{t}.sub_({same}, alpha=2)", f"{t}.div_(2, rounding_mode='floor')", f"{t}.cumprod_({d})", f"{t}.index_reduce_({d}, {k}, {same}.narrow({d}, 0, {min(n, 2)}).clone(), 'amax')", f"{t}.squeeze().add_(1)", f"{t}.mul_({t} > 0)", f"{t}.add_(True)", f"{t}.copy_(torch.tensor(2))", f"{t}.nan_to_num_()",
             f"{t}.rsub(1)" if False else f"{t}.neg_()", f"{t}.abs_()", f"{t}.sgn_()", f"{t}.square_()", f"{t}.t_().add_(1)" if False else f"{t}.add_({t})", f"{t}.mul_({t})", f"{t}.add_({t}.sum())", f"{t}[...] = {t}.flip({d})", f"{t}.copy_({t}.transpose(0, -1))", f"{t}.view({t}.shape).add_(1)"]
    if i:
        texts += [f"{t}.bitwise_and_(3)", f"{t}.bitwise_or_(4)", f"{t}.__ilshift__(1)", f"{t}.bitwise_right_shift_(1)", f"{t}.bitwise_not_()", f"{t}.gcd_({same})", f"{t}.remainder_(3)"]
    if f:
        texts += [f"{t}.exp_()", f"{t}.logit_(0.1)", f"{t}.hypot_({same})", f"{t}.atan2_({same})", f"{t}.sigmoid_()", f"{t}.erfinv_()", f"{t}.addcdiv_({same}, {same}.abs() + 1)", f"{t}.renorm_(2, 0, 1.0)", f"{t}.lgamma_()", f"{t}.float_power_(2)", f"{t}.polygamma_(1)", f"{t}.xlogy_({same})", f"{t}.log_()", f"{t}.round_(decimals=1)",
                  f"{t}.nextafter_({same})", f"{t}.ldexp_(torch.tensor(2))", f"F.leaky_relu_({t})", f"F.elu_({t})", f"F.threshold_({t}, 0, 1)", f"F.hardtanh_({t})", f"F.rrelu({t}, inplace=True)"]
        if v.dim() == 2:
            texts += [f"{t}.addmm_({t}.clone(), torch.ones({v.shape[1]}, {v.shape[1]}, dtype={x.dtype}))", f"{t}.addr_(torch.ones({v.shape[0]}, dtype={x.dtype}), torch.ones({v.shape[1]}, dtype={x.dtype}))"]
    return g.choice(texts), 0


@row("augmented assignment", 3, "wide")
def augmented(g):
    x = writable(g, REAL, (1, 5))
    i = g.choice(["0", "-1", "1:", "::2", "..., 0", "..., None", ":, 0" if x.rank > 1 else "0:1", "torch.tensor([0])", "[0, -1]", "None, 0"])
    v = eval(f"x[{i}]", {"x": x.t, "torch": torch})
    y = g.choice([g.number(x.dtype), f"{x}[{i}].clone()", f"torch.ones({tuple(v.shape)}, dtype={x.dtype})" if not g.dynamic else "2", f"torch.tensor(2, dtype={g.choice(REAL)})"])
    return f"{x}[{i}] {g.choice(['=', '+=', '-=', '*=', '//=', '%=', '**=', '/=', '|=', '&=', '<<='])} {y}", 0


@row("other types of the same bytes", 2, "wide")
def bytes_of(g):
    x = g.tensor(REAL, (1, 4))
    to = g.choice(NUMBERS)
    text = g.choice([f"{x}.view({to})", f"{x}.contiguous().view({to})"])
    return text if to in INTS or x.dtype not in FLOATS else f"torch.nan_to_num({text})"


@row("scattered by strides", 1.5, "wide")
def strided(g):
    x = g.tensor(REAL, (1, 3), where=lambda v: v.t.numel() > 3 and v.t.is_contiguous())
    n = x.t.numel()
    s = g.choice([1, 2, 3])
    k = g.int(1, max(1, (n - 2) // s))
    return g.choice([f"torch.as_strided_scatter({x}, {g.leaf(x.dtype, [k])}, ({k},), ({s},), {g.int(0, 1)})", f"torch.slice_scatter({x}, {x}[::2].flip(0), 0, step=2)", f"torch.select_scatter({x}, {x}[0] * 1, 0, -1)",
                     f"torch.diagonal_scatter({x}, {x}.diagonal(-1) * 2, -1)" if x.rank == 2 and x.dtype != torch.bool else f"{x}[None].expand(3, {', '.join(['-1'] * x.rank)}).reshape(-1)"])


@row("five dims and more", 6, "wide")
def many_dims(g):
    x = g.leaf(g.dtype(REAL), [g.choice(["1", "2", "3", g.dim_text()]) for _ in range(g.choice([5, 5, 6]))]) if g.chance(0.6) or not any(v.rank >= 5 for v in g.values) else g.tensor(REAL, (5, 6))
    r, d = x.rank, g.axis(x)
    order = list(range(r))
    g.rng.shuffle(order)
    axes = tuple(g.axes(x))
    y = g.like(x, broadcast=True)
    texts = [f"{x}.permute({tuple(order)})", f"{x}.permute({tuple(order)}).reshape(-1)", f"{x}.sum({axes})" if x.dtype != torch.bool else f"{x}.any({d})", f"{x}.amax({axes})", f"{x}.flip({axes})", f"torch.cat([{x}, {x}], {d})", f"{x}.roll({g.int(-2, 2)}, {d})", f"{x}.cumsum({d})", f"{x}.unbind({d})[0]",
             f"{x}.transpose(0, -1).flatten(1, 3)", f"{x}[:, 0, ..., None]", f"{x}[..., ::2, :]", f"F.pad({x}, (1, 0, 0, 1, 1, 1))", f"torch.sort({x}, dim={d}, stable=True)[0]", f"{x}.argmax({d})" if x.dtype != torch.bool else f"~{x}", f"torch.where({x} == {y}, {x}, {y})", f"{x}.repeat({', '.join(str(g.int(1, 2)) for _ in range(r))})",
             f"{x}.movedim(({d}, 0), (0, {d}))" if d % r else f"{x}.squeeze()", f"{x}.diagonal(0, 1, {g.choice([3, -1])})", f"{x}.expand(2, {', '.join(['-1'] * r)}).sum(0)", f"torch.gather({x}, {d}, torch.zeros({x}.shape, dtype=torch.int64))", f"{x}.unfold({d}, 1, 1).squeeze(-1)", f"{x}.index_select({d}, torch.tensor([0, 0]))", f"{x}.mT"]
    if x.dtype != torch.bool:
        texts += [f"{x} + {y}", f"{x} * {y}", f"{x} - {x}.amin({d}, True)", f"{x} @ {x}.mT", f"torch.maximum({x}, {y})", f"torch.einsum('...ij,...kj->...ik', {x}, {x})"]
    if x.dtype.is_floating_point:
        texts += [f"{x}.softmax({d})", f"F.layer_norm({x}, ({x}.shape[-1],))", f"{x}.var({axes})", f"F.linear({x}, {g.leaf(x.dtype, [3, g.dim(x, -1)])})", f"F.normalize({x}, dim={d})", f"F.scaled_dot_product_attention({x}, {x}, {x})", f"{x}.logsumexp({axes})", f"torch.linalg.vector_norm({x}, dim={axes})"]
    return g.choice(texts)
