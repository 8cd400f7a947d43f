"""Operators and uses of them that the other families leave out."""
import torch

from generator import BOOL, FLOATS, INTS, NUMBERS, REAL, Skip, row

WIDE = FLOATS[:2]


@row("further pointwise operators", 5, "wide")
def pointwise(g):
    if g.chance(0.3):
        x = g.tensor(INTS)
        y = g.like(x, broadcast=True)
        return g.choice([f"torch.gcd({x}, {y})", f"torch.lcm({x} % 16, {y} % 16)", f"torch.bitwise_left_shift({x}, 2)", f"{x}.__rshift__(1)", f"torch.bitwise_xor({x}, {y})", f"torch.fix({x})", f"torch.subtract({x}, {y}, alpha=2)", f"torch.multiply({x}, {y})", f"torch.bitwise_and(5, {x})",
                         f"torch.negative({x})", f"torch.absolute({x})", f"torch.true_divide({x}, {y})", f"torch.greater_equal({x}, {y})", f"torch.not_equal({x}, {y})", f"{x}.sum_to_size({x}.shape)", f"torch.divide({x}, {y}, rounding_mode='trunc')" if False else f"torch.less({x}, {y})"])
    x = g.tensor(FLOATS)
    y = g.like(x, broadcast=True)
    texts = [f"torch.arctan2({x}, {y})", f"torch.arcsin({x})", f"torch.arccosh({x}.abs() + 1)", f"torch.arctanh({x})", f"torch.special.multigammaln({x}.abs() + 3, 2)", f"torch.mvlgamma({x}.abs() + 2, 3)", f"torch.special.zeta({x}.abs() + 1.5, {y}.abs() + 1)", f"torch.special.entr({x})", f"torch.special.ndtri({x}.sigmoid())",
             f"torch.special.log_softmax({x}, 0)" if x.rank else f"torch.special.sinc({x})", f"torch.special.modified_bessel_i0({x})", f"torch.special.gammainc({x}.abs() + 0.5, {y}.abs())", f"torch.special.gammaincc({x}.abs() + 0.5, {y}.abs())", f"torch.special.logit({x}, 0.2)", f"torch.frexp({x})[0]", f"torch.special.round({x}, decimals=2)",
             f"torch.igamma({x}.abs() + 0.5, {y}.abs())", f"torch.log_sigmoid({x})" if False else f"F.logsigmoid({x})", f"torch.rrelu({x})" if False else f"F.rrelu({x}, 0.1, 0.3, training=False)", f"torch.dropout({x}, 0.3, False)", f"F.hardtanh({x}, -2, 0)", f"F.gelu({x}, approximate='tanh') * {y}", f"torch.special.entr({x}.abs())",
             f"F.alpha_dropout({x}, 0.5, False)", f"F.softplus({x}, 3, 1)", f"F.celu({x}, 0.2)", f"torch.fake_quantize_per_tensor_affine({x}, 0.1, 3, 0, 255)" if x.dtype == torch.float32 else f"torch.fix({x})", f"torch.clamp_min({x}, 0.25)", f"torch.clamp_max({x}, {y})", f"torch.clamp({x}, {y}, 1.0)" if False else f"torch.clamp({x}, min={y})",
             f"torch.nan_to_num({x}, 2)", f"torch.unique_consecutive({x})" if False else f"torch.divide({x}, {y}, rounding_mode='trunc')", f"torch.logaddexp({x}, {y}) - {x}", f"torch.where({x}.isnan(), {y}, {x})", f"torch.special.xlogy({x}, {y})", f"torch.special.hermite_polynomial_h({x}, 2)" if False else f"torch.sinc({x})"]
    return g.choice(texts)


