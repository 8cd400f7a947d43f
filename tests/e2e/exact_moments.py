"""Variances and what is normalised by them, of numbers whose mean is large beside their deviation, and of those whose squares or sums leave the type."""
import torch
import torch.nn.functional as F

from exact import Case, suite

MOMENTS = {
    "var": lambda x: (x.var(-1), x.var(0), x.var((0, 1), correction=0)), "std": lambda x: (x.std(-1), x.std(1), x.std()), "var_mean": lambda x: (*torch.var_mean(x, -1), *torch.var_mean(x, (0, 1))),
    "std_mean": lambda x: (*torch.std_mean(x, 1, correction=2), *torch.std_mean(x)),
}
NORMS = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]), "layer_norm of two dims": lambda x: F.layer_norm(x, x.shape[-2:], torch.ones(x.shape[-2:], dtype=x.dtype), torch.zeros(x.shape[-2:], dtype=x.dtype)),
    "group_norm": lambda x: F.group_norm(x, 2), "instance_norm": lambda x: F.instance_norm(x), "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
}


def rows(dtype, n, mean, deviation):
    return (torch.randn(3, 4, n, dtype=torch.float64) * deviation + mean).to(dtype)


def statistics_of(x):
    """What batch norm keeps."""
    mean, var = x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])
    F.batch_norm(x, mean, var, training=True)
    return mean, var


def in_float64(f):
    """Eager sums all elements, and the statistics of channels, in float32."""
    return lambda x: tuple(y.to(x.dtype) for y in f(x.double()))


@suite
def moments():
    cases = []
    far, wide = [(1e6, 1.0), (300.0, 0.01)], [(0.0, 1e18), (1e30, 1e28), (0.0, 1e-30)]
    for dtype, n, kinds in ((torch.float32, 7, far + wide), (torch.float32, 770, far + wide[:1]), (torch.float64, 64, [(10.0, 1.0)]), (torch.bfloat16, 64, far[1:] + wide[:1]), (torch.float16, 64, [(1e3, 1.0)])):
        for mean, deviation in kinds:
            for name, f in MOMENTS.items():
                if name.startswith("std") or deviation < 1e20:  # else it is infinite in the type of the result
                    cases.append(Case(f"{name} of {n} {dtype}, {mean:g} +- {deviation:g}", f, [rows(dtype, n, mean, deviation)], close=True, right=in_float64(f)))
    for n in (7, 770):
        for mean, deviation in far:
            cases += [Case(f"{name} of {n}, {mean:g} +- {deviation:g}", f, [rows(torch.float32, n, mean, deviation)], close=True) for name, f in NORMS.items()]
            cases.append(Case(f"statistics of {n}, {mean:g} +- {deviation:g}", statistics_of, [rows(torch.float32, n, mean, deviation)], close=True, right=in_float64(statistics_of)))
    return cases


@suite
def norms_of_equal_numbers():
    """Zero, whatever the number is. Eager's sums of squares run over in some lengths (NaN), and its batch norm scales before it subtracts."""
    cases = []
    forms = {**NORMS, "var": lambda x: x.var(-1, correction=0), "std": lambda x: x.std((1, 2))}
    for dtype, n, values in ((torch.float32, 9, (255.0, 1.2345e10, 1.2345e20, 1.2345e37)), (torch.float32, 770, (123456.789, 1.2345e30)), (torch.float64, 33, (0.1, 1.2345e37)), (torch.bfloat16, 33, (1.2345e37,))):
        for value in values:
            x = torch.full((3, 4, n), value, dtype=torch.float64).to(dtype)
            cases += [Case(f"{name} of {n} times {value:g} {dtype}", f, [x], right=lambda x, f=f: torch.zeros_like(f(x))) for name, f in forms.items()]
    return cases
