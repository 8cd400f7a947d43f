// Singular values and vectors, eigenvalues and -vectors of symmetric matrices, what is made of them, and exponentials of matrices; in
// float64. The signs of vectors are those of Op::svd (graph/singular.h), which LAPACK's need not be.
#include <array>
#include <cmath>
#include <limits>

#include "decompose/families.h"
#include "decompose/linalg.h"
#include "decompose/matrices.h"

namespace aotc::decompose {
namespace {

/// Of a type's roundings: 1's next neighbour is so far away.
double epsilon_of(DType t) { return t == DType::f64 ? 0x1p-52 : 0x1p-23; }

/// x = u diag(s) v^T; s falls.
struct Svd {
  T u, s, v;
};

/// Whether x has at least as many rows as columns.
bool is_tall(Rule& r, const T& x) {
  if (r.b.syms().proves_le(x.dim(-1), x.dim(-2))) return true;
  if (!r.b.syms().proves_le(x.dim(-2), x.dim(-1)))
    r.refuse("singular values of a matrix of which it is not known whether it has more rows or more columns",
             "state a range for its symbolic size, or export it with a fixed one");
  return false;
}

Svd svd_of_tall(const T& x) {
  const std::vector<ValueId> parts = x.b().make(Op::svd, {x});
  return {{x.b(), parts[0]}, {x.b(), parts[1]}, {x.b(), parts[2]}};
}
/// Eager raises for NaN.
void check_numbers(Rule& r, const T& x) { must_hold(r, !unary(Op::isnan, x), "the matrix has NaN"); }

Svd svd(Rule& r, const T& x) {
  check_numbers(r, x);
  if (is_tall(r, x)) return svd_of_tall(x);
  const Svd f = svd_of_tall(turned(x));
  return {f.v, f.s, f.u};
}
/// u and v are square: of x with columns (rows) of zeros to a square, whose singular values come last.
Svd full_svd(Rule& r, const T& x) {
  if (!is_tall(r, x)) {
    const Svd f = full_svd(r, turned(x));
    return {f.v, f.s, f.u};
  }
  check_numbers(r, x);
  const Expr m = x.dim(-2), n = x.dim(-1);
  const T none(r.b, full(r.b, DType::f64, with(batch_of(x), {m, m - n}), 0.0));
  const Svd f = svd_of_tall({r.b, r.b.cat({x, none}, x.rank() - 1)});
  return {f.u, f.s.slice(-1, 0, n), f.v.slice(-2, 0, n).slice(-1, 0, n)};
}

enum class Right { v, adjoint };  ///< which of v and v^T is the third result
template <Right right>
void singular_vectors(Rule& r) {
  const T x = matrix(r, r.has("A") ? "A" : "self");
  const bool full_asked =
      r.has("some") ? !r.boolean_or("some", true) : r.boolean_or("full_matrices", r.node.target == "aten.linalg_svd.default");
  if (!r.boolean_or("compute_uv", true)) {  // aten.svd gives zeros then, aten._linalg_svd vectors without elements
    set_as(r, 1, svd(r, x).s);
    for (const size_t i : {size_t{0}, size_t{2}})
      if (r.wants(i)) r.set(i, full(r.b, r.meta_result(i).dtype, r.meta_result(i).dims, 0.0));
    return;
  }
  const bool square = r.b.syms().proves_eq(x.dim(-2), x.dim(-1));
  const bool longer = !square && r.wants(is_tall(r, x) ? 0 : 2);  // the side that is longer has more vectors than singular values
  const Svd f = full_asked && longer ? full_svd(r, x) : svd(r, x);
  set_as(r, 0, f.u);
  set_as(r, 1, f.s);
  set_as(r, 2, right == Right::v ? f.v : turned(f.v));
}

void singular_values_only(Rule& r) { set_as(r, 0, singular_values(r, matrix(r, "A"))); }

/// Eigenvalues rise.
struct Eigen {
  T values, vectors;
};
/// c: no eigenvalue of x is below -c or above c.
T bound_of(const T& symmetric) {
  return abs(symmetric).sum({symmetric.rank() - 1}, true).reduce(ReduceKind::max, {symmetric.rank() - 2}, true);
}
/// The singular vectors of a positive definite matrix are its eigenvectors: of x + c I. The eigenvalues are those that x has along them, so
/// that c's size costs them nothing.
Eigen eigen(const T& symmetric) {
  Builder& b = symmetric.b();
  const Svd f = svd_of_tall(symmetric + bound_of(symmetric) * eye(b, symmetric.dim(-1)));
  const T vectors(b, b.flip(f.v, {f.v.rank() - 1}));
  return {(vectors * matmul(symmetric, vectors, DType::f64)).sum({vectors.rank() - 2}, false), vectors};
}
/// Without vectors, which cost more than the values: to some roundings of c.
T eigenvalues(const T& symmetric) {
  Builder& b = symmetric.b();
  const T c = bound_of(symmetric), s = svd_of_tall(symmetric + c * eye(b, symmetric.dim(-1))).s;
  return T(b, b.flip(s, {s.rank() - 1})) - c.reshape(with(batch_of(symmetric), {1}));
}
/// Of the triangle that is asked for; the other one is not read.
T symmetric_of(Rule& r, const T& x, bool lower) {
  const T row = row_of(x.b(), x.dim(-1)), column = column_of(x.b(), x.dim(-1));
  const T symmetric = where(lower ? row >= column : row <= column, x, turned(x));
  check_numbers(r, symmetric);
  return symmetric;
}

void eigenvectors(Rule& r) {
  const std::string triangle = r.text_or("UPLO", "L");
  const T x = symmetric_of(r, matrix(r, r.has("A") ? "A" : "self"), triangle == "L" || triangle == "l");
  if (!r.wants(1) || !r.boolean_or("compute_v", true)) {
    set_as(r, 0, eigenvalues(x));
    if (r.wants(1)) r.set(1, full(r.b, r.meta_result(1).dtype, r.meta_result(1).dims, 0.0));
    return;
  }
  const Eigen e = eigen(x);
  set_as(r, 0, e.values);
  set_as(r, 1, e.vectors);
}

/// [..., 1]: singular values up to it count as zeros. `absolute` and `relative` (to the largest singular value) are names of arguments.
/// PyTorch's own: roundings of the input's type, where nothing absolute is given.
T least_that_counts(Rule& r, const T& x, const T& sizes, DType type, std::string_view absolute, std::string_view relative) {
  const T largest = sizes.reduce(ReduceKind::max, {sizes.rank() - 1}, true);
  const auto given = [&](std::string_view name) -> std::optional<T> {
    if (name.empty() || r.none(name)) return std::nullopt;
    if (!r.is_tensor(name)) return largest.like(r.number(name));
    return tensor(r, name).to(DType::f64).unsqueeze(-1);
  };
  const std::optional<T> least = given(absolute);
  if (const std::optional<T> part = given(relative)) return least ? maximum(*least, *part * largest) : *part * largest;
  if (!least) return scalar_of(r.b, max(x.dim(-1), x.dim(-2)), DType::f64) * epsilon_of(type) * largest;
  if (!r.has(relative)) return *least;
  const T own = scalar_of(r.b, max(x.dim(-1), x.dim(-2)), DType::f64) * epsilon_of(type) * largest;
  return where(*least > 0.0, *least, maximum(*least, own));
}

void pseudo_inverse(Rule& r) {
  const T x = matrix(r, "self");
  const DType type = tensor(r, "self").dtype();
  const bool rcond = r.has("rcond");
  const auto least = [&](const T& sizes) { return least_that_counts(r, x, sizes, type, rcond ? "" : "atol", rcond ? "rcond" : "rtol"); };
  const auto inverted = [&](const T& values) {
    const T sizes = abs(values);
    return where(sizes > least(sizes), 1.0 / values, 0.0).unsqueeze(-2);
  };
  if (r.boolean_or("hermitian", false)) {
    const Eigen e = eigen(symmetric_of(r, x, true));
    return set_as(r, 0, matmul(e.vectors * inverted(e.values), turned(e.vectors), DType::f64));
  }
  const Svd f = svd(r, x);
  set_as(r, 0, matmul(f.v * inverted(f.s), turned(f.u), DType::f64));
}

void matrix_rank(Rule& r) {
  const std::string_view name = r.has("self") ? "self" : "input";
  const T x = matrix(r, name);
  const bool tolerance = r.has("tol");
  const T sizes = r.boolean_or("hermitian", false) ? abs(eigen(symmetric_of(r, x, true)).values) : singular_values(r, x);
  const T least = least_that_counts(r, x, sizes, tensor(r, name).dtype(), tolerance ? "tol" : "atol", tolerance ? "" : "rtol");
  set_as(r, 0, (sizes > least).to(DType::i64).sum({sizes.rank() - 1}, false));
}

/// The largest singular value by the smallest, or the other way round.
void condition(Rule& r) {
  if (!r.none("p") && std::abs(r.number("p")) != 2) r.refuse("a condition number of another norm than 2 and -2");
  const T s = singular_values(r, matrix(r, "self"));
  const Ints last = {s.rank() - 1};
  const T largest = s.reduce(ReduceKind::max, last, false), least = s.reduce(ReduceKind::min, last, false);
  set_as(r, 0, !r.none("p") && r.number("p") < 0 ? least / largest : largest / least);
}

void nuclear_norm(Rule& r) {
  const T x = tensor(r, "self").to(DType::f64);
  if (x.rank() != 2) r.refuse("the nuclear norm of other than one matrix", "use torch.linalg.matrix_norm");
  const T norm = singular_values(r, x).sum({0}, false);
  set_as(r, 0, r.boolean_or("keepdim", false) ? norm.reshape({1, 1}) : norm);
}

/// Taylor's polynomial of degree 18 of a matrix halved until its norm is small, squared as often. A norm of more than kSmall * 2^kHalvings
/// gives NaN: in float32 no digit of the result were right.
void exponential(Rule& r) {
  constexpr double kSmall = 1.09;  ///< a norm that the polynomial is as exact as float64 for
  constexpr int kHalvings = 16;
  const T x = matrix(r, "self");
  const T norm = abs(x).sum({x.rank() - 2}, true).reduce(ReduceKind::max, {x.rank() - 1}, true);
  T scale = norm.like(1.0);
  for (int k = 0; k < kHalvings; ++k) scale = where(norm > std::ldexp(kSmall, k), scale * 0.5, scale);
  const T a = x * where(norm > std::ldexp(kSmall, kHalvings), std::numeric_limits<double>::quiet_NaN(), scale);
  const T a2 = matmul(a, a, DType::f64), a3 = matmul(a2, a, DType::f64), one = eye(r.b, x.dim(-1));
  std::array<double, 19> c = {1};
  for (size_t i = 1; i < c.size(); ++i) c[i] = c[i - 1] / static_cast<double>(i);
  T y = a3 * c[18];
  for (size_t k = 6; k-- > 0;) {
    y = y + a2 * c[3 * k + 2] + a * c[3 * k + 1] + one * c[3 * k];
    if (k > 0) y = matmul(y, a3, DType::f64);
  }
  for (int k = 0; k < kHalvings; ++k) y = where(norm > std::ldexp(kSmall, k), matmul(y, y, DType::f64), y);
  set_as(r, 0, y);
}

constexpr RuleRow kRows[] = {
    {"aten.linalg_svd.default aten._linalg_svd.default", singular_vectors<Right::adjoint>},
    {"aten.svd.default", singular_vectors<Right::v>},
    {"aten.linalg_svdvals.default", singular_values_only},
    {"aten.linalg_eigh.default aten._linalg_eigh.default aten.linalg_eigvalsh.default", eigenvectors},
    {"aten.linalg_pinv.default aten.linalg_pinv.atol_rtol_float aten.linalg_pinv.atol_rtol_tensor aten.linalg_pinv.rcond_tensor "
     "aten.pinverse.default",
     pseudo_inverse},
    {"aten.linalg_matrix_rank.default aten.linalg_matrix_rank.tol_tensor aten.linalg_matrix_rank.atol_rtol_float "
     "aten.linalg_matrix_rank.atol_rtol_tensor",
     matrix_rank},
    {"aten.linalg_cond.default", condition},
    {"aten.nuclear_norm.default", nuclear_norm},
    {"aten.linalg_matrix_exp.default aten.matrix_exp.default", exponential},
};

}  // namespace

T singular_values(Rule& r, const T& matrix) { return svd(r, matrix).s; }

RuleTable spectral_rules() { return kRows; }

}  // namespace aotc::decompose
