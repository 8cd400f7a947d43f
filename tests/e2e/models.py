"""Small models of many families, for the end-to-end tests. MODELS: name -> make(); make() gives (module, example args, dynamic shapes or None)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

MODELS = {}
EXPLAINED = {}  # name -> what `aotc explain` must count: (steps, operands computed in prologues)
STORED_ONCE = set()  # names of models whose weights take no more room in the artifact than in the archive
TRAIN_MODE = set()  # exported in training mode
DECOMPOSED = set()  # taken apart before they are saved
Dim = torch.export.Dim


def model(f):
    MODELS[f.__name__] = f
    return f


def explained(steps, prologues):
    def note(f):
        EXPLAINED[f.__name__] = (steps, prologues)
        return f

    return note


def in_training(f):
    TRAIN_MODE.add(f.__name__)
    return model(f)


def decomposed(f):
    DECOMPOSED.add(f.__name__)
    return model(f)


class Fn(nn.Module):
    """A function as a module; tensors given by name become buffers."""

    def __init__(self, fn, **buffers):
        super().__init__()
        self.fn = fn
        self.names = list(buffers)
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args):
        return self.fn(*args, *(getattr(self, n) for n in self.names))


@model
def relu_mul_add():
    return Fn(lambda x: x.relu() + x.relu() * 2), (torch.randn(1000, 37),), None


@model
def sizes_without_a_maximum():
    """verify takes moderate ones: at 512 of each, the first value alone has 8 GB."""
    any_size = torch.export.Dim.AUTO
    return Fn(lambda x: (x[:, None] * torch.linspace(0.5, 2, 16).view(1, 16, 1, 1)).relu().mean((2, 3))), (torch.randn(2, 9, 11),), ({0: any_size, 1: any_size, 2: any_size},)


@model
def norm_of_uneven_channels():
    """Many nearly equal terms after a few large ones: a plain running sum in f32 rounds them all to the same side."""
    x = torch.cat([torch.randn(2, 64, 9, 9), 1e-6 * torch.randn(2, 376, 9, 9)], 1)
    ln = nn.LayerNorm(440)
    return Fn(lambda x: (ln(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), F.group_norm(x[:, :, :1] + 30, 4))), (x,), None


@model
def softmax_layernorm():
    ln = nn.LayerNorm(123)
    return Fn(lambda x: ln(torch.softmax(x * 0.125, -1) + x)), (torch.randn(17, 123),), None


@model
def mlp_dynamic():
    m = nn.Sequential(nn.Linear(40, 72), nn.ReLU(), nn.Linear(72, 33), nn.GELU(), nn.Linear(33, 5))
    return m, (torch.randn(6, 40),), ({0: Dim("batch", min=1, max=64)},)


class Block(nn.Module):
    def __init__(self, d=48, heads=4, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (s.view(b, t, self.heads, d // self.heads).transpose(1, 2) for s in self.qkv(self.n1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


@model
def transformer_dynamic():
    dims = {0: Dim("batch", min=1, max=4), 1: Dim("seq", min=1, max=64)}
    return nn.Sequential(Block(), Block(causal=True)), (torch.randn(2, 19, 48),), ({0: dims[0], 1: dims[1]},)


@model
def one_row_of_many():
    """Of the last block only the rows that are read: the first one of a batch of images' patches, the last one of a text."""
    dims = {0: Dim("batch", min=1, max=4), 1: Dim("seq", min=1, max=64)}
    first, last, head = nn.Sequential(Block(), Block()), Block(causal=True), nn.Linear(48, 100)

    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last, self.head = first, last, head

        def forward(self, x):
            return self.head(self.first(x)[:, 0]), self.head(self.last(x))[:, -1:]

    return Rows(), (torch.randn(2, 19, 48),), ({0: dims[0], 1: dims[1]},)


@model
def transformer_bf16():
    return Block().to(torch.bfloat16), (torch.randn(2, 16, 48).to(torch.bfloat16),), None


