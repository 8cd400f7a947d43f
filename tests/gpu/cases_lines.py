"""GPU tests of what goes along lines: ordered updates of many places, bags of rows, selection, scans. See cases.py, whose CASES they join."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from cases import CASES, Dim, Fn, R, case_of, odd_numbers

RI = torch.randint
N = Dim("n", min=1, max=40000)

case_of("updates_line", lambda x, i, p, s: (x.scatter_add(0, i, s), x.scatter(0, p, s[:5000]), *(x.scatter_reduce(0, i, s, r, include_self=k) for r in ("prod", "amax", "mean") for k in (True, False))),
        lambda: (R(5200), RI(0, 5200, (6000,)), torch.randperm(5200)[:5000], R(6000)))
case_of("updates_few_places", lambda x, i, s: (x.scatter_add(0, i, s), x.index_add(0, i, s), x.scatter_reduce(0, i, s, "amin")), lambda: (R(900), RI(0, 2, (7000,)) * 700, R(7000)))
case_of("updates_rows", lambda x, i, s: (x.index_add(0, i, s), torch.zeros_like(x).scatter_add(0, i.unsqueeze(1).expand(-1, 70), s), torch.index_put(x, (-1 - i,), s, accumulate=True)),
        lambda: (R(300, 70), RI(0, 300, (2500,)), R(2500, 70)))
case_of("updates_points", lambda x, i, j, s: (torch.index_put(x, (i, j), s, accumulate=True), torch.index_put(x.half(), (i, j), s.half() * 0 + 1)),
        lambda: (R(70, 90), RI(0, 70, (3000,)), RI(-90, 90, (3000,)), R(3000)))
case_of("updates_lines_i32", lambda x, i, s: (x.scatter_add(1, i, s), x.scatter_reduce(1, i, s, "mean", include_self=False)),
        lambda: (RI(-9, 9, (3, 2100), dtype=torch.int32), RI(0, 2100, (3, 4000)), RI(-99, 99, (3, 4000), dtype=torch.int32)))
case_of("updates_dynamic", lambda x, i, s: (x.index_add(0, i, s), x[:, 0].scatter_add(0, i, s[:, 1])), *[lambda n=n: (R(600, 5), RI(0, 600, (n,)), R(n, 5)) for n in (3000, 1, 2049, 777)],
        dims=(None, {0: N}, {0: N}))


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.sum, self.mean, self.max = (nn.EmbeddingBag(50, 24, mode=m) for m in ("sum", "mean", "max"))
        self.last = nn.EmbeddingBag(50, 24, mode="sum", include_last_offset=True)

    def forward(self, at, begins, weights):
        return self.sum(at, begins), self.sum(at, begins, weights), self.mean(at, begins), self.max(at, begins), self.last(at, torch.cat([begins, begins[-1:]]))


case_of("bags", lambda a, t, b, w: F.embedding_bag(a, t, b, mode="sum", per_sample_weights=w), lambda: (RI(0, 40, (500,)), R(40, 33), torch.arange(0, 500, 7), R(500)))
class HalfBags(nn.Module):
    """Bags of tables of 16 bits, whose rows are added up in float32."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(50, 40, mode=m) for m in ("sum", "mean", "max", "sum")).half()

    def forward(self, i, begins, w):
        return [bag(i, begins) for bag in self.bags[:3]] + [self.bags[3](i, begins, per_sample_weights=w)]


CASES["bags_half"] = lambda: (HalfBags(), [(RI(0, 50, (300,)), torch.arange(0, 300, 25), R(300).half())], None)
CASES["bags_odd"] = lambda: (Fn(lambda i, t, b: F.embedding_bag(i, t, b, mode="max")), [(RI(0, 30, (200,)), odd_numbers(30, 24), torch.tensor([0, 0, 7, 50, 50, 51, 120, 200]))], None)
CASES["bags_kinds"] = lambda: (Bags(), [(RI(0, 50, (n,)), torch.cat([torch.zeros(3, dtype=torch.int64), torch.randint(0, n, (9,)).sort()[0]]), R(n)) for n in (300, 40)],
                               ({0: Dim("n", min=2, max=4000)}, None, {0: Dim("n", min=2, max=4000)}))

