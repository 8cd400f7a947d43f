#include "decompose/selection.h"

#include "decompose/indexing.h"

namespace aotc::decompose {

T nonzero(const T& x) { return is_bool(x.dtype()) ? x : x != 0.0; }

T places_where(Rule& r, const T& mask, const std::optional<Expr>& archive) {
  Builder& b = r.b;
  const Expr n = product(mask.dims());
  const auto known = r.selections().find(mask);
  if (known != r.selections().end()) {
    const TensorEnv::Selected& s = known->second;
    const Expr size = archive && *archive != s.size ? r.found(archive, s.count, n) : s.size;
    return T(b, s.order).slice(0, 0, size);
  }
  // Those that are true come first, then the others: each has a place of its own.
  const T line = nonzero(mask).reshape({n}), one = line.to(DType::i64), count = one.sum({0}, false);
  const T before = T(b, b.scan(ReduceKind::sum, one, 0)), at = iota(b, {n}, 0);
  const T order = write_places(T(b, full(b, DType::i64, {n}, 0.0)), at, where(line, before - 1.0, count + at - before));
  const Expr size = r.found(archive, count, n);
  r.selections().emplace(mask, TensorEnv::Selected{order, count, size});
  return order.slice(0, 0, size);
}

std::vector<T> coordinates(const T& places, const std::vector<Expr>& dims) {
  std::vector<T> out;
  Expr stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    T one = places;
    if (!stride.is(1)) one = binary(Op::div_floor, one, scalar_of(places.b(), max(stride, 1), DType::i64));
    if (d > 0) one = binary(Op::remainder, one, scalar_of(places.b(), max(dims[d], 1), DType::i64));
    out.insert(out.begin(), one);
    stride *= dims[d];
  }
  return out;
}

std::vector<T> coordinates_where(Rule& r, const T& mask, const std::optional<Expr>& archive) {
  const std::vector<Expr> dims = mask.dims();
  return coordinates(places_where(r, mask, archive), dims);
}

}  // namespace aotc::decompose
