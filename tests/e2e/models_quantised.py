"""Programs as PyTorch's export quantisation leaves them: dequantised operands of products and convolutions, results quantised again."""
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  (defines quantized_decomposed)
import torch.nn as nn
import torch.nn.functional as F

from models import STORED_ONCE, Dim, Fn, model

Q = torch.ops.quantized_decomposed
U8, I8 = (0, 255, torch.uint8), (-128, 127, torch.int8)


def grid(x, scale, zero, of=U8):
    return Q.dequantize_per_tensor(Q.quantize_per_tensor(x, scale, zero, *of), scale, zero, *of)


class Weight(nn.Module):
    """Signed bytes with a scale a row."""

    def __init__(self, *dims):
        super().__init__()
        self.register_buffer("q", torch.randint(-127, 128, dims, dtype=torch.int8))
        self.register_buffer("scale", torch.rand(dims[0]) * 0.01 + 0.001)
        self.register_buffer("zero", torch.zeros(dims[0], dtype=torch.int64))
        self.bias = nn.Parameter(torch.randn(dims[0]))

    def forward(self):
        return Q.dequantize_per_channel(self.q, self.scale, self.zero, 0, -127, 127, torch.int8)


class Linears(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.of, self.a, self.b = of, Weight(70, 45), Weight(33, 70)

    def forward(self, x):
        y = F.relu(F.linear(grid(x, 0.02, 17, self.of), self.a(), self.a.bias))
        return F.linear(grid(y, 0.03, -3 if self.of is I8 else 0, self.of), self.b(), self.b.bias)


@model
def quantised_linears():
    return Linears(U8), (torch.randn(4, 9, 45),), ({0: Dim("batch", min=1, max=8)},)


@model
def quantised_linears_of_signed_rows():
    return Linears(I8), (torch.randn(5, 45),), None


class DynamicLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = Weight(40, 64)

    def forward(self, x):
        scale, zero = Q.choose_qparams.tensor(x, 0, 255, 2.0**-12, torch.uint8)
        q = Q.quantize_per_tensor.tensor(x, scale, zero, *U8)
        return F.linear(Q.dequantize_per_tensor.tensor(q, scale, zero, *U8), self.w(), self.w.bias)


@model
def quantised_as_it_runs():
    return DynamicLinear(), (torch.randn(7, 64),), None


class Convolutions(nn.Module):
    """A stem, a pool, a depthwise and a pointwise step beside what they add to, a strided and grouped one; zero points on borders."""

    def __init__(self):
        super().__init__()
        self.stem, self.deep, self.point, self.last = Weight(24, 3, 5, 5), Weight(24, 1, 3, 3), Weight(24, 24, 1, 1), Weight(40, 12, 3, 3)

    def forward(self, x):
        x = grid(F.relu(F.conv2d(grid(x, 0.03, 128), self.stem(), self.stem.bias, 2, 2)), 0.05, 0)
        x = grid(F.max_pool2d(x, 3, 2, 1), 0.05, 0)
        y = grid(F.hardtanh(F.conv2d(x, self.deep(), self.deep.bias, 1, 1, 1, 24), 0, 6), 6 / 255, 0)
        y = grid(F.conv2d(y, self.point(), self.point.bias), 0.04, 90)
        x = grid(x + y, 0.06, 61)
        return F.conv2d(x, self.last(), self.last.bias, 2, 1, 1, 2)


@model
def quantised_convolutions():
    return Convolutions(), (torch.randn(2, 3, 45, 38),), None


class Residuals(nn.Module):
    """Blocks with a strided side that is added as it is to what goes through bytes, and with what came in added as bytes."""

    def __init__(self):
        super().__init__()
        self.stem, self.side = Weight(64, 3, 7, 7), Weight(96, 64, 1, 1)
        self.a, self.b, self.c, self.d = Weight(64, 64, 3, 3), Weight(96, 64, 3, 3), Weight(96, 96, 1, 1), Weight(96, 96, 3, 3)
        self.head = Weight(10, 96)

    def conv(self, x, w, stride=1):
        return F.conv2d(x, w(), w.bias, stride, w.q.shape[-1] // 2)

    def forward(self, x):
        x = grid(F.relu(self.conv(grid(x, 0.03, 128), self.stem, 2)), 0.05, 0)
        y = grid(F.relu(self.conv(x, self.a)), 0.3, 0)
        y = grid(self.conv(y, self.b, 2), 1.5, 117)
        x = grid(F.relu(y + self.conv(x, self.side, 2)), 1.1, 0)
        y = grid(F.relu(self.conv(x, self.c)), 2.1, 0)
        x = grid(F.relu(self.conv(y, self.d) + x), 5.3, 0)
        return F.linear(grid(x.mean((2, 3)), 3.1, 0), self.head(), self.head.bias)


@model
def quantised_residuals():
    return Residuals(), (torch.randn(2, 3, 61, 50),), ({0: Dim("images", min=1, max=3)},)


class IntegerProduct(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.randint(-128, 128, (64, 40), dtype=torch.int8))

    def forward(self, x):
        return torch._int_mm(x, self.w)


@model
def integer_products_of_bytes():
    return IntegerProduct(), (torch.randint(-128, 128, (24, 64), dtype=torch.int8),), None


@model
def fake_quantised_channels():
    """As training for few bits is exported: scales and zero points of channels, a scale that is a tensor."""

    def f(x, scales, zeros, scale, zero):
        rows = torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, -8, 7)
        return rows, torch.fake_quantize_per_tensor_affine(rows * 3, scale, zero, 0, 255), torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127)

    zeros = torch.tensor([0, 3, -2, 1], dtype=torch.int32)
    return Fn(f), (torch.randn(6, 4, 5), torch.rand(4) + 0.1, zeros, torch.tensor(0.25), torch.tensor(100, dtype=torch.int32)), None


