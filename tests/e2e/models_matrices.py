"""Singular values, eigenvalues and what is made of them."""
import torch
from torch.export import Dim

from models import Fn, decomposed, model


@model
def spectra_dynamic():
    """Singular values, eigenvalues, what is made of their vectors, and exponentials, over any batch and size."""

    def f(x, points, square, few):
        u, s, vh = torch.linalg.svd(points.mT @ points.flip(1))  # the rotation that moves points onto others
        turn = u @ torch.diag_embed(torch.stack((torch.ones_like(s[:, 0]), torch.ones_like(s[:, 0]), torch.det(u @ vh)), -1)) @ vh
        values, vectors = torch.linalg.eigh(x @ x.mT / 10)
        upper = torch.linalg.eigvalsh(x, UPLO="U")
        whole, _, _ = torch.linalg.svd(few)
        thin, sizes, right = torch.svd(few.mT)
        return (turn, points @ turn, values, vectors @ (values[..., None].clamp(min=0).sqrt() * vectors.mT), upper, (whole @ whole.mT), whole[..., :4] @ whole[..., :4].mT,
                thin @ torch.diag_embed(sizes) @ right.mT, torch.linalg.pinv(few), torch.linalg.pinv(few @ few.mT + torch.eye(6), hermitian=True), torch.linalg.matrix_rank(few[..., :1] @ few[..., :1].mT),
                torch.linalg.cond(few), torch.linalg.matrix_norm(few, "nuc"), torch.linalg.matrix_norm(few.mT, 2, keepdim=True), torch.linalg.matrix_norm(few, -2),
                torch.linalg.svdvals(few[:0]), torch.linalg.matrix_exp(square), torch.linalg.matrix_exp(-30 * few @ few.mT), torch.pinverse(points[0], 1e-3),
                *torch.linalg.svd(few, full_matrices=False), *torch.linalg.svd(few.mT, full_matrices=False), torch.linalg.eigh(square)[1])  # with the signs that verify compares

    n = Dim("n", min=2, max=60)
    return Fn(f), (torch.randn(2, 20, 20), torch.randn(5, 17, 3), torch.randn(3, 7, 7), torch.randn(9, 6, 4)), ({1: n, 2: n}, {0: Dim("b", min=1, max=40), 1: Dim("p", min=3, max=100)}, {0: Dim("c", min=1, max=9)}, None)


@model
def reflections_of_any_size():
    """QR factors, their reflections and products with them, factors of LU apart: of hundreds of rows and columns."""

    def f(x, square, y):
        q, r = torch.linalg.qr(x)
        wide, upper = torch.linalg.qr(x.mT, mode="complete")
        packed, tau = torch.geqrf(x)
        lu, pivots = torch.linalg.lu_factor(square)
        p, lower, u = torch.lu_unpack(lu, pivots)
        return (q, r, wide, upper, torch.linalg.qr(x, mode="r")[1], packed, tau, torch.linalg.householder_product(packed, tau), torch.ormqr(packed, tau, y, transpose=True), torch.ormqr(packed, tau, y.mT, left=False),
                torch.linalg.solve_triangular(r, q.mT @ y, upper=True), torch.linalg.lu_solve(lu, pivots, square[:, :2]), torch.linalg.lu_solve(lu, pivots, square[:3], left=False), p, p @ lower @ u)

    return Fn(f), (torch.randn(211, 197), 4 * torch.eye(190) + torch.randn(190, 190) / 20, torch.randn(211, 3)), None


@model
def factors_of_sizes_that_move():
    """QR factors over any number of rows and columns, numbers at the ends of the range among them."""

    def f(x, y):
        q, r = torch.linalg.qr(x)
        small, _ = torch.linalg.qr(y * 1e-30)
        large, up = torch.linalg.qr(y * 1e30)
        return q, r, small, large, up * 1e-30, torch.linalg.qr(torch.triu(y))[1], torch.linalg.qr(y * 0)[1], torch.linalg.qr(y.mT, mode="complete")[1], torch.linalg.qr(y, mode="r")[1]

    n = Dim("n", min=1, max=300)
    return Fn(f), (torch.randn(3, 20, 20), torch.randn(7, 4)), ({0: Dim("b", min=1, max=9), 1: n, 2: n}, {0: Dim("rows", min=4, max=99)})


@decomposed
def systems_taken_apart():
    """What PyTorch asserts of factorisations are effects in an order then, with tokens as inputs and outputs."""

    def f(x, y):
        a = x @ x.mT + torch.eye(4)
        return torch.linalg.solve(a, y), torch.linalg.inv(a), torch.linalg.cholesky(a), torch.linalg.det(a)

    b = Dim("batch", min=1, max=9)
    return Fn(f), (torch.randn(3, 4, 4), torch.randn(3, 4, 2)), ({0: b}, {0: b})


@model
def complex_factors():
    """Cholesky factors of complex matrices, of which one half and the real parts of the diagonal are read; inverses and solutions."""

    def f(z):
        n = z.shape[-1]
        a = z @ z.mH + 4 * torch.eye(n)
        half = a.tril() + 1j * torch.diag_embed(z.real[..., 0]) + z.triu(1) * 9
        return torch.linalg.cholesky(half), torch.linalg.cholesky(half.mH, upper=True), torch.linalg.cholesky_ex(half)[1], torch.linalg.inv(a), torch.linalg.solve(a, z), torch.linalg.solve(a, z, left=False), torch.linalg.inv_ex(half)[1]

    return Fn(f), (torch.randn(3, 5, 5, dtype=torch.cfloat),), ({0: Dim("b", min=1, max=9)},)