class Outputs(nn.Module):
    """A recurrent network's sequence and last states, side by side."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        out, last = self.net(x)
        return (out, *last) if isinstance(last, tuple) else (out, last)


@model
def indexing():
    def f(x, i, mask):
        picked = x[:, i] + x.index_select(1, i)
        gathered = x.gather(1, i.unsqueeze(0).expand(x.shape[0], -1))
        top, where = x.topk(3, dim=-1)
        order = torch.sort(x, dim=1, descending=True)
        filled = x.masked_fill(mask, -1.0).cumsum(1)
        return picked, gathered, top, where, order.values, order.indices, filled, x.argmax(1), torch.where(mask, x, -x)

    return Fn(f), (torch.randn(5, 12), torch.tensor([3, 0, 11, 7]), torch.rand(5, 12) > 0.5), None


@model
def equal_elements():
    """Of equal elements any may come first; all see the same: experts whose router gives all the same, many zeros."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.experts = nn.Parameter(torch.zeros(4, 16)), nn.Parameter(torch.randn(4, 16, 16))

        def forward(self, x):
            weight, best = torch.softmax(F.linear(x, self.gate), -1).topk(2, -1)
            y = (torch.einsum("bi,bkio->bko", x, self.experts[best]) * weight[..., None]).sum(1)
            z = F.relu(x - 0.5)
            return y, *z.sort(1), z.argsort(0, descending=True), *z.kthvalue(3, 1), *z.median(1), *z.nanmedian(0, keepdim=True), z.topk(5, 1, sorted=False)[1]

    return Net(), (torch.randn(12, 16),), ({0: Dim("n", min=2, max=40)},)


@model
def integers_and_bools():
    def f(a, b):
        return a // b, a % b, a & b, (a > b) | (a == 3), (a * b).sum(1), (a > 0).any(1), a.float().mean(), a.prod(1), a.clamp(-2, 5)

    return Fn(f), (torch.randint(-9, 9, (6, 11)), torch.randint(1, 7, (6, 11))), None


@model
def kv_cache_state():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 8))

        def forward(self, x):
            self.cache.mul_(0.5).add_(x)
            return self.cache.sum(0) + x.mean(0)

    return Cache(), (torch.randn(4, 8),), None


@model
def empty_and_scalar():
    return Fn(lambda x, s: (x * s, x.sum() + s, x[:0] + 1)), (torch.randn(4, 3), torch.tensor(2.5)), None


@model
def products_of_one_column():
    linear = nn.Linear(24, 1)
    return Fn(lambda x, v: (torch.sigmoid(linear(x)) + v[:, None], torch.relu(x @ x[0]) + v)), (torch.randn(19, 24), torch.randn(19)), None


@model
def writes_by_index():
    def f(x, rows, i, j):
        put = x.clone()
        put[:, i] = rows
        return put, x.index_add(0, i, rows.t()), x.index_put((i, j), rows[0], accumulate=True), x.index_copy(1, j, rows)

    return Fn(f), (torch.randn(8, 8), torch.randn(8, 3), torch.tensor([5, 0, 2]), torch.tensor([1, 7, 3])), None


@model
def attention_to_nothing():
    def f(x, mask):
        hidden = x.masked_fill(mask[:, None, :], torch.finfo(x.dtype).min)
        return torch.softmax(x @ x.transpose(1, 2) / 4 + torch.where(mask, 0.0, torch.finfo(x.dtype).min)[:, :, None], -1) @ x, hidden

    return Fn(f), (torch.randn(2, 16, 16), torch.tensor([[True] * 9 + [False] * 7, [True] * 16])), None


@model
def ranges_of_symbols():
    def f(x):
        n = x.shape[1]
        return torch.arange(n, -n, -1.0, dtype=torch.int64).float() * 0.5, torch.arange(1, 2 * n + 1, 2).to(x.dtype) + x, torch.arange(n, 0, -1) * 2.0

    return Fn(f), (torch.randn(2, 9),), ({1: Dim("length", min=2, max=20)},)


@model
def product_of_three_batch_dims():
    def f(x, y):
        return torch.einsum("bclhn,bcshn->bclsh", x, y), x.permute(3, 1, 0, 2, 4) @ y.permute(3, 1, 0, 4, 2), torch.einsum("bclhn,hn->bclh", x, y[0, 0, 0])

    return Fn(f), (torch.randn(2, 3, 4, 5, 6), torch.randn(2, 3, 7, 5, 6)), None


