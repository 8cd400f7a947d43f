"""Small nets of images, sound and sequences, written by hand."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

from families_case import BATCH, Fn, case


def gn(c): return nn.GroupNorm(4, c)


class ResBlock(nn.Module):
    def __init__(self, a, b, t=16):
        super().__init__()
        self.n1, self.c1, self.n2, self.c2, self.t = gn(a), nn.Conv2d(a, b, 3, 1, 1), gn(b), nn.Conv2d(b, b, 3, 1, 1), nn.Linear(t, b)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class SpatialAttention(nn.Module):
    def __init__(self, c, heads=2):
        super().__init__()
        self.n, self.qkv, self.o, self.heads = gn(c), nn.Conv1d(c, 3 * c, 1), nn.Conv1d(c, c, 1), heads

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.n(x).reshape(b, c, h * w)).reshape(b, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        a = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h * w)
        return x + self.o(a).reshape(b, c, h, w)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.d1, self.down, self.d2 = nn.Conv2d(3, 8, 3, 1, 1), ResBlock(8, 8), nn.Conv2d(8, 8, 3, 2, 1), ResBlock(8, 16)
        self.attn, self.mid, self.up, self.u1 = SpatialAttention(16), ResBlock(16, 16), nn.Conv2d(16, 16, 3, 1, 1), ResBlock(24, 8)
        self.out, self.n = nn.Conv2d(8, 3, 3, 1, 1), gn(8)

    def forward(self, x, t):
        f = torch.exp(-math.log(10000) * torch.arange(8, dtype=torch.float32) / 8)
        a = t[:, None].float() * f[None]
        t = torch.cat([a.cos(), a.sin()], -1)
        h1 = self.d1(self.inp(x), t)
        h = self.mid(self.attn(self.d2(self.down(h1), t)), t)
        h = self.up(F.interpolate(h, scale_factor=2.0, mode="nearest"))
        return self.out(F.silu(self.n(self.u1(torch.cat([h, h1], 1), t))))


@case
def unet_diffusion(): return UNet(), (torch.randn(2, 3, 16, 16), torch.tensor([3, 77])), (BATCH, BATCH)


@case
def unet_segmentation():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            def two(a, b): return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
            self.a, self.b, self.c, self.pool = two(3, 8), two(8, 16), two(16, 24), nn.MaxPool2d(2)
            self.u1, self.u2, self.d1, self.d2, self.o = nn.ConvTranspose2d(24, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2), two(32, 16), two(16, 8), nn.Conv2d(8, 2, 1)
        def forward(self, x):
            a = self.a(x); b = self.b(self.pool(a)); c = self.c(self.pool(b))
            y = self.d1(torch.cat([self.u1(c), b], 1))
            return self.o(self.d2(torch.cat([self.u2(y), a], 1)))
    return Net(), (torch.randn(2, 3, 24, 32),), (BATCH,)


class SE(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

    def forward(self, x): return x * self.b(F.relu(self.a(x.mean((2, 3), keepdim=True)))).sigmoid()


@case
def mbconv_se():
    def block(c, k, s): return nn.Sequential(nn.Conv2d(c, 4 * c, 1, bias=False), nn.BatchNorm2d(4 * c), nn.SiLU(), nn.Conv2d(4 * c, 4 * c, k, s, k // 2, groups=4 * c, bias=False), nn.BatchNorm2d(4 * c), nn.SiLU(), SE(4 * c), nn.Conv2d(4 * c, c, 1), nn.BatchNorm2d(c))
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), block(8, 3, 1), block(8, 5, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)), (torch.randn(2, 3, 32, 32),), (BATCH,)


@case
def lstm():
    return Fn(lambda s, x: s.modules_[0](x)[0], nn.LSTM(12, 16, 2, batch_first=True, bidirectional=True)), (torch.randn(2, 9, 12),), (BATCH,)


@case
def lstm_with_state():
    def f(s, x, h, c):
        y, (h, c) = s.modules_[0](x, (h, c))
        return s.modules_[1](y), h, c
    return Fn(f, nn.LSTM(12, 16, 1), nn.Linear(16, 4)), (torch.randn(9, 2, 12), torch.randn(1, 2, 16), torch.randn(1, 2, 16)), None


@case
def gru():
    return Fn(lambda s, x: s.modules_[0](x), nn.GRU(12, 16, 2, batch_first=True)), (torch.randn(2, 9, 12),), (BATCH,)


@case
def rnn_cells():
    def f(s, x, h):
        a = s.modules_[0](x, h)
        b, c = s.modules_[1](x, (h, h))
        return s.modules_[2](x, a + b) + c
    return Fn(f, nn.GRUCell(12, 16), nn.LSTMCell(12, 16), nn.RNNCell(12, 16)), (torch.randn(3, 12), torch.randn(3, 16)), (BATCH, BATCH)


@case
def seq2seq_gru_attention():
    def f(s, x, y):
        enc, h = s.modules_[0](x)
        dec, _ = s.modules_[1](y, h)
        a = torch.softmax(torch.bmm(dec, enc.transpose(1, 2)), -1)
        return s.modules_[2](torch.cat([dec, torch.bmm(a, enc)], -1)).log_softmax(-1)
    return Fn(f, nn.GRU(8, 16, batch_first=True), nn.GRU(6, 16, batch_first=True), nn.Linear(32, 11)), (torch.randn(2, 7, 8), torch.randn(2, 5, 6)), None


class TCNBlock(nn.Module):
    def __init__(self, a, b, d):
        super().__init__()
        self.d = d
        self.c1, self.c2, self.s = nn.utils.parametrizations.weight_norm(nn.Conv1d(a, b, 3, dilation=d)), nn.Conv1d(b, b, 3, dilation=d), nn.Conv1d(a, b, 1)

    def forward(self, x):
        y = F.relu(self.c1(F.pad(x, (2 * self.d, 0))))
        return F.relu(self.s(x) + F.relu(self.c2(F.pad(y, (2 * self.d, 0)))))


@case
def tcn(): return nn.Sequential(TCNBlock(4, 8, 1), TCNBlock(8, 8, 2), TCNBlock(8, 12, 4)), (torch.randn(2, 4, 30),), ({0: (1, 4), 2: (8, 40)},)


@case
def wavenet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Conv1d(1, 8, 1)
            self.dil = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=2**i) for i in range(4))
            self.res, self.skip = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(4)), nn.ModuleList(nn.Conv1d(8, 6, 1) for _ in range(4))
            self.out = nn.Conv1d(6, 10, 1)
        def forward(self, x):
            x, total = self.inp(x), 0
            for i, (d, r, s) in enumerate(zip(self.dil, self.res, self.skip)):
                a, b = d(F.pad(x, (2**i, 0))).chunk(2, 1)
                z = a.tanh() * b.sigmoid()
                total = total + s(z)
                x = x + r(z)
            return self.out(F.relu(total))
    return Net(), (torch.randn(2, 1, 64),), (BATCH,)


@case
def conv3d_video():
    return nn.Sequential(nn.Conv3d(3, 8, 3, (1, 2, 2), 1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d((1, 2, 2)), nn.Conv3d(8, 12, (3, 1, 1), padding=(1, 0, 0)), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(12, 4)), (torch.randn(2, 3, 6, 20, 20),), (BATCH,)


@case
def vae():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 8, 3, 2, 1), nn.LeakyReLU(0.2), nn.Flatten())
            self.mu, self.lv, self.up = nn.Linear(8 * 49, 6), nn.Linear(8 * 49, 6), nn.Linear(6, 8 * 49)
            self.d = nn.Sequential(nn.Unflatten(1, (8, 7, 7)), nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(8, 1, 3, 2, 1, output_padding=1), nn.Sigmoid())
        def forward(self, x, eps):
            h = self.e(x)
            mu, lv = self.mu(h), self.lv(h).clamp(-6, 6)
            kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum(1).mean()
            return self.d(self.up(mu + eps * (0.5 * lv).exp())), kl
    return Net(), (torch.randn(2, 1, 28, 28), torch.randn(2, 6)), (BATCH, BATCH)


@case
def dcgan_generator():
    return nn.Sequential(nn.ConvTranspose2d(10, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True), nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh()), (torch.randn(2, 10, 1, 1),), (BATCH,)


@case
def stylegan_like_modulated_conv():
    def f(s, x, w):
        b, c, h, wd = x.shape
        style = s.modules_[0](w)
        k = s.weight[None] * style[:, None, :, None, None]
        k = k * torch.rsqrt(k.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, b * c, h, wd), k.reshape(-1, c, 3, 3), padding=1, groups=b)
        return F.leaky_relu(y.reshape(b, -1, h, wd), 0.2)
    return Fn(f, nn.Linear(6, 8), weight=torch.randn(12, 8, 3, 3)), (torch.randn(2, 8, 8, 8), torch.randn(2, 6)), None


@case
def pix2pix_instance_norm():
    return nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(3, 8, 7), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.ReplicationPad2d(1), nn.Conv2d(8, 8, 3), nn.InstanceNorm2d(8), nn.PReLU(8), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(8, 3, 3, padding=1), nn.Tanh()), (torch.randn(2, 3, 16, 18),), (BATCH,)


@case
def super_resolution_pixel_shuffle():
    return nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.GELU(), nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3), nn.PixelUnshuffle(3), nn.Conv2d(9, 4, 1), nn.PixelShuffle(2)), (torch.randn(2, 1, 12, 12),), ({0: (1, 4), 2: (4, 20), 3: (4, 20)},)


@case
def mlp_mixer():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(24), nn.LayerNorm(24)
            self.t, self.c = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))
        def forward(self, x):
            x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.c(self.n2(x))
    return nn.Sequential(nn.Conv2d(3, 24, 8, 8), nn.Flatten(2), Fn(lambda s, x: x.transpose(1, 2)), Block(), Block(), Fn(lambda s, x: x.mean(1)), nn.Linear(24, 5)), (torch.randn(2, 3, 32, 32),), (BATCH,)
