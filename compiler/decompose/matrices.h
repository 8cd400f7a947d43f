#pragma once
// What rules for factorisations of matrices share. Matrices are the last two dims, batch dims are free.
#include "decompose/tensor.h"

namespace aotc::decompose {

inline T turned(const T& x) { return {x.b(), x.b().transpose(x, x.rank() - 2, x.rank() - 1)}; }
inline std::vector<Expr> batch_of(const T& x) { return {x.dims().begin(), x.dims().end() - 2}; }
inline std::vector<Expr> with(std::vector<Expr> batch, std::initializer_list<Expr> more) {
  batch.insert(batch.end(), more);
  return batch;
}
inline T row_of(Builder& b, const Expr& n) { return iota(b, {n, Expr(1)}, 0); }
inline T column_of(Builder& b, const Expr& n) { return iota(b, {Expr(1), n}, 1); }
inline T eye(Builder& b, const Expr& n) { return (row_of(b, n) == column_of(b, n)).to(DType::f64); }

/// In float64: the reference libraries' blocked sums would need it for float32 to be as exact.
inline T matrix(Rule& r, std::string_view name) {
  const T x = tensor(r, name);
  if (x.rank() < 2) r.refuse("not a matrix");
  return x.to(DType::f64);
}
inline Ints all_dims(const T& x) {
  Ints dims;
  for (int d = 0; d < x.rank(); ++d) dims.push_back(d);
  return dims;
}
/// The run fails where any element of a bool tensor is false.
inline void must_hold(Rule& r, const T& all, std::string_view otherwise) {
  const T failed = (!all).to(DType::i64);
  r.check((failed.rank() == 0 ? failed : failed.sum(all_dims(failed), false)) == 0.0,
          fmt::format("{} ({}): {}", r.node.name, r.node.target, otherwise));
}
inline void set_as(Rule& r, size_t i, const T& v) {
  if (r.wants(i)) r.set(i, v.to(r.meta_result(i).dtype));
}

}  // namespace aotc::decompose
