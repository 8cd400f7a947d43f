"""Attention for the GPU tests. The cases join CASES of cases.py."""
import torch
import torch.nn.functional as F

from cases import ALL, CASES, Dim, Fn, OPTIONS, R, REDUCED, RI, TYPES, case_of, each


sdpa = F.scaled_dot_product_attention


def attention_case(name, f, q, kv, types=ALL, extra=lambda t: (), v=None):
    for t in types:
        case_of(f"attention_{name}_{t}", f, lambda t=t: (R(*q).to(TYPES[t]), R(*kv).to(TYPES[t]), R(*(v or kv)).to(TYPES[t]), *extra(TYPES[t])))


attention_case("plain", lambda q, k, v: sdpa(q, k, v), (2, 3, 70, 32), (2, 3, 130, 32))
attention_case("causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), (1, 2, 77, 64), (1, 2, 77, 64))
CASES["attention_causal_tf32"] = CASES["attention_causal_f32"]
OPTIONS["attention_causal_tf32"], REDUCED["attention_causal_tf32"] = ["--f32-matmul", "high"], torch.bfloat16
attention_case("odd", lambda q, k, v: sdpa(q, k, v, scale=0.3), (1, 2, 5, 23), (1, 2, 19, 23), v=(1, 2, 19, 41))
attention_case("bool", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), (2, 2, 17, 40), (2, 2, 45, 40), extra=lambda t: (torch.rand(2, 1, 17, 45) > 0.4,), types=("f32", "bf16", "f64"))
attention_case("float", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), (2, 2, 17, 40), (2, 2, 45, 40), extra=lambda t: (R(17, 45).to(t),), types=("f32", "f16", "f64"))
attention_case("gqa", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), (2, 6, 9, 64), (2, 2, 33, 64), types=("f32", "bf16"))
attention_case("decode", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), (1, 4, 1, 64), (1, 2, 700, 64), types=("f32", "f16"))
attention_case("wide", lambda q, k, v: sdpa(q, k, v), (1, 1, 18, 256), (1, 1, 40, 256), types=("f32", "bf16"))
attention_case("wider", lambda q, k, v: sdpa(q, k, v), (1, 1, 18, 300), (1, 1, 40, 300), types=("f32", "f16"))
attention_case("layout", lambda q, k, v: sdpa(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2).reshape(q.shape[0], q.shape[1], -1), (2, 21, 3, 32), (2, 37, 3, 32),
               types=("f32", "bf16"))
# A row whose every key is hidden by the lowest number attends to all alike; one that sees no key gives zeros, or NaN as a softmax.
attention_case("lowest", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), (1, 2, 4, 16), (1, 2, 20, 16), types=("f32",),
               extra=lambda t: (torch.full((4, 20), torch.finfo(torch.float32).min) * torch.tensor([[1.0], [0.0], [1.0], [0.0]]),))


attention_case("nowhere", lambda q, k, v, m: (sdpa(q, k, v, attn_mask=m), torch.softmax(q @ k.mT * 0.25 + torch.where(m, 0.0, -torch.inf).to(q.dtype), -1) @ v),
               (1, 2, 4, 16), (1, 2, 20, 16), types=("f32", "bf16", "f64"), extra=lambda t: (torch.arange(4).view(4, 1) > torch.arange(20) / 3,))


def with_sinks(shifted=True):
    """As transformers writes it (gpt-oss): a sink of each head takes its share of a row's weights and gives nothing. mask: bool, or what is added."""
    def f(q, k, v, sinks, mask=None):
        k, v = (x[:, :, None].expand(-1, -1, q.shape[1] // k.shape[1], -1, -1).flatten(1, 2) for x in (k, v))
        scores = q @ k.mT * q.shape[-1]**-0.5
        if mask is not None:
            scores = scores + (torch.where(mask, 0.0, -torch.inf).to(q.dtype) if mask.dtype == torch.bool else mask)
        scores = torch.cat([scores, sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], 1)], -1)
        scores = scores - scores.amax(-1, keepdim=True) if shifted else scores
        return torch.softmax(scores, -1)[..., :-1] @ v

    return f


def sinks_case(name, q, kv, types, extra=lambda t: (), sinks=None, **options):
    attention_case(f"sinks_{name}", with_sinks(**options), q, kv, types, lambda t: ((R(q[1]) * 2 if sinks is None else torch.tensor(sinks)).to(t), *extra(t)))