case_of("topk_long", lambda x, y, h: (*torch.topk(x, 100), *torch.topk(y, 33, dim=0, largest=False), torch.topk(h, 20)[0]),
        lambda: (torch.randperm(2 * 9000).view(2, 9000).float() - 900, torch.randperm(2500 * 3).view(2500, 3).double(), R(3, 5000).half()))
case_of("topk_shared", lambda x: (*torch.topk(x, 200), *torch.topk(x, 40, largest=False)), lambda: (torch.randperm(70001).view(1, 70001).float() / 3,))
case_of("topk_equals", lambda x, i: (torch.topk(x, 300)[0], torch.topk(i, 60, largest=False)[0]), lambda: (RI(0, 3, (2, 8000)).float(), RI(-2, 2, (1, 40000))))
case_of("topk_all", lambda x: tuple(torch.topk(x, x.shape[-1])), *[lambda n=n: (torch.randperm(2 * n).view(2, n).float(),) for n in (900, 3, 1000)], dims=({1: Dim("n", min=1, max=1000)},))
case_of("scan_longer", lambda x, i: (x.cumsum(1), i.cumsum(1), *x.cummax(1), torch.where(x.cumsum(1) - x > 3, 0.0, x).cumsum(1), x.cumsum(1).sum(1)), lambda: (R(2, 9003), RI(-9, 9, (1, 20481))))
NAN = float("nan")
# Quotients by a row's largest that are exact: the largest over itself, and ties of quantised rows.
case_of("rows_over_largest", lambda x: ((x / x.abs().amax(-1, keepdim=True)).abs().amax(-1) == 1, (x / (x.abs().amax(-1, keepdim=True) / 127)).round().to(torch.int8), x.softmax(-1)),
        lambda: (torch.cat([R(64, 700), RI(-254, 255, (64, 700)).float() / 2]),))
# Few long rows, which the blocks of a cluster share.
case_of("rows_together_f32", lambda x: (x.log_softmax(1), x.argmax(1), x.argmin(1), (x * x.exp()).sum(1), torch.where(x >= 0.5 * x.amax(1, keepdim=True), x, -9.0).argmax(1)), lambda: (R(3, 20011),))
case_of("rows_together_bf16", lambda x, w: (torch.softmax(x * 0.5, -1) + x, F.rms_norm(x, (16384,), w), x.std(-1)), lambda: (R(2, 16384).bfloat16(), R(16384).bfloat16()))
case_of("rows_together_f16", lambda x: F.group_norm(x, 4), lambda: (R(2, 32, 40, 40).half(),))
case_of("rows_together_f64", lambda x, i: (x.logsumexp(1), torch.softmax(x, 1), i.amax(1), i.sum(1), i.argmin(1)), lambda: (R(1, 9001).double(), RI(-99, 99, (2, 7000))))
case_of("rows_together_scan", lambda x, i: (torch.where(x.cumsum(1) - x > 0.9, 0.0, x) / x.sum(1, keepdim=True), *i.cummax(1), i.cumsum(1)), lambda: (torch.rand(2, 8101).softmax(1), RI(-9, 9, (1, 12288))))
case_of("rows_together_dynamic", lambda x: (torch.softmax(x, -1), x.argmax(-1), x.cumsum(-1)), *[lambda n=n, r=r: (R(r, n),) for r, n in ((2, 9000), (1, 1), (3, 7), (2, 32767))],
        dims=({0: Dim("rows", min=1, max=64), 1: Dim("n", min=1, max=40000)},))
case_of("rows_together_odd", lambda x: (x.log_softmax(-1), x.argmax(-1), x.amax(-1), x.cumsum(-1)), lambda: (odd_numbers(2, 9001),))
case_of("sort_packed", lambda x, i, h, b: (*x.sort(1), *x.sort(1, descending=True), *i.sort(dim=0, stable=True), *i.sort(dim=0, stable=True, descending=True), h.sort(1)[0], *b.sort(dim=1, stable=True)),
        lambda: (torch.randperm(3 * 1500).view(3, 1500).float() - 700, RI(-50, 50, (700, 3), dtype=torch.int32), R(2, 300).half(), RI(0, 2, (4, 90)).bool()))
