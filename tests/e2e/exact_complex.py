"""Complex functions over a grid of special values in both parts."""
import itertools
import math

import torch

from exact import Case, suite

NAN, INF = math.nan, math.inf
PARTS = [0.0, -0.0, 1.0, -1.0, 88.0, 90.0, 1000.0, INF, -INF, NAN, 1e30, 1e-30, 0.5, -2.5, -90.0, -1000.0, 23.0, -30.0, 710.0, 3e38, 1e-44]
COMPLEX = {
    "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal, "sigmoid": torch.sigmoid, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh,
    "z**-2": lambda z: z**-2, "z**0": lambda z: z**0, "z**1": lambda z: z**1, "z**-1": lambda z: z**-1, "z**0.5": lambda z: z**0.5, "z**-0.5": lambda z: z**-0.5, "z**2.5": lambda z: z**2.5, "z**-3": lambda z: z**-3, "z**2j": lambda z: z**2j, "z**z": lambda z: z**z, "2**z": lambda z: torch.pow(2.0, z), "1j**z": lambda z: torch.pow(1j, z), "0**z": lambda z: torch.pow(0.0, z),
    "exp2": torch.exp2, "expm1": torch.expm1, "log2": torch.log2, "log10": torch.log10, "1/z": lambda z: 1 / z, "z/w": lambda z: z / z.flip(0), "z/2": lambda z: z / 2, "z/0": lambda z: z / 0, "z/1j": lambda z: z / 1j, "z*2": lambda z: z * 2, "z*x": lambda z: z * z.real, "z*1j": lambda z: z * 1j, "z+0": lambda z: z + 0, "z+w": lambda z: z + z.flip(0), "z-w": lambda z: z - z.flip(0), "z+2w": lambda z: torch.add(z, z.flip(0), alpha=2), "rsub": lambda z: torch.rsub(z, z.flip(0)), "addcdiv": lambda z: torch.addcdiv(z, z.flip(0), z), "z-0": lambda z: z - 0, "conj": torch.conj_physical,
}


def grid(dtype):
    return torch.tensor(list(itertools.product(PARTS, PARTS)), dtype=torch.float64).to(dtype)


def complex_rows(dtype):
    x = grid(dtype)

    def of(f):
        return lambda t: torch.view_as_real(f(torch.view_as_complex(t)))

    near = 2e-4 if dtype == torch.float32 else 1e-11
    return [Case(f"{name} {dtype}", of(f), [x], signs=True, near=near) for name, f in COMPLEX.items()]


@suite
def complex_float32():
    return complex_rows(torch.float32)


@suite
def complex_float64():
    return complex_rows(torch.float64)
