"""Where results lie in memory that are an operand themselves: what is read of it beyond them, and what writes to them reach."""
import torch
import torch.nn.functional as F

from exact import Case, suite

GIVE_BACK = {
    "dropout": lambda x: F.dropout(x, 0.5, False),
    "dropout of nothing": lambda x: F.dropout(x, 0.0, True),
    "dropout twice": lambda x: F.dropout(F.dropout(x, 0.5, False), 0.1, False),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, False),
    "feature_dropout": lambda x: F.dropout1d(x, 0.5, False),
    "detach": lambda x: x.detach(),
    "to": lambda x: x.to(torch.float32),
    "conj_physical": torch.conj_physical,
    "chain_matmul, a copy": lambda x: torch.chain_matmul(x),
    "sum_to_size": lambda x: x.sum_to_size(x.shape),
}
SLICES = {"rows": lambda x: x[1:], "columns": lambda x: x[:, 1:], "turned": lambda x: x.t()[1:], "steps": lambda x: x[1::2], "all": lambda x: x}
# From a slice of what was given back; shapes are of a tensor of 4 x 6.
READS = {
    "as_strided": lambda x: x[1:].as_strided((2, 3), (1, 2)),
    "as_strided here": lambda x: x.as_strided((2, 2), (2, 1)),
    "as_strided elsewhere": lambda x: x[1:].as_strided((2, 3), (1, 2), 2),
    "turned": lambda x: x.mT[1:].as_strided((2,), (3,)),
    "selected": lambda x: x.select(0, 1).as_strided((2, 2), (1, 1)),
}
# contiguous() is not among them: torch.export drops it by the places that it misstates.
WRITES = {
    "reshape": lambda x: x.reshape(-1),
    "flatten": lambda x: x.flatten(),
    "rows": lambda x: x[1:],
    "turned": lambda x: x.t(),
    "rows reshaped": lambda x: x[1:].reshape(-1),
    "as_strided": lambda x: x[1:].as_strided((2,), (2,)),
}


@suite
def read_beside_what_is_given_back():
    x = torch.randn(4, 6)
    return [
        Case(f"{read} of {back} of {cut}", lambda x, r=READS[read], b=GIVE_BACK[back], c=SLICES[cut]: r(b(c(x * 1))), [x])
        for read in READS for back in GIVE_BACK for cut in SLICES
    ]


@suite
def written_through_what_is_given_back():
    x = torch.randn(4, 6)

    def written(x, cut, back, view):
        base = x * 1
        view(back(cut(base))).add_(1)
        return base

    return [
        Case(f"{view} of {back} of {cut}", lambda x, v=WRITES[view], b=GIVE_BACK[back], c=SLICES[cut]: written(x, c, b, v), [x])
        for view in WRITES for back in GIVE_BACK for cut in SLICES
    ]


@suite
def read_beside_what_is_given_back_at_any_size():
    x = torch.randn(5, 6)
    names = ("as_strided", "as_strided here", "as_strided elsewhere", "selected")
    return [Case(f"{read} of {back}", lambda x, r=READS[read], b=GIVE_BACK[back]: r(b((x * 1)[1:])), [x]) for read in names for back in GIVE_BACK]


read_beside_what_is_given_back_at_any_size.moves = (0,)


@suite
def written_through_reshapes_at_any_size():
    """Copies and views, which strides of symbolic sizes tell apart."""
    x = torch.randn(5, 6)
    views = {
        "turned": lambda x: x.t().flatten(),
        "turned back": lambda x: x.t().t().flatten(),
        "columns": lambda x: x[:, 1:].reshape(-1),
        "columns apart": lambda x: x[:, 1:5].reshape(x.shape[0], 2, 2),
        "columns joined": lambda x: x.unflatten(1, (2, 3))[:, :, 1:].reshape(x.shape[0], 4),
        "rows apart": lambda x: x.unflatten(1, (2, 3)).reshape(-1, 3),
        "halves": lambda x: x.unflatten(1, (2, 3)).transpose(1, 2).reshape(x.shape[0], 6),
        "one column": lambda x: x[:, 2].reshape(-1),
        "repeated": lambda x: x[:, 2:3].reshape(1, -1, 1),
    }

    def written(x, view):
        base = x * 1
        view(base).add_(1)
        return base

    return [Case(name, lambda x, v=v: written(x, v), [x]) for name, v in views.items()]


written_through_reshapes_at_any_size.moves = (0,)
