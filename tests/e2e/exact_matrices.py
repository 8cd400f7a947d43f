"""Matrices that eager refuses: singular ones, such that are not positive definite, NaN. The run fails, and says where."""
import torch

from exact import Case, Checked, faults, suite

NAN, INF = float("nan"), float("inf")
GOOD = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 5]])
RANK_2 = torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 1, 1]])
INDEFINITE = torch.tensor([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]])
SINGULAR = [RANK_2, torch.zeros(3, 3), torch.tensor([[0.0, 1, 0], [0, 2, 0], [0, 0, 3]])]
NOT_POSITIVE = [INDEFINITE, torch.zeros(3, 3), -GOOD, GOOD.where(GOOD != 4, NAN), GOOD.where(GOOD != 5, NAN)]
UNBOUNDED = [GOOD.where(GOOD != n, INF) for n in (4, 3, 5)]  # on the diagonal: an inverse of 0, not of the last
NOT_NUMBERS = [GOOD.where(GOOD != 4, NAN), GOOD.where(GOOD != 1, NAN)]
SAYS_SINGULAR, SAYS_NOT_POSITIVE, SAYS_NAN = "singular", "not positive definite", "has NaN"


@faults
def matrices():
    linalg, b = torch.linalg, torch.ones(3, 1)
    cases = []

    def add(f, others, says, start=GOOD):
        """What a run gives is not looked at here, only whether it gives something; infos are."""
        cases.append(Checked(f"case {len(cases)}", f, [start.clone()], [o.to(start.dtype) for o in others], says))

    for f in (linalg.inv, torch.inverse, lambda x: linalg.solve(x, b), lambda x: linalg.solve(x, b.T, left=False), lambda x: linalg.lu_factor(x)[0], lambda x: linalg.matrix_power(x, -2),
              lambda x: linalg.inv_ex(x, check_errors=True)[0], lambda x: linalg.lu_factor_ex(x, check_errors=True)[0], lambda x: linalg.tensorinv(x, ind=1), lambda x: linalg.tensorsolve(x, b[:, 0])):
        add(lambda x, f=f: f(x) * 0 == 0, SINGULAR, SAYS_SINGULAR)
    for f in (linalg.cholesky, torch.cholesky, lambda x: linalg.cholesky_ex(x, check_errors=True)[0], lambda x: linalg.cholesky(x, upper=True)):
        add(lambda x, f=f: f(x) * 0 == 0, NOT_POSITIVE, SAYS_NOT_POSITIVE)
    for f in (linalg.svdvals, lambda x: linalg.svd(x)[0], lambda x: linalg.svd(x[:2])[2], linalg.pinv, linalg.matrix_rank, linalg.cond, lambda x: linalg.matrix_norm(x, "nuc"), lambda x: linalg.matrix_norm(x, 2)):
        add(lambda x, f=f: f(x) * 0 == 0, NOT_NUMBERS, SAYS_NAN)
    for f in (lambda x: linalg.eigh(x)[0], linalg.eigvalsh, lambda x: linalg.pinv(x, hermitian=True), lambda x: linalg.matrix_rank(x, hermitian=True)):
        add(lambda x, f=f: f(x) * 0 == 0, NOT_NUMBERS + [GOOD + torch.tensor([[0, NAN, 0], [0, 0, NAN], [0, 0, 0]])], SAYS_NAN)
    # What eager's library for small matrices of float32 cannot divide by; that of float64 and that of larger ones can.
    for size, dtype in ((3, torch.float32), (3, torch.float64), (16, torch.float32), (17, torch.float32)):
        wide = torch.eye(size)
        wide[:3, :3] = GOOD
        for upper in (False, True):
            add(lambda x, upper=upper: linalg.cholesky(x, upper=upper) * 0 == 0, [wide.where(wide != n, INF) for n in (4, 3)], SAYS_NOT_POSITIVE, wide.to(dtype))
    add(lambda x: (linalg.cholesky_ex(x)[1], linalg.cholesky_ex(x.double())[1]), UNBOUNDED, "")
    # A pivot that is not a number stays one where it is first.
    for x in (GOOD, GOOD.repeat(9, 1, 1)):
        others = [x.where(x != n, NAN) for n in (4, 3, 5, 1)] + [x + torch.tensor([[0, 0, 0], [NAN, 0, 0], [0, 0, 0]]), x + torch.tensor([[0, 0, 0], [0, 0, 0], [0, INF, 0]])]
        add(lambda x: (linalg.lu_factor(x)[1], linalg.lu_factor(x)[0].isnan(), *(part.isnan() for part in linalg.lu(x)), linalg.det(x).isnan()), others, "", x)
    add(lambda x: torch.cholesky_inverse(x) * 0 == 0, [torch.zeros(3, 3)], SAYS_SINGULAR)
    # One of a batch, and maps over rows.
    batch = torch.stack([GOOD, 2 * GOOD])
    add(lambda x: linalg.inv(x) * 0 == 0, [torch.stack([GOOD, m]) for m in SINGULAR], SAYS_SINGULAR, batch)
    add(lambda x: torch.vmap(lambda m: linalg.cholesky(m + 0))(x) * 0 == 0, [torch.stack([m, GOOD]) for m in NOT_POSITIVE], SAYS_NOT_POSITIVE, batch)
    # Complex numbers.
    for f, others, says in ((linalg.inv, SINGULAR, SAYS_SINGULAR), (lambda x: linalg.solve(x, b.to(x.dtype)), SINGULAR, SAYS_SINGULAR), (linalg.cholesky, NOT_POSITIVE, SAYS_NOT_POSITIVE)):
        add(lambda x, f=f: f(torch.complex(x, torch.zeros_like(x))).abs() * 0 == 0, others, says)
    # Those that only say so; factors of LU that are never refused.
    others = SINGULAR + NOT_POSITIVE[:3]
    add(lambda x: (linalg.inv_ex(x)[1], linalg.lu_factor_ex(x)[2], linalg.cholesky_ex(x)[1], linalg.solve_ex(x, b)[1]), others, "")
    add(lambda x: (linalg.inv_ex(x)[1], linalg.cholesky_ex(x)[1]), [torch.stack([GOOD, m]) for m in others], "", batch)
    add(lambda x: linalg.inv_ex(torch.complex(x, torch.zeros_like(x)))[1], others, "")
    add(lambda x: (linalg.det(x), linalg.lu(x)[0]), [torch.zeros(3, 3)], "")
    return cases


@suite
def factors_of_determinants():
    """Of the transposed matrix, where that is the one that lies by columns."""
    x = torch.randn(2, 4, 4)
    forms = (lambda x: x, lambda x: x.mT, lambda x: x.mT.contiguous(), lambda x: x[:, 1:, 1:], lambda x: x[0])
    ops = (torch.ops.aten._linalg_det.default, torch.ops.aten._linalg_slogdet.default)
    return [Case(f"{op} {i}", lambda x, op=op, f=f: tuple(op(f(x))), [x], close=True) for op in ops for i, f in enumerate(forms)]