case_of("sort_packed_long", lambda x, y: (*x.sort(1), *y.sort(0, descending=True)), lambda: (torch.randperm(30011).view(1, 30011).float() / 7, torch.randperm(2 * 9001).view(9001, 2).float()))
case_of("sort_radix", lambda x, y, z, h, b: (*x.sort(1), *y.sort(0, descending=True), *z.sort(dim=1, descending=True, stable=True), *h.sort(dim=1, stable=True), *b.sort(dim=1, descending=True, stable=True)),
        lambda: (torch.randperm(20011).view(1, 20011).float() / 7, torch.randperm(2 * 9001).view(9001, 2).float() - 900, RI(-40, 40, (3, 5000), dtype=torch.int32), R(2, 6001).half(), R(1, 9000).bfloat16()))
case_of("sort_radix_nan", lambda x: (x.sort(1)[0], x.sort(1, descending=True)[0]), lambda: (torch.where(R(2, 8200) > 2, NAN, R(2, 8200).round() * torch.tensor([0.0, -0.0, float("inf"), -float("inf")]).repeat(2050).view(1, 8200).nan_to_num()),))
case_of("sort_radix_dynamic", lambda x: tuple(x.sort(0)), *[lambda n=n: (torch.randperm(n).float(),) for n in (9000, 3, 16385)], dims=({0: Dim("n", min=2, max=40000)},))
case_of("sort_dealt", lambda x, y, i, h, b: (*x.sort(1), *y.sort(0, descending=True), *i.sort(dim=1, descending=True, stable=True), *h.sort(dim=1, stable=True), *b.sort(dim=1, descending=True, stable=True)),
        lambda: (torch.randperm(33011).view(1, 33011).float() / 7, torch.randperm(2 * 20001).view(20001, 2).float() - 900, RI(-40, 40, (2, 18000), dtype=torch.int32), R(2, 22001).half(), R(1, 25000).bfloat16()))
case_of("sort_dealt_nan", lambda x: (x.sort(1)[0], x.sort(1, descending=True)[0]), lambda: (torch.where(R(1, 40000) > 2, NAN, R(1, 40000).round() * torch.tensor([0.0, -0.0, float("inf"), -float("inf")]).repeat(10000).view(1, 40000).nan_to_num()),))
case_of("sort_dealt_dynamic", lambda x: tuple(x.sort(0)), *[lambda n=n: (torch.randperm(n).float(),) for n in (30000, 3, 16385, 1)], dims=({0: Dim("n", min=1, max=60000)},))
case_of("sampling_top_p", lambda x, u: (lambda p, i: i.gather(-1, (torch.where(p.cumsum(-1) - p < 0.9, p, 0.0).cumsum(-1) < u).sum(-1, keepdim=True)))(*torch.softmax(x, -1).sort(-1, descending=True)), lambda: (R(2, 20000) * 4, torch.tensor([[0.1], [0.7]])))
case_of("sort_packed_nan", lambda x: (x.sort()[0], x.sort(descending=True)[0]), lambda: (torch.tensor([3.0, NAN, -0.0, 0.0, float("inf"), -1.0, 7.0, -float("inf"), NAN]),))
case_of("sort_packed_dynamic", lambda x: tuple(x.sort(0)), *[lambda n=n: (torch.randperm(n).float(),) for n in (2000, 3, 4097)], dims=({0: Dim("n", min=2, max=50000)},))
case_of("topk_bounded_warps", lambda x, y, z, i: (*torch.topk(x, 20, largest=False), *torch.topk(y, 5, dim=1), torch.topk(z, 32)[0], torch.topk(i, 9)[0], torch.topk(x[:, :90], 32)[0]),
        lambda: (torch.randperm(600 * 300).view(600, 300).float() - 900, torch.randperm(4 * 700 * 150).view(4, 700, 150).float(), (R(600, 900) * 2).round(), RI(-3, 3, (700, 100))))