@row("matrices", 5, "wide")
def matrices(g):
    n = g.int(1, 5)
    batch = [g.dim_text()] if g.chance(0.4) else []
    t = g.choice(WIDE)
    a, b = g.leaf(t, [*batch, n, n], "unit"), g.leaf(t, [*batch, n, g.int(1, 3)], "normal")
    s = f"({a} + {n + 1} * torch.eye({n}, dtype={t}))"
    p = f"({s} @ {s}.mT)"
    return g.choice([f"torch.logdet({s})", f"torch.linalg.pinv({s})", f"torch.linalg.eigvalsh({p})", f"torch.linalg.eigh({p})[0]", f"torch.linalg.svdvals({a})", f"torch.linalg.svd({s})[1]", f"torch.matrix_exp({a})", f"torch.linalg.solve_triangular({s}.triu(), {b}, upper=True)",
                     f"torch.linalg.solve_triangular({s}.tril(), {b}, upper=False, unitriangular=True)", f"torch.cholesky_solve({b}, torch.linalg.cholesky({p}))", f"torch.cholesky_inverse(torch.linalg.cholesky({p}))", f"torch.linalg.cholesky_ex({p}, upper=True)[0]", f"torch.linalg.lu_factor({s})[0]", f"torch.linalg.inv_ex({s})[0]",
                     f"torch.linalg.matrix_rank({s})", f"torch.linalg.cond({s}, 'fro')", f"torch.linalg.matrix_norm({a}, 'nuc')", f"torch.linalg.matrix_norm({a}, 2)", f"torch.linalg.matrix_norm({a}, 1)", f"torch.linalg.matrix_norm({a}, -float('inf'))", f"torch.linalg.norm({a})", f"torch.triangular_solve({b}, {s}.triu())[0]",
                     f"torch.linalg.vander({a}[..., 0])", f"torch.vander({a}.reshape(-1)[:3], 4)", f"torch.linalg.householder_product({a}, {a}[..., 0])", f"torch.linalg.multi_dot([{s}.reshape(-1, {n})[:{n}], {s}.reshape(-1, {n})[:{n}]])", f"torch.linalg.matrix_power({s}, -2)", f"torch.linalg.tensorinv({s}, 1)" if not batch else f"{s}.mT",
                     f"torch.linalg.lstsq({s}, {b})[0]", f"torch.linalg.qr({s}, mode='r')[1].abs()", f"torch.linalg.qr({s})[0].abs()", f"torch.linalg.slogdet(-{s})", f"torch.linalg.ldl_factor({p})[0]" if False else f"torch.linalg.solve({s}, {b}, left=True)", f"torch.cov({a}.reshape({n}, -1))", f"torch.corrcoef({s}.reshape(-1, {n}).mT)",
                     f"torch.trapezoid({a}, {a}.cumsum(-1))", f"torch.cdist({a}, {s}, p=0.0)", f"F.pdist({s}.reshape(-1, {n})[:3])", f"torch.chain_matmul({s}.reshape(-1, {n})[:{n}], {s}.reshape(-1, {n})[:{n}])", f"torch.renorm({s}, 1, 0, 1.5)", f"torch.tensordot({s}, {b}, dims=0).sum()"])


