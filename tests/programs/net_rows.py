"""What the lines of random nets are (nets.py): a row picks operands, layers and numbers, and attempts one line."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = []
def row(n=1):
    def d(f):
        ROWS.extend([f] * n)
        return f
    return d
ACTS = ["F.relu", "F.gelu", "F.silu", "torch.tanh", "torch.sigmoid", "F.softplus", "F.hardswish", "F.elu", "F.mish", "torch.sin", "F.leaky_relu", "torch.square", "torch.abs"]
def heads(m, d): return m.r.choice([h for h in range(1, 9) if d % h == 0])
def mask(m, t, s=None, q="x"):
    """a text of a boolean mask [.., t, s] of attention"""
    s = s or t
    i, j = f"torch.arange({t})[:, None]", f"torch.arange({s})[None]"
    c = [f"({i} >= {j})", f"(({i} - {j}).abs() < 3)", f"torch.ones({t}, {s}, dtype=torch.bool).tril(max({s} - {t}, 0))", f"(({i} - {j}) % 2 == 0)", f"~torch.zeros({t}, {s}, dtype=torch.bool)", f"({j} <= {i} + ({s} - {t}).__abs__())"]
    return m.r.choice(c)

@row(6)
def slices(m):
    v = m.pick(); n = m.shape(v); d = m.r.randrange(1, len(n)) if len(n) > 1 else 0
    s, r = f"{v}.shape[{d}]", m.r
    ix = lambda t: f"{v}[{', '.join([':'] * d + [t])}]"
    t = r.choice([lambda: ix(f":{s} // 2 + 1"), lambda: ix(f"{s} // 2:"), lambda: ix("::2"), lambda: ix("1::3"), lambda: f"{ix('1:')} - {ix(':-1')}", lambda: ix("-1:"), lambda: ix("-3:"), lambda: ix(":-1"), lambda: ix("0"), lambda: ix("-1"), lambda: ix(f"({s} - 1) // 2"),
        lambda: f"{v}.narrow({d}, {s} // 3, {s} - {s} // 3)", lambda: f"{v}.narrow({d}, 1, {s} - 2)", lambda: f"torch.chunk({v}, 2, {d})[0]", lambda: f"torch.chunk({v}, 3, {d})[-1]", lambda: f"{v}.tensor_split(3, {d})[1]", lambda: f"{v}.tensor_split(2, {d})[-1]",
        lambda: f"{v}.split(({s} + 1) // 2, {d})[0]", lambda: f"{v}.split([{s} // 2, {s} - {s} // 2], {d})[1]", lambda: f"{v}.split([1, {s} - 1], {d})[1]", lambda: f"{v}.roll(1, {d})", lambda: f"{v}.roll({s} // 2, {d})", lambda: f"{v}.roll(-{s} + 1, {d})", lambda: f"{v}.flip({d})",
        lambda: f"{v}.select({d}, {s} - 1)", lambda: f"{v}.index_select({d}, torch.arange({s} - 1, -1, -1))", lambda: ix(f"torch.arange(0, {s}, 2)"), lambda: f"{v}.unfold({d}, 2, 1)", lambda: f"{v}.unfold({d}, {s} // 2 + 1, {s} // 2 + 1)", lambda: f"{v}.unfold({d}, 3, 2).mean(-1)",
        lambda: f"{v}.take_along_dim(torch.arange({s}).view({', '.join(['1'] * d + ['-1'] + ['1'] * (len(n) - d - 1))}).expand({v}.shape) // 2, {d})", lambda: ix(f"torch.arange({s}) * 7 % {s}"), lambda: f"{v}.unbind(0)[0][None]"])()
    m.attempt(t)

@row(4)
def joins(m):
    v, w = m.pick(), m.pick(); d = m.r.randrange(0, len(m.shape(v))); r = m.r; s = f"{v}.shape[{d}]"
    m.attempt(r.choice([f"torch.cat([{v}, {w}], {d})", f"torch.cat([{v}, {v}.flip({d})], {d})", f"torch.cat([{v}.narrow({d}, 0, 1), {v}, {v}.narrow({d}, {s} - 1, 1)], {d})", f"torch.stack([{v}, {v} * 2], {d})", f"torch.stack([{v}, {w}], {d}).flatten({d}, {d} + 1)", f"torch.cat([{v}, {w}.mean({d}, True)], {d})",
        f"torch.cat([{v}, {v}.new_zeros({', '.join(f'{v}.shape[{i}]' if i != d else '2' for i in range(len(m.shape(v))))})], {d})", f"torch.cat([{v}, {w}[..., : {v}.shape[-1]]], {d})", f"torch.cat([{w}, {v}], {d}).narrow({d}, {s} // 2, {s})", f"torch.cat([{v}.narrow({d}, {s} // 2, {s} - {s} // 2), {v}.narrow({d}, 0, {s} // 2)], {d})"]))

@row(4)
def padded(m):
    v = m.pick(); n = m.shape(v); k = len(n); d = m.r.randrange(1, k); r = m.r; s = f"{v}.shape[{d}]"
    z = ["0, 0"] * (k - 1 - d); w = r.choice([2, 3, 4, 8])
    p = r.choice([f"0, -({s} % {w})", f"-({s} // {w}), 0", f"1 - {s} % 3, {s} // 3 - 2", f"0, {s} % 2", f"0, (-{s}) % {w}", f"{s} // 2, 0", "1, 2", "2, -1", "-1, 0", f"0, {m.range['T'][1]} - {s}", f"(-{s} % {w}) // 2, (-{s} % {w}) - (-{s} % {w}) // 2", f"0, ({s} + {w - 1}) // {w} * {w} - {s}"])
    mode = r.choice(["", "", ", value=1.5", ", mode='replicate'", ", mode='reflect'", ", mode='circular'"])
    if not m.attempt(f"F.pad({v}, ({', '.join(z + [p])}){mode})"): return
    if r.random() < .5:  # windows of it
        u = m.values[-1]
        dims = [f"{u}.shape[{i}]" for i in range(k)]
        dims[d:d + 1] = [f"{u}.shape[{d}] // {w}", str(w)]
        m.attempt(f"{u}.{r.choice(['view', 'reshape'])}({', '.join(dims)})" + r.choice(["", ".mean(-1)", f".softmax({d + 1})", f".transpose({d}, {d + 1})", f".amax({d})"]))

@row(4)
def reshapes(m):
    v = m.pick(); n = m.shape(v); k = len(n); r = m.r; s = [f"{v}.shape[{i}]" for i in range(k)]
    c = [f"{v}.flatten(1)", f"{v}.flatten(0, 1)", f"{v}.reshape(-1, {s[-1]})", f"{v}.transpose(-1, -2)", f"{v}.transpose(0, 1)", f"{v}.permute({', '.join(map(str, r.sample(range(k), k)))})", f"{v}.unsqueeze({r.randrange(k + 1)})", f"{v}.reshape({s[0]}, -1, 2)", f"{v}.expand(3, {', '.join(['-1'] * k)})",
         f"{v}.repeat({', '.join(str(r.choice([1, 2])) for _ in range(k))})", f"{v}.repeat_interleave(2, {r.randrange(k)})", f"{v}.tile(2)", f"{v}.mT.contiguous().view({', '.join(s[:-2] + [s[-1], s[-2]])})", f"{v}.movedim(0, -1)", f"{v}.contiguous().view(-1)[: {s[0]} * 2].view({s[0]}, 2)", f"{v}.reshape({s[0]} * {s[1]}, -1)" if k > 1 else "",
         f"{v}.transpose(-1, -2).reshape({s[0]}, -1, {s[-1]})", f"{v}.unflatten(-1, ({heads(m, n[-1])}, -1)).transpose(1, 2)", f"{v}.unflatten(-1, (-1, {heads(m, n[-1])})).sum(-1)", f"{v}.broadcast_to(2, {', '.join(s)})[1]", f"{v}.squeeze(0)", f"{v}.swapaxes(0, 1).flatten(0, 1).view({s[1]}, {s[0]}, *{v}.shape[2:]).swapaxes(0, 1)" if k > 1 else "", f"{v}.as_strided(({s[0]}, {s[1]}), ({s[1]}, 1))" if k == 2 else ""]
    m.attempt(r.choice([x for x in c if x]))

@row(5)
def linear(m):
    v = m.pick(); d = m.shape(v)[-1]; o = m.r.choice([1, 3, 8, 16, 24, 33, 64])
    a = m.r.choice(ACTS)
    m.attempt(m.r.choice([f"@m0({v})", f"{a}(@m0({v}))", f"{v} + @m0({v})", f"@m0({v}.flatten(0, 1)).unflatten(0, {v}.shape[:2])"]), [nn.Linear(d, o if m.r.random() < .7 else d, bias=m.r.random() < .7)])

@row(3)
def norms(m):
    v = m.pick(); n = m.shape(v); k = len(n)
    r = m.r
    def bn():
        l = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[k](n[1], affine=r.random() < .6, track_running_stats=r.random() < .7)
        return f"@m0({v})", [l]
    c = [bn, lambda: (f"@m0({v})", [nn.LayerNorm(n[-1], elementwise_affine=r.random() < .7)]), lambda: (f"@m0({v})", [nn.RMSNorm(n[-1])]), lambda: (f"@m0({v})", [nn.GroupNorm(heads(m, n[1]), n[1])]), lambda: (f"@m0({v})", [{3: nn.InstanceNorm1d, 4: nn.InstanceNorm2d, 5: nn.InstanceNorm3d}[k](n[1], affine=r.random() < .5)]),
         lambda: (f"F.normalize({v}, dim={r.randrange(k)}, p={r.choice([1, 2, 3])})", []), lambda: (f"({v} - {v}.mean({r.randrange(k)}, True)) / ({v}.std({r.randrange(1, k)}, unbiased=False, keepdim=True) + 1)", []), lambda: (f"F.layer_norm({v}, {v}.shape[1:])", []), lambda: (f"F.layer_norm({v}, {v}.shape[-2:])", []), lambda: (f"F.rms_norm({v}, {v}.shape[-2:], eps=1e-5)", []),
         lambda: (f"F.local_response_norm({v}, 3)", []), lambda: (f"F.batch_norm({v}, None, None, training=True)", []), lambda: (f"{v}.transpose(1, -1).contiguous().sub({v}.mean()).transpose(1, -1)", [])]
    t, l = r.choice(c)(); m.attempt(t, l)

@row(5)
def pointwise(m):
    v, w = m.pick(), m.pick(); r = m.r; k = len(m.shape(v)); a = r.choice(ACTS); s = f"{v}.shape[{r.randrange(k)}]"; s2 = f"{v}.shape[{r.randrange(k)}]"
    m.attempt(r.choice([f"{a}({v})", f"{v} + {w}", f"{v} * {w}.mean()", f"{v} * {s} ** -0.5", f"{v} / {s}", f"{v} * ({s} / {s2})", f"{v} + torch.linspace(0, 1, {v}.shape[-1])", f"{v} * (torch.arange({v}.shape[-1]) / {v}.shape[-1])", f"{v} - max({s}, {s2})", f"{v} * min({s}, 7)", f"torch.where({v} > {w}.mean(), {v}, {w}.mean())",
        f"{v}.masked_fill(torch.arange({v}.shape[-1]) % 3 == 0, 0.5)", f"{v} + {s} % 3", f"{v}.clamp(-1, {s})", f"torch.lerp({v}, {w}.amax(), 0.3)", f"{v} * torch.tensor({s})", f"{v} * torch.full(({v}.shape[-1],), {s} // 2 + 1)", f"{v} + torch.arange({s} + 1)[-1]", f"{v} * ({s} > 3)", f"{v} + (1 if {s} > 2 else 2)", f"{v} * torch.eye({v}.shape[-2], {v}.shape[-1])",
        f"{v} + torch.ones_like({v}).cumsum(-1) / {v}.shape[-1]", f"{v} - {w}.unsqueeze(0)", f"{v} * {w}[..., :1]", f"{v} + {w}.mean(-1, True)", f"torch.where(torch.arange({v}.shape[1])[:, None] < {v}.shape[1] // 2, {v}, -{v})", f"{v}.triu({r.choice([-1, 0, 1])})", f"{v}.tril()", f"{v} + torch.zeros({s}, dtype=torch.int64).sum()", f"{v} / ({s} * {s2} - 1.5)", f"{v} + torch.scalar_tensor({s})"]))

@row(5)
def reductions(m):
    v = m.pick(); k = len(m.shape(v)); r = m.r; d = r.randrange(k); kd = r.choice(["", ", keepdim=True"]); e = r.randrange(k)
    m.attempt(r.choice([f"{v}.sum({d}{kd})", f"{v}.mean({d}{kd})", f"{v}.amax({d}{kd})", f"{v}.amin(({d}, {e}){kd})" if d != e else f"{v}.amin({d})", f"{v}.logsumexp({d}{kd})", f"{v}.var({d}, unbiased=False{kd})", f"{v}.norm(dim={d}{kd})", f"{v}.softmax({d})", f"{v}.log_softmax({d})", f"{v}.cumsum({d}) / {v}.shape[{d}]", f"{v}.cumsum({d})", f"{v}.max({d})[0]", f"{v}.sort({d})[0]", f"{v}.sort({d}, descending=True)[0].narrow({d}, 0, 1)",
        f"{v}.topk(1, {d})[0]", f"{v}.topk(2, {d}, largest=False)[0]", f"{v}.topk({v}.shape[{d}] // 2 + 1, {d})[0]", f"{v}.median({d})[0]", f"{v}.cummax({d})[0]", f"{v}.logcumsumexp({d})", f"{v}.quantile(0.3, {d})", f"{v}.kthvalue({v}.shape[{d}] // 2 + 1, {d})[0]", f"{v}.diff(dim={d})", f"({v} > 0).sum({d}).to({v}.dtype)", f"({v} > 0).any({d}).to({v}.dtype)", f"{v}.argmax({d}).to({v}.dtype)", f"{v}.gather({d}, {v}.argsort({d}))", f"{v}.std({d}, keepdim=True) * {v}", f"{v}.sum() / {v}.numel() + {v}", f"{v}.cumprod({d}).clamp(-2, 2)", f"{v}.unfold({d}, 2, 2).amax(-1)", f"torch.nanmean({v}, {d})", f"{v}.count_nonzero({d}).to({v}.dtype)", f"{v}.prod({d}).clamp(-3, 3)", f"torch.trapezoid({v}, dim={d})", f"{v}.renorm(2, {d}, 1.0)"]))

@row(4)
def products(m):
    v = m.pick(3); w = m.pick(3); r = m.r; n, o = m.shape(v), m.shape(w)
    q = f"({v}.shape[-1] ** -0.5)"
    m.attempt(r.choice([f"{v} @ {v}.mT * {q}", f"{v}.mT @ {v} / {v}.shape[1]", f"({v} @ {w}.mT * {q}).softmax(-1) @ {w}", f"torch.bmm({v}, {w}.mT).softmax(1).mT @ {v}", f"torch.einsum('btd,bsd->bts', {v}, {w})", f"torch.einsum('btd,bte->bde', {v}, {w}) / {v}.shape[1]", f"torch.einsum('btd,bsd->btsd', {v}, {w}).amax(2)", f"torch.einsum('btd,btd->bt', {v}, {v})", f"torch.cdist({v}, {w})", f"torch.cdist({v}, {v}, p=1.0)", f"F.cosine_similarity({v}[:, :, None], {w}[:, None], -1)", f"torch.baddbmm({v} @ {w}.mT, {v}, {w}.mT, alpha=0.5)",
        f"({v}[:, :, None] - {v}[:, None]).square().sum(-1)", f"torch.matmul({v}.transpose(0, 1), @t0)", f"torch.einsum('btd,hde->bhte', {v}, @t1)", f"torch.tensordot({v}, @t0, 1)", f"torch.matmul({v}, {w}[0].T)", f"{v}[:, 0] @ {w}[0].T", f"({v} @ {v}.mT).tril().diagonal(0, 1, 2)", f"torch.linalg.multi_dot([{v}[0], {v}[0].T, {v}[0]]) / {v}.shape[1]"]), [], [torch.randn(n[-1], 6), torch.randn(2, n[-1], 5)])

@row(4)
def attention(m):
    v = m.pick(3); w = m.pick(3); r = m.r; n = m.shape(v); d = n[-1]; h = heads(m, d); e = m.shape(w)[-1]
    t, s = f"{v}.shape[1]", f"{w}.shape[1]"
    kpm = "torch.arange({}) >= lens[:, None]".format(s) if any(a[0] == "lens" for a in m.inputs) and r.random() < .7 else f"(torch.arange({s}) >= {s} - {s} // 3).expand({v}.shape[0], -1)" if r.random() < .4 else "None"
    sp = lambda x, k: f"{x}.unflatten(-1, ({k}, -1)).transpose(1, 2)"
    am = r.choice(["None", f"~{mask(m, t, s)}", f"torch.full(({t}, {s}), -1e9).triu(1)" , f"({mask(m, t, s)}).to({v}.dtype).log1p()"])
    def mha():
        l = nn.MultiheadAttention(d, h, bias=r.random() < .7, add_bias_kv=r.random() < .2, add_zero_attn=r.random() < .2, kdim=e, vdim=e, batch_first=True)
        o = r.choice([0, 0, 0, 1])
        return f"@m0({v}, {w}, {w}, attn_mask={am}, key_padding_mask={kpm}, need_weights={bool(o)}, average_attn_weights={r.random() < .5})[{o}]", [l]
    def sdpa():
        if d != e: return "(", []
        g = r.choice([g for g in range(1, h + 1) if h % g == 0])
        ln = [nn.Linear(d, d), nn.Linear(d, d // h * g), nn.Linear(d, d // h * g)]
        mk = r.choice(["None", mask(m, t, s), mask(m, t, s), f"(({mask(m, t, s)})[None, None] & ~({kpm})[:, None, None, :])" if kpm != "None" else mask(m, t, s), f"({mask(m, t, s)}).to({v}.dtype) * @t0[:, None, None]"])
        return f"F.scaled_dot_product_attention({sp(f'@m0({v})', h)}, {sp(f'@m1({w})', g)}, {sp(f'@m2({w})', g)}, attn_mask={mk}, is_causal={mk == 'None' and v == w and r.random() < .6}, enable_gqa={g != h}, scale={r.choice(['None', '0.2'])}).transpose(1, 2).flatten(2)", ln
    def enc():
        l = nn.TransformerEncoderLayer(d, h, r.choice([16, 40]), 0., r.choice([F.relu, F.gelu]), batch_first=True, norm_first=r.random() < .5)
        return f"@m0({v}, src_mask={am if s == t else 'None'}, src_key_padding_mask={kpm if s == t else 'None'})", [l]
    def dec():
        if d != e: return "(", []
        return f"@m0({v}, {w}, tgt_mask=torch.full(({t}, {t}), -math.inf).triu(1), memory_key_padding_mask={kpm})", [nn.TransformerDecoderLayer(d, h, 24, 0., batch_first=True)]
    text, l = r.choice([mha, sdpa, sdpa, sdpa, enc, dec])()
    m.attempt(text, l, [torch.randn(h)])

@row(3)
def positions(m):
    v = m.pick(3); r = m.r; d = m.shape(v)[-1]; t = f"{v}.shape[1]"; T = 200
    c = [(f"{v} + @t0[:{t}]", [torch.randn(T, d)]), (f"{v} + @t0[:, :{t}]", [torch.randn(1, T, d)]), (f"{v} + F.embedding(torch.arange({t}), @t0)", [torch.randn(T, d)]), (f"{v} + F.embedding({t} - 1 - torch.arange({t}), @t0)", [torch.randn(T, d)]), (f"{v} * torch.outer(torch.arange({t}), @t0).cos()", [torch.rand(d)]),
         (f"({v} @ {v}.mT + @t0[(torch.arange({t})[:, None] - torch.arange({t})).clamp(-5, 5) + 5]).softmax(-1)", [torch.randn(11)]), (f"{v} @ {v}.mT - 0.3 * (torch.arange({t})[:, None] - torch.arange({t})).abs()", []), (f"F.interpolate(@t0[None], size={t}, mode='linear').mT + {v}", [torch.randn(d, 17)]), (f"{v} + F.interpolate(@t0[None], size=({t}, 1), mode='bicubic', align_corners=False)[..., 0].mT", [torch.randn(d, 9, 1)]),
         (f"{v} * torch.cat([torch.outer(torch.arange({t}), @t0)] * 2, -1).cos() + torch.cat([-{v}[..., {d // 2}:], {v}[..., :{d // 2}]], -1) * torch.cat([torch.outer(torch.arange({t}), @t0)] * 2, -1).sin()", [torch.rand(d // 2)]), (f"@t0[({t} - 1 - torch.arange({t})) % 7] * {v}", [torch.randn(7, d)]),
         (f"F.pad({v} @ @t0[:2 * {t} - 1].T, (1, 0)).flatten(1).view({v}.shape[0], 2 * {t}, {t})[:, 1:]", [torch.randn(2 * T, d)])]
    text, tb = r.choice(c); m.attempt(text, [], tb)

@row(3)
def recurrent(m):
    v = m.pick(3); r = m.r; d = m.shape(v)[-1]; h = r.choice([3, 8, 16]); cls = r.choice([nn.LSTM, nn.GRU, nn.RNN]); bi = r.random() < .4; k = r.choice([1, 1, 2]); bf = r.random() < .7
    l = cls(d, h, k, batch_first=bf, bidirectional=bi)
    st = f"{v}.new_zeros({k * (1 + bi)}, {v}.shape[{0 if bf else 1}], {h})"
    a = r.choice(["", f", ({st}, {st} + 0.5)" if cls is nn.LSTM else f", {st} + 0.1"])
    o = r.choice(["[0]", "[0]", "[0][:, -1]", "[1][0][-1]" if cls is nn.LSTM else "[1][-1]"])
    m.attempt(f"@m0({v}{a}){o}", [l])

@row(4)
def conv1(m):
    v = m.pick(3); r = m.r; n = m.shape(v); ch = r.random() < .7; c = n[-1] if ch else n[1]; x = f"{v}.mT" if ch else v
    k, s, dl = r.choice([1, 2, 3, 5]), r.choice([1, 1, 2, 3]), r.choice([1, 1, 2]); g = r.choice([1, 1, c, heads(m, c)]); o = g * r.choice([1, 2]) if g > 1 else r.choice([3, 8, 16])
    L = [lambda: (f"@m0({x})", [nn.Conv1d(c, o, k, s, r.choice([0, 1, k // 2]), dl, g, r.random() < .6, r.choice(["zeros", "zeros", "reflect", "circular", "replicate"]))]), lambda: (f"@m0({x})", [nn.ConvTranspose1d(c, o, k, s, r.choice([0, k // 2]), r.choice([0, s - 1]), g)]), lambda: (f"@m0(F.pad({x}, ({(k - 1) * dl}, 0)))", [nn.Conv1d(c, o, k, 1, 0, dl, g)]), lambda: (f"@m0({x}, output_size=[{x}.shape[-1] * {s}])", [nn.ConvTranspose1d(c, 4, k, s)]),
         lambda: (f"F.glu(@m0({x}), 1)", [nn.Conv1d(c, 8, k, padding="same", dilation=dl)]), lambda: (f"F.max_pool1d({x}, {k}, {s}, {r.randint(0, k // 2)}, ceil_mode={r.random() < .4})", []), lambda: (f"F.avg_pool1d({x}, {k}, {s}, {r.randint(0, k // 2)}, ceil_mode={r.random() < .4}, count_include_pad={r.random() < .5})", []), lambda: (f"F.adaptive_avg_pool1d({x}, {r.choice([1, 2, 3, 5])})", []), lambda: (f"F.adaptive_max_pool1d({x}, {r.choice([1, 2, 4])})", []),
         lambda: (f"F.interpolate({x}, scale_factor={r.choice([2, .5, 1.5, .7])}, mode='{r.choice(['nearest', 'linear', 'nearest-exact'])}')", []), lambda: (f"F.interpolate({x}, size={x}.shape[-1] * 2 - 1, mode='linear', align_corners={r.random() < .5})", []), lambda: (f"F.adaptive_avg_pool1d({x}, {x}.shape[-1] // 2 + 1)", []), lambda: (f"F.lp_pool1d({x}, 2, {k}, ceil_mode={r.random() < .3})", []), lambda: (f"F.conv1d({x}, {v}.mean((0, 1)).view(1, 1, -1)[..., :2].expand({c}, 1, 2), groups={c})", [])]
    t, l = r.choice(L)(); m.attempt(t + (".mT" if ch and r.random() < .8 else ""), l)

@row(8)
def conv2(m):
    v = m.pick(4); r = m.r; n = m.shape(v); c = n[1]
    k = r.choice([1, 2, 3, 5, (1, 3), (3, 1)]); s = r.choice([1, 1, 1, 2, 3, (2, 1)]); dl = r.choice([1, 1, 1, 2]); g = r.choice([1, 1, 1, c, heads(m, c)]); o = g * r.choice([1, 2]) if g > 1 else r.choice([1, 3, 8, 16, 24])
    k1 = k if isinstance(k, int) else 3; pd = r.choice([0, 1, k1 // 2, "same"]) if s == 1 else r.choice([0, 1])
    md = r.choice(["bilinear", "bicubic", "nearest", "nearest-exact"]); al = "" if "near" in md else f", align_corners={r.random() < .5}"
    w = [x for x in m.values if m.envs[0][x].dim() == 4]; w = r.choice(w)
    L = [lambda: (f"@m0({v})", [nn.Conv2d(c, o, k, s, pd, dl, g, r.random() < .6, r.choice(["zeros"] * 4 + ["reflect", "circular", "replicate"]))])] * 5 + [lambda: (f"{r.choice(ACTS)}(@m0({v}))", [nn.Sequential(nn.Conv2d(c, o, k, s, pd, dl, g, False), nn.BatchNorm2d(o))])] * 3 + [
         lambda: (f"@m0({v})", [nn.ConvTranspose2d(c, o, k, s, r.choice([0, 1]), 0, g)]), lambda: (f"@m0({v}, output_size={w}.shape[-2:])", [nn.ConvTranspose2d(c, 4, k, 2)]), lambda: (f"F.max_pool2d({v}, {k}, {s}, {r.choice([0, min(k) // 2 if isinstance(k, tuple) else k // 2])}, ceil_mode={r.random() < .4})", []), lambda: (f"F.avg_pool2d({v}, {k}, {s}, {r.choice([0, min(k) // 2 if isinstance(k, tuple) else k // 2])}, ceil_mode={r.random() < .4}, count_include_pad={r.random() < .5})", []),
         lambda: (f"F.adaptive_avg_pool2d({v}, {r.choice([1, 2, 3, (1, None), (None, 3), (2, 5), 7])})", []), lambda: (f"F.adaptive_max_pool2d({v}, {r.choice([1, 2, 3, (4, 2)])})", []), lambda: (f"F.interpolate({v}, size={w}.shape[-2:], mode='{md}'{al})", []), lambda: (f"F.interpolate({v}, size={w}.shape[-2:], mode='{md}'{al})", []), lambda: (f"F.interpolate({v}, scale_factor={r.choice([2, .5, 1.5, .7, 1.37])}, mode='{md}'{al})", []), lambda: (f"F.interpolate({v}, scale_factor={r.choice([.5, 1.5])}, mode='bilinear', antialias=True)", []), lambda: (f"F.interpolate({v}, size=({v}.shape[2] // 2 + 1, {v}.shape[3] * 2), mode='{md}'{al})", []),
         lambda: (f"F.interpolate({v}, size=(9, 7), mode='{r.choice(['bilinear', 'bicubic'])}', antialias=True)", []), lambda: (f"F.pad({v}, (0, {w}.shape[3] - {v}.shape[3], 0, {w}.shape[2] - {v}.shape[2]))", []), lambda: (f"torch.cat([F.pad({v}, (0, {w}.shape[3] - {v}.shape[3], 0, {w}.shape[2] - {v}.shape[2])), {w}], 1)", []), lambda: (f"{v}[..., : {w}.shape[2], : {w}.shape[3]]", []), lambda: (f"{v}.mean((2, 3), True).sigmoid() * {v}", []), lambda: (f"{v} * @m0({v}.mean((2, 3), True)).sigmoid()", [nn.Conv2d(c, c, 1)]),
         lambda: (f"F.max_pool2d({v}, 2, return_indices=True)[0]", []), lambda: (f"F.max_unpool2d(*F.max_pool2d({v}, 2, return_indices=True), 2, output_size={v}.shape[-2:])", []), lambda: (f"F.lp_pool2d({v}, 2, 2)", [])]
    t, l = r.choice(L)(); m.attempt(t, l)

@row(5)
def images(m):
    v = m.pick(4); r = m.r; n = m.shape(v); c = n[1]; b, h, w = (f"{v}.shape[{i}]" for i in (0, 2, 3)); k = r.choice([2, 3, 4])
    ph, pw = f"(-{h}) % {k}", f"(-{w}) % {k}"
    win = f"F.pad({v}, (0, {pw}, 0, {ph})).unflatten(2, (-1, {k})).unflatten(4, (-1, {k})).permute(0, 2, 4, 3, 5, 1).flatten(3, 4).flatten(0, 2)"
    L = [f"F.pixel_shuffle({v}, {k})", f"F.pixel_unshuffle(F.pad({v}, (0, {pw}, 0, {ph})), {k})", f"F.channel_shuffle({v}, {heads(m, c)})", win, f"({win} @ {win}.mT).softmax(-1) @ {win}", f"{v}.flatten(2).mT", f"torch.cat([{v}, torch.stack(torch.meshgrid(torch.linspace(-1, 1, {h}), torch.linspace(-1, 1, {w}), indexing='ij')).to({v}.dtype).expand({b}, 2, {h}, {w})], 1)",
         f"({v}.flatten(2).softmax(-1) * (torch.arange({h} * {w}) % {w})).sum(-1)", f"{v}.cumsum(2).cumsum(3) / ({h} * {w})", f"F.fold(F.unfold({v}, 3, padding=1), ({h}, {w}), 3, padding=1)", f"F.unfold({v}, {k}, stride={k})", f"F.unfold({v}, 2).mT", f"torch.rot90({v}, 1, (2, 3))", f"{v}.roll((1, {w} // 2), (2, 3))", f"{v}[:, :, ::2, 1::2] - {v}[:, :, ::2, 1::2].mean((2, 3), True)",
         f"F.grid_sample({v}, F.affine_grid(@t0.to({v}.dtype).expand({b}, 2, 3), list({v}.shape), {(a := r.random() < .5)}), '{r.choice(['bilinear', 'nearest', 'bicubic'])}', '{r.choice(['zeros', 'border', 'reflection'])}', {a})", f"{v}.view({b}, {c}, {h} * {w}).mT @ {v}.flatten(2) / ({h} * {w})", f"{v}.mT.flip(2)", f"{v}.amax(1, True) + {v}", f"{v}.softmax(1)", f"{v} - F.avg_pool2d({v}, 3, 1, 1)", f"F.conv2d({v}, @t1.expand({c}, 1, 3, 3), padding=1, groups={c})", f"F.conv2d({v}.flatten(0, 1)[None], @t1.to({v}.dtype).expand({b} * {c}, 1, 3, 3), padding=1, groups={b} * {c}).view_as({v})",
         f"{v}.unsqueeze(2)", f"{v}.permute(0, 2, 3, 1)", f"{v}.permute(0, 2, 1, 3).flatten(2)", f"{v}.mean(2).mT", f"{v}.unfold(2, 2, 2).unfold(3, 2, 2).amax((-1, -2))", f"{v}.to(memory_format=torch.channels_last) * 2", f"{v}.amax((2, 3))", f"F.interpolate(F.avg_pool2d({v}, 2, ceil_mode=True), size=({h}, {w}), mode='nearest')"]
    m.attempt(r.choice(L), [], [torch.tensor([[[1.1, .2, .1], [-.15, .9, -.2]]]), torch.randn(1, 1, 3, 3)])

@row(4)
def tokens(m):
    ids = [v for v in m.values if not m.envs[0][v].is_floating_point() and m.envs[0][v].dim() == 2]
    r = m.r
    if not ids: return
    i = r.choice(ids); d = r.choice([4, 8, 12]); b, t = f"{i}.shape[0]", f"{i}.shape[1]"
    fl = m.pick(3) or i
    L = [f"F.embedding({i}, @t0)"] * 5 + [f"F.embedding({i}[:, 1:], @t0) - F.embedding({i}[:, :-1], @t0)", f"F.one_hot({i} % 5, 5).to(torch.float32)", f"F.embedding_bag({i}, @t0, mode='{r.choice(['sum', 'mean', 'max'])}')", f"F.embedding_bag({i}.flatten(), @t0, torch.arange({b}) * {t}, mode='mean')", f"F.embedding({i}, @t0, padding_idx=0) * ({i} != 3)[..., None]", f"@t0[{i}].mean(1)", f"torch.zeros({b}, 50).scatter_add(1, {i}, torch.ones({b}, {t}))", f"torch.zeros({b}, 50, dtype=torch.int64).scatter_add_(1, {i}, torch.ones_like({i})).to(torch.float32)",
         f"torch.zeros(50, {d}).index_add(0, {i}.flatten(), F.embedding({i}, @t0).flatten(0, 1))", f"torch.zeros(50, {d}).scatter_reduce(0, {i}.flatten()[:, None].expand(-1, {d}), F.embedding({i}, @t0).flatten(0, 1), '{r.choice(['amax', 'mean', 'sum'])}')", f"({i}[:, :, None] == {i}[:, None]).to(torch.float32)", f"F.embedding(({i} * 7 + torch.arange({t})) % 50, @t0)", f"F.embedding(F.pad({i}, (1, 0))[:, :-1], @t0)", f"F.embedding({i}.cumsum(1) % 50, @t0)", f"{fl}.gather(1, ({i} % {fl}.shape[1])[..., None].expand(-1, -1, {fl}.shape[2]))", f"F.embedding({i}.sort(1)[0], @t0)", f"F.cross_entropy({fl}.mT, {i} % {fl}.shape[2], reduction='{r.choice(['none', 'mean'])}', ignore_index=1)",
         f"F.nll_loss({fl}.log_softmax(-1).flatten(0, 1), ({i} % {fl}.shape[2]).flatten(), reduction='none')", f"F.embedding({i}.clamp(2, 9), @t0)[:, -1]", f"@t0[{i}[:, -1]]", f"F.embedding(torch.where({i} > 25, {i} - 25, {i}), @t0)", f"torch.searchsorted(@t1, {i}).to(torch.float32)", f"F.embedding(torch.bucketize({i}, @t1), @t0)"]
    m.attempt(r.choice(L), [], [torch.randn(50, d), torch.arange(0, 50, 5)])

@row(4)
def lengths(m):
    if not any(n == "lens" for n, _ in m.inputs): return
    v = m.pick(3)
    r = m.r
    if v is None: return
    t, b = f"{v}.shape[1]", f"{v}.shape[0]"; k = f"(torch.arange({t}) < lens[:, None])"
    L = [f"({v} * {k}[..., None]).sum(1) / lens[:, None]", f"{v}.masked_fill(~{k}[..., None], -1e9).amax(1)", f"{v}.masked_fill(~{k}[..., None], 0.)", f"{v}[torch.arange({b}), lens.clamp(max={t}) - 1]", f"{v}.gather(1, (lens.clamp(max={t}) - 1)[:, None, None].expand(-1, 1, {v}.shape[2]))", f"{v}.mean(-1).masked_fill(~{k}, -1e9).softmax(-1)", f"torch.where({k}[..., None], {v}, {v}.flip(1))", f"{v} * (1 - torch.arange({t}) / lens[:, None])[..., None]", f"({v} @ {v}.mT).masked_fill(~({k}[:, None] & {k}[:, :, None]), -1e4).softmax(-1)",
         f"{v}.gather(1, ((lens[:, None] - 1 - torch.arange({t})) % {t})[..., None].expand_as({v}))", f"({k}.cumsum(1) / (1 + {k}.sum(1, True)))", f"F.one_hot(lens % 6, 6).to({v}.dtype)", f"{v}[:, : {t} // 2 + 1] * (lens / {t})[:, None, None]", f"{v}.index_put((torch.arange({b}), lens.clamp(max={t}) - 1), {v}[:, 0] * 0)", f"torch.repeat_interleave({v}, 2, 1) * (torch.arange({t} * 2) < 2 * lens[:, None])[..., None]"]
    m.attempt(r.choice(L))

@row(2)
def writes(m):
    v = m.pick(); n = m.shape(v); k = len(n); r = m.r; d = r.randrange(1, k) if k > 1 else 0; s = f"{v}.shape[{d}]"
    ix = lambda t: ", ".join([":"] * d + [t])
    name = f"a{len(m.lines)}"
    w = r.choice([f"{name}[{ix(':' + s + ' // 2')}].mul_(2)", f"{name}[{ix('-1')}].zero_()", f"{name}[{ix('1:')}].add_({v}[{ix(':-1')}])", f"{name}.flip({d})", f"{name}[{ix('::2')}].copy_({v}[{ix('::2')}] * 3)", f"{name}.narrow({d}, {s} // 2, 1).fill_(1.5)", f"{name}.transpose(0, {d})[0].sub_(1)", f"{name}.view(-1)[:{s}].neg_()", f"{name}.masked_fill_({name} > 1, 0.)", f"{name}.index_copy_({d}, torch.arange({s} // 2), {v}.narrow({d}, 0, {s} // 2))", f"{name}[{ix(s + ' // 2')}].exp_().clamp_(max=5)"])
    if m.attempt(f"{v}.clone()"):
        m.attempt(f"({w}, {name} * 1)[1]")

@row(1)
def vectors(m):
    v = m.pick(2); r = m.r; n = m.shape(v); w = m.pick()
    L = [(f"{v}[:, None] * {w}", []), (f"{v} @ {v}.T", []), (f"{v}[:, :, None] * {v}[:, None]", []), (f"@m0({v})", [nn.GRUCell(n[1], 6)]), (f"@m0({v})[0]", [nn.LSTMCell(n[1], 6)]), (f"@m0({v}, {v})", [nn.Bilinear(n[1], n[1], 5)]), (f"{v}[:, None].expand(-1, {w}.shape[1], -1)", []), (f"torch.cat([{w}, {v}[:, None].expand(-1, {w}.shape[1], -1)], -1)", []), (f"F.linear({v}, {v})", []), (f"torch.outer({v}[:, 0], {v}[0])", []), (f"F.mse_loss({v}, {v}.flip(0), reduction='none')", []), (f"F.pairwise_distance({v}, {v}.flip(0))", []), (f"{v}.repeat_interleave({w}.shape[1], 0).view({v}.shape[0], {w}.shape[1], -1)", []), (f"torch.cov({v})", []), (f"torch.corrcoef({v} + torch.eye({v}.shape[0], {v}.shape[1]))", []), (f"{v}.T.contiguous().view(-1, {v}.shape[0])", []), (f"{v}.diag_embed()", []), (f"F.kl_div({v}.log_softmax(1), {v}.flip(0).softmax(1), reduction='batchmean') + {v}", [])]
    t, l = r.choice(L); m.attempt(t, l)
