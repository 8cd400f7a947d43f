// Running sums, products and extremes.
#include "decompose/families.h"
#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

template <ReduceKind kind>
void scan(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self").to(compute_type(t.dtype));
  const int d = r.dim("dim", x.rank());
  if (x.rank() == 0 || t.elems().is(0)) return r.set(x.to(t.dtype));
  r.set(T(r.b, r.b.scan(kind, x, d)).to(t.dtype));
}

template <ReduceKind kind>
void scan_with_index(Rule& r) {
  const T x = tensor(r, "self");
  const int d = r.dim("dim", x.rank());
  if (x.rank() == 0) {
    r.set(0, x);
    return r.set(1, full(r.b, DType::i64, {}, 0.0));
  }
  if (r.wants(0)) r.set(0, r.b.scan(kind, x, d));
  if (r.wants(1)) r.set(1, r.b.make1(Op::scan_arg, {x}, {{Attr::kind, std::string(reduce_name(kind))}, {Attr::dim, int64_t{d}}}));
}

/// Differences of neighbours, n times.
void diff(Rule& r) {
  T x = tensor(r, "self");
  const int d = r.dim("dim", x.rank());
  if (r.integer("n") == 0) return r.set(x);  // what would be added at the ends is left out, too
  std::vector<ValueId> parts = {x};
  if (!r.none("prepend")) parts.insert(parts.begin(), r.tensor("prepend"));
  if (!r.none("append")) parts.push_back(r.tensor("append"));
  x = {r.b, r.b.cat(parts, d)};
  for (int64_t n = r.integer("n"); n > 0; --n) {
    if (x.dim(d).is(0)) break;
    const Expr m = x.dim(d) - 1;
    const T hi = x.slice(d, 1, m), lo = x.slice(d, 0, m);
    x = is_bool(x.dtype()) ? hi != lo : hi - lo;
  }
  r.set(x);
}

/// Integrals by trapezoids, in the steps that PyTorch takes: infinities become NaN where its do, and 16-bit floats round as its do.
struct Samples {
  T y;
  int d;
  std::optional<T> steps;  ///< between the points, where those are given
  double dx = 1;
};

Samples samples(Rule& r) {
  const T y = tensor(r, "y").to(r.meta_result().dtype);
  const int d = r.dim("dim", y.rank());
  if (!r.has("x")) return {y, d, {}, r.number_or("dx", 1.0)};
  T x = tensor(r, "x").to(y.dtype());
  if (x.rank() == 1 && y.rank() > 1) {
    std::vector<Expr> line(static_cast<size_t>(y.rank()), Expr(1));
    line[static_cast<size_t>(d)] = x.dim(0);
    x = x.reshape(line);
  }
  const int dx = d - y.rank() + x.rank();
  const Expr m = y.dim(d) - 1;
  return {y, d, x.slice(dx, 1, m) - x.slice(dx, 0, m)};
}

T neighbour_sums(const Samples& s) {
  const Expr m = s.y.dim(s.d) - 1;
  return s.y.slice(s.d, 0, m) + s.y.slice(s.d, 1, m);
}

T halved(const T& x) { return (x.up() * 0.5).to(x.dtype()); }

void trapezoid(Rule& r) {
  const TensorType t = r.meta_result();
  const T given = tensor(r, "y");
  const int dim = r.dim("dim", given.rank());
  if (given.dim(dim).is(0) || (r.has("x") && given.dim(dim).is(1))) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  const Samples s = samples(r);
  if (s.steps) return r.set(halved((neighbour_sums(s) * *s.steps).sum({s.d}, false)).to(t.dtype));
  // All points less half of both ends.
  const T ends = s.y.select(s.d, 0) + s.y.select(s.d, s.y.dim(s.d) - 1);
  r.set(((s.y.sum({s.d}, false) - halved(ends)).up() * s.dx).to(t.dtype));
}

void cumulative_trapezoid(Rule& r) {
  const TensorType t = r.meta_result();
  if (t.elems().is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  const Samples s = samples(r);
  if (s.steps) return r.set(halved(T(r.b, r.b.scan(ReduceKind::sum, neighbour_sums(s) * *s.steps, s.d))).to(t.dtype));
  const T areas = (neighbour_sums(s).up() * (s.dx / 2)).to(s.y.dtype());
  r.set(T(r.b, r.b.scan(ReduceKind::sum, areas, s.d)).to(t.dtype));
}

constexpr RuleRow kRows[] = {
    {"aten.cumsum.default", scan<ReduceKind::sum>},
    {"aten.cumprod.default", scan<ReduceKind::prod>},
    {"aten.logcumsumexp.default", scan<ReduceKind::logsumexp>},
    {"aten.cummax.default", scan_with_index<ReduceKind::max>},
    {"aten.cummin.default", scan_with_index<ReduceKind::min>},
    {"aten.diff.default", diff},
    {"aten.trapezoid.dx aten.trapz.dx aten.trapezoid.x aten.trapz.x", trapezoid},
    {"aten.cumulative_trapezoid.dx aten.cumulative_trapezoid.x", cumulative_trapezoid},
};
}  // namespace

RuleTable scan_rules() { return kRows; }

}  // namespace aotc::decompose