sinks_case("plain", (2, 4, 70, 64), (2, 2, 130, 64), ("f32", "f16", "bf16", "f64"))
sinks_case("decode", (1, 8, 1, 64), (1, 2, 700, 64), ("f32", "f16"), lambda t: (torch.arange(700).view(1, 1, 1, 700) > 300,))
sinks_case("window", (1, 4, 70, 32), (1, 2, 512, 32), ("f16", "f32"), lambda t: ((torch.arange(512) - torch.arange(70).view(1, 1, 70, 1) - 200).abs() < 40,))
sinks_case("float", (1, 4, 70, 80), (1, 2, 90, 80), ("f16", "bf16"), lambda t: (R(1, 1, 70, 90).to(t),), shifted=False)
# Rows that see no key, sinks that are far from the scores, infinite or NaN.
sinks_case("edges", (1, 6, 9, 32), (1, 3, 40, 32), ("f32", "bf16", "f64"), lambda t: (torch.arange(9).view(1, 1, 9, 1) > torch.arange(40) / 3,),
           [torch.nan, torch.inf, -torch.inf, 300.0, -300.0, 0.5])
# Large enough to be products and a softmax of their own (below).
sinks_case("opened", (4, 8, 256, 64), (4, 8, 320, 64), ("f32",))


# Views of one projection, keys hidden for all rows alike, by bool and by number; several blocks of keys, long and short rows.
each({"f16": torch.float16, "bf16": torch.bfloat16}, lambda name, t: case_of(f"attention_together_{name}", lambda x: sdpa(*(t.transpose(1, 2) for t in x.unbind(2))).transpose(1, 2).flatten(2),
                                              lambda: (R(2, 150, 3, 2, 64).to(t),)))
attention_case("keys_bool", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), (2, 2, 100, 64), (2, 2, 300, 64), extra=lambda t: (torch.rand(2, 1, 1, 300) > 0.4,), types=("f16",))
attention_case("keys_float", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), (2, 2, 100, 64), (2, 2, 300, 64), extra=lambda t: (R(2, 1, 1, 300).to(t),), types=("bf16",))
attention_case("channels", lambda q, k, v: sdpa(q, k, v), (1, 2, 70, 80), (1, 2, 90, 80), v=(1, 2, 90, 136), types=("f16",))
attention_case("causal_long", lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), (2, 4, 500, 128), (2, 2, 500, 128), types=("bf16",))
# More tiles than processors have blocks of two warpgroups: three of them, in turns.
attention_case("many", lambda q, k, v: sdpa(q, k, v), (2, 66, 190, 16), (2, 66, 190, 16), types=("f16",))


def far_scores(name, t, size, scale=0.5):
    """Scores far beyond what exponents by base 2 hold, exact in every order: one key has all the weight, or equal ones share it."""
    whole = lambda *d: RI(-9, 9, d).to(TYPES[t])
    case_of(f"attention_far_{name}_{t}", lambda q, k, v: (F.scaled_dot_product_attention(q, k, v, scale=scale), F.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=True)),
            lambda: (whole(2, 3, 70, 64) * size, whole(2, 3, 70, 64), R(2, 3, 70, 64).to(TYPES[t])), lambda: (-whole(2, 3, 70, 64).abs() * size, whole(2, 3, 70, 64).abs() + 1, R(2, 3, 70, 64).to(TYPES[t])))


case_of("attention_overflow_f32", lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        lambda: (R(2, 2, 9, 64).sign() * 2.0**122, torch.ones(2, 2, 17, 64) * torch.arange(1, 18)[:, None] / 16, R(2, 2, 17, 64)))
for t, sizes in {"f32": (512, 2.0**114), "bf16": (256, 2.0**114), "f16": (256,), "f64": (2.0**100,)}.items():
    for size, name in zip(sizes, ("", "huge")):
        far_scores(name or "large", t, size)
    far_scores("scaled", t, 256 if t == "f16" else 2.0**60, 0.3)  # products by the scale are rounded
# Rows of odd lengths, whose kernel is another one.
case_of("attention_far_odd_bf16", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
        lambda: (RI(-9, 9, (9, 7)).bfloat16() * 2.0**60, RI(-9, 9, (9, 7)).bfloat16(), R(9, 7).bfloat16()))
case_of("attention_no_channels_f32", lambda q, v: F.scaled_dot_product_attention(q, q, v), lambda: (torch.zeros(2, 3, 1, 0), R(2, 3, 1, 5)))
# What is read at indices is read again after the rows' maximum is known.
case_of("gather_twice_f16", lambda x, t: torch.logsumexp(F.nll_loss(x, t, reduction="none"), -1), lambda: (R(19, 7).half(), RI(0, 7, (19,))))