@row("further losses", 3, "wide")
def losses(g):
    x = g.tensor(FLOATS, (2, 2), where=lambda v: 0 not in v.shape)
    y = g.like(x)
    n, c = g.dim(x, 0), g.dim(x, 1)
    red = g.choice(["", ", reduction='none'", ", reduction='sum'"])
    sign = f"(torch.sign({y}) * 2 + 1).sign()"
    k = g.index([n], c)
    return g.choice([f"F.cosine_embedding_loss({x}, {y}, {sign}[:, 0]{red})", f"F.hinge_embedding_loss({x}, {sign}{red})", f"F.margin_ranking_loss({x}, {y}, {sign}, margin=0.2{red})", f"F.multi_margin_loss({x}, {k}{red})", f"F.poisson_nll_loss({x}, {y}.abs(){red})", f"F.poisson_nll_loss({x}, {y}.abs(), full=True{red})",
                     f"F.gaussian_nll_loss({x}, {y}, {y}.abs() + 0.1{red})", f"F.triplet_margin_loss({x}, {y}, {x} - 1{red})", f"F.binary_cross_entropy({x}.sigmoid(), {y}.sigmoid(){red})", f"F.cross_entropy({x}, {k}, label_smoothing=0.1{red})", f"F.cross_entropy({x}, {y}.softmax(1){red})", f"F.cross_entropy({x}, {k}, ignore_index=0{red})",
                     f"F.cross_entropy({x}, {k}, weight={g.leaf(x.dtype, [c], 'positive')}{red})", f"F.nll_loss({x}.log_softmax(1), {k}, weight={g.leaf(x.dtype, [c], 'positive')}{red})", f"F.kl_div({x}.log_softmax(1), {y}.log_softmax(1), log_target=True{red})", f"F.binary_cross_entropy_with_logits({x}, {y}, pos_weight={g.leaf(x.dtype, [c], 'positive')}{red})",
                     f"F.multilabel_soft_margin_loss({x}, {y}.sigmoid(){red})", f"F.multilabel_margin_loss({x}, torch.zeros_like({x}, dtype=torch.int64){red})", f"F.smooth_l1_loss({x}, {y}, beta=0.5{red})", f"F.huber_loss({x}, {y}, delta=0.7{red})", f"F.mse_loss({x}, {y}, weight={y}.abs())", f"F.l1_loss({x}, {y}[:1]{red})"])


@row("further reductions", 5, "wide")
def reductions(g):
    x = g.tensor(NUMBERS, (1, 5))
    d = g.axis(x)
    texts = [f"torch.mode({x}, {d})[0]", f"torch.aminmax({x})[0]", f"torch.argsort({x}, {d}, stable=True)", f"{x}.sum({d}).sum()", f"torch.std_mean({x}.float(), {d})[1]", f"torch.count_nonzero({x}, ({d},))", f"torch.all({x}, ({d},), True)", f"torch.any({x}, dim=({d},))", f"{x}.prod()", f"torch.nanmedian({x}.float(), {d})[0]",
             f"torch.max({x}, {d}, True)[0] - {x}", f"{x}.argmin({d}, True)", f"{x}.cumsum({d}).flip({d})", f"{x}.cumprod({d})", f"torch.cummin({x}, {d})[1]", f"torch.diff({x}, n=2, dim={d})", f"torch.diff({x}, dim={d}, prepend={x}.narrow({d}, 0, 1))", f"torch.topk({x}, 1, {d})[0]", f"torch.kthvalue({x}, 1, {d})[0]", f"torch.unravel_index({x}.flatten().argmax(), {x}.shape)[0]",
             f"{x}.median()", f"torch.bincount({x}.flatten().abs().long() % 5, minlength=5)", f"torch.histc({x}.float(), 4, -3, 3)", f"{x}.sum_to_size(*[1] * {x.rank})", f"torch.amax({x}, ())" if False else f"torch.amax({x}, {d}, True)", f"torch.logsumexp({x}, {d})", f"torch.gradient({x}.float(), dim={d})[0]" if x.shape[d] > 1 else f"{x}.sum()",
             f"torch.equal({x}, {x})" if False else f"({x} == {x}).all()", f"torch.var({x}.double(), {d}, correction={g.int(0, 3)})", f"torch.vdot({x}.flatten(), {x}.flatten())", f"torch.trace({x})" if x.rank == 2 else f"{x}.amin()", f"torch.cumulative_trapezoid({x}.double(), dim={d})", f"torch.mean({x}.float(), ())" if False else f"{x}.float().mean()"]
    if x.dtype.is_floating_point:
        q = g.choice(["0.25", "torch.tensor([0.1, 0.5, 1.0], dtype=torch.%s)" % str(x.dtype).split(".")[1]])
        texts += [f"torch.quantile({x}, {q}, dim={d}, interpolation={g.choice(['linear', 'lower', 'higher', 'nearest', 'midpoint'])!r})" if x.dtype in WIDE else f"{x}.nansum({d})", f"torch.nanquantile({x}, {q}, dim={d}, keepdim=True)" if x.dtype in WIDE else f"{x}.nanmean({d})", f"torch.linalg.vector_norm({x}, 3.5, dim={d}, keepdim=True)",
                  f"torch.linalg.vector_norm({x}, -1, dim={d})", f"torch.nanmean({x}, {d})", f"F.normalize({x}, p=1, dim={d})", f"F.cosine_similarity({x}, {x} + 1, {d})", f"torch.norm({x}, 'fro')", f"torch.std({x}, {d}, unbiased=False)", f"torch.logcumsumexp({x}, {d})", f"F.gumbel_softmax({x}, dim={d})" if False else f"F.softmin({x}, {d})",
                  f"torch.renorm({x}, 2, {d}, 1.0)" if x.rank > 1 else f"{x}.sum()", f"torch.nn.utils.parametrize" if False else f"torch.logit({x}.softmax({d}))", f"torch._weight_norm({x}, {x}.norm(), 0)" if False else f"{x}.softmax({d}).argmax({d})"]
    return g.choice(texts)


