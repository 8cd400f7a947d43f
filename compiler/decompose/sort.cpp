// Order: sort, topk, medians, quantiles.
#include "base/int_range.h"
#include "decompose/families.h"
#include "decompose/matrices.h"
#include "decompose/tensor.h"
#include "graph/infer.h"

namespace aotc::decompose {
namespace {

struct Sorted {
  T values, indices;
};

Sorted sort_of(const T& x, int d, bool descending, bool stable) {
  const std::vector<ValueId> v =
      x.b().make(Op::sort, {x}, {{Attr::dim, int64_t{d}}, {Attr::descending, descending}, {Attr::stable, stable}});
  return {{x.b(), v[0]}, {x.b(), v[1]}};
}

void set_pair(Rule& r, const T& values, const T& indices) {
  if (r.wants(0)) r.set(0, values.reshape(r.meta_result(0).dims));
  if (r.wants(1)) r.set(1, indices.reshape(r.meta_result(1).dims));
}

T zero_index(const T& x) { return {x.b(), full(x.b(), DType::i64, x.dims(), 0.0)}; }

Sorted sort_arg(Rule& r) {
  const T x = tensor(r, "self");
  if (x.rank() == 0) return {x, zero_index(x)};
  const int d = r.has("dim") ? r.dim("dim", x.rank()) : 0;
  return sort_of(x, d, r.boolean_or("descending", false), true);
}
void sort(Rule& r) {
  const Sorted s = sort_arg(r);
  set_pair(r, s.values, s.indices);
}
void argsort(Rule& r) { r.set(sort_arg(r).indices); }
void msort(Rule& r) { r.set(sort_arg(r).values); }

void topk(Rule& r) {
  const T x = tensor(r, "self");
  if (x.rank() == 0) return set_pair(r, x, zero_index(x));
  const int d = r.dim("dim", x.rank());
  const std::vector<ValueId> v = r.b.make(
      Op::topk, {x},
      {{Attr::dim, int64_t{d}}, {Attr::k, r.sym("k")}, {Attr::largest, r.boolean("largest")}, {Attr::sorted, r.boolean("sorted")}});
  set_pair(r, {r.b, v[0]}, {r.b, v[1]});
}

/// One element that no other comes behind when sorted.
T last_in_order(Builder& b, DType t) {
  return is_float(t) ? T(b, full(b, t, {1}, std::nan(""))) : T(b, b.full_int({t, {1}}, is_bool(t) ? 1 : int_range(t).most));
}

/// A NaN anywhere in the dim is the answer, at its own place.
Sorted with_nan(const T& x, int d, const Sorted& s) {
  if (!is_float(x.dtype())) return s;
  const T bad = unary(Op::isnan, x);
  const T any = bad.reduce(ReduceKind::max, {d}, true), at = bad.to(DType::u8).reduce(ReduceKind::argmax, {d}, true);
  return {where(any, std::nan(""), s.values), where(any, at, s.indices)};
}

Sorted nth(const T& x, int d, const Expr& k) {
  const Sorted s = sort_of(x, d, false, true);
  return {s.values.slice(d, k, 1), s.indices.slice(d, k, 1)};
}

void kthvalue(Rule& r) {
  const T x = tensor(r, "self");
  if (x.rank() == 0) return set_pair(r, x, zero_index(x));
  const Sorted s = nth(x, r.dim("dim", x.rank()), r.sym("k") - 1);
  set_pair(r, s.values, s.indices);
}

/// What is there most often along dim, the least of such, at its last place.
void mode(Rule& r) {
  const T x = tensor(r, "self");
  if (x.rank() == 0) return set_pair(r, x, zero_index(x));
  const int d = r.dim("dim", x.rank());
  const Sorted s = sort_of(x, d, false, true);
  const T at = iota(r.b, x.dims(), d), line = iota(r.b, {x.dim(d)}, 0);
  const T before(r.b, r.b.index(s.values, {maximum(line - 1.0, 0.0)}, {d}, d));
  const T begins = (at == 0.0) | (s.values != before);
  const T length = at - T(r.b, r.b.scan(ReduceKind::max, where(begins, at, 0.0), d));
  const T best = length.reduce(ReduceKind::argmax, {d}, true);
  set_pair(r, {r.b, r.b.gather(s.values, best, d)}, {r.b, r.b.gather(s.indices, best, d)});
}

/// The median of all elements, of which there may be none: NaN then, in the tensor's type.
void median_of_all(Rule& r, const T& x) {
  const Expr n = x.dim(0);
  const auto median = [&](const T& y) { return with_nan(x, 0, nth(y, 0, r.b.syms().simplify(floordiv(max(n, 1) - 1, 2)))).values; };
  if (holds(r.b.graph(), ShapeGuard::Kind::le, 1, n)) return r.set(0, median(x).squeeze(0));
  const T nothing = T(r.b, full(r.b, DType::f64, {1}, std::nan(""))).to(x.dtype());
  if (n.is(0)) return r.set(0, nothing.squeeze(0));
  // An element behind all others is there in any case.
  const T last(r.b, r.b.cat({x, last_in_order(r.b, x.dtype())}, 0));
  r.set(0, where(scalar_of(r.b, n, DType::i64).reshape({1}) == 0.0, nothing, median(last)).squeeze(0));
}

void median(Rule& r) {
  const T x = tensor(r, "self");
  if (x.rank() == 0) return set_pair(r, x, zero_index(x));
  if (!r.has("dim")) return median_of_all(r, x.reshape({r.b.type(x).elems()}));
  const int d = r.dim("dim", x.rank());
  const Sorted s = with_nan(x, d, nth(x, d, floordiv(x.dim(d) - 1, 2)));
  set_pair(r, s.values, s.indices);
}

/// The median of what is not NaN.
void nanmedian(Rule& r) {
  T x = tensor(r, "self");
  if (x.rank() == 0) return set_pair(r, x, zero_index(x));
  if (!is_float(x.dtype())) return median(r);
  const bool all = !r.has("dim");
  if (all) x = x.reshape({r.b.type(x).elems()});
  const int d = all ? 0 : r.dim("dim", x.rank());
  // Of no elements it is NaN.
  if (all && !holds(r.b.graph(), ShapeGuard::Kind::le, 1, x.dim(0))) x = {r.b, r.b.cat({x, last_in_order(r.b, x.dtype())}, 0)};
  const Sorted s = sort_of(x, d, false, true);
  const T n = (!unary(Op::isnan, x)).to(DType::i64).sum({d}, true);
  const T k = maximum(binary(Op::div_floor, n - 1.0, 2.0), 0.0);
  set_pair(r, {r.b, r.b.gather(s.values, k, d)}, {r.b, r.b.gather(s.indices, k, d)});
}

template <bool skip_nan>
void quantile(Rule& r) {
  const TensorType t = r.meta_result();
  T x = tensor(r, "self"), q(r.b, materialize(r.b, operand(r, "q"), t.dtype));
  const std::string how = r.text_or("interpolation", "linear");
  const bool vector = q.rank() > 0;
  if (r.none("dim") || x.rank() == 0) x = x.reshape({r.b.type(x).elems()});
  const int d = r.none("dim") || x.rank() == 1 ? 0 : r.dim("dim", x.rank());
  Ints perm;
  for (int i = 0; i < x.rank(); ++i)
    if (i != d) perm.push_back(i);
  perm.push_back(d);
  x = x.permute(perm);
  const int last = x.rank() - 1;
  const T sorted = sort_of(x, last, false, true).values;
  q = q.reshape({r.b.type(q).elems()});
  if (r.is_tensor("q")) {
    const T takes = (q >= 0.0) & (q <= 1.0);
    must_hold(r, takes, "q has numbers outside of 0 to 1");
    q = where(takes, q, 0.0);
  }
  std::vector<Expr> dims = x.dims(), line(static_cast<size_t>(x.rank()), Expr(1));
  dims.back() = line.back() = q.dim(0);
  // Rank of each quantile within its row.
  T top = scalar_of(r.b, x.dim(last) - 1, x.dtype());
  const T bad = unary(Op::isnan, x);
  if (skip_nan) top = maximum((!bad).to(x.dtype()).sum({last}, true) - 1.0, 0.0);
  const T at = (q.reshape(line) * top).expand(dims);
  const auto pick = [&](const T& i) { return T(r.b, r.b.gather(sorted, i.to(DType::i64), last)); };
  const T lo = floor(at), hi = unary(Op::ceil, at);
  T y = pick(lo);
  if (how == "linear" || how == "midpoint") y = lerp(y, pick(hi), how == "linear" ? at - lo : at.like(0.5));
  if (how == "higher") y = pick(hi);
  if (how == "nearest") y = pick(unary(Op::round, at));
  if (!skip_nan) y = where(bad.reduce(ReduceKind::max, {last}, true), std::nan(""), y);
  // The quantiles come first, and the reduced dim leaves.
  Ints front = {last};
  for (int i = 0; i < last; ++i) front.push_back(i);
  r.set((vector ? y.permute(front) : y).reshape(t.dims));
}

constexpr RuleRow kRows[] = {
    {"aten.sort.default aten.sort.stable", sort},
    {"aten.argsort.default aten.argsort.stable", argsort},
    {"aten.msort.default", msort},
    {"aten.topk.default", topk},
    {"aten.kthvalue.default", kthvalue},
    {"aten.mode.default", mode},
    {"aten.median.default aten.median.dim", median},
    {"aten.nanmedian.default aten.nanmedian.dim", nanmedian},
    {"aten.quantile.default aten.quantile.scalar", quantile<false>},
    {"aten.nanquantile.default aten.nanquantile.scalar", quantile<true>},
};
}  // namespace

RuleTable sort_rules() { return kRows; }

}  // namespace aotc::decompose