def edges(t):
    """Pairs of the numbers where integers run over."""
    least = torch.iinfo(t).min
    some = torch.tensor([least, least + 1, -5, -1, 0, 1, 7, -1 - least], dtype=t)
    return some.repeat(8), some.repeat_interleave(8)


for t in (torch.int8, torch.int16, torch.int32, torch.int64):
    case_of(f"integers_that_run_over_i{torch.iinfo(t).bits}",
            lambda x, y: (x.abs() % 5 + 1, torch.div(y, x.abs() % 5 + 1, rounding_mode="floor"), y % (x.abs() % 5 + 1), -x // 3, x * 3 // 7, x.abs() < 0,
                          x + 1 > x, (x - y) % 11), lambda t=t: edges(t))


# A short row of doubles that a thread takes whole beside one of bytes, which is no multiple of the words that loads take.
for columns in (10, 20, 6):
    case_of(f"short_row_whole_{columns}", lambda x, m: F.softmax(F.unfold(x, 1, stride=2).masked_fill(m, -9.0) * 0.5, -3) + F.unfold(x, 1, stride=2).tanh(),
            lambda n=columns: (R(1, 3, 4, n).double(), R(1, 3, n) > 0))


# Large enough that products and a softmax of their own take less (passes/open_attention); some rows may look at nothing.
def opened(mask):
    return lambda: (R(4, 8, 256, 64), R(4, 8, 320, 64), R(4, 8, 320, 48), *mask())


def nowhere():
    at = torch.rand(4, 1, 256, 320) < 0.7
    at[1, :, 5], at[3, :, 100:140] = False, False
    return (at,)


case_of("attention_opened_plain_f32", lambda q, k, v: sdpa(q, k, v), opened(lambda: ()))
case_of("attention_opened_float_f32", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m, scale=0.3), opened(lambda: (R(1, 8, 256, 320),)))
case_of("attention_opened_bool_f32", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), opened(nowhere))


def attention_lengths(name, t):
    def make():
        from models import Fn
        seq, past = Dim("seq", min=1, max=200), Dim("past", min=1, max=300)
        samples = [tuple(R(2, 2, n, 32).to(t) for n in (l, s, s)) for l, s in ((40, 70), (1, 300), (130, 5))]
        return Fn(lambda q, k, v: sdpa(q, k, v)), samples, ({2: seq}, {2: past}, {2: past})

    CASES[name] = make


attention_lengths("attention_dynamic", torch.float32)
attention_lengths("attention_dynamic_f16", torch.float16)


# Many keys, most of them hidden (passes/mask_ranges): a cache that is not full, windows, padding, masks with holes, rows that see nothing.
def shown(kind):
    def f(q, k, v, at):
        key = torch.arange(k.shape[2])
        row = at[..., None]  # [L] or [B, L]
        if kind == "cache":
            m = key <= row
        elif kind == "window":
            m = (key <= row) & (key > row - 40)
        elif kind == "holes":
            m = (key <= row) & (key % 7 != 3)
        elif kind == "keys":
            m = (key < row.amax(-2, keepdim=True)).expand(*row.shape[:-2], 1, -1)
        else:
            m = (key < row - 300) | (key > row + 500)
        m = m[:, None] if m.dim() == 3 else m[None, None]
        return sdpa(q, k, v, attn_mask=m, enable_gqa=True)

    return f


def shown_case(kind, name, t, q, kv, dim, at, most):
    def make():
        seq = Dim("seq", min=1, max=most)
        samples = [(R(q[0], q[1], p.shape[-1], dim).to(t), R(kv[0], kv[1], kv[2], dim).to(t), R(kv[0], kv[1], kv[2], dim).to(t), p) for p in at]
        return Fn(shown(kind)), samples, ({2: seq}, {}, {}, {at[0].dim() - 1: seq})

    CASES[f"attention_shown_{kind}_{name}"] = make