@row("further indexing", 5, "wide")
def indexing(g):
    x = g.tensor(REAL, (2, 4), where=lambda v: 0 not in v.shape)
    d, n0, n1 = g.axis(x), g.dim(x, 0), g.dim(x, 1)
    i, j = g.index([3], n0), g.index([2, 1], n1)
    m = g.leaf(torch.bool, [n0], "bools")
    v = g.leaf(x.dtype, [1])
    small = g.index([g.int(1, 4)], g.dim(x, d), torch.int32)
    return g.choice([f"{x}[{i}, {j}]", f"{x}[..., {i} % {x}.shape[-1]]", f"{x}[:, None, {j}]", f"{x}[{i}[:, None], :, None]" if x.rank == 2 else f"{x}[{i}, :, 0]", f"{x}[{small.name if False else i}.tolist()]" if False else f"{x}[[0, -1]]", f"{x}[[[0], [-1]], [0, -1]]", f"{x}[None, ..., -1]", f"{x}[True]", f"{x}[{i} - {n0}]",
                     f"torch.index_put({x}, ({i}, {j}), {v})", f"torch.index_put({x}, (None, {j}), {v})" if False else f"{x}.index_put(({i},), {v}, accumulate=True)" if x.dtype != torch.bool else f"{x}.index_put(({i},), {v})", f"{x}.clone().index_put_(({m},), {v})", f"torch.where({m}.view(-1, *[1] * {x.rank - 1}), {x}, {v})",
                     f"torch.index_select({x}, {d}, {small})", f"torch.take({x}, {i})", f"torch.take_along_dim({x}, {x}.long().argsort({d}, stable=True), {d})", f"torch.gather({x}, {d}, {x}.long().abs() % {x}.shape[{d}])", f"torch.scatter({x}, {d}, torch.zeros_like({x}, dtype=torch.int64), {v}.item())" if False else f"{x}.put(torch.tensor([1, 0]), {v}.expand(2))",
                     f"{x}.index_reduce({d}, {small}.long(), {x}.index_select({d}, {small}), {g.choice(['prod', 'mean', 'amax', 'amin'])!r}{g.choice(['', ', include_self=False'])})" if x.dtype != torch.bool else f"{x}[{m}.nonzero()[:0]]", f"torch.searchsorted({x}.flatten().double().sort()[0], {x}.double(), side='right')", f"torch.bucketize({x}.double(), {x}.flatten().double().sort()[0], out_int32=True)",
                     f"F.embedding({j}, {x}.reshape({n0}, -1).double(), padding_idx=0)" if False else f"F.embedding({i}, {x}.reshape({n0}, -1))", f"torch.isin({x}, {x}[0], invert=True)", f"torch.tensor_split({x}, [1, 2], {d})[1]", f"torch.tensor_split({x}, [2, 1], {d})[1]", f"{x}.narrow({d}, -1, 1)", f"torch.combinations({x}.flatten()[:4])", f"{x}.argwhere()[:0]" if False else f"{x}.rot90(1, (0, -1))",
                     f"F.one_hot({i}, {x.shape[0]}) @ {x}.reshape({n0}, -1).long()" if not g.dynamic else f"{x}[{i}].flip(0)", f"torch.tril_indices({x.shape[0]}, 3) + 1", f"torch.triu_indices(3, {x.shape[1]}, -1)", f"{x}[{i}][:, {j}]", f"{x}.mT[{j}[:, 0]]" if x.rank == 2 else f"{x}[:, {j}]", f"torch.masked_select({x}, {x} == {x}).sum()", f"{x}[{x} == {x}].sum()" if x.dtype in NUMBERS else f"{x}.sum()"])