@model
def windowed_attention():
    def f(x, mask, bias):
        windows, t, d = x.shape
        q, k, v = (y.view(windows, t, 2, d // 2).transpose(1, 2) for y in (x, x * 0.5, x + 1))
        s = q @ k.transpose(-1, -2) / 3 + bias
        s = s.view(windows // 4, 4, 2, t, t) + mask[None, :, None]
        return (s.view(windows, 2, t, t).softmax(-1) @ v).transpose(1, 2).reshape(windows, t, d)

    return Fn(f), (torch.randn(8, 9, 16), torch.randn(4, 9, 9), torch.randn(2, 9, 9)), None


@model
def grids_sampled():
    """Images of any number, and volumes, at places in, on the edge of and far outside of them."""

    def f(x, g, v, h):
        modes = [("bilinear", "zeros", False), ("bilinear", "border", True), ("nearest", "reflection", False), ("bicubic", "zeros", True)]
        far = torch.cat([g * 3, g * 1e9, g.round()], 1)
        sampled = [F.grid_sample(x, far, mode, padding, align) for mode, padding, align in modes]
        return *sampled, F.grid_sample(v, h, align_corners=False), F.grid_sample(v, h, padding_mode="border", align_corners=True)

    args = torch.randn(2, 3, 9, 21), torch.rand(2, 5, 17, 2) * 2 - 1, torch.randn(1, 2, 4, 5, 6), torch.rand(1, 3, 4, 5, 3) * 3 - 1.5
    batch = {0: Dim("batch", min=1, max=16)}
    return Fn(f), args, (batch, batch, None, None)


@model
def products_of_float8():
    """Rows that are rounded to 8 bits by such weights, with a scale each and one for all, and what 8 bits are cast to and from."""
    e4, e5 = torch.float8_e4m3fn, torch.float8_e5m2

    def f(x, w, v, scales, bias):
        largest = x.abs().amax(-1, keepdim=True).float()
        rows = torch._scaled_mm((x / (largest / 448)).to(e4), w.t(), largest / 448, scales, bias, out_dtype=torch.bfloat16)
        tensor = torch._scaled_mm(x.to(e5), v.t(), torch.tensor(0.5), scales[0, 0], out_dtype=torch.float32)
        return rows, tensor, x.to(e4).float(), torch.cat([x * 300, x * 3000]).to(e4).to(e5).bfloat16()

    weights = {"w": (torch.randn(40, 48) * 50).to(e4), "v": torch.randn(7, 48).to(e4), "scales": torch.rand(1, 40), "bias": torch.randn(40).bfloat16()}
    return Fn(f, **weights), (torch.randn(6, 48),), ({0: Dim("rows", min=2, max=64)},)


@model
def unused_random_numbers():
    def f(x):
        torch.rand([])  # as layer drop draws, in evaluation too
        noise = torch.randn_like(x) * 2
        return x + 1 if noise is not None else x

    return Fn(f), (torch.randn(3, 5),), None


@model
def fake_quantized():
    return Fn(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.125, 3, -128, 127)), (torch.randn(6, 40) * 9,), None


@model
def composites_without_rule():
    """Operators that have no rule of their own: taken apart at import."""

    def f(x, y):
        gy, gx = torch.gradient(x, spacing=0.5)
        z = x.clone()
        z.fill_diagonal_(2.0)
        half = torch.fft.hfft(torch.view_as_complex(y))
        a, b = torch._foreach_mul([x, gx], 1.5)
        padded = nn.utils.rnn.pad_sequence([x[:3], x[:5] + b[1:6]], batch_first=True, padding_value=-1.0)
        return gy * z, half, a + b, padded

    return Fn(f), (torch.randn(9, 9), torch.randn(4, 7, 2)), None


@model
def small_matrices_dynamic():
    """Factorisations and what is solved with them, over a batch of any size."""

    def f(x, b):
        spd = x @ x.mT + torch.eye(5)
        q, r = torch.linalg.qr(x)
        sign, size = torch.linalg.slogdet(x)
        p, l, u = torch.linalg.lu(x)
        half = torch.linalg.cholesky(spd)
        return (torch.linalg.inv(spd), torch.linalg.solve(spd, b), torch.det(x), sign, size, q, r, p, l, u, half, torch.cholesky_solve(b, half),
                torch.linalg.solve_triangular(half, b, upper=False), torch.linalg.matrix_power(spd, -2), torch.linalg.householder_product(x[..., :4], b[..., 0, :].sigmoid()), torch.orgqr(x, b[..., 0]))

    return Fn(f), (torch.randn(3, 5, 5), torch.randn(3, 5, 2)), ({0: Dim("batch", min=1, max=16)}, {0: Dim("batch", min=1, max=16)})


@model
def linear_systems_dynamic():
    """LU factors and what is solved with them, of any size; small matrices lie beside each other in vectors."""

    def f(x, b, few):
        shifted = x + 3 * torch.eye(x.shape[-1]).flip(0)
        sign, size = torch.linalg.slogdet(shifted)
        p, l, u = torch.linalg.lu(few)
        return (torch.linalg.solve(shifted, b), torch.linalg.inv(shifted.double()), sign, size, p, l, u, torch.linalg.inv(few[..., :4] + 4 * torch.eye(4)),
                torch.linalg.det(few[..., :4]), torch.linalg.solve(shifted[0], b[0, :, 0]))

    n = Dim("n", min=2, max=300)
    return Fn(f), (torch.randn(2, 40, 40), torch.randn(2, 40, 3), torch.randn(19, 4, 6)), ({1: n, 2: n}, {1: n}, None)


@model
def gaussian_process_dynamic():
    """A posterior over any number of points, of a Cholesky factor and what is solved with it; and which of some matrices have one."""

    def f(x, y, at):
        def kernel(a, b):
            return torch.exp(-0.5 * (a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1))

        k = kernel(x, x)
        eye = torch.eye(x.shape[0])
        half = torch.linalg.cholesky(k + 0.1 * eye)
        upper = torch.linalg.cholesky(k + 0.1 * eye, upper=True)
        mean = kernel(at, x) @ torch.cholesky_solve(y.unsqueeze(-1), half)
        spread = torch.linalg.solve_triangular(half, kernel(x, at), upper=False)
        shifted = k - torch.tensor([-0.5, 0.3, 3.0]).reshape(3, 1, 1) * eye
        return (mean, 1 - (spread * spread).sum(0), half, upper, torch.linalg.cholesky_ex(shifted).info,
                torch.linalg.cholesky(k.double() + eye.double()), torch.cholesky_solve(y.unsqueeze(-1), upper, upper=True), half.diagonal().log().sum())

    n = Dim("n", min=2, max=300)
    return Fn(f), (torch.randn(20, 3) * 2, torch.randn(20), torch.randn(7, 3)), ({0: n}, {0: n}, None)


@model
def antialiased_to_one_column():
    """Eager repeats a row in such results; the reference of `aotc verify` does not."""

    def f(x):
        resize = lambda size, **how: F.interpolate(x, size=size, antialias=True, **how)
        return resize([3, 1], mode="bilinear"), resize([2, 1], mode="bicubic", align_corners=True), F.interpolate(x, scale_factor=(0.5, 0.25), mode="bilinear", antialias=True)

    return Fn(f), (torch.randn(2, 3, 8, 4),), None


@in_training
def batch_norm_in_training():
    """The statistics of the batch; running ones are buffers that the operator writes, though its schema does not say so."""

    class Norms(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.each = nn.BatchNorm1d(6), nn.BatchNorm2d(4, momentum=0.3), nn.InstanceNorm1d(6, track_running_stats=True)

        def forward(self, x, y):
            return self.one(x), self.two(y), self.each(x) + self.one.running_mean[:, None]

    return Norms(), (torch.randn(3, 6, 5) * 2 + 1, torch.randn(2, 4, 3, 3)), None


import models_complex, models_control, models_convolutions, models_detection, models_embeddings, models_found, models_fourier, models_losses, models_masks, models_matrices, models_norms, models_products, models_quantised, models_random, models_recurrent, models_special, models_strips, models_weights, models_writes  # noqa: E401, E402, F401, their models join MODELS