@model
def bits_of_numbers():
    """Exponents, signs and stochastic rounding by the bits of floats, judged by the bits that their own type has."""

    def f(x, noise):
        bits = x.view(torch.int32)
        rounded = ((bits + noise) & -65536).view(torch.float32)
        return (bits >> 23) & 255, bits < 0, rounded.bfloat16(), rounded * 2 + x, x.bfloat16().view(torch.int16)

    return Fn(f), (torch.randn(5, 6), torch.randint(0, 65536, (5, 6), dtype=torch.int32)), None


@model
def products_of_packed_bytes():
    """Sixteen numbers a row, 32 bytes: where the rows lie, the reference's kernel must be able to read them."""
    inputs = torch.randn(4, 16).bfloat16(), torch.randint(-127, 128, (16, 16), dtype=torch.int8), torch.rand(16).bfloat16()
    return Fn(torch._weight_int8pack_mm), inputs, None


class WeightsOfBytes(nn.Module):
    """As torchao's weight-only configurations export: scales behind the product; groups with zero points; numbers of four bits, one a byte
    and two; a table that is the head, too."""

    def __init__(self, width=128, hidden=192, group=32):
        super().__init__()

        def integers(n, k, low, high, dtype=torch.int8):
            return nn.Parameter(torch.randint(low, high, (n, k), dtype=dtype), requires_grad=False)

        self.a, self.a_scale, self.a_bias = integers(hidden, width, -128, 128), nn.Parameter(torch.rand(hidden, 1) * 0.01), nn.Parameter(torch.randn(hidden))
        self.b, self.b_scale, self.b_zero = integers(width, hidden, -8, 8), nn.Parameter(torch.rand(width, hidden // group) * 0.1), integers(width, hidden // group, -2, 3)
        self.c, self.c_scale = integers(width, width // 2, 0, 256, torch.uint8), nn.Parameter(torch.rand(width, width // group) * 0.1)
        self.table, self.table_scale = integers(300, width, -127, 128), nn.Parameter(torch.rand(300, 1) * 0.01)
        self.group = group

    def grouped(self, q, scale, zero, t):
        n, k = q.shape
        x = q.view(n, k // self.group, self.group).to(t)
        if zero is not None:
            x = x - zero.view(n, -1, 1).to(t)
        return (x * scale.view(n, -1, 1).to(t)).view(n, k)

    def forward(self, ids):
        table = self.table.to(self.table_scale.dtype) * self.table_scale
        x = F.embedding(ids, table)
        t = x.dtype
        y = (torch.mm(x.view(-1, x.shape[-1]), self.a.permute(1, 0).to(t)) * self.a_scale.to(t).view(-1)).view(*x.shape[:-1], -1) + self.a_bias
        x = x + torch.relu(y) @ self.grouped(self.b, self.b_scale, self.b_zero, t).t()
        halves = torch.stack([self.c & 15, self.c >> 4], -1).view(x.shape[-1], x.shape[-1])
        x = x + F.linear(x, self.grouped(halves, self.c_scale, None, t))
        return x @ table.t()


@model
def weights_of_bytes():
    return WeightsOfBytes(), (torch.randint(0, 300, (2, 7)),), ({0: Dim("batch", min=1, max=8), 1: Dim("seq", min=1, max=40)},)


STORED_ONCE.add("weights_of_bytes")


@model
def weights_of_bytes_bf16():
    return WeightsOfBytes().bfloat16(), (torch.randint(0, 300, (1, 5)),), ({1: Dim("seq", min=1, max=40)},)


STORED_ONCE.add("weights_of_bytes_bf16")
