// Householder's reflections: QR factors (a core operator), products with Q. What all reflections do to a matrix are products
// and a triangular system. In float64; batch dims are free.
#include "decompose/families.h"
#include "decompose/linalg.h"
#include "decompose/matrices.h"

namespace aotc::decompose {
namespace {

T product_of(const T& a, const T& b) { return matmul(a, b, DType::f64); }

/// H1 H2 .. of reflections I - tau v v^T: v has a one on the diagonal, zeros above it and what `packed` has below.
struct Reflections {
  T packed;  ///< [.., m, n]: on and above the diagonal R
  T tau;     ///< [.., k], k <= n
};

/// The product of all reflections is I - V T V^T with the inverse of T triangular: 1 / tau on its diagonal, the products of different v
/// above it.
struct Together {
  T v, inverse;  ///< [.., m, k], [.., k, k]
};
Together together(const Reflections& f) {
  Builder& b = f.packed.b();
  const Expr k = f.tau.dim(-1);
  const T row = row_of(b, f.packed.dim(-2)), column = column_of(b, k), across = row_of(b, k);
  const T none = (f.tau == 0.0).unsqueeze(-2);  // no reflection: its v is left out
  const T below = where(row > column, f.packed.slice(-1, 0, k), 0.0), v = where(none, 0.0, where(row == column, 1.0, below));
  const T all = product_of(turned(v), v), diagonal = where(none, 1.0, 1.0 / f.tau.unsqueeze(-2));
  return {v, where(across < column, all, where(across == column, diagonal, 0.0))};
}
/// V T `seen`, or V T^T `seen`.
T spread(const Together& q, const T& seen, bool transposed) {
  Builder& b = seen.b();
  const Expr k = q.v.dim(-1);
  const T inverse = (transposed ? turned(q.inverse) : q.inverse).expand(with(batch_of(seen), {k, k}));
  return product_of(q.v, {b, b.make1(Op::solve_triangular, {inverse, seen}, {{Attr::upper, !transposed}, {Attr::unit, false}})});
}
/// Q x, or Q^T x.
T applied(const Reflections& f, const T& x, bool transposed) {
  if (f.tau.dim(-1).is(0)) return x;
  const Together q = together(f);
  return x - spread(q, product_of(turned(q.v), x), transposed);
}
/// The first columns of Q.
T first_columns(const Reflections& f, const Expr& columns) {
  Builder& b = f.packed.b();
  const T one = (row_of(b, f.packed.dim(-2)) == column_of(b, columns)).to(DType::f64);
  if (f.tau.dim(-1).is(0)) return one.expand(with(batch_of(f.packed), {f.packed.dim(-2), columns}));
  const Together q = together(f);
  return one - spread(q, turned(q.v.slice(-2, 0, columns)), false);
}

Reflections factors(const T& x) {
  const std::vector<ValueId> parts = x.b().make(Op::qr, {x});
  return {{x.b(), parts[0]}, {x.b(), parts[1]}};
}

void qr(Rule& r) {
  const T x = matrix(r, r.has("A") ? "A" : "self");
  const std::string mode = r.has("some") ? (r.boolean_or("some", true) ? "reduced" : "complete") : r.text_or("mode", "reduced");
  const Reflections f = factors(x);
  const Expr k = f.tau.dim(-1), rows = mode == "complete" ? x.dim(-2) : k;
  if (mode != "r" && r.wants(0)) set_as(r, 0, first_columns(f, rows));
  if (mode == "r" && r.wants(0)) r.set(0, full(r.b, r.meta_result(0).dtype, r.meta_result(0).dims, 0.0));
  set_as(r, 1, where(row_of(r.b, rows) <= column_of(r.b, x.dim(-1)), f.packed.slice(-2, 0, rows), 0.0));
}

void geqrf(Rule& r) {
  const Reflections f = factors(matrix(r, "self"));
  set_as(r, 0, f.packed);
  set_as(r, 1, f.tau);
}

void householder_product(Rule& r) {
  const bool linalg = r.has("tau");
  const Reflections f{matrix(r, linalg ? "input" : "self"), tensor(r, linalg ? "tau" : "input2").to(DType::f64)};
  set_as(r, 0, first_columns(f, f.packed.dim(-1)));
}

/// Q C, Q^T C, C Q or C Q^T.
void ormqr(Rule& r) {
  const Reflections f{matrix(r, "self"), tensor(r, "input2").to(DType::f64)};
  const T c = matrix(r, "input3");
  const bool left = r.boolean_or("left", true), transposed = r.boolean_or("transpose", false);
  set_as(r, 0, left ? applied(f, c, transposed) : turned(applied(f, turned(c), !transposed)));
}

constexpr RuleRow kRows[] = {
    {"aten.linalg_qr.default aten.qr.default", qr},
    {"aten.geqrf.default", geqrf},
    {"aten.linalg_householder_product.default aten.orgqr.default", householder_product},
    {"aten.ormqr.default", ormqr},
};
}  // namespace

RuleTable qr_rules() { return kRows; }

}  // namespace aotc::decompose