A = torch.arange
for kind in ("cache", "window", "holes", "keys", "outside"):
    for name, t in (("bf16", torch.bfloat16), ("f16", torch.float16), ("f32", torch.float32)):
        shown_case(kind, name, t, (1, 8), (1, 2, 1024), 64, [A(40, 110), A(700, 701), A(3, 10), A(0, 1024), A(900, 1000), torch.tensor([5, 800, 20]), A(-3, 2)], 1024)
    shown_case(kind, "batch_bf16", torch.bfloat16, (3, 4), (3, 4, 640), 128,
               [torch.stack([A(n) + s for s in (0, 200, 500)]) for n in (9, 1, 64, 130)], 640)
    shown_case(kind, "long_bf16", torch.bfloat16, (2, 6), (2, 2, 1100), 96, [A(1000), A(500, 800)], 1000)
for kind, t in (("cache", "bf16"), ("holes", "f32"), ("window", "f16")):
    shown_case(kind, f"small_{t}", TYPES[t], (1, 4), (1, 2, 512), 32, [A(5, 14), A(300, 301), A(-2, 1)], 20)


class Cached(torch.nn.Module):
    """Writes rows of keys and values to its caches, then attends to those up to a query's position. by_rows: positions lie before heads."""

    def __init__(self, t, heads, length, channels, value_channels, by_rows, sinks=0):
        super().__init__()
        self.by_rows = by_rows
        self.sinks = torch.nn.Parameter(R(sinks).to(t)) if sinks else None
        for name, c in (("keys", channels), ("values", value_channels)):
            self.register_buffer(name, torch.zeros((1, length, heads, c) if by_rows else (1, heads, length, c), dtype=t))

    def forward(self, q, k, v, at, by):
        caches = []
        for cache, rows in ((self.keys, k), (self.values, v)):
            cache.index_copy_(1 if self.by_rows else 2, at, rows.transpose(1, 2) if self.by_rows else rows)
            caches.append(cache.transpose(1, 2) if self.by_rows else cache)
        m = (torch.arange(caches[0].shape[2]) <= by[:, None])[None, None]
        if self.sinks is not None:
            return with_sinks()(q, *caches, self.sinks, m)
        return sdpa(q, *caches, attn_mask=m, enable_gqa=True)


def held_rows(stored, t, *dims):
    """Rows that --kv-cache stores without a loss: 127 times a power of two is the largest of each; numbers of float8."""
    if stored == "fp8":
        return R(*dims).to(torch.float8_e4m3fn).to(t)
    codes = RI(-127, 128, dims)
    codes[..., :1] = 127
    return (codes * 2.0 ** RI(-9, -4, (*dims[:-1], 1))).to(t)


def cached_case(name, stored, t, heads, groups, length, channels, lengths, value_channels=None, by_rows=False, decode=False, sinks=False):
    """lengths: of the written rows; decode: one query, behind the last of them."""
    def make():
        n = Dim("n", min=1, max=length)
        samples = []
        for rows in lengths:
            at = torch.arange(rows)
            by = at[-1:] if decode else at
            samples.append((R(1, heads, len(by), channels).to(TYPES[t]), held_rows(stored, TYPES[t], 1, groups, rows, channels),
                            held_rows(stored, TYPES[t], 1, groups, rows, value_channels or channels), at, by))
        q = {} if decode else {2: n}
        return Cached(TYPES[t], groups, length, channels, value_channels or channels, by_rows, heads * sinks), samples, (q, {2: n}, {2: n}, {0: n}, {} if decode else {0: n})

    full = f"attention_kv_{name}_{stored}_{t}"
    CASES[full], OPTIONS[full] = make, ["--kv-cache", stored]


for stored in ("int8", "fp8"):
    for t in ("bf16", "f16", "f32"):
        cached_case("decode", stored, t, 8, 2, 1024, 128, (700, 1, 1024, 65), decode=True)
        cached_case("decode_rows", stored, t, 4, 4, 600, 64, (300, 40), by_rows=True, decode=True)
        cached_case("odd", stored, t, 6, 2, 200, 40, (9, 150, 1), value_channels=24)
        cached_case("prompt", stored, t, 4, 2, 512, 64, (200, 17, 512))
        cached_case("sinks", stored, t, 8, 2, 256, 64, (200, 1), decode=True, sinks=True)
        cached_case("wider", stored, t, 2, 1, 96, 272, (40, 3))
    for t in ("bf16", "f16"):
        cached_case("long_sinks", stored, t, 64, 32, 200, 64, (190, 66), sinks=True)
        cached_case("long", stored, t, 64, 32, 200, 64, (190, 66), by_rows=t == "f16")  # on sm_90a with Hopper's instructions
        cached_case("long_odd", stored, t, 48, 48, 160, 80, (150, 160), value_channels=96)
