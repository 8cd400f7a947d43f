"""Models that draw random numbers: verify draws the same ones (compiler/import/random_numbers.h)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim

from models import Fn, in_training, model


@model
def noise_of_every_kind():
    """Each distribution, by functions and into tensors, of sizes that move."""

    def f(x):
        like = torch.rand_like
        return (x + torch.randn_like(x), like(x) * 2, torch.rand(x.shape[0], 3), torch.randn(x.shape[0], dtype=torch.float64), torch.normal(x, 0.5),
                torch.normal(1.0, x.exp()), torch.normal(x, x.exp()), torch.empty_like(x).uniform_(-2, 3), torch.empty_like(x).normal_(1, 2),
                torch.empty_like(x).exponential_(1.5), torch.empty_like(x).log_normal_(0.1, 0.5), torch.empty_like(x).geometric_(0.2),
                torch.empty_like(x).bernoulli_(0.3), torch.bernoulli(x.sigmoid()), torch.randint(-3, 9, (x.shape[0], 2)), torch.randint_like(x, 5))

    return Fn(f), (torch.randn(4, 37),), ({0: Dim("n", min=1, max=9), 1: Dim("m", min=2, max=99)},)


@model
def noise_of_narrow_types():
    def f(x):
        h, b, d = x.half(), x.bfloat16(), x.double()
        return torch.rand_like(h), torch.randn_like(b), torch.rand_like(d), torch.randn_like(d), torch.rand_like(b), h + torch.randn_like(h)

    return Fn(f), (torch.randn(5, 33),), None


@model
def orders_and_picks():
    """Permutations, and classes picked by weight with and without putting back."""

    def f(x, w):
        p, w = torch.randperm(x.shape[0]), w.softmax(-1)
        return x[p], torch.multinomial(w, 4), torch.multinomial(w, 9, replacement=True), torch.multinomial(w[0], 1), F.gumbel_softmax(w.log(), tau=0.7)

    return Fn(f), (torch.randn(13, 4), torch.randn(3, 7)), ({0: Dim("n", min=2, max=40)}, None)


@model
def autoencoder_that_samples():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.mean, self.spread, self.down = nn.Linear(12, 24), nn.Linear(24, 6), nn.Linear(24, 6), nn.Linear(6, 12)

        def forward(self, x):
            h = self.up(x).tanh()
            mean, spread = self.mean(h), self.spread(h)
            return self.down(mean + torch.randn_like(mean) * (0.5 * spread).exp()), mean, spread

    return Net(), (torch.randn(5, 12),), ({0: Dim("batch", min=1, max=64)},)


@in_training
def dropouts():
    """Of elements, of channels, and those that keep SELU's mean; slopes of negative numbers."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(3, 8, 3), nn.Linear(8 * 36, 10)
            self.d, self.d2, self.a, self.fa, self.r = nn.Dropout(0.3), nn.Dropout2d(0.5), nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.25), nn.RReLU()

        def forward(self, x):
            y = self.d2(self.conv(x))
            return self.fc(self.d(y.flatten(1))), self.a(F.selu(x)), self.fa(x), self.r(x), F.dropout(x, 1.0)

    return Net(), (torch.randn(2, 3, 8, 8),), None


@in_training
def transformer_that_drops():
    """Attention's weights are dropped, too."""
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True), (torch.randn(2, 9, 16),), ({0: Dim("batch", min=1, max=5), 1: Dim("length", min=2, max=30)},)


@in_training
def causal_attention_that_drops():
    f = lambda q, k, v, m: (F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1), F.scaled_dot_product_attention(q, k, v, m, dropout_p=0.4))
    return Fn(f), (*(torch.randn(2, 3, 7, 8) for _ in range(3)), torch.rand(7, 7) > 0.3), None
