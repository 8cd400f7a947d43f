"""Small training programs (forward and backward in one graph, torch.export.experimental), for run_models.py."""
import torch
import torch.export.experimental
import torch.nn as nn
import torch.nn.functional as F

from models import Dim, model

TRAINED = {}  # name -> options of `aotc build`


def training_program(program):
    """Forward and backward in one. The gradient of an input names it as the joint graph did (torch 2.13: torch.export.save knows only the
    new name)."""
    joint = torch.export.experimental._export_forward_backward(program)
    names = [spec.arg.name for spec in joint.graph_signature.input_specs]
    for spec in joint.graph_signature.output_specs:
        if spec.kind.name == "GRADIENT_TO_USER_INPUT" and spec.target not in names:
            spec.target = names[int(spec.target[len("arg"):-len("_1")])]
    return joint


def trained(*options):
    def note(f):
        TRAINED[f.__name__] = options
        return model(f)

    return note


class Loss(nn.Module):
    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, y): return self.loss(self.net(x), y)


@trained("--parameters-as-states")
def train_mlp_dynamic():
    """The mean over a dynamic batch divides by a number computed from its size."""
    net = nn.Sequential(nn.Linear(12, 20), nn.SiLU(), nn.LayerNorm(20), nn.Linear(20, 5))
    batch = {0: Dim("batch", min=2, max=40)}
    return Loss(net, F.mse_loss), (torch.randn(6, 12), torch.randn(6, 5)), (batch, batch)


@trained("--parameters-as-states")
def train_input_gradient():
    """Gradients of parameters and of an input, and a result beside the loss."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(7, 4)

        def forward(self, x, y):
            z = torch.tanh(self.line(x))
            return F.smooth_l1_loss(z, y), z.detach()

    return Net(), (torch.randn(3, 7, requires_grad=True), torch.randn(3, 4)), None


class Net(nn.Module):
    """Every kind of convolution and pooling, batch norm whose running statistics are buffers. No norm has as its input what another one scales or
    shifts with little between them: the gradients of the first would be nothing but rounding."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(3, 2, 1))
        self.depthwise = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Hardswish(), nn.Conv2d(8, 16, 1))
        self.grouped = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 2, dilation=2, groups=4), nn.GroupNorm(4, 16), nn.GELU())
        self.up = nn.ConvTranspose2d(16, 8, 4, 2, 1, output_padding=0)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.grouped(self.depthwise(self.stem(x)))
        x = F.avg_pool2d(F.interpolate(F.relu(self.up(x)), scale_factor=2), 3, 2, 1, count_include_pad=False)
        return self.head(F.adaptive_avg_pool2d(F.pad(x, (1, 1, 1, 1), "reflect"), 1).flatten(1))


@trained()
def train_conv_net():
    return Loss(Net(), F.cross_entropy), (torch.randn(3, 3, 21, 21), torch.randint(0, 10, (3,))), None


@trained("--parameters-as-states")
def train_conv_net_dynamic():
    batch = {0: Dim("batch", min=2, max=8)}
    return Loss(Net(), F.cross_entropy), (torch.randn(3, 3, 21, 21), torch.randint(0, 10, (3,))), (batch, batch)


class Decoder(nn.Module):
    def __init__(self, masked):
        super().__init__()
        self.embed, self.norm, self.qkv = nn.Embedding(30, 24, padding_idx=0), nn.LayerNorm(24), nn.Linear(24, 72)
        self.out, self.drop = nn.Linear(24, 24), nn.Dropout(0.0)
        self.mlp = nn.Sequential(nn.RMSNorm(24), nn.Linear(24, 48), nn.GELU(approximate="tanh"), nn.Linear(48, 24))
        self.head, self.masked = nn.Linear(24, 30), masked

    def forward(self, ids):
        x = self.embed(ids)
        b, t, w = x.shape
        q, k, v = (s.view(b, t, 3, 8).transpose(1, 2) for s in self.qkv(self.norm(x)).chunk(3, -1))
        mask = (ids != 0)[:, None, None, :] | torch.eye(t, dtype=torch.bool) if self.masked else None
        a = F.scaled_dot_product_attention(q, k, v, mask, is_causal=not self.masked)
        x = x + self.drop(self.out(a.transpose(1, 2).reshape(b, t, w)))
        return self.head(x + self.mlp(x)).flatten(0, 1)


def tokens():
    ids = torch.randint(0, 30, (2, 9))
    return ids, torch.roll(ids, -1, 1)


@trained("--states", "net.qkv.*,net.embed.weight")
def train_causal_block():
    return Loss(Decoder(False), lambda x, y: F.cross_entropy(x, y.flatten(), ignore_index=0, label_smoothing=0.1)), tokens(), None


@trained()
def train_masked_block_dynamic():
    dims = {0: Dim("batch", min=1, max=4), 1: Dim("length", min=2, max=32)}
    return Loss(Decoder(True), lambda x, y: F.cross_entropy(x, y.flatten())), tokens(), (dims, dims)


@trained()
def train_recurrent():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(5, 7), nn.Linear(7, 3)

        def forward(self, x): return self.head(self.lstm(x)[0][-1])

    return Loss(Net(), F.cross_entropy), (torch.randn(4, 2, 5), torch.randint(0, 3, (2,))), None