@row("bags and tables", 2, "wide")
def bags(g):
    rows, e, n = g.int(2, 9), g.int(1, 6), g.int(1, 8)
    t = g.leaf(g.choice(FLOATS), [rows, e])
    i = g.index([n], str(rows), g.choice(INTS[:2]))
    offsets = g.choice([f"torch.tensor([0, {n // 2}], dtype={i.dtype})", f"torch.tensor([0, {n // 2}, {n}], dtype={i.dtype})", f"torch.tensor([0, 0, {n // 2}], dtype={i.dtype})"])
    return g.choice([f"F.embedding_bag({i}, {t}, {offsets}, mode={g.choice(['sum', 'mean', 'max'])!r})", f"F.embedding_bag({i}, {t}, torch.tensor([0, {n // 2}, {n}], dtype={i.dtype}), mode={g.choice(['sum', 'mean', 'max'])!r}, include_last_offset=True)", f"F.embedding_bag({i}, {t}, {offsets}, mode='sum', per_sample_weights={g.leaf(t.dtype, [n])})", f"F.embedding_bag({i}, {t}, {offsets}, mode='mean', padding_idx=0)",
                     f"F.embedding({i}, {t}, padding_idx=1)", f"F.embedding_bag({i}[None], {t}, mode='max', padding_idx=0)"])


