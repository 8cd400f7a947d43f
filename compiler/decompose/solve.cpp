// Factorisations of matrices and what is solved with them. Cholesky factors, LU factors and triangular systems are core operators, of any
// size. Every step of an elimination without pivots is written out, so its number of rows is fixed and small. All but Cholesky factors are
// computed in float64, as the reference libraries' blocked sums would need for float32 to be as exact. Batch dims are free.
#include <limits>

#include "decompose/complex.h"
#include "decompose/families.h"
#include "decompose/linalg.h"
#include "decompose/matrices.h"
#include "decompose/overwritten.h"
#include "import/aliases.h"

namespace aotc::decompose {
namespace {

constexpr int64_t kMaxSteps = 128;

T at(const T& x, int64_t row, int64_t column) { return x.slice(-2, row, 1).slice(-1, column, 1); }
int64_t steps_of(Rule& r, const T& x, int dim) {
  const int64_t n = r.constant(x.dim(dim), "the size of a matrix that is factorised");
  if (n > kMaxSteps)
    r.refuse(fmt::format("a factorisation of a matrix with {} rows or columns; up to {} are supported", n, kMaxSteps),
             "solve it outside of the model");
  return n;
}

/// Rows of A in the order `perm` are L U; both stand in `packed`, without the ones on L's diagonal.
struct Lu {
  T packed;
  T perm;   ///< [..., rows, 1]
  T swaps;  ///< [..., steps]: the row that step k swapped with row k
};

T start_of_permutation(const T& like, const Expr& rows) { return row_of(like.b(), rows).expand(with(batch_of(like), {rows, Expr(1)})); }
T no_swaps(const T& like, const Expr& steps) { return iota(like.b(), {steps}, 0).expand(with(batch_of(like), {steps})); }

Lu lu_without_pivots(Rule& r, const T& matrix) {
  const int64_t m = steps_of(r, matrix, -2), n = steps_of(r, matrix, -1);
  const T row = row_of(r.b, m), column = column_of(r.b, n);
  Lu f{matrix, start_of_permutation(matrix, m), no_swaps(matrix, std::min(m, n))};
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    const T below = row > static_cast<double>(k), pivot = at(f.packed, k, k);
    const T factor = where(pivot == 0.0, f.packed.slice(-1, k, 1), f.packed.slice(-1, k, 1) / pivot);
    const T rest = f.packed - factor * f.packed.slice(-2, k, 1);
    f.packed = where(below & (column > static_cast<double>(k)), rest, where(below & (column == static_cast<double>(k)), factor, f.packed));
  }
  return f;
}

Lu lu(Rule& r, const T& matrix, bool pivoted = true) {
  if (!pivoted) return lu_without_pivots(r, matrix);
  const std::vector<ValueId> parts = r.b.make(Op::lu, {matrix});
  return {{r.b, parts[0]}, T(r.b, parts[1]).unsqueeze(-1), {r.b, parts[2]}};
}

/// [...] of the permutation: 1 or -1.
T sign_of_permutation(const Lu& f) {
  const T step = iota(f.swaps.b(), {f.swaps.dim(-1)}, 0),
          one = start_of_permutation(f.packed, f.swaps.dim(-1)).squeeze(-1).to(DType::f64).like(1.0);
  return where(f.swaps == step, one, -one).reduce(ReduceKind::prod, {f.swaps.rank() - 1}, false);
}
/// The solution of A X = B for a triangle of A, whose diagonal counts as ones where it is `unit`.
struct Triangle {
  bool upper, unit = false;
};
T solve_triangle(const T& a, const T& b, Triangle t) {
  const std::vector<Expr> batch = broadcast_dims(a.b().syms(), batch_of(a), batch_of(b));
  const T left = a.expand(with(batch, {a.dim(-2), a.dim(-1)})), right = b.expand(with(batch, {b.dim(-2), b.dim(-1)}));
  return {a.b(), a.b().make1(Op::solve_triangular, {left, right}, {{Attr::upper, t.upper}, {Attr::unit, t.unit}})};
}

/// A X = B, or the transposed A.
T solve(Rule& r, const Lu& f, const T& b, bool transposed) {
  const std::vector<Expr> batch = broadcast_dims(r.b.syms(), batch_of(f.packed), batch_of(b));
  const T rows = b.expand(with(batch, {b.dim(-2), b.dim(-1)}));
  if (transposed) {
    const T t = turned(f.packed);
    const T z = solve_triangle(t, solve_triangle(t, rows, {.upper = false}), {.upper = true, .unit = true});
    return matmul((turned(f.perm) == row_of(r.b, f.packed.dim(-1))).to(DType::f64), z, DType::f64);
  }
  const T ordered(r.b, r.b.gather(rows, f.perm.expand(rows.dims()), rows.rank() - 2));
  return solve_triangle(f.packed, solve_triangle(f.packed, ordered, {.upper = false, .unit = true}), {.upper = true});
}

/// [..., n] of a square matrix.
T diagonal(const T& x) {
  const Expr& n = x.dim(-1);
  if (const std::optional<int64_t> known = n.as_const()) return x.reshape(with(batch_of(x), {n * n})).slice(-1, 0, n, *known + 1);
  return where(row_of(x.b(), n) == column_of(x.b(), n), x, 0.0).sum({x.rank() - 1}, false);
}

constexpr std::string_view kSingular = "the matrix is singular", kNotPositive = "the matrix is not positive definite";

/// Whether eager raises where a factorisation fails.
bool raises(Rule& r) { return r.boolean_or("check_errors", true); }

/// LAPACK's info of an LU factorisation, [...]: 0, or the number of the first pivot that is 0.
T info_of(const Lu& f) {
  const Expr k = min(f.packed.dim(-2), f.packed.dim(-1));
  const T pivots = diagonal(f.packed.slice(-2, 0, k).slice(-1, 0, k));
  if (k.is(0)) return pivots.sum({pivots.rank() - 1}, false);
  const T left = scalar_of(f.packed.b(), k, DType::i64) - iota(f.packed.b(), pivots.dims(), pivots.rank() - 1);
  // Of no pivots the largest is below 0, too.
  const T most = where(pivots == 0.0, left, 0.0).reduce(ReduceKind::max, {pivots.rank() - 1}, false);
  return where(most < 1.0, 0.0, scalar_of(f.packed.b(), k, DType::i64) - most + 1.0);
}

/// Result i, where it is asked for; the run fails where eager raises.
void set_info(Rule& r, size_t i, const T& info, std::string_view failure) {
  set_as(r, i, info);
  if (raises(r)) must_hold(r, info == 0.0, failure);
}
void set_pivots(Rule& r, size_t i, const Lu& f) {
  if (!r.wants(i)) return;
  set_as(r, i, f.swaps + 1.0);
}

/// Whether eager factorises the transposed matrix instead, which is of columns for it: one that lies row by row.
bool of_transposed(const Rule& r, std::string_view name) {
  const import::TensorMeta* m = r.meta_arg(name);
  if (!m || m->strides.size() != m->sizes.size()) return false;
  Expr dense = 1;
  for (size_t d = m->sizes.size(); d-- > 0; dense *= m->sizes[d])
    if (!m->sizes[d].is(1) && !r.b.syms().proves_eq(m->strides[d], dense)) return false;
  return true;
}

/// det and slogdet: (determinant, ...) or (sign, log of the absolute value, ...).
enum class Det { plain, log, only_log };
template <Det form>
void determinant(Rule& r) {
  const std::string_view name = r.has("A") ? "A" : "self";
  const T x = matrix(r, name);
  const Lu f = lu(r, of_transposed(r, name) ? turned(x) : x);
  const T d = diagonal(f.packed), permuted = sign_of_permutation(f);
  const Ints last = {d.rank() - 1};
  if (form == Det::plain) {
    set_as(r, 0, d.reduce(ReduceKind::prod, last, false) * permuted);
  } else {
    const T sign = unary(Op::sign, d).reduce(ReduceKind::prod, last, false) * permuted, size = log(abs(d)).sum(last, false);
    if (form == Det::only_log) set_as(r, 0, where(sign < 0.0, std::numeric_limits<double>::quiet_NaN(), size));
    if (form == Det::log) set_as(r, 0, sign), set_as(r, 1, size);
  }
  const size_t next = form == Det::log ? 2 : 1;
  set_as(r, next, f.packed);
  set_pivots(r, next + 1, f);
}

void inverse(Rule& r) {
  const T x = matrix(r, r.has("A") ? "A" : "self");
  const Lu f = lu(r, x);
  set_as(r, 0, solve(r, f, eye(r.b, x.dim(-1)), false));
  set_info(r, 1, info_of(f), kSingular);
}

/// A X = B, X A = B where `left` is false; B may be a batch of vectors. Then the factors, as asked for.
void solve(Rule& r) {
  const T a = matrix(r, "A"), given = tensor(r, "B").to(DType::f64);
  const bool left = r.boolean_or("left", true);
  bool vector = given.rank() == 1;
  if (!vector && given.rank() == a.rank() - 1) {
    vector = true;
    for (int d = 0; d < given.rank(); ++d) vector &= r.b.syms().proves_eq(given.dim(d), a.dim(d));
  }
  const T b = vector ? given.unsqueeze(-1) : given;
  const Lu f = lu(r, a);
  const T x = left ? solve(r, f, b, false) : turned(solve(r, f, turned(b), true));
  set_as(r, 0, vector ? x.squeeze(-1) : x);
  if (r.node.results.size() == 2) return set_info(r, 1, info_of(f), kSingular);
  set_as(r, 1, f.packed);
  set_pivots(r, 2, f);
  set_info(r, 3, info_of(f), kSingular);
}

void lu_factor(Rule& r) {
  const Lu f = lu(r, matrix(r, "A"), r.boolean_or("pivot", true));
  set_as(r, 0, f.packed);
  set_pivots(r, 1, f);
  set_info(r, 2, info_of(f), kSingular);
}

/// (P, L, U) with P L U = A.
void set_factors(Rule& r, const T& packed, const T* perm) {
  const Expr m = packed.dim(-2), n = packed.dim(-1), k = min(m, n);
  if (perm && r.wants(0)) set_as(r, 0, (turned(*perm) == row_of(r.b, m)).to(DType::f64));
  const auto rest = [&](size_t i, const T& v, bool lower) {
    if (!r.wants(i)) return;
    const T row = row_of(r.b, lower ? m : k), column = column_of(r.b, lower ? k : n);
    set_as(r, i, lower ? where(row > column, v, (row == column).to(DType::f64)) : where(row <= column, v, 0.0));
  };
  rest(1, packed.slice(-1, 0, k), true);
  rest(2, packed.slice(-2, 0, k), false);
}

void lu_factors(Rule& r) {
  const bool pivoted = r.boolean_or("pivot", true);
  const Lu f = lu(r, matrix(r, "A"), pivoted);
  set_factors(r, f.packed, pivoted ? &f.perm : nullptr);
  if (!pivoted && r.wants(0)) r.set(0, full(r.b, r.meta_result(0).dtype, r.meta_result(0).dims, 0.0));
}

/// [..., rows]: the order of rows after step k changed row k with row swaps[k], for all steps: permutations are joined by pairs, then pairs
/// of them, and so on.
T order_after(Rule& r, const T& swaps, const Expr& rows) {
  constexpr int64_t kMost = 2048;
  int64_t n = r.constant(swaps.dim(-1), "the number of pivots");
  if (n > kMost) r.refuse(fmt::format("{} pivots; up to {} are supported", n, kMost), "solve it in one operator (torch.linalg.solve)");
  Builder& b = r.b;
  const std::vector<Expr> batch(swaps.dims().begin(), swaps.dims().end() - 1);
  const T place = column_of(b, rows), step = row_of(b, n), other = swaps.unsqueeze(-1);
  const T none = iota(b, {rows}, 0).expand(with(batch, {Expr(1), rows}));
  if (n == 0) return none.squeeze(-2);
  T all = where(place == step, other, where(place == other, step, place)).expand(with(batch, {Expr(n), rows}));
  for (; n > 1; n = (n + 1) / 2) {
    if (n % 2) all = {b, b.cat({all, none}, all.rank() - 2)};
    const Expr half = (n + 1) / 2;
    all = {b, b.gather(all.slice(-2, 0, half, 2), all.slice(-2, 1, half, 2), all.rank() - 1)};
  }
  return all.squeeze(-2);
}

/// The factors of another operator: pivots count from one and are applied in order.
Lu factored(Rule& r, std::string_view packed, std::string_view pivots) {
  const T x = matrix(r, packed), swaps = tensor(r, pivots).to(DType::i64) - 1.0;
  return {x, order_after(r, swaps, x.dim(-2)).unsqueeze(-1), swaps};
}

void lu_unpack(Rule& r) {
  const Lu f = factored(r, "LU_data", "LU_pivots");
  const bool data = r.boolean_or("unpack_data", true), pivots = r.boolean_or("unpack_pivots", true);
  if (!data || !pivots) r.refuse("lu_unpack of one part only");
  set_factors(r, f.packed, &f.perm);
}

void lu_solve(Rule& r) {
  const bool linalg = r.has("LU"), left = r.boolean_or("left", true), adjoint = r.boolean_or("adjoint", false);
  const Lu f = factored(r, linalg ? "LU" : "LU_data", linalg ? "pivots" : "LU_pivots");
  const T b = matrix(r, linalg ? "B" : "self");
  set_as(r, 0, left ? solve(r, f, b, adjoint) : turned(solve(r, f, turned(b), !adjoint)));
}

/// In a type that core operators factorise.
T exact_matrix(Rule& r, std::string_view name) {
  const T x = tensor(r, name);
  return x.dtype() == DType::f32 && x.rank() >= 2 ? x : matrix(r, name);
}

void cholesky(Rule& r) {
  const T x = exact_matrix(r, "self");
  const bool upper = r.boolean_or("upper", false);
  const std::vector<ValueId> factor = r.b.make(Op::cholesky, {upper ? turned(x) : x});
  const T l(r.b, factor[0]);
  set_as(r, 0, upper ? turned(l) : l);
  set_info(r, 1, {r.b, factor[1]}, kNotPositive);
}

/// L L^T X = B; the factor is given as L or as L^T.
T solve_factored(const T& factor, const T& b, bool upper) {
  const T l = upper ? turned(factor) : factor, u = upper ? factor : turned(factor);
  return solve_triangle(u, solve_triangle(l, b, {.upper = false}), {.upper = true});
}

void cholesky_solve(Rule& r) {
  set_as(r, 0, solve_factored(exact_matrix(r, r.has("A") ? "A" : "input2"), exact_matrix(r, "self"), r.boolean_or("upper", false)));
}

void cholesky_inverse(Rule& r) {
  const T l = exact_matrix(r, "self");
  must_hold(r, diagonal(l) != 0.0, kSingular);
  const T one = (iota(r.b, {l.dim(-2), 1}, 0) == iota(r.b, {1, l.dim(-1)}, 1)).to(l.dtype());
  set_as(r, 0, solve_factored(l, one.expand(l.dims()), r.boolean_or("upper", false)));
}

void linalg_solve_triangular(Rule& r) {
  const T a = exact_matrix(r, "self"), b = exact_matrix(r, "B");
  const bool upper = r.boolean("upper"), unit = r.boolean_or("unitriangular", false);
  set_as(r, 0,
         r.boolean_or("left", true) ? solve_triangle(a, b, {upper, unit}) : turned(solve_triangle(turned(a), turned(b), {!upper, unit})));
}

/// (solution, a copy of the matrix)
void triangular_solve(Rule& r) {
  const T a = exact_matrix(r, "A"), b = exact_matrix(r, "self");
  const bool upper = r.boolean_or("upper", true), across = r.boolean_or("transpose", false);
  set_as(r, 0, solve_triangle(across ? turned(a) : a, b, {upper != across, r.boolean_or("unitriangular", false)}));
  if (r.wants(1)) r.set(1, T(r.b, tensor(r, "A")).expand(r.meta_result(1).dims));
}

constexpr RuleRow kRows[] = {
    {"aten._linalg_det.default aten.linalg_det.default aten.det.default", determinant<Det::plain>},
    {"aten._linalg_slogdet.default aten.linalg_slogdet.default aten.slogdet.default", determinant<Det::log>},
    {"aten.logdet.default", determinant<Det::only_log>},
    {"aten.linalg_inv_ex.default aten.linalg_inv.default aten.inverse.default", inverse},
    {"aten._linalg_solve_ex.default aten.linalg_solve_ex.default aten.linalg_solve.default", solve},
    {"aten.linalg_lu_factor_ex.default aten.linalg_lu_factor.default", lu_factor},
    {"aten.linalg_lu.default", lu_factors},
    {"aten.lu_unpack.default", lu_unpack},
    {"aten.linalg_lu_solve.default aten.lu_solve.default", lu_solve},
    {"aten.linalg_cholesky_ex.default aten.linalg_cholesky.default aten.cholesky.default", cholesky},
    {"aten.cholesky_solve.default aten._cholesky_solve_helper.default", cholesky_solve},
    {"aten.cholesky_inverse.default", cholesky_inverse},
    {"aten.linalg_solve_triangular.default", linalg_solve_triangular},
    {"aten.triangular_solve.default", triangular_solve},
};

// Complex matrices as real ones of twice the size: each number is the block [re, -im; im, re], each of a right side its column.

/// x, a complex matrix as pairs.
struct ComplexMatrix {
  T re, im;
  static ComplexMatrix of(Rule& r, std::string_view name) {
    const T x = tensor(r, name);
    if (!complex_arg(r, name)) return {x.to(DType::f64), x.to(DType::f64).like(0)};
    return {x.select(-1, 0).to(DType::f64), x.select(-1, 1).to(DType::f64)};
  }
  ComplexMatrix transposed() const { return {turned(re), turned(im)}; }
  ComplexMatrix adjoint() const { return {turned(re), -turned(im)}; }
};

/// [.., m, n] and [.., m, n] to [.., 2 m, n], in turns.
T rows_in_turn(const T& a, const T& b) {
  const T both(a.b(), a.b().cat({a.unsqueeze(-2), b.unsqueeze(-2)}, a.rank() - 1));
  return both.reshape(with(batch_of(a), {a.dim(-2) * 2, a.dim(-1)}));
}
T blocks(const ComplexMatrix& x) { return turned(rows_in_turn(turned(rows_in_turn(x.re, x.im)), turned(rows_in_turn(-x.im, x.re)))); }
ComplexMatrix from_rows(const T& x) {
  const T both = x.reshape(with(batch_of(x), {floordiv(x.dim(-2), 2), Expr(2), x.dim(-1)}));
  return {both.select(-2, 0), both.select(-2, 1)};
}
void set_complex(Rule& r, const ComplexMatrix& x) { set_as(r, 0, join({x.re, x.im})); }

ComplexMatrix solve(Rule& r, const Lu& f, const ComplexMatrix& b) { return from_rows(solve(r, f, rows_in_turn(b.re, b.im), false)); }
ComplexMatrix solve(Rule& r, const ComplexMatrix& a, const ComplexMatrix& b) { return solve(r, lu(r, blocks(a)), b); }
/// Of a matrix, as told of its blocks.
T info_of_blocks(const T& info) { return binary(Op::shr, info + 1.0, 1.0); }

void complex_inverse(Rule& r) {
  const ComplexMatrix a = ComplexMatrix::of(r, r.has("A") ? "A" : "self");
  const T one = eye(r.b, a.re.dim(-1)).expand(a.re.dims());
  const Lu f = lu(r, blocks(a));
  set_complex(r, solve(r, f, {one, one.like(0)}));
  set_info(r, 1, info_of_blocks(info_of(f)), kSingular);
}

void complex_solve(Rule& r) {
  const bool factors = r.node.results.size() == 4;
  for (size_t i = 1; factors && i < 3; ++i) {
    const std::vector<std::string> names = import::result_names(r.node);
    if (is_used(r.program, names.at(i))) r.refuse("factors of complex matrices");
    if (r.wants(i)) r.set(i, full(r.b, r.meta_result(i).dtype, r.meta_result(i).dims, 0.0));
  }
  const ComplexMatrix a = ComplexMatrix::of(r, "A"), given = ComplexMatrix::of(r, "B");
  bool vector = given.re.rank() == 1;
  if (!vector && given.re.rank() == a.re.rank() - 1) {
    vector = true;
    for (int d = 0; d < given.re.rank(); ++d) vector &= r.b.syms().proves_eq(given.re.dim(d), a.re.dim(d));
  }
  const ComplexMatrix b = vector ? ComplexMatrix{given.re.unsqueeze(-1), given.im.unsqueeze(-1)} : given;
  const bool left = r.boolean_or("left", true);
  const Lu f = lu(r, blocks(left ? a : a.transposed()));
  const ComplexMatrix x = left ? solve(r, f, b) : solve(r, f, b.transposed()).transposed();
  set_complex(r, vector ? ComplexMatrix{x.re.squeeze(-1), x.im.squeeze(-1)} : x);
  set_info(r, factors ? 3 : 1, info_of_blocks(info_of(f)), kSingular);
}

/// The real matrix's own factor is that of the complex one: its diagonal is positive. Imaginary parts of the diagonal count as 0.
void complex_cholesky(Rule& r) {
  const ComplexMatrix given = ComplexMatrix::of(r, "self");
  const T diagonal = row_of(r.b, given.im.dim(-2)) == column_of(r.b, given.im.dim(-1));
  const ComplexMatrix x{given.re, where(diagonal, 0.0, given.im)};
  const bool upper = r.boolean_or("upper", false);
  const std::vector<ValueId> factor = r.b.make(Op::cholesky, {blocks(upper ? x.adjoint() : x)});
  const T l(r.b, factor[0]);
  const ComplexMatrix y = from_rows(l.slice(-1, 0, floordiv(l.dim(-1), 2), 2));
  set_complex(r, upper ? y.adjoint() : y);
  set_info(r, 1, info_of_blocks({r.b, factor[1]}), kNotPositive);
}

void complex_solve_triangular(Rule& r) {
  const ComplexMatrix given = ComplexMatrix::of(r, "self"), b = ComplexMatrix::of(r, "B");
  const bool upper = r.boolean("upper"), unit = r.boolean_or("unitriangular", false);
  const T row = row_of(r.b, given.re.dim(-2)), column = column_of(r.b, given.re.dim(-1));
  const T kept = unit ? (upper ? row < column : row > column) : upper ? row <= column : row >= column;
  const T re = where(kept, given.re, 0.0), im = where(kept, given.im, 0.0);
  const ComplexMatrix a{unit ? where(row == column, 1.0, re) : re, im};
  set_complex(r, r.boolean_or("left", true) ? solve(r, a, b) : solve(r, a.transposed(), b.transposed()).transposed());
}

constexpr RuleRow kComplexRows[] = {
    {"aten.linalg_inv_ex.default aten.linalg_inv.default aten.inverse.default", complex_inverse},
    {"aten._linalg_solve_ex.default aten.linalg_solve_ex.default aten.linalg_solve.default", complex_solve},
    {"aten.linalg_cholesky_ex.default aten.linalg_cholesky.default aten.cholesky.default", complex_cholesky},
    {"aten.linalg_solve_triangular.default", complex_solve_triangular},
};
}  // namespace

T inverse(Rule& r, const T& x) {
  const Lu f = lu(r, x);
  must_hold(r, info_of(f) == 0.0, kSingular);
  return solve(r, f, eye(r.b, x.dim(-1)), false);
}

RuleTable solve_rules() { return kRows; }
RuleTable complex_solve_rules() { return kComplexRows; }

}  // namespace aotc::decompose
