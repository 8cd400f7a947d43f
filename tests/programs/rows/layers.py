"""Normalisations, attention, recurrences, bags."""
import torch

from generator import BOOL, FLOATS, Skip, row


@row("layer norm", 4)
def layer_norm(g):
    x = g.tensor(FLOATS, (1, 4))
    k = g.int(1, min(2, x.rank))
    if g.dynamic and x.leaf is None and g.chance(0.5):
        raise Skip
    dims = [g.dim(x, d) for d in range(x.rank - k, x.rank)]
    shape = f"({', '.join(dims)},)"
    weight = g.leaf(x.dtype, dims) if g.chance(0.7) else None
    if g.chance(0.25):
        return f"F.rms_norm({x}, {shape}, {weight}{g.choice(['', ', eps=1e-5'])})"
    bias = g.leaf(x.dtype, dims) if weight and g.chance(0.7) else None
    return f"F.layer_norm({x}, {shape}, {weight}, {bias}{g.choice(['', ', 1e-3'])})"


@row("norms of channels", 3)
def channel_norms(g):
    x = g.tensor(FLOATS, (2, 4), where=lambda v: v.shape[1] > 0)
    c = g.dim(x, 1)
    affine = [g.leaf(x.dtype, [c]), g.leaf(x.dtype, [c])] if g.chance(0.7) else [None, None]
    kind = g.int(0, 3)
    if kind == 0:
        groups = g.choice([k for k in (1, 2, 3, 4) if x.shape[1] % k == 0]) if not g.dynamic else 1
        return f"F.group_norm({x}, {groups}, {affine[0]}, {affine[1]})"
    if kind == 1 and x.rank >= 3:
        return f"F.instance_norm({x}, weight={affine[0]}, bias={affine[1]})"
    mean, var = g.leaf(x.dtype, [c], "normal"), g.leaf(x.dtype, [c], "positive")
    return f"F.batch_norm({x}, {mean}, {var}, {affine[0]}, {affine[1]}, False, 0.1, {g.choice(['1e-5', '1e-3'])})"


@row("attention", 4)
def attention(g):
    dtype = g.dtype(FLOATS)
    heads = [g.dim_text() if g.chance(0.5) else str(g.int(1, 3)) for _ in range(g.choice([0, 1, 2, 2]))]
    q, k, e = g.dim_text(), g.dim_text(), g.dim_text() if g.chance(0.4) else str(g.choice([4, 8, 16, 17, 32]))
    kind = g.int(0, 5)
    kv = k
    if kind == 1:
        kv = q
    query, key = g.leaf(dtype, [*heads, q, e]), g.leaf(dtype, [*heads, kv, e])
    value = g.leaf(dtype, [*heads, kv, e if g.chance(0.8) else str(g.int(1, 9))])
    scale = g.choice(["", "", ", scale=0.3"])
    if kind == 1:
        return f"F.scaled_dot_product_attention({query}, {key}, {value}, is_causal=True{scale})"
    if kind == 2:
        mask = g.leaf(torch.bool, [q, kv] if g.chance(0.6) else [*heads, q, kv])
        return f"F.scaled_dot_product_attention({query}, {key}, {value}, attn_mask={mask}{scale})"
    if kind == 3:
        mask = g.leaf(dtype, [q, kv] if g.chance(0.6) else [*heads, q, kv])
        return f"F.scaled_dot_product_attention({query}, {key}, {value}, attn_mask={mask}{scale})"
    if kind == 4:
        return f"torch.softmax({query} @ {key}.transpose(-1, -2) * 0.25, -1) @ {value}"
    return f"F.scaled_dot_product_attention({query}, {key}, {value}{scale})"


@row("attention with grouped heads", 1)
def grouped(g):
    dtype = g.dtype(FLOATS)
    b, h, q, k, e = g.dim_text(), g.int(1, 2), g.dim_text(), g.dim_text(), g.choice([4, 8, 16])
    query, key, value = g.leaf(dtype, [b, 2 * h, q, e]), g.leaf(dtype, [b, h, k, e]), g.leaf(dtype, [b, h, k, e])
    return f"F.scaled_dot_product_attention({query}, {key}, {value}, enable_gqa=True)"


@row("recurrence", 1)
def recurrence(g):
    dtype = g.choice(FLOATS[:1] * 3 + FLOATS[2:])
    t, b, i, h = g.int(1, 6), g.int(1, 3), g.int(1, 6), g.int(1, 6)
    gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1}
    name = g.choice(gates)
    n = gates[name]
    x = g.leaf(dtype, [t, b, i], "normal")
    state = g.leaf(dtype, [1, b, h], "normal")
    weights = [g.leaf(dtype, d, "normal", role="const") for d in ([n * h, i], [n * h, h], [n * h], [n * h])]
    states = f"({state}, {g.leaf(dtype, [1, b, h], 'normal')})" if name == "lstm" else str(state)
    text = f"torch.{name}({x}, {states}, [{', '.join(map(str, weights))}], True, 1, 0.0, False, False, False)"
    return text, 3 if name == "lstm" else 2


@row("recurrent cell", 0.7)
def cell(g):
    dtype = g.choice(FLOATS[:2])
    b, i, h = g.dim_text(), g.int(1, 6), g.int(1, 6)
    x, state = g.leaf(dtype, [b, i]), g.leaf(dtype, [b, h])
    weights = lambda n: ", ".join(str(g.leaf(dtype, d)) for d in ([n * h, i], [n * h, h], [n * h], [n * h]))
    if g.chance(0.5):
        return f"torch.gru_cell({x}, {state}, {weights(3)})"
    return f"torch.lstm_cell({x}, ({state}, {g.leaf(dtype, [b, h])}), {weights(4)})", 2


@row("embedding bag", 0.7)
def bag(g):
    rows, e, b, n = g.int(1, 9), g.int(1, 6), g.dim_text(), g.int(1, 5)
    table = g.leaf(g.choice(FLOATS[:1]), [rows, e])
    return f"F.embedding_bag({g.index([b, n], str(rows))}, {table}, mode={g.choice(['sum', 'mean', 'max'])!r})"


@row("fourier", 1)
def fourier(g):
    n = g.int(1, 12)
    x = g.leaf(g.choice(FLOATS[:2]), [str(g.int(1, 3)), str(n)], "normal")
    norm = g.choice(["", ", norm='ortho'"])
    return g.choice([f"torch.fft.rfft({x}{norm}).abs()", f"torch.view_as_real(torch.fft.fft({x}{norm}))", f"torch.fft.irfft(torch.fft.rfft({x}), {n})", f"torch.fft.ifft(torch.fft.fft({x})).real",
                     f"torch.view_as_real(torch.fft.rfft2({x}{norm}))", f"torch.fft.fftshift({x})"])


@row("dropout outside of training", 0.5)
def dropout(g):
    return f"F.dropout({g.tensor(FLOATS)}, 0.5, training=False) * 2"


@row("block", 2)
def block(g):
    """What models are made of, in one statement's text."""
    x = g.tensor(FLOATS, (2, 3))
    e = g.dim(x, -1)
    kind = g.int(0, 3)
    if kind == 0:
        return f"F.layer_norm({x} + F.gelu({x}), ({e},))"
    if kind == 1:
        return f"{x} * torch.rsqrt({x}.pow(2).mean(-1, keepdim=True) + 1e-6) * {g.leaf(x.dtype, [e])}"
    if kind == 2:
        return f"torch.cat([-{x}[..., {e} // 2:], {x}[..., :{e} // 2]], -1) * {g.like(x)} + {x}"
    return f"F.silu({x}) * {g.like(x)}"
