// Householder's reflections: QR factors, products with Q. Columns are factorised panel by panel, each column's step written out, so that
// their number is fixed; what a panel does to the columns behind it, and all reflections to a matrix, are products and a triangular system.
// In float64; batch dims are free, and so are the rows where there are no fewer than columns.
#include <algorithm>

#include "decompose/families.h"
#include "decompose/linalg.h"
#include "decompose/matrices.h"

namespace aotc::decompose {
namespace {

constexpr int64_t kMostColumns = 1024, kPanel = 32;

T cat(const std::vector<T>& parts, int dim) {
  const T& first = parts.front();
  if (parts.size() == 1) return first;
  return {first.b(), first.b().cat({parts.begin(), parts.end()}, dim < 0 ? dim + first.rank() : dim)};
}
T product_of(const T& a, const T& b) { return matmul(a, b, DType::f64); }

/// H1 H2 .. of reflections I - tau v v^T: v has a one on the diagonal, zeros above it and what `packed` has below.
struct Reflections {
  T packed;  ///< [.., m, n]: on and above the diagonal R
  T tau;     ///< [.., k], k <= n
};

/// Q x, or Q^T x. The product of all is I - V T V^T with the inverse of T triangular: 1 / tau on its diagonal, the products of different v
/// above it.
T applied(const Reflections& f, const T& x, bool transposed) {
  Builder& b = x.b();
  const Expr k = f.tau.dim(-1), m = f.packed.dim(-2);
  if (k.is(0)) return x;
  const T row = row_of(b, m), column = column_of(b, k);
  const T none = (f.tau == 0.0).unsqueeze(-2);  // no reflection: its v is left out
  const T below = where(row > column, f.packed.slice(-1, 0, k), 0.0), v = where(none, 0.0, where(row == column, 1.0, below));
  const T all = product_of(turned(v), v), across = row_of(b, k);
  const T diagonal = where(none, 1.0, 1.0 / f.tau.unsqueeze(-2));
  const T upper = where(across < column, all, where(across == column, diagonal, 0.0));
  std::vector<Expr> batch = batch_of(x);
  const T seen = product_of(turned(v), x), inverse = transposed ? turned(upper) : upper;
  const T solved(
      b, b.make1(Op::solve_triangular, {inverse.expand(with(batch, {k, k})), seen}, {{Attr::upper, !transposed}, {Attr::unit, false}}));
  return x - product_of(v, solved);
}

/// Of a panel of few columns; the signs are LAPACK's.
Reflections panel_factors(const T& panel, int64_t columns) {
  Builder& b = panel.b();
  const T row = row_of(b, panel.dim(-2)), at = column_of(b, columns);
  const Ints rows = {panel.rank() - 2};
  T a = panel;
  std::vector<T> taus;
  for (int64_t i = 0; i < columns; ++i) {
    const double ii = static_cast<double>(i);
    const T column = a.slice(-1, i, 1), alpha = column.slice(-2, i, 1);
    const T tail = where(row > ii, column * column, 0.0).sum(rows, true);
    const T beta = -binary(Op::copysign, sqrt(alpha * alpha + tail), alpha), none = tail == 0.0;
    const T tau = where(none, 0.0, (beta - alpha) / beta), scale = where(none, 0.0, 1.0 / (alpha - beta));
    const T v = where(row == ii, 1.0, where(row > ii, column * scale, 0.0));
    const T updated = i + 1 < columns ? a - v * (tau * (v * a).sum(rows, true)) : a;
    const T own = where(row > ii, v, where((row == ii) & !none, beta, column));
    a = where(at == ii, own, where(at > ii, updated, a));
    taus.push_back(tau.squeeze(-1));
  }
  return {a, cat(taus, -1)};
}

Reflections factors(Rule& r, const T& x) {
  const Expr m = x.dim(-2);
  const int64_t n = r.constant(x.dim(-1), "the number of columns of a matrix that is factorised");
  const int64_t k = m.as_const() ? std::min(*m.as_const(), n) : n;
  if (!r.b.syms().proves_le(k, m))
    r.refuse("QR factors of a matrix of which it is not known whether it has more rows than columns",
             "state a range for its symbolic size, or export it with a fixed one");
  if (k > kMostColumns)
    r.refuse(fmt::format("QR factors of a matrix with {} rows and columns; up to {} of either are supported", k, kMostColumns),
             "factorise it outside of the model");
  std::vector<T> done, taus;  // columns of all rows
  T rest = x;
  for (int64_t j = 0; j < k; j += kPanel) {
    const int64_t width = std::min(kPanel, k - j), behind = n - j - width;
    const T below = rest.slice(-2, j, m - j);
    const Reflections f = panel_factors(below.slice(-1, 0, width), width);
    const auto under_top = [&](int64_t from, int64_t count, const T& v) {
      return j == 0 ? v : cat({rest.slice(-2, 0, j).slice(-1, from, count), v}, -2);
    };
    done.push_back(under_top(0, width, f.packed));
    taus.push_back(f.tau);
    if (behind > 0) rest = under_top(width, behind, applied(f, below.slice(-1, width, behind), true));
    if (behind > 0 && j + width >= k) done.push_back(rest);
  }
  if (k == 0) return {x, {r.b, full(r.b, DType::f64, with(batch_of(x), {Expr(0)}), 0.0)}};
  return {cat(done, -1), cat(taus, -1)};
}

T unit_columns(Builder& b, const T& like, const Expr& columns) {
  return (row_of(b, like.dim(-2)) == column_of(b, columns)).to(DType::f64).expand(with(batch_of(like), {like.dim(-2), columns}));
}

void qr(Rule& r) {
  const T x = matrix(r, r.has("A") ? "A" : "self");
  const std::string mode = r.has("some") ? (r.boolean_or("some", true) ? "reduced" : "complete") : r.text_or("mode", "reduced");
  const Reflections f = factors(r, x);
  const Expr k = f.tau.dim(-1), rows = mode == "complete" ? x.dim(-2) : k;
  if (mode != "r" && r.wants(0)) set_as(r, 0, applied(f, unit_columns(r.b, x, rows), false));
  if (mode == "r" && r.wants(0)) r.set(0, full(r.b, r.meta_result(0).dtype, r.meta_result(0).dims, 0.0));
  set_as(r, 1, where(row_of(r.b, rows) <= column_of(r.b, x.dim(-1)), f.packed.slice(-2, 0, rows), 0.0));
}

void geqrf(Rule& r) {
  const Reflections f = factors(r, matrix(r, "self"));
  set_as(r, 0, f.packed);
  set_as(r, 1, f.tau);
}

/// The first columns of Q.
void householder_product(Rule& r) {
  const bool linalg = r.has("tau");
  const Reflections f{matrix(r, linalg ? "input" : "self"), tensor(r, linalg ? "tau" : "input2").to(DType::f64)};
  set_as(r, 0, applied(f, unit_columns(r.b, f.packed, f.packed.dim(-1)), false));
}

/// Q C, Q^T C, C Q or C Q^T.
void ormqr(Rule& r) {
  const Reflections f{matrix(r, "self"), tensor(r, "input2").to(DType::f64)};
  const T c = matrix(r, "input3");
  const bool left = r.boolean_or("left", true), transposed = r.boolean_or("transpose", false);
  set_as(r, 0, left ? applied(f, c, transposed) : turned(applied(f, turned(c), !transposed)));
}

constexpr RuleRow kRows[] = {
    {"aten.linalg_qr.default", qr},
    {"aten.qr.default", qr},
    {"aten.geqrf.default", geqrf},
    {"aten.linalg_householder_product.default", householder_product},
    {"aten.orgqr.default", householder_product},
    {"aten.ormqr.default", ormqr},
};
}  // namespace

RuleTable qr_rules() { return kRows; }

}  // namespace aotc::decompose
