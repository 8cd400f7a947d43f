"""Experts, embeddings, graphs, attention and its caches, written by hand."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from families_case import BATCH, Fn, case


@case
def moe_one_hot():
    class Net(nn.Module):
        def __init__(self, d=16, e=4):
            super().__init__()
            self.gate, self.w1, self.w2, self.e = nn.Linear(d, e), nn.Parameter(torch.randn(e, d, 32) * 0.2), nn.Parameter(torch.randn(e, 32, d) * 0.2), e
        def forward(self, x):
            p = self.gate(x).softmax(-1)
            w, i = p.topk(2, -1)
            w = w / w.sum(-1, keepdim=True)
            combine = (F.one_hot(i, self.e).to(x.dtype) * w[..., None]).sum(-2)
            h = F.silu(torch.einsum("btd,edh->bteh", x, self.w1))
            return torch.einsum("bteh,ehd,bte->btd", h, self.w2, combine)
    return Net(), (torch.randn(2, 7, 16),), ({0: (1, 4), 1: (2, 12)},)


@case
def moe_index_add():
    class Net(nn.Module):
        def __init__(self, d=16, e=4, cap=6):
            super().__init__()
            self.gate, self.w = nn.Linear(d, e), nn.Parameter(torch.randn(e, d, d) * 0.2)
            self.cap = cap
        def forward(self, x):
            s = self.gate(x).softmax(-1)
            g, i = s.t().topk(self.cap, -1)
            y = torch.bmm(x[i.reshape(-1)].reshape(i.shape[0], self.cap, -1), self.w) * g[..., None]
            return torch.zeros_like(x).index_add(0, i.reshape(-1), y.reshape(-1, x.shape[-1]))
    return Net(), (torch.randn(12, 16),), None


@case
def rope_complex():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            f = 1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8))
            a = torch.outer(torch.arange(32).float(), f)
            self.register_buffer("freqs", torch.polar(torch.ones_like(a), a))
            self.q = nn.Linear(16, 16)
        def forward(self, x):
            b, t, d = x.shape
            q = self.q(x).view(b, t, 2, 8)
            qc = torch.view_as_complex(q.float().reshape(b, t, 2, 4, 2))
            return torch.view_as_real(qc * self.freqs[:t].view(1, t, 1, 4)).flatten(3).type_as(x).reshape(b, t, d)
    return Net(), (torch.randn(2, 9, 16),), ({0: (1, 4), 1: (2, 30)},)


@case
def rope_interleaved_real():
    def f(s, x, pos):
        a = pos[..., None].float() * s.inv
        cos, sin = a.cos().repeat_interleave(2, -1), a.sin().repeat_interleave(2, -1)
        x1, x2 = x[..., ::2], x[..., 1::2]
        return x * cos + torch.stack((-x2, x1), -1).flatten(-2) * sin
    return Fn(f, inv=1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8))), (torch.randn(2, 9, 8), torch.arange(9).expand(2, 9).contiguous()), ({0: (1, 4), 1: (2, 30)},) * 2


@case
def recommender():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(n, 8) for n in (20, 30, 50))
            self.bag, self.bot, self.top = nn.EmbeddingBag(40, 8, mode="mean"), nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Sequential(nn.Linear(8 + 10, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
        def forward(self, dense, cats, hist):
            d = self.bot(dense)
            v = torch.stack([d, self.bag(hist)] + [t(cats[:, i]) for i, t in enumerate(self.tables)], 1)
            z = torch.bmm(v, v.transpose(1, 2))
            i, j = torch.tril_indices(5, 5, -1)
            return self.top(torch.cat([d, z[:, i, j]], 1))
    return Net(), (torch.randn(4, 5), torch.randint(0, 20, (4, 3)), torch.randint(0, 40, (4, 6))), (BATCH,) * 3


@case
def embedding_bag_offsets():
    bags = nn.EmbeddingBag(40, 8, mode="sum"), nn.EmbeddingBag(40, 8, mode="mean"), nn.EmbeddingBag(40, 8, mode="max")
    return Fn(lambda s, i: tuple(m(i, s.offsets) for m in s.modules_), *bags, offsets=torch.tensor([0, 3, 7])), (torch.randint(0, 40, (11,)),), None


@case
def deepfm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e, self.w, self.mlp = nn.Embedding(60, 6), nn.Embedding(60, 1), nn.Sequential(nn.Linear(24, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
            self.register_buffer("offsets", torch.tensor([0, 15, 30, 45]))
        def forward(self, x):
            x = x + self.offsets
            e = self.e(x)
            fm = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1, keepdim=True)
            return torch.sigmoid(self.w(x).sum(1) + fm + self.mlp(e.flatten(1))).squeeze(1)
    return Net(), (torch.randint(0, 15, (4, 4)),), (BATCH,)


def knn(x, k):
    d = (x[:, :, None] - x[:, None]).square().sum(-1)
    return d.topk(k, dim=-1, largest=False).indices


@case
def pointnet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU()), nn.Conv1d(16, 32, 1), nn.Linear(32, 5)
            self.t = nn.Linear(16, 9)
        def forward(self, p):
            h = self.a(p)
            t = self.t(h.amax(-1)).view(-1, 3, 3) + torch.eye(3)
            h = self.b(self.a(torch.bmm(t, p)))
            g = torch.max(h, 2)[0]
            return self.c(g)
    return Net(), (torch.randn(2, 3, 20),), ({0: (1, 4), 2: (5, 40)},)


@case
def dgcnn_knn_gather():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16))
        def forward(self, p):
            b, n, _ = p.shape
            i = knn(p, 4)
            nb = torch.gather(p[:, None].expand(b, n, n, 3), 2, i[..., None].expand(b, n, 4, 3))
            e = torch.cat([nb - p[:, :, None], p[:, :, None].expand(b, n, 4, 3)], -1)
            return self.c(e).max(2).values.mean(1)
    return Net(), (torch.randn(2, 12, 3),), (BATCH,)


@case
def gcn_index_add():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l1, self.l2 = nn.Linear(8, 16), nn.Linear(16, 4)
        def conv(self, x, src, dst, lin):
            n = x.shape[0]
            deg = torch.zeros(n).index_add(0, dst, torch.ones_like(dst, dtype=torch.float32)) + 1
            norm = deg.rsqrt()
            h = lin(x)
            m = h[src] * (norm[src] * norm[dst])[:, None]
            return torch.zeros_like(h).index_add_(0, dst, m) + h * norm.square()[:, None]
        def forward(self, x, edges):
            x = F.relu(self.conv(x, edges[0], edges[1], self.l1))
            return self.conv(x, edges[0], edges[1], self.l2).log_softmax(1)
    return Net(), (torch.randn(10, 8), torch.randint(0, 10, (2, 24))), None


@case
def gat_scatter_softmax():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.a, self.b = nn.Linear(8, 16), nn.Parameter(torch.randn(16)), nn.Parameter(torch.randn(16))
        def forward(self, x, edges):
            h, (s, d), n = self.w(x), (edges[0], edges[1]), x.shape[0]
            e = F.leaky_relu((h @ self.a)[s] + (h @ self.b)[d], 0.2)
            top = torch.full((n,), -1e30).scatter_reduce(0, d, e, "amax")
            w = (e - top[d]).exp()
            z = torch.zeros(n).scatter_add(0, d, w)
            out = torch.zeros_like(h).scatter_add_(0, d[:, None].expand(-1, 16), h[s] * (w / (z[d] + 1e-9))[:, None])
            return F.elu(out)
    return Net(), (torch.randn(10, 8), torch.randint(0, 10, (2, 24))), None


@case
def graph_dense_pool():
    def f(s, x, adj):
        a = adj + torch.eye(adj.shape[-1])
        d = a.sum(-1).clamp(min=1).rsqrt()
        a = a * d[..., None] * d[:, None]
        z = F.relu(a @ s.modules_[0](x))
        p = (a @ s.modules_[1](x)).softmax(-1)
        return p.transpose(1, 2) @ z, p.transpose(1, 2) @ a @ p
    return Fn(f, nn.Linear(6, 8), nn.Linear(6, 3)), (torch.randn(2, 7, 6), (torch.rand(2, 7, 7) > 0.6).float()), (BATCH, BATCH)


@case
def attention_bool_masks():
    def f(s, x, pad):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, 4, 4).transpose(1, 2) for y in s.modules_[0](x).split(16, -1))
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        m = causal[None, None] & ~pad[:, None, None]
        m = m | torch.eye(t, dtype=torch.bool)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=m).transpose(1, 2).reshape(b, t, 16)
    return Fn(f, nn.Linear(16, 48)), (torch.randn(2, 9, 16), torch.zeros(2, 9, dtype=torch.bool)), ({0: (1, 4), 1: (2, 24)},) * 2


@case
def attention_alibi_manual():
    def f(s, x):
        b, t, _ = x.shape
        q, k, v = s.modules_[0](x).view(b, t, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        pos = torch.arange(t)
        bias = -(pos[:, None] - pos[None]).abs()[None] * torch.tensor([0.5, 0.25, 0.125, 0.0625])[:, None, None]
        a = q @ k.transpose(-1, -2) / 2 + bias
        a = a.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf"))
        return (a.softmax(-1) @ v).transpose(1, 2).flatten(2)
    return Fn(f, nn.Linear(16, 48)), (torch.randn(2, 9, 16),), ({0: (1, 4), 1: (2, 24)},)


@case
def multihead_attention_module():
    m = nn.MultiheadAttention(16, 4, batch_first=True)
    return Fn(lambda s, x, y: s.modules_[0](x, y, y, need_weights=True), m), (torch.randn(2, 5, 16), torch.randn(2, 8, 16)), (BATCH, BATCH)


@case
def nn_transformer():
    m = nn.Transformer(16, 2, 1, 1, 32, batch_first=True, norm_first=True)
    return Fn(lambda s, x, y: s.modules_[0](x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(6)), m), (torch.randn(2, 8, 16), torch.randn(2, 6, 16)), (BATCH, BATCH)


@case
def nn_transformer_encoder():
    m = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu"), 2)
    return Fn(lambda s, x, p: s.modules_[0](x, src_key_padding_mask=p), m), (torch.randn(2, 8, 16), torch.tensor([[False] * 8, [False] * 6 + [True] * 2])), None


@case
def linear_attention():
    def f(s, x):
        q, k, v = s.modules_[0](x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("btd,bte->btde", k, v).cumsum(1)
        return torch.einsum("btd,btde->bte", q, kv) / (torch.einsum("btd,btd->bt", q, k.cumsum(1))[..., None] + 1e-6)
    return Fn(f, nn.Linear(8, 24)), (torch.randn(2, 9, 8),), ({0: (1, 4), 1: (2, 24)},)


@case
def local_attention_unfold():
    def f(s, x):
        b, t, d = x.shape
        q, k, v = s.modules_[0](x).chunk(3, -1)
        k, v = (F.pad(y, (0, 0, 3, 0)).unfold(1, 4, 1) for y in (k, v))
        a = torch.einsum("btd,btdw->btw", q, k).softmax(-1)
        return torch.einsum("btw,btdw->btd", a, v)
    return Fn(f, nn.Linear(8, 24)), (torch.randn(2, 9, 8),), (BATCH,)


@case
def kv_cache_index_copy():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)
            self.register_buffer("k", torch.zeros(1, 4, 16, 4))
            self.register_buffer("v", torch.zeros(1, 4, 16, 4))
        def forward(self, x, pos):
            q, k, v = (y.view(1, -1, 4, 4).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
            self.k.index_copy_(2, pos, k)
            self.v.index_copy_(2, pos, v)
            m = torch.arange(16)[None] <= pos[:, None]
            return F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=m).transpose(1, 2).flatten(2)
    return Net(), (torch.randn(1, 1, 16), torch.tensor([3])), None


@case
def kv_cache_slice_write():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(2, 16, 8))
            self.l = nn.Linear(8, 8)
        def forward(self, x):
            self.k[:, 4:8] = self.l(x)
            self.k[:, 0] += 1.0
            return (self.k @ x.transpose(1, 2)).softmax(1)
    return Net(), (torch.randn(2, 4, 8),), None


@case
def kv_cache_index_put():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(2, 16, 8))
        def forward(self, x, pos):
            self.k[:, pos] = x
            return self.k.sum(1)
    return Net(), (torch.randn(2, 3, 8), torch.tensor([1, 5, 9])), None


@case
def shift_register_state():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv1d(4, 6, 5)
            self.register_buffer("past", torch.zeros(1, 4, 4))
        def forward(self, x):
            y = torch.cat([self.past, x], 2)
            self.past.copy_(y[:, :, -4:])
            return self.c(y)
    return Net(), (torch.randn(1, 4, 8),), None
