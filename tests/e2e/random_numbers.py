"""What an artifact's random numbers are distributed as, and that their state makes them: random_numbers.py --aotc BIN --work DIR

Every distribution against the exact one (Kolmogorov and Smirnov's distance, chi-square of counts; the seed is fixed, so a result never changes), what is
independent of what, runs that follow each other, two contexts, the seed written and the state reset."""
import ctypes
import math
import os
import subprocess
import sys

import numpy as np
import torch
import torch.distributions as D
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
import arguments
import binding

N = 1 << 17


class Sampler(nn.Module):
    def forward(self, x, w):
        e = torch.empty_like
        return (torch.rand_like(x), torch.randn_like(x), e(x).exponential_(2.0), e(x).log_normal_(0.0, 0.5), e(x).cauchy_(1.0, 2.0), e(x).uniform_(-1, 4),
                torch.randn_like(x.double()), torch.rand_like(x.double()), torch.rand_like(x.half()),
                torch.randint(0, 7, (N,)), torch.randint(-(1 << 40), 1 << 40, (N,)), e(x).geometric_(0.25), torch.bernoulli(x * 0 + 0.3), F.dropout(x * 0 + 1, 0.2, True),
                torch.multinomial(w, N, replacement=True), torch.multinomial(w.expand(N, 5), 2), torch.randperm(N))


def distance(sample, cdf):
    """sqrt(n) times the largest distance between the sample's distribution function and the exact one: above 1.95 once in a thousand."""
    x = np.sort(sample.astype(np.float64).ravel())
    exact = cdf(torch.from_numpy(x)).numpy()
    n = len(x)
    return math.sqrt(n) * max(np.abs(exact - np.arange(n) / n).max(), np.abs(exact - np.arange(1, n + 1) / n).max())


def chi(counts, expected):
    """(chi-square - degrees) / sqrt(2 degrees): above 4 hardly ever."""
    degrees = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - degrees) / math.sqrt(2 * degrees)


def run(context, inputs):
    out = context.output_arrays(inputs)
    context.run(inputs, binding.tensors(out, [i.dtype for i in context.out_infos]))
    return out


def state(context, value=None):
    array = np.array([0, 0] if value is None else value, np.int64)
    call = context.artifact.api.state_read if value is None else context.artifact.api.state_write
    context.artifact.check(call(context.handle, b"random_state", binding.tensors([array], [6])))
    return array.tolist()