@row("layers used otherwise", 6, "wide")
def layers(g):
    t = g.dtype(FLOATS)
    n, c, l = g.dim_text(), g.choice([2, 4, 6]), g.int(3, 9)
    x3, x4 = g.leaf(t, [n, c, l]), g.leaf(t, [n, c, l, g.int(3, 8)])
    w, b = g.leaf(t, [c]), g.leaf(t, [c])
    mean, var = g.leaf(t, [c], "normal", role="const"), g.leaf(t, [c], "positive", role="const")
    texts = [f"F.batch_norm({x4}, {mean}.clone(), {var}.clone(), {w}, {b}, True, 0.1)", f"F.batch_norm({x3}, None, None, {w}, None, True)", f"F.batch_norm({x4}, {mean}, {var}, training=False)", f"F.instance_norm({x4}, {mean}, {var}, {w}, {b}, use_input_stats=False)", f"F.instance_norm({x3}, {mean}.clone(), {var}.clone(), use_input_stats=True, momentum=0.3)", f"F.group_norm({x4}, 2, {w}, {b}, 1e-3)",
             f"F.layer_norm({x3}, ({l},), None, {g.leaf(t, [l])})", f"F.rms_norm({x4}, {x4}.shape[2:])", f"F.local_response_norm({x3}, 3, 0.1, 0.5, 2.0)", f"F.conv1d({x3}[0], {g.leaf(t, [3, c, 2])})", f"F.conv2d({x4}[0], {g.leaf(t, [3, c, 2, 2])}, padding=1)", f"F.conv1d({x3}, {g.leaf(t, [c, 1, 3])}, groups={c}, padding='same', dilation=2)", f"F.conv2d({x4}, {g.leaf(t, [4, c // 2, 3, 2])}, groups=2, padding='valid')",
             f"F.conv_transpose1d({x3}[0], {g.leaf(t, [c, 2, 3])}, stride=2)", f"F.conv_transpose2d({x4}, {g.leaf(t, [c, 1, 2, 3])}, groups=2, padding=(1, 0), stride=(1, 2))", f"F.conv3d({x4}[None], {g.leaf(t, [2, 1, 2, 2, 2])})" if n.isdigit() and n == "1" else f"F.conv3d({x4}[:, None], {g.leaf(t, [2, 1, 2, 2, 2])})", f"F.max_pool2d({x4}[0], 2)", f"F.avg_pool1d({x3}[0], 2, 1, 1)", f"F.max_pool1d({x3}[0], 3, 1, 1)",
             f"F.avg_pool2d({x4}, (2, 1), divisor_override=3)", f"F.avg_pool3d({x4}, 2, 1)", f"F.max_pool3d({x4}, 2, 1)", f"F.adaptive_avg_pool2d({x4}[0], (2, 3))", f"F.adaptive_max_pool1d({x3}[0], 2)", f"F.adaptive_avg_pool3d({x4}, (2, None, 1))", f"F.adaptive_max_pool3d({x4}, 2)", f"F.lp_pool1d({x3}, 3.0, 2)", f"F.pixel_shuffle({x4}[:, :1].expand(-1, 4, -1, -1), 2)", f"F.interpolate({x3}, 7, mode='linear')",
             f"F.interpolate({x4}, (5, 1), mode='bilinear', antialias=True)" if False else f"F.interpolate({x4}, scale_factor=(0.5, 1.5), mode='area')", f"F.pad({x4}, (1, 2, 1, 0), mode='reflect')", f"F.pad({x3}[0], (1, 1), mode='replicate')", f"F.pad({x4}, (1, 1, 1, 1, 1, 1), mode='circular')" if False else f"F.pad({x4}, (2, 1), mode='circular')", f"F.fold({x3}.expand(-1, -1, {l})[:, :{c // 2 * 2}].reshape(-1, {c}, {l})[..., :1], (1, 1), 1)", f"F.unfold({x4}, (2, 3), 1, 1, 2)",
             f"F.grid_sample({x4}, F.affine_grid({g.leaf(t, [n, 2, 3])}, {x4}.shape, align_corners=False), align_corners=False)", f"F.grid_sample({x4}[:, None], {g.leaf(t, [n, 2, 2, 2, 3])}, mode={g.choice(['bilinear', 'nearest'])!r}, padding_mode={g.choice(['zeros', 'border', 'reflection'])!r}, align_corners=True)", f"F.affine_grid({g.leaf(t, [n, 3, 4])}, ({n if n.isdigit() else 2}, 1, 2, 3, 2), align_corners=True)" if n.isdigit() else f"F.glu({x3}, 1)",
             f"F.bilinear({x3}, {x3}, {g.leaf(t, [2, l, l])})", f"F.prelu({x4}, {w})", f"F.channel_shuffle({x4}, 2)", f"F.max_unpool1d(*F.max_pool1d({x3}, 2, return_indices=True), 2)", f"F.multi_head_attention_forward({x3}, {x3}, {x3}, {l}, 1, {g.leaf(t, [3 * l, l])}, {g.leaf(t, [3 * l])}, None, None, False, 0.0, {g.leaf(t, [l, l])}, {g.leaf(t, [l])}, False, need_weights=False)[0]",
             f"torch.conv_tbc({x3}, {g.leaf(t, [2, l, 3])}, {g.leaf(t, [3])}, 1)", f"F.linear({x4}, {g.leaf(t, [x4.shape[3]])})", f"F.softmax({x4}, 1, dtype=torch.float32)", f"F.dropout2d({x4}, 0.5, False)", f"F.hardswish({x4}) @ {x4}.mT", f"torch.nn.functional.silu({x3}.mT)"]
    return g.choice(texts)


