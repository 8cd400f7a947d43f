"""Heads, front ends, simulations and other numerics, written by hand."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from families_case import BATCH, Fn, case


@case
def quantile_sort_post():
    def f(s, x):
        q = torch.quantile(x, s.q, dim=1)
        v, i = x.sort(dim=1, descending=True)
        c = v.softmax(-1).cumsum(-1)
        keep = (c < 0.8).to(x.dtype)
        return q, torch.zeros_like(x).scatter(1, i, v * keep), x.median(1).values, x.kthvalue(2, 1).values, torch.argsort(x, 1), x.msort()
    return Fn(f, q=torch.tensor([0.1, 0.5, 0.9])), (torch.randn(3, 17),), None


@case
def normalisations():
    def f(s, x):
        y = s.modules_[0](x) + s.modules_[1](x) + s.modules_[2](x) + F.normalize(x, dim=1) + F.local_response_norm(x, 3)
        z = s.modules_[3](x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        std, mean = torch.std_mean(x, (2, 3), keepdim=True)
        return y + z + (x - mean) / (std + 1e-5) + F.rms_norm(x, (6,)) + x / x.norm(dim=1, keepdim=True)
    return Fn(f, nn.BatchNorm2d(8), nn.GroupNorm(2, 8), nn.InstanceNorm2d(8), nn.LayerNorm(8)), (torch.randn(2, 8, 5, 6),), (BATCH,)


@case
def activations():
    names = "relu relu6 elu selu celu gelu silu mish hardswish hardsigmoid hardtanh softplus softsign tanhshrink logsigmoid leaky_relu hardshrink softshrink".split()
    return Fn(lambda s, x: torch.stack([getattr(F, n)(x) for n in names] + [F.glu(torch.cat([x, x], -1)), F.threshold(x, 0.1, 2.0), F.gelu(x, approximate="tanh")])), (torch.randn(3, 33),), (BATCH,)


def box_iou(a, b):
    lt, rb = torch.max(a[:, None, :2], b[None, :, :2]), torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
    return inter / (area(a)[:, None] + area(b)[None] - inter + 1e-6)


@case
def detection_head_retina():
    def f(s, feat):
        cls, reg = s.modules_[0](feat), s.modules_[1](feat)
        b, _, h, w = cls.shape
        cls = cls.view(b, 3, 4, h, w).permute(0, 3, 4, 1, 2).reshape(b, -1, 4).sigmoid()
        reg = reg.view(b, 3, 4, h, w).permute(0, 3, 4, 1, 2).reshape(b, -1, 4)
        ys, xs = torch.meshgrid(torch.arange(h, dtype=torch.float32), torch.arange(w, dtype=torch.float32), indexing="ij")
        ctr = torch.stack([xs, ys], -1).reshape(-1, 1, 2).expand(-1, 3, 2).reshape(-1, 2) * 8
        size = s.sizes[None].expand(h * w, 3, 2).reshape(-1, 2)
        xy, wh = ctr + reg[..., :2] * size, size * reg[..., 2:].clamp(max=4).exp()
        boxes = torch.cat([xy - wh / 2, xy + wh / 2], -1).clamp(0, 64)
        score, label = cls.max(-1)
        top, i = score.topk(10, dim=1)
        picked = boxes.gather(1, i[..., None].expand(-1, -1, 4))
        return picked, torch.where(top > 0.5, top, torch.zeros_like(top)), label.gather(1, i)
    return Fn(f, nn.Conv2d(8, 12, 3, padding=1), nn.Conv2d(8, 12, 3, padding=1), sizes=torch.tensor([[8.0, 8], [16, 8], [8, 16]])), (torch.randn(2, 8, 8, 8),), (BATCH,)


@case
def nms_matrix_soft():
    def f(s, boxes, scores):
        o = scores.argsort(descending=True)
        b, sc = boxes[o], scores[o]
        iou = box_iou(b, b).triu(1)
        comp = iou.max(0).values
        decay = ((1 - iou) / (1 - comp[:, None]).clamp(min=1e-3)).min(0).values
        return b, sc * decay
    xy = torch.rand(12, 2) * 20
    return Fn(f), (torch.cat([xy, xy + 5 + torch.rand(12, 2) * 5], 1), torch.rand(12)), None


@case
def yolo_head():
    def f(s, x):
        outs = []
        for m, stride in zip(s.modules_, (8, 16)):
            y = m(x)
            b, c, h, w = y.shape
            y = y.view(b, 3, c // 3, h, w).permute(0, 1, 3, 4, 2).sigmoid()
            yv, xv = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack((xv, yv), 2).expand(1, 3, h, w, 2).float()
            xy, wh = (y[..., 0:2] * 2 + grid - 0.5) * stride, (y[..., 2:4] * 2) ** 2 * stride
            outs.append(torch.cat((xy, wh, y[..., 4:]), 4).view(b, -1, c // 3))
            x = F.max_pool2d(x, 2)
        return torch.cat(outs, 1)
    return Fn(f, nn.Conv2d(8, 21, 1), nn.Conv2d(8, 21, 1)), (torch.randn(2, 8, 8, 8),), (BATCH,)


@case
def fpn_spp():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 12, 3, 2, 1), nn.Conv2d(12, 16, 3, 2, 1)])
            self.l, self.spp = nn.ModuleList([nn.Conv2d(c, 8, 1) for c in (8, 12, 16)]), nn.Conv2d(64, 16, 1)
        def forward(self, x):
            fs = []
            for c in self.c:
                x = F.mish(c(x))
                fs.append(x)
            fs[-1] = self.spp(torch.cat([x] + [F.max_pool2d(x, k, 1, k // 2) for k in (3, 5, 7)], 1))
            p = self.l[2](fs[2])
            outs = [p]
            for i in (1, 0):
                p = self.l[i](fs[i]) + F.interpolate(p, size=fs[i].shape[-2:], mode="nearest")
                outs.append(p)
            return tuple(outs)
    return Net(), (torch.randn(2, 3, 48, 40),), (BATCH,)


@case
def roi_align_grid_sample():
    def f(s, feat, boxes):
        y = (torch.arange(4) + 0.5) / 4
        gx = boxes[:, 0:1] + (boxes[:, 2:3] - boxes[:, 0:1]) * y
        gy = boxes[:, 1:2] + (boxes[:, 3:4] - boxes[:, 1:2]) * y
        grid = torch.stack([gx[:, None].expand(-1, 4, 4), gy[:, :, None].expand(-1, 4, 4)], -1) * 2 - 1
        return F.grid_sample(feat, grid, align_corners=False)
    return Fn(f), (torch.randn(3, 6, 10, 10), torch.rand(3, 4)), None


@case
def spatial_transformer_affine():
    def f(s, x):
        theta = s.modules_[0](x.mean((2, 3))).view(-1, 2, 3) * 0.1
        return F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), padding_mode="border", align_corners=False)
    return Fn(f, nn.Linear(3, 6)), (torch.randn(2, 3, 9, 11),), None


@case
def spectral_fft_mixer():
    return Fn(lambda s, x: torch.fft.irfft(torch.fft.rfft(x, dim=1) * torch.view_as_complex(s.w), n=16, dim=1), w=torch.randn(9, 8, 2)), (torch.randn(2, 16, 8),), (BATCH,)


@case
def stft_frontend():
    def f(s, x):
        z = torch.stft(x, 32, 16, 32, s.window, center=True, return_complex=True)
        p = z.real.square() + z.imag.square()
        return (s.mel @ p).clamp(min=1e-5).log10()
    return Fn(f, window=torch.hann_window(32), mel=torch.rand(8, 17)), (torch.randn(2, 200),), (BATCH,)


@case
def mel_frontend_conv():
    return Fn(lambda s, x: (s.mel @ F.conv1d(F.pad(x[:, None], (16, 16), mode="reflect"), s.basis, stride=16).unflatten(1, (2, 17)).square().sum(1)).clamp(min=1e-5).log(), basis=torch.randn(34, 1, 32), mel=torch.rand(8, 17)), (torch.randn(2, 200),), (BATCH,)


@case
def siamese_contrastive():
    def f(s, a, b):
        x, y = F.normalize(s.modules_[0](a), dim=-1), F.normalize(s.modules_[0](b), dim=-1)
        return F.cosine_similarity(x, y), torch.cdist(x, y), F.pairwise_distance(x, y), (x @ y.t() / 0.07).log_softmax(-1)
    return Fn(f, nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 6))), (torch.randn(3, 10), torch.randn(3, 10)), (BATCH, BATCH)


@case
def vector_quantizer():
    def f(s, x):
        b, c, h, w = x.shape
        flat = x.permute(0, 2, 3, 1).reshape(-1, c)
        d = flat.square().sum(1, keepdim=True) - 2 * flat @ s.book.t() + s.book.square().sum(1)
        i = d.argmin(1)
        q = F.embedding(i, s.book).view(b, h, w, c).permute(0, 3, 1, 2)
        return x + (q - x).detach(), i.view(b, h, w), F.mse_loss(q, x)
    return Fn(f, book=torch.randn(20, 6)), (torch.randn(2, 6, 4, 5),), (BATCH,)


@case
def tabular_tree_soft():
    def f(s, x):
        g = (s.modules_[0](x) * 5).sigmoid()
        p = torch.ones(x.shape[0], 1)
        for d in range(3):
            g_d = g[:, 2**d - 1 : 2 ** (d + 1) - 1]
            p = torch.stack([p * g_d, p * (1 - g_d)], -1).flatten(1)
        return p @ s.leaf
    return Fn(f, nn.Linear(6, 7), leaf=torch.randn(8, 2)), (torch.randn(4, 6),), (BATCH,)


@case
def gradient_boosted_lookup():
    def f(s, x):
        i = torch.zeros(x.shape[0], 5, dtype=torch.int64)
        for _ in range(3):
            feat = s.feature.gather(1, i.t()).t()
            go = x.gather(1, feat) > s.cut.gather(1, i.t()).t()
            i = 2 * i + 1 + go.to(torch.int64)
        return s.leaf.gather(1, (i - 7).t()).t().sum(1)
    return Fn(f, feature=torch.randint(0, 6, (5, 7)), cut=torch.randn(5, 7), leaf=torch.randn(5, 8)), (torch.randn(4, 6),), (BATCH,)


@case
def crf_viterbi():
    def f(s, e):
        score, back = s.start + e[:, 0], []
        for t in range(1, 6):
            best, i = (score[:, :, None] + s.trans[None]).max(1)
            score = best + e[:, t]
            back.append(i)
        last = score.argmax(1, keepdim=True)
        tags = [last]
        for i in reversed(back):
            last = i.gather(1, last)
            tags.append(last)
        return torch.cat(tags[::-1], 1), score.logsumexp(1)
    return Fn(f, start=torch.randn(4), trans=torch.randn(4, 4)), (torch.randn(2, 6, 4),), (BATCH,)


@case
def ode_rk4():
    def f(s, x):
        h = 0.1
        for _ in range(3):
            k1 = s.modules_[0](x); k2 = s.modules_[0](x + h / 2 * k1); k3 = s.modules_[0](x + h / 2 * k2); k4 = s.modules_[0](x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x
    return Fn(f, nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))), (torch.randn(3, 4),), (BATCH,)


@case
def nerf_positional():
    def f(s, p):
        fr = 2.0 ** torch.arange(4)
        a = p[..., None, :] * fr[:, None]
        e = torch.cat([p, a.sin().flatten(-2), a.cos().flatten(-2)], -1)
        rgb, sigma = s.modules_[0](e).split([3, 1], -1)
        alpha = 1 - torch.exp(-F.relu(sigma.squeeze(-1)) * 0.1)
        T = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        return ((alpha * T)[..., None] * rgb.sigmoid()).sum(1)
    return Fn(f, nn.Sequential(nn.Linear(27, 32), nn.ReLU(), nn.Linear(32, 4))), (torch.randn(3, 8, 3),), (BATCH,)


@case
def flow_coupling():
    def f(s, x):
        logdet = 0
        for m in s.modules_:
            a, b = x.chunk(2, -1)
            sc, t = m(a).chunk(2, -1)
            sc = sc.tanh()
            x = torch.cat([b * sc.exp() + t, a], -1).flip(-1)
            logdet = logdet + sc.sum(-1)
        return x, logdet
    return Fn(f, *(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 6)) for _ in range(3))), (torch.randn(4, 6),), (BATCH,)


@case
def kalman_linalg():
    def f(s, x, P):
        F_ = torch.eye(3) + s.a
        x = (F_ @ x[..., None])[..., 0]
        P = F_ @ P @ F_.transpose(-1, -2) + torch.eye(3) * 0.1
        S = P[..., :1, :1] + 0.5
        K = P[..., :1] / S
        return x + (K @ (1 - x[..., :1, None]))[..., 0], P - K @ P[..., :1, :], torch.diagonal(P, dim1=-2, dim2=-1), P.diagonal(dim1=-2, dim2=-1).sum(-1)
    return Fn(f, a=torch.randn(3, 3) * 0.1), (torch.randn(2, 3), torch.eye(3).repeat(2, 1, 1)), (BATCH, BATCH)


@case
def shufflenet_channel_shuffle():
    def f(s, x):
        b, c, h, w = x.shape
        y = s.modules_[0](x).view(b, 4, c // 4, h, w).transpose(1, 2).reshape(b, c, h, w)
        l, r = y.chunk(2, 1)
        return torch.cat([l, s.modules_[1](r)], 1)
    return Fn(f, nn.Conv2d(16, 16, 1, groups=4), nn.Conv2d(8, 8, 3, padding=1, groups=8)), (torch.randn(2, 16, 9, 9),), (BATCH,)


@case
def inception_pools():
    def f(s, x):
        a = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        b = F.max_pool2d(x, 3, 2, ceil_mode=True)
        c = F.lp_pool2d(x, 2, 2)
        return torch.cat([s.modules_[0](x), s.modules_[1](x), a], 1), b, c, F.adaptive_max_pool2d(x, (3, 2)), F.adaptive_avg_pool2d(x, (5, 4)), F.avg_pool1d(x.flatten(2), 4)
    return Fn(f, nn.Conv2d(6, 4, (1, 7), padding=(0, 3)), nn.Conv2d(6, 4, (7, 1), padding=(3, 0))), (torch.randn(2, 6, 13, 11),), (BATCH,)


@case
def densenet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(6 + 4 * i), nn.ReLU(), nn.Conv2d(6 + 4 * i, 4, 3, padding=1)) for i in range(4))
            self.t = nn.Sequential(nn.BatchNorm2d(22), nn.ReLU(), nn.Conv2d(22, 8, 1), nn.AvgPool2d(2, 2))
        def forward(self, x):
            for l in self.l: x = torch.cat([x, l(x)], 1)
            return self.t(x)
    return Net(), (torch.randn(2, 6, 12, 12),), (BATCH,)


@case
def ghost_channels_last():
    m = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6(), nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.ReLU6()).to(memory_format=torch.channels_last)
    return m, (torch.randn(2, 3, 24, 24),), (BATCH,)


@case
def deep_supervision_dict_outputs():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)
        def forward(self, inp):
            h = F.relu(self.a(inp["x"]))
            return {"out": self.b(h), "aux": [h, h.mean()], "n": inp["y"]}
    return Net(), ({"x": torch.randn(3, 8), "y": torch.randn(3)},), None


@case
def multi_dtype_ints():
    def f(s, x, m):
        y = (x.to(torch.int32) * 3) >> 1
        z = x.to(torch.uint8).float() / 255
        return y, z, (m.to(torch.int8) + 1).to(torch.float16), x.to(torch.float64).sum(), torch.bitwise_xor(y, y.flip(0)), m.logical_not().sum(-1)
    return Fn(f), (torch.randint(0, 200, (4, 6)), torch.rand(4, 6) > 0.5), (BATCH, BATCH)


@case
def image_preprocess_uint8():
    def f(s, x):
        x = x.permute(0, 3, 1, 2).float() / 255
        x = F.interpolate(x, size=(24, 24), mode="bicubic", align_corners=False, antialias=True)
        return (x.clamp(0, 1) - s.mean) / s.std
    return Fn(f, mean=torch.tensor([0.48, 0.45, 0.4]).view(1, 3, 1, 1), std=torch.tensor([0.27, 0.26, 0.28]).view(1, 3, 1, 1)), (torch.randint(0, 255, (2, 40, 36, 3), dtype=torch.uint8),), (BATCH,)


@case
def int8_weight_only_linear():
    def f(s, x):
        w = s.w.to(x.dtype) * s.scale[:, None]
        return F.linear(x, w)
    return Fn(f, w=torch.randint(-127, 127, (16, 8), dtype=torch.int8), scale=torch.rand(16) * 0.01), (torch.randn(3, 8),), (BATCH,)


@case
def fake_quant():
    def f(s, x):
        q = torch.clamp(torch.round(x / 0.05) + 3, -128, 127)
        return F.linear((q - 3) * 0.05, s.w), torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
    return Fn(f, w=torch.randn(4, 8)), (torch.randn(3, 8),), (BATCH,)


@case
def control_flow_cond():
    def f(s, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    return Fn(f), (torch.randn(3, 4),), None


@case
def data_dependent_nonzero():
    return Fn(lambda s, x: x[x > 0].sum()), (torch.randn(3, 4),), None


@case
def cholesky_solve():
    return Fn(lambda s, x, b: torch.linalg.solve(x @ x.transpose(-1, -2) + torch.eye(4), b)), (torch.randn(2, 4, 4), torch.randn(2, 4, 3)), None


@case
def random_dropout_train():
    return Fn(lambda s, x: F.dropout(x, 0.5, True)), (torch.randn(3, 4),), None


@case
def beam_search_step():
    def f(s, logits, scores):
        p = logits.log_softmax(-1) + scores[:, :, None]
        v, i = p.flatten(1).topk(3, -1)
        beam = torch.div(i, 11, rounding_mode="floor")
        return v, beam, i % 11, torch.take_along_dim(logits, beam[..., None], 1)
    return Fn(f), (torch.randn(2, 3, 11), torch.randn(2, 3)), (BATCH, BATCH)


@case
def sampling_top_p():
    def f(s, logits):
        srt, i = torch.sort(logits, descending=True, dim=-1)
        remove = srt.softmax(-1).cumsum(-1) > 0.9
        remove = torch.cat([torch.zeros_like(remove[..., :1]), remove[..., :-1]], -1)
        remove = remove.scatter(-1, i, remove)
        out = logits.masked_fill(remove, float("-inf"))
        return out.softmax(-1), out.argmax(-1)
    return Fn(f), (torch.randn(2, 19),), (BATCH,)


@case
def masked_scatter_vlm():
    def f(s, ids, img):
        e = s.modules_[0](ids)
        m = (ids == 7)[..., None].expand_as(e)
        return e.masked_scatter(m, img.to(e.dtype))
    i = torch.randint(8, 20, (2, 6)); i[:, 1:3] = 7
    return Fn(f, nn.Embedding(20, 4)), (i, torch.randn(4, 4)), None


@case
def bucketize_histogram():
    def f(s, x):
        return torch.bucketize(x, s.edges), torch.searchsorted(s.edges, x), torch.histc(x, 5, -2, 2)
    return Fn(f, edges=torch.tensor([-1.0, -0.5, 0, 0.5, 1.0])), (torch.randn(30),), None


@case
def bucketize_relative_positions():
    def f(s, x):
        t = x.shape[1]
        rel = torch.arange(t)[None] - torch.arange(t)[:, None]
        i = torch.bucketize(rel, s.edges)
        return x + s.modules_[0](i).sum(1)
    return Fn(f, nn.Embedding(6, 8), edges=torch.tensor([-4, -2, 0, 2, 4])), (torch.randn(2, 9, 8),), ({0: (1, 4), 1: (2, 24)},)


@case
def pairformer_triangle():
    def f(s, z):
        n = s.modules_[0](z)
        a, b = s.modules_[1](n).chunk(2, -1)
        x = torch.einsum("bikc,bjkc->bijc", a.sigmoid(), b)
        return z + s.modules_[2](x) * s.modules_[2](n).sigmoid()
    return Fn(f, nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(8, 8)), (torch.randn(1, 7, 7, 8),), None


@case
def hyena_long_conv():
    def f(s, x):
        t = x.shape[-1]
        fx = torch.fft.rfft(x, n=32)
        fk = torch.fft.rfft(s.k, n=32)
        return torch.fft.irfft(fx * fk, n=32)[..., :t] + x * s.d[:, None]
    return Fn(f, k=torch.randn(4, 16), d=torch.randn(4)), (torch.randn(2, 4, 16),), (BATCH,)


@case
def selective_scan_loop():
    def f(s, x):
        b, t, d = x.shape
        dt, B, C = F.softplus(s.modules_[0](x)), s.modules_[1](x), s.modules_[2](x)
        h, ys = torch.zeros(b, d, 4), []
        for i in range(t):
            h = h * torch.exp(dt[:, i, :, None] * s.A) + dt[:, i, :, None] * B[:, i, None] * x[:, i, :, None]
            ys.append((h * C[:, i, None]).sum(-1))
        return torch.stack(ys, 1)
    return Fn(f, nn.Linear(6, 6), nn.Linear(6, 4), nn.Linear(6, 4), A=-torch.rand(6, 4)), (torch.randn(2, 8, 6),), (BATCH,)
