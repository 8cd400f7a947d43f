"""--reproducible: a row of an input gives the same bytes whatever rows stand beside it, on any number of threads, by code for AVX2 and for AVX-512.

    reproducible.py --aotc BIN --python-package DIR --work DIR
"""
import argparse
import os
import subprocess
import sys

import numpy
import torch
from torch import nn

MOST = 33
BATCHES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 16, 17, 25, 31, 32, MOST)
torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 96, dropout=0, batch_first=True), 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 5)

    def forward(self, x):
        return self.head(self.layers(x)[:, 0])


class Rows(nn.Module):
    """Reductions, a sort, a scan, a softmax: along each row."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(300), nn.Linear(300, 7)

    def forward(self, x):
        y = self.norm(x)
        return torch.cat([self.out(y), torch.cumsum(y, 1), torch.sort(y, 1).values, y.softmax(1), y.var(1, keepdim=True), y.logsumexp(1, keepdim=True)], 1)


class LongRows(nn.Module):
    """Rows of several pieces of a sum, some lanes left over, in every type of numbers."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(5003)

    def forward(self, x):
        y = [x.softmax(1), self.norm(x), x.std(1, keepdim=True), (x * x).mean(1, keepdim=True), x.amax(1, keepdim=True), x.logcumsumexp(1)[:, -9:]]
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            z = x.to(dtype)
            y += [z.softmax(1), nn.functional.layer_norm(z, (5003,)), z.cumsum(1)[:, -9:], (z * z).sum(1, keepdim=True)]
        return torch.cat([a.double() for a in y], 1)


class Functions(nn.Module):
    """Of values, zeros and infinities."""

    def forward(self, x):
        x = torch.where(x > 2, 100 * x, x)
        y = x.abs()
        return torch.cat([x.erf(), x.tanh(), x.sigmoid(), x.exp(), x.expm1(), x.exp2(), y.log(), y.log2(), y.log10(), y.log1p(), x.sin(), x.cos(), x.atan(),
                          x.asinh(), x.sinh(), x.double().tanh(), x.double().exp(), y.double().log(), nn.functional.gelu(x), nn.functional.silu(x),
                          y ** 1.7, y.rsqrt(), x.half().exp(), x.bfloat16().tanh(), x.cumprod(1)], 1)


class Attend(nn.Module):
    """Attention of few rows, whose scores are dot products, and of many."""

    def forward(self, x):
        q, k = x[:, :90].unflatten(1, (3, 1, 30)), x.unflatten(1, (1, 123, 30))
        attend = nn.functional.scaled_dot_product_attention
        return torch.cat([attend(q, k, k).flatten(1), attend(k, k, k, is_causal=True).flatten(1), attend(q.bfloat16(), k.bfloat16(), k.bfloat16()).flatten(1)], 1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTM(24, 40, batch_first=True), nn.GRU(40, 33, batch_first=True), nn.RNN(33, 72, batch_first=True)

    def forward(self, x):
        x = self.gru(self.lstm(x)[0])[0]
        return torch.cat([x, self.rnn(x)[0]], 2)


def conv_net():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 40, 1), nn.GELU(), nn.Conv2d(40, 40, 3, 1, 1, groups=40),
                         nn.Conv2d(40, 24, 5, padding=2), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))


def patches():
    """Images of a few pixels each, which blocks of pixels cut elsewhere in each batch."""
    return nn.Sequential(nn.Conv2d(3, 40, 8, 8), nn.GELU(), nn.Conv2d(40, 24, 3, 1, 1), nn.Conv2d(24, 3, 1), nn.Flatten())


NETS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(200, 333), nn.GELU(), nn.Linear(333, 64), nn.Tanh(), nn.Linear(64, 1)), (200,)),
    "wide": (lambda: nn.Sequential(nn.Linear(2304, 96), nn.ReLU(), nn.Linear(96, 40)), (2304,)),
    "encoder": (Encoder, (11, 64)),
    "conv": (conv_net, (3, 30, 34)),
    "patches": (patches, (3, 48, 56)),
    "rows": (Rows, (300,)),
    "recurrent": (Recurrent, (9, 24)),
    "long rows": (LongRows, (5003,)),
    "functions": (Functions, (211,)),
    "attend": (Attend, (3690,)),
}


def export(net, shape, path):
    x = torch.randn(MOST, *shape)
    batch = torch.export.Dim("batch", min=1, max=MOST)
    with torch.no_grad():
        torch.export.save(torch.export.export(net.eval(), (x[:4],), dynamic_shapes=({0: batch},)), path)
    return x.numpy()


def bits(a):
    return a.view(numpy.uint8).reshape(len(a), -1)


def rows_that_differ(model, x, all_rows):
    """Batches and threads at which some row is not that of the largest batch on one thread."""
    differ = []
    for threads in (1, 3):
        with model.context(threads=threads) as c:
            for n in BATCHES:
                for first in {0, MOST - n}:
                    if not numpy.array_equal(bits(c.run([numpy.ascontiguousarray(x[first:first + n])])[0]), all_rows[first:first + n]):
                        differ.append((n, first, threads))
    return differ


def main():
    p = argparse.ArgumentParser()
    for name in ("aotc", "python-package", "work"):
        p.add_argument("--" + name, required=True)
    o = p.parse_args()
    sys.path.insert(0, o.python_package)
    import aotc_runtime

    os.makedirs(o.work, exist_ok=True)

    def aotc(*words, exit_code=0):
        r = subprocess.run([o.aotc, *words], capture_output=True, text=True)
        assert r.returncode == exit_code, f"{words}: exit {r.returncode}\n{r.stdout}\n{r.stderr}"
        return r

    failed = 0
    for name, (make, shape) in NETS.items():
        pt2 = os.path.join(o.work, name + ".pt2")
        x = export(make(), shape, pt2)
        rows = {}
        for isa in ("avx2", "avx512"):
            so = os.path.join(o.work, f"{name}.{isa}.so")
            aotc("build", pt2, "-o", so, "--cpu", isa, "--reproducible", "--quiet")
            if isa == "avx2":
                aotc("verify", so, "--against", pt2, "--samples", "1", "--quiet")
                assert '"reproducible": true' in aotc("inspect", so, "--json").stdout
            try:
                model = aotc_runtime.load(so)
            except aotc_runtime.Error as e:
                print(f"     {name}: {isa} not run here: {e}")
                continue
            with model.context(threads=1) as c:
                rows[isa] = bits(c.run([x])[0])
            differ = rows_that_differ(model, x, rows[isa])
            if not numpy.array_equal(rows[isa], rows["avx2"]):
                differ.append(f"{(rows[isa] != rows['avx2']).any(1).sum()} of {MOST} rows differ from those of AVX2")
            failed += bool(differ)
            print(f"{'FAIL' if differ else 'ok  '} {name} {isa} {differ[:6] if differ else ''}", flush=True)
    mlp = os.path.join(o.work, "mlp.pt2")
    for words, why in ((("--cuda", "sm_90a"), "CPU"), (("--strassen",), "--strassen"), (("--weights", "int8", "--activations", "int8"), "--activations")):
        r = aotc("build", mlp, "-o", os.path.join(o.work, "no.so"), "--reproducible", *words, exit_code=2)
        assert why in r.stderr, r.stderr
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