@row("recurrent layers used otherwise", 2, "wide")
def recurrent(g):
    t = g.choice(FLOATS[:1] * 2 + FLOATS)
    T, B, I, H, two, deep = g.int(1, 5), g.int(1, 3), g.int(1, 5), g.int(1, 5), g.chance(0.5), g.choice([1, 2])
    name = g.choice(["lstm", "gru", "rnn_tanh", "rnn_relu"])
    gates = {"lstm": 4, "gru": 3}.get(name, 1)
    dirs, first, bias = 1 + two, g.chance(0.5), g.chance(0.7)
    x = g.leaf(t, [B, T, I] if first else [T, B, I], "normal")
    h = g.leaf(t, [deep * dirs, B, H], "normal")
    weights = []
    for layer in range(deep):
        for _ in range(dirs):
            weights += [g.leaf(t, d, "normal", role="const") for d in ([gates * H, I if layer == 0 else dirs * H], [gates * H, H], *([[gates * H]] * 2 if bias else []))]
    state = f"({h}, {g.leaf(t, [deep * dirs, B, H], 'normal')})" if name == "lstm" else str(h)
    return f"torch.{name}({x}, {state}, [{', '.join(map(str, weights))}], {bias}, {deep}, 0.0, False, {two}, {first})", 3 if name == "lstm" else 2


@row("attention used otherwise", 3, "wide")
def attention(g):
    t = g.dtype(FLOATS)
    b, h, q, k, e = g.dim_text(), g.int(1, 3), g.choice(["1", "2", "5", "17"]), g.choice(["1", "3", "8", "33"]), g.choice([1, 2, 4, 7, 16, 33, 64])
    Q, K, V = g.leaf(t, [b, h, q, e]), g.leaf(t, [b, h, k, e]), g.leaf(t, [b, h, k, g.choice([e, 1, 3])])
    mask = g.leaf(torch.bool, [q, k])
    soft = g.choice([f"{Q} @ {K}.mT", f"{Q} @ {K}.mT / {e} ** 0.5 + {g.leaf(t, [h, q, k])}", f"({Q} @ {K}.mT).masked_fill({mask}, -inf)", f"torch.where({mask}, {Q} @ {K}.mT, torch.finfo({t}).min)", f"({Q} * 0.3) @ ({K} * 0.3).mT", f"torch.tanh({Q} @ {K}.mT / 5) * 5"])
    return g.choice([f"F.softmax({soft}, -1) @ {V}", f"F.softmax({soft}, -1, dtype=torch.float32).to({t}) @ {V}", f"F.scaled_dot_product_attention({Q}, {K}, {V}, attn_mask={mask} | True)", f"F.scaled_dot_product_attention({Q}, {K}, {V}, {mask})", f"F.scaled_dot_product_attention({Q}[0], {K}[0], {V}[0])", f"F.scaled_dot_product_attention({Q}, {K}, {V}, is_causal=True, scale=2.0)",
                     f"F.scaled_dot_product_attention({Q}.transpose(1, 2), {Q}.transpose(1, 2), {Q}.transpose(1, 2)).transpose(1, 2)", f"F.scaled_dot_product_attention({Q}, {K}[:, :1], {V}[:, :1])", f"F.scaled_dot_product_attention({Q}, {K}, {V}, attn_mask={g.leaf(t, [b, 1, 1, k])})", f"torch.softmax({soft}, -2).mT @ {Q}", f"torch.einsum('bhqk,bhkd->bqhd', ({soft}).softmax(-1), {V})",
                     f"F.scaled_dot_product_attention({Q} + 0, {K}.flip(2), {V}.flip(2))"])


