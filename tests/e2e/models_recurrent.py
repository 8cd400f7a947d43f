"""Recurrent layers: kinds of cells, directions, layers, layouts, types."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim

from models import Outputs, model


@model
def lstm_of_any_length():
    d = torch.export.Dim.AUTO
    net = nn.LSTM(12, 20, 2, batch_first=True, bidirectional=True)
    return Outputs(net), (torch.randn(3, 25, 12),), ({0: d(min=1, max=9), 1: d(min=2, max=200)},)


@model
def lstm_projected():
    return Outputs(nn.LSTM(12, 20, 2, proj_size=9)), (torch.randn(15, 7, 12),), None


@model
def gru_unbatched_bf16():
    return Outputs(nn.GRU(12, 37, bidirectional=True).bfloat16()), (torch.randn(40, 12).bfloat16(),), None


@model
def lstm_of_many_rows():
    return Outputs(nn.LSTM(20, 70, bidirectional=True)), (torch.randn(20, 30, 20),), None


@model
def lstm_bf16_rows():
    return Outputs(nn.LSTM(16, 67, batch_first=True).bfloat16()), (torch.randn(9, 25, 16).bfloat16(),), None


@model
def rnn_long_and_short():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.RNN(6, 19, nonlinearity="relu"), nn.RNN(19, 5)

        def forward(self, x):
            y, h = self.a(x)
            return y, h, self.b(y[:5])[0]

    return Two(), (torch.randn(900, 2, 6),), None


class DeltaChunks(nn.Module):
    """Sequences filled up to whole chunks of 8, gone through chunk by chunk, the rows of each one after another (gated delta nets). The
    program's own loop counts one chunk, so that its guards hold the length within it."""

    def forward(self, x):
        length = x.shape[1]
        y = F.pad(x, (0, 0, 0, (8 - length % 8) % 8))
        z = y.reshape(x.shape[0], -1, 8, 3)
        z = z.reshape(x.shape[0], -1, z.shape[2], 3)
        state, out = torch.zeros(x.shape[0], 3, 3), torch.zeros_like(z)
        for i in range(y.shape[1] // 8):
            q = z[:, i] * 0.1
            g = (q @ q.transpose(1, 2)).tril(-1)
            for k in range(1, z.shape[2]):
                g[:, k, :k] = g[:, k, :k] + (g[:, k, :k, None] * g[:, :k, :k].clone()).sum(-2)
            out[:, i], state = q @ state + g @ q, state + q.transpose(1, 2) @ q
        return out.reshape(x.shape[0], -1, 3)[:, :length]


@model
def chunks_of_a_filled_up_length():
    d = torch.export.Dim.AUTO
    return DeltaChunks(), (torch.randn(3, 7, 3),), ({0: d, 1: d},)