case_of("rows_times_themselves", lambda x, w: (lambda y: y @ y.mT)(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w), lambda: (R(2, 64), R(64)))
case_of("scan_parts", lambda x, y: (x.cumsum(-1), x.cummin(-1).values, (x * 0.001 + 1).cumprod(-1), y.logcumsumexp(-1)), lambda: (R(1, 270001), torch.cat([torch.tensor([float("-inf")] * 5000), R(28000)])))
case_of("index_put_neighbours", lambda x, y, i, v: (x.index_copy(2, i, v), y.index_put((i,), y[:4] * 2, accumulate=True), y[:, 1:].index_copy(0, i, y[:4, 1:])), lambda: (R(2, 3, 40, 16).half(), R(20, 24), torch.tensor([3, 19, 3, 0]), R(2, 3, 4, 16).half()))
# Many entries of blocks that take several; places that later entries name again, near and far.
case_of("index_put_many", lambda x, i, v: (x.index_copy(0, i, v), x.mT.index_copy(1, i, v.mT) * 2), *[lambda n=n: (R(300, 24), RI(0, 300, (n,)), R(n, 24)) for n in (700, 1, 9, 1300)], dims=(None, {0: Dim("n", min=1, max=2000)}, {0: Dim("n", min=1, max=2000)}))
# Parts of a line that begin at multiples of what a thread takes at once, and elsewhere; conditions on places.
case_of("lines_of_parts", lambda x, y, z: (torch.cat([x, y * 2, z], -1), torch.cat([z[..., :12], x, y[..., :4]], -1), F.pad(x, (8, 16), value=3.0), F.pad(y, (-8, 3)),
                                           torch.cat((-x[..., 32:], x[..., :32]), -1) * x, torch.where(torch.arange(64) < 24, x, x.flip(-1)), torch.where(torch.arange(64) > 23, x, 1.0), x.roll(16, -1)),
        lambda: (R(3, 5, 64).half(), R(3, 5, 24).half(), R(3, 5, 40).half()))
case_of("lines_of_parts_dynamic", lambda x, y: (torch.cat([x, y], -1), torch.cat((-x[..., 4:], x[..., :4]), -1) + x, F.pad(x, (4, 0))), *[lambda n=n: (R(n, 8), R(n, 12)) for n in (7, 1, 40)], dims=({0: Dim("n", min=1, max=50)},) * 2)
case_of("places_in_parts", lambda x, y, z, i: (x.argmax(-1), x.argmin(-1), y.argmax(), z.argmax(-1), i.argmin(1), i.argmax(1, keepdim=True)),
        lambda: (R(3, 20011), (R(3, 70, 101) * 3).round(), torch.where(R(2, 17000) > 3, NAN, R(2, 17000)), RI(-50, 50, (2, 33000))))
case_of("places_in_parts_half", lambda x, y: (x.argmax(-1), y.argmax(-1)), lambda: (R(2, 32768).bfloat16(), torch.full((1, 16390), float("-inf")).half()))
case_of("places_in_parts_dynamic", lambda x: x.argmax(-1), *[lambda n=n: (R(2, n),) for n in (20000, 3, 16385, 1)], dims=({1: Dim("n", min=1, max=60000)},))
case_of("rows_held_odd", lambda x, y, w, t: (torch.softmax(x, -1) + x, F.cross_entropy(y, t), F.layer_norm(x.half(), (3001,), w.half()), torch.softmax(x[:, ::3], -1)), lambda: (R(5, 3001), R(4, 9001), R(3001), RI(0, 9001, (4,))))
case_of("scan_parts_lines", lambda x, y, i: (x.cumsum(-1), y.logcumsumexp(-1), i.cumsum(-1), x.half().cumsum(-1, dtype=torch.float32), (x.flip(-1) * 0.001).cumsum(-1).flip(-1)), lambda: (R(3, 20001), R(2, 16384) * 9, RI(-9, 9, (2, 17000))))
case_of("scan_parts_dynamic", lambda x, y: (x.cumsum(-1), y.logcumsumexp(-1)), *[lambda n=n: (R(n), R(2, n)) for n in (40000, 3, 16385, 1)], dims=({0: Dim("n", min=1, max=100000)}, {1: Dim("n", min=1, max=100000)}))
case_of("scatter_last", lambda x, i, v, y, j: (x.scatter(1, i, v), y.scatter(0, j, 7)), lambda: (R(3, 7001), RI(0, 7001, (2, 6000)), R(3, 6500), RI(-9, 9, (900, 30)), RI(0, 40, (900, 17))))
case_of("scatter_last_sorted", lambda x, m: x.masked_fill(m.scatter(1, x.argsort(-1), m), 0.0), lambda: (torch.randperm(3 * 7001).view(3, 7001).float(), torch.rand(3, 7001) > 0.5))
case_of("scatter_last_dynamic", lambda x, i, v: x.scatter(1, i, v), *[lambda n=n: (R(2, n, 3), RI(0, n, (2, n, 3)), R(2, n, 3)) for n in (9000, 3, 1)], dims=({1: Dim("n", min=1, max=20000)}, {1: Dim("n", min=1, max=20000)}, {1: Dim("n", min=1, max=20000)}))
