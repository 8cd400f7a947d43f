"""Whole networks of the sizes that decide, in plain PyTorch: what rows.py times."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Bottleneck(nn.Module):
    def __init__(self, c_in, c, stride):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(c_in, c, 1, bias=False), nn.Conv2d(c, c, 3, stride, 1, bias=False), nn.Conv2d(c, 4 * c, 1, bias=False)
        self.na, self.nb, self.nc = nn.BatchNorm2d(c), nn.BatchNorm2d(c), nn.BatchNorm2d(4 * c)
        self.down = nn.Sequential(nn.Conv2d(c_in, 4 * c, 1, stride, bias=False), nn.BatchNorm2d(4 * c)) if stride > 1 or c_in != 4 * c else None

    def forward(self, x):
        y = self.nc(self.c(F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))))))
        return F.relu(y + (self.down(x) if self.down else x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.pool = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.MaxPool2d(3, 2, 1)
        blocks, c_in = [], 64
        for c, n, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(n):
                blocks.append(Bottleneck(c_in, c, stride if i == 0 else 1))
                c_in = 4 * c
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(2048, 1000)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):  # so that activations stay near 1
                m.running_var.fill_(2.0)

    def forward(self, x):
        return self.fc(self.blocks(self.pool(F.relu(self.norm(self.stem(x))))).mean((2, 3)))


class Layer(nn.Module):
    def __init__(self, norm_first, d=768, heads=12):
        super().__init__()
        self.norm_first, self.heads = norm_first, heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down, self.norm1, self.norm2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d), nn.LayerNorm(d), nn.LayerNorm(d)

    def attend(self, x, mask):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))

    def mlp(self, x):
        return self.down(F.gelu(self.up(x)))

    def forward(self, x, mask=None):
        if self.norm_first:
            x = x + self.attend(self.norm1(x), mask)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attend(x, mask))
        return self.norm2(x + self.mlp(x))


class Bert(nn.Module):
    """BERT base; `masked`: with the additive mask of the attention to ids other than 0."""

    def __init__(self, masked=False):
        super().__init__()
        self.masked = masked
        self.words, self.places, self.norm = nn.Embedding(30522, 768), nn.Embedding(512, 768), nn.LayerNorm(768)
        self.layers = nn.ModuleList(Layer(False) for _ in range(12))

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.places.weight[: ids.shape[1]])
        mask = ((ids == 0).to(x.dtype) * torch.finfo(x.dtype).min)[:, None, None] if self.masked else None
        for layer in self.layers:
            x = layer(x, mask)
        return x


class ViT(nn.Module):
    """ViT-B/16."""

    def __init__(self):
        super().__init__()
        self.patches, self.token, self.places = nn.Conv2d(3, 768, 16, 16), nn.Parameter(torch.randn(1, 1, 768)), nn.Parameter(torch.randn(1, 197, 768))
        self.layers, self.norm, self.head = nn.ModuleList(Layer(True) for _ in range(12)), nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


class DecoderLayer(nn.Module):
    """Of a Llama-like decoder: grouped heads, rotated positions, a gated MLP, keys and values behind those of the cache."""

    def __init__(self, d, heads, kv_heads, hidden):
        super().__init__()
        self.heads, self.kv_heads, self.of_head = heads, kv_heads, d // heads
        self.norm1, self.norm2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, n, bias=False) for n in (d, self.of_head * kv_heads, self.of_head * kv_heads, d))
        self.gate, self.up, self.down = nn.Linear(d, hidden, bias=False), nn.Linear(d, hidden, bias=False), nn.Linear(hidden, d, bias=False)

    def forward(self, x, keys, values, cos, sin):
        def rotated(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat((-b, a), -1) * sin

        y = self.norm1(x)
        q, k, v = (f(y).unflatten(-1, (-1, self.of_head)).transpose(1, 2) for f in (self.q, self.k, self.v))
        keys, values = torch.cat((keys, rotated(k)), 2), torch.cat((values, v), 2)
        y = F.scaled_dot_product_attention(rotated(q), keys, values, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), keys, values


class Llama(nn.Module):
    """One step of a Llama-like decoder, its cache given and returned."""

    def __init__(self, d=2048, heads=32, kv_heads=8, hidden=8192, layers=4, vocabulary=32000):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(vocabulary, d), nn.RMSNorm(d), nn.Linear(d, vocabulary, bias=False)
        self.layers = nn.ModuleList(DecoderLayer(d, heads, kv_heads, hidden) for _ in range(layers))

    def forward(self, ids, keys, values, cos, sin):
        x, all_keys, all_values = self.words(ids), [], []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, keys[i], values[i], cos, sin)
            all_keys.append(k), all_values.append(v)
        return self.head(self.norm(x)), torch.stack(all_keys), torch.stack(all_values)
