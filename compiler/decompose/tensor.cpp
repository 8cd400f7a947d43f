#include "decompose/tensor.h"

#include <algorithm>

namespace aotc::decompose {

T T::reduce(ReduceKind k, Ints d, bool keep) const {
  // No dimension to reduce: the product, maximum or minimum of one element is itself; so is its sum, which begins at 0.0.
  if (d.empty()) {
    if (k == ReduceKind::argmax || k == ReduceKind::argmin) return {*b_, full(*b_, DType::i64, dims(), 0.0)};
    return k == ReduceKind::sum && is_float(dtype()) ? *this + 0.0 : *this;
  }
  // Over nothing a sum is 0 and a product 1, whatever stands there.
  if (k == ReduceKind::sum || k == ReduceKind::prod) {
    std::vector<Expr> over, left;
    for (int i = 0; i < rank(); ++i) {
      const bool gone = std::find(d.begin(), d.end(), i) != d.end();
      if (gone) over.push_back(dim(i));
      if (!gone || keep) left.push_back(gone ? Expr(1) : dim(i));
    }
    if (product(over).is(0)) return {*b_, full(*b_, dtype(), left, k == ReduceKind::sum ? 0.0 : 1.0)};
  }
  return {*b_, keep ? b_->reduce_keep(k, id_, std::move(d)) : b_->reduce(k, id_, std::move(d))};
}

T unary(Op op, const T& x) { return {x.b(), x.b().unary(op, x)}; }

T binary(Op op, const T& a, const T& b) {
  Builder& bb = a.b();
  const std::vector<Expr> dims = broadcast_dims(bb.syms(), a.dims(), b.dims());
  return {bb, bb.binary(op, expand(bb, a, dims), expand(bb, b, dims))};
}
T binary(Op op, const T& a, double b) { return binary(op, a, a.like(b)); }

#define AOTC_BINARY(sym, op)                                              \
  T operator sym(const T& a, const T& b) { return binary(Op::op, a, b); } \
  T operator sym(const T& a, double b) { return binary(Op::op, a, a.like(b)); }
AOTC_BINARY(+, add)
AOTC_BINARY(-, sub)
AOTC_BINARY(*, mul)
AOTC_BINARY(/, div)
AOTC_BINARY(<, lt)
AOTC_BINARY(<=, le)
AOTC_BINARY(>, gt)
AOTC_BINARY(>=, ge)
AOTC_BINARY(==, eq)
AOTC_BINARY(!=, ne)
#undef AOTC_BINARY
T operator+(double a, const T& b) { return b.like(a) + b; }
T operator-(double a, const T& b) { return b.like(a) - b; }
T operator*(double a, const T& b) { return b.like(a) * b; }
T operator/(double a, const T& b) { return b.like(a) / b; }
T operator-(const T& a) { return unary(Op::neg, a); }
T operator&(const T& a, const T& b) { return binary(Op::bit_and, a, b); }
T operator|(const T& a, const T& b) { return binary(Op::bit_or, a, b); }
T operator!(const T& a) { return unary(Op::logical_not, a); }

T where(const T& c, const T& a, const T& b) {
  Builder& bb = a.b();
  std::vector<ValueId> v = {c, a, b};
  broadcast_all(bb, v);
  return {bb, bb.where(v[0], v[1], v[2])};
}
T where(const T& c, const T& a, double b) { return where(c, a, a.like(b)); }
T where(const T& c, double a, const T& b) { return where(c, b.like(a), b); }
T maximum(const T& a, const T& b) { return binary(Op::maximum, a, b); }
T minimum(const T& a, const T& b) { return binary(Op::minimum, a, b); }
T maximum(const T& a, double b) { return binary(Op::maximum, a, b); }
T minimum(const T& a, double b) { return binary(Op::minimum, a, b); }
T exp(const T& x) { return unary(Op::exp, x); }
T log(const T& x) { return unary(Op::log, x); }
T sqrt(const T& x) { return unary(Op::sqrt, x); }
T lerp(const T& a, const T& b, const T& w) {
  const T near = abs(w) < 0.5;
  return where(near, a, b) + where(near, w, w - 1.0) * (b - a);
}
T rsqrt(const T& x) { return unary(Op::rsqrt, x); }
T tanh(const T& x) { return unary(Op::tanh, x); }
T sigmoid(const T& x) { return unary(Op::sigmoid, x); }
T abs(const T& x) { return unary(Op::abs, x); }
T floor(const T& x) { return unary(Op::floor, x); }

T tensor(Rule& r, std::string_view name) { return {r.b, r.tensor(name)}; }
std::optional<T> opt_tensor(Rule& r, std::string_view name) {
  const std::optional<ValueId> v = r.opt_tensor(name);
  if (!v) return std::nullopt;
  return T{r.b, *v};
}

T scalar_of(Builder& b, const Expr& e, DType dtype) {
  const Expr s = b.syms().simplify(e);
  if (auto c = s.as_const()) return {b, full(b, dtype, {}, static_cast<double>(*c))};
  return {b, b.cast(b.sym(s), dtype)};
}

T count(Builder& b, const std::vector<Expr>& dims, DType dtype) { return scalar_of(b, product(dims), dtype); }

T iota(Builder& b, std::vector<Expr> dims, int dim, DType dtype) { return {b, b.cast(b.iota(std::move(dims), dim), dtype)}; }

}  // namespace aotc::decompose