def main():
    o = arguments.parse()
    path = os.path.join(o.work, "sampler")
    args = torch.ones(N), torch.tensor([0.1, 0.4, 0.0, 0.3, 0.2])
    torch.export.save(torch.export.export(Sampler(), args, strict=False), path + ".pt2")
    subprocess.run([o.aotc, "build", path + ".pt2", "-o", path + ".so", "--quiet"], check=True)
    artifact = binding.Artifact(path + ".so").create()
    inputs = binding.tensors([a.numpy() for a in args], [9, 9])
    context = artifact.context()
    assert state(context) == [0, 0]
    (uniform, normal, exponential, log_normal, cauchy, between, normal64, uniform64, uniform16, small, large, geometric, coins, kept, picks, pairs, order) = first = run(context, inputs)
    assert state(context) == [0, 1], "a run counts"

    distances = {
        "uniform": distance(uniform, D.Uniform(0, 1).cdf), "normal": distance(normal, D.Normal(0, 1).cdf), "exponential": distance(exponential, D.Exponential(2.0).cdf),
        "log normal": distance(log_normal, lambda x: D.Normal(0, 0.5).cdf(x.log())), "cauchy": distance(cauchy, D.Cauchy(1.0, 2.0).cdf),
        "between": distance(between, D.Uniform(-1, 4).cdf), "normal f64": distance(normal64, D.Normal(0, 1).cdf), "uniform f64": distance(uniform64, D.Uniform(0, 1).cdf),
        "large": distance(large, D.Uniform(-float(1 << 40), float(1 << 40)).cdf),
        "products": distance(normal[: N // 2] * normal[N // 2 :], lambda x: product_cdf(x)),
    }
    for name, d in distances.items():
        assert d < 1.95, f"{name}: {d:.2f}"
    counts = {
        "small": chi(np.bincount(small, minlength=7), np.full(7, N / 7)),
        "coins": chi(np.bincount(coins.astype(int), minlength=2), N * np.array([0.7, 0.3])),
        "kept": chi(np.bincount((kept > 0).astype(int), minlength=2), N * np.array([0.2, 0.8])),
        "geometric": chi(np.append(np.bincount(geometric.astype(int), minlength=13)[1:13], (geometric > 12).sum()),
                         N * np.append(0.25 * 0.75 ** np.arange(12), 0.75**12)),
        "picks": chi(np.bincount(picks, minlength=5)[[0, 1, 3, 4]], N * np.array([0.1, 0.4, 0.3, 0.2])),
        "first of pairs": chi(np.bincount(pairs[:, 0], minlength=5)[[0, 1, 3, 4]], N * np.array([0.1, 0.4, 0.3, 0.2])),
        "1 before 0": chi(np.array([(pairs == [0, 1]).all(1).sum(), (pairs == [1, 0]).all(1).sum()]),
                          (pairs.sum(1) == 1).sum() * np.array([0.1 / 0.9, 0.1 / 0.6]) / (0.1 / 0.9 + 0.1 / 0.6)),
        "16 bits": chi(np.bincount((uniform16.astype(np.float64) * 2048).astype(int), minlength=2048), np.full(2048, N / 2048)),
    }
    for name, d in counts.items():
        assert d < 4, f"{name}: {d:.2f}"
    assert 0 <= uniform.min() and uniform.max() < 1 and np.isfinite(normal).all() and np.isfinite(exponential).all() and exponential.min() >= 0
    assert not (picks == 2).any() and not (pairs == 2).any() and (pairs[:, 0] != pairs[:, 1]).all(), "what has no weight, or was picked"
    assert (np.sort(order) == np.arange(N)).all() and (order != np.arange(N)).mean() > 0.99
    assert np.allclose(kept[kept > 0], 1.25)
    related = np.corrcoef([uniform, normal, normal64, exponential, between, np.roll(uniform, 1), np.roll(normal, 1), order.astype(float)])
    assert np.abs(related - np.eye(len(related))).max() < 5 / math.sqrt(N), related

    same = lambda a, b: all((x.view(np.uint8) == y.view(np.uint8)).all() for x, y in zip(a, b))
    second, other = run(context, inputs), artifact.context()
    assert not any((x == y).mean() > 0.9 for x, y in zip(first[:9], second[:9])), "runs draw numbers of their own"
    assert abs(np.corrcoef(first[0], second[0])[0, 1]) < 5 / math.sqrt(N)
    assert same(run(other, inputs), first) and same(run(other, inputs), second), "contexts begin alike"
    artifact.check(artifact.api.state_reset(context.handle, b"random_state"))
    assert same(run(context, inputs), first), "after a reset"
    state(context, [0, 1])
    assert same(run(context, inputs), second), "a run can be had again"
    state(context, [12345, 0])
    assert not any((x == y).mean() > 0.9 for x, y in zip(first[:9], run(context, inputs)[:9])), "another seed, other numbers"
    print(f"{len(distances) + len(counts)} distributions of {N} numbers; distances", {k: round(float(v), 2) for k, v in (distances | counts).items()})


def product_cdf(x):
    """Of two independent normal numbers' product, by its density K0(|x|) / pi: neighbours that hang together would show."""
    grid = torch.linspace(0, 40, 400001, dtype=torch.float64)
    middle = (grid[1:] + grid[:-1]) / 2
    mass = torch.special.modified_bessel_k0(middle) / math.pi * (grid[1] - grid[0])
    sums = torch.cat([torch.zeros(1, dtype=torch.float64), mass.cumsum(0)])
    sums = sums / sums[-1] * 0.5
    at = (x.abs() / (grid[1] - grid[0])).clamp(max=len(grid) - 2)
    low = at.long()
    half = sums[low] + (at - low) * (sums[low + 1] - sums[low])
    return 0.5 + torch.sign(x) * half


if __name__ == "__main__":
    main()