@row("transforms", 1.5, "wide")
def transforms(g):
    if g.odd:
        raise Skip
    x = g.leaf(g.choice(WIDE), [g.int(1, 3), g.int(2, 9), g.int(1, 8)], "normal")
    n = g.int(1, 10)
    return g.choice([f"torch.fft.rfft({x}, n={n}).abs()", f"torch.view_as_real(torch.fft.fft2({x}))", f"torch.fft.irfft2(torch.fft.rfft2({x}), s={x}.shape[1:])", f"torch.view_as_real(torch.fft.rfftn({x}, norm='forward'))", f"torch.fft.hfft({x}, n={n})", f"torch.view_as_real(torch.fft.ihfft({x}))", f"torch.view_as_real(torch.fft.fft({x}, n={n}, dim=1))", f"torch.fft.fftfreq({n})",
                     f"torch.view_as_real(torch.stft({x}.flatten(1), 4, 2, window=torch.hann_window(4, dtype={x.dtype}), return_complex=True))", f"torch.fft.ifftshift({x}, dim=(1, 2))", f"torch.fft.rfftfreq({n}, 0.5)", f"torch.istft(torch.stft({x}.flatten(1), 4, 1, window=torch.ones(4, dtype={x.dtype}), return_complex=True), 4, 1, window=torch.ones(4, dtype={x.dtype}))"])


@row("tensors made otherwise", 3, "wide")
def made(g):
    n = g.int(0, 7)
    x = g.tensor(REAL, (1, 3))
    t = g.choice(REAL)
    return g.choice([f"torch.logspace(-1, 2, {n}, dtype={g.choice(FLOATS)})", f"torch.linspace(3, -2, {n}, dtype={g.choice(NUMBERS)})", f"torch.arange({n}, -3, -2, dtype={g.choice([d for d in NUMBERS if d.is_signed or d.is_floating_point])})", f"torch.arange({n}.0)", f"torch.full((), {n}, dtype={t})", f"torch.tensor([[1, 2.5], [True, {n}]])", f"torch.tensor([{n}, 3], dtype={t}).expand(2, 2)",
                     f"torch.eye({n}, {g.int(0, 4)}, dtype={t})", f"torch.zeros({n}, 0, dtype={t}).sum(0)" if t != torch.bool else f"torch.zeros({n}, 0).sum(1)", f"{x}.new_ones(({n}, 2), dtype={t})", f"{x}.new_full((2,), {n})", f"{x}.new_tensor([1, 2])", f"torch.ones_like({x}, dtype={t})", f"torch.kaiser_window({n + 1})", f"torch.range(0, {n})" if False else f"torch.arange(0.5, {n} + 1, 0.75)", f"torch.cartesian_prod(torch.arange(3), torch.arange({n}))",
                     f"torch.meshgrid(torch.arange({n}), torch.arange(2), indexing='xy')[0]", f"torch.block_diag(torch.ones(2, 1), torch.zeros({n}, 1))", f"torch.empty({n}, 2, dtype={t}).fill_(1)", f"torch.zeros({n}, 3, dtype={t}).T", f"torch.tril(torch.ones({n}, 4, dtype={t}), -1)", f"torch.as_tensor([1, {n}]) * {x}.sum()", f"torch.atleast_3d({x})", f"torch.row_stack([{x}, {x}])", f"torch.fliplr({x})" if x.rank > 1 else f"torch.flipud({x})",
                     f"torch.hsplit({x}, [1])[0]", f"torch.swapdims({x}, 0, -1)", f"torch.squeeze({x}, (0, -1))" if x.rank > 1 else f"{x}[:0]", f"torch.unflatten({x}, 0, (1, -1))", f"torch.concat([{x}, {x}[:0]])", f"torch.cat([{x}, torch.zeros(0, dtype={t})])" if x.rank == 1 else f"{x}.unsqueeze(1).expand(-1, 2, {', '.join(['-1'] * (x.rank - 1))})", f"{x}[:0].sum()", f"{x}[:0].amax()" if False else f"{x}[:0].all()", f"{x}[:0].float().mean()", f"{x}[:0].prod()"])
