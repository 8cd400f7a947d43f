"""Regions of torch.autocast: operators that cast down, up to float32, to the widest operand, and those that leave theirs alone."""
import torch
import torch.nn.functional as F

from exact import Case, suite


def regions(dtype):
    r = torch.randn
    x, y, w, image, kernel = r(6, 8), r(6, 8), r(5, 8), r(2, 3, 8, 8), r(4, 3, 3, 3)
    low, index = r(6, 8).to(dtype), torch.tensor([0, 3, 7, 7, 1, 2])

    def inside(f):
        def g(*args):
            with torch.autocast("cpu", dtype=dtype):
                return f(*args)

        return g

    def nested(x, w):
        with torch.autocast("cpu", dtype=dtype):
            a = F.linear(x, w)
            with torch.autocast("cpu", enabled=False):
                b = F.linear(a.to(w.dtype), w[:, :5])
            with torch.no_grad():
                c = F.linear(b, w[:, :5])
        return a, b, c, F.linear(x, w)

    cases = [
        ("linear", lambda x, w: (F.linear(x, w), F.linear(x, w, w[:, 0])), [x, w]), ("products", lambda x, y: (x @ y.T, torch.mm(x, y.T), torch.bmm(x[None], y.T[None]), torch.addmm(y[:, :6], x, y.T)), [x, y]),
        ("einsum", lambda x, y: (torch.einsum("ij,kj->ik", x, y), torch.inner(x, y), torch.linalg.multi_dot([x, y.T, x])), [x, y]), ("baddbmm", lambda x, y: torch.baddbmm(x[:, :6][None], x[None], y.T[None], alpha=0.5), [x, y]),
        ("conv2d", lambda x, k: (F.conv2d(x, k, padding=1), F.conv_transpose2d(x, k.transpose(0, 1), stride=2), F.conv1d(x[:, :, 0], k[:, :, 0]), F.conv2d(x, k, padding="same").relu().mean((2, 3))), [image, kernel]),
        ("prelu", lambda x, w: F.prelu(x, w[0, :1]), [x, w]), ("attention", lambda x, y: F.scaled_dot_product_attention(x[None, None], y[None, None], x[None, None]), [x, y]),
        ("widest", lambda x, low: (torch.cat([x, low]), torch.stack([low, x]), torch.cat([low, low]), torch.index_copy(x, 0, torch.tensor([0]), low[:1])), [x, low]),
        ("alone", lambda x, low: (x + low, low.exp(), low.softmax(1), low.sum(), low * 2, x.exp(), F.gelu(low), low.mean(0), F.layer_norm(low, (8,)), low.cumsum(0), low.float() + x, low.double().sum()), [x, low]),
        ("wide", lambda low, y: (low.prod(1), F.mse_loss(low, y), F.l1_loss(low, low), torch.cdist(low, low + 1), F.huber_loss(low, y), torch.trace(low)), [low, y]),
        ("wide losses", lambda low, i: (F.cross_entropy(low, i), F.nll_loss(low.log_softmax(1), i), F.binary_cross_entropy_with_logits(low, low.sigmoid())), [low, index]),
        ("chain", lambda x, w: F.linear(F.layer_norm(F.linear(x, w).relu(), (5,), w[:, 0]), w[:, :5]).softmax(-1), [x, w]), ("quantile", lambda low: (torch.quantile(low, 0.3), F.pad(low[None], (1, 1), mode="reflect")), [low]), ("spectrum", lambda low: torch.view_as_real(torch.fft.rfft(low)), [low]),
    ]
    cases = [Case(f"{name} {dtype}", inside(f), inputs, close=True) for name, f, inputs in cases]
    return cases + [Case(f"nested {dtype}", nested, [x, w], close=True)]


@suite
def autocast_bfloat16():
    return regions(torch.bfloat16)


@suite
def autocast_float16():
    return regions(torch.float16)
