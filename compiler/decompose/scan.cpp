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

void cumulative_trapezoid(Rule& r) {
  const TensorType t = r.meta_result();
  const T y = tensor(r, "y").to(compute_type(t.dtype));
  const int d = r.dim("dim", y.rank());
  const Expr m = y.dim(d) - 1;
  T areas = (y.slice(d, 1, m) + y.slice(d, 0, m)) * 0.5;
  if (r.has("x")) {
    T x = tensor(r, "x").to(y.dtype());
    if (x.rank() == 1 && y.rank() > 1) {
      std::vector<Expr> line(static_cast<size_t>(y.rank()), Expr(1));
      line[static_cast<size_t>(d)] = x.dim(0);
      x = x.reshape(line);
    }
    const int dx = d - y.rank() + x.rank();
    areas = areas * (x.slice(dx, 1, m) - x.slice(dx, 0, m));
  } else {
    areas = areas * r.number_or("dx", 1.0);
  }
  const bool running = r.node.target.find("cumulative") != std::string::npos;
  r.set((running ? T(r.b, r.b.scan(ReduceKind::sum, areas, d)) : areas.sum({d}, false)).to(t.dtype));
}

constexpr RuleRow kRows[] = {
    {"aten.cumsum.default", scan<ReduceKind::sum>},
    {"aten.cumprod.default", scan<ReduceKind::prod>},
    {"aten.logcumsumexp.default", scan<ReduceKind::logsumexp>},
    {"aten.cummax.default", scan_with_index<ReduceKind::max>},
    {"aten.cummin.default", scan_with_index<ReduceKind::min>},
    {"aten.diff.default", diff},
    {"aten.trapezoid.dx", cumulative_trapezoid},
    {"aten.trapz.dx", cumulative_trapezoid},
    {"aten.cumulative_trapezoid.dx", cumulative_trapezoid},
    {"aten.trapezoid.x", cumulative_trapezoid},
    {"aten.trapz.x", cumulative_trapezoid},
    {"aten.cumulative_trapezoid.x", cumulative_trapezoid},
};
}  // namespace

RuleTable scan_rules() { return kRows; }

}  // namespace aotc::decompose
