// Type rules: views and cat.
#include <algorithm>

#include "graph/infer_detail.h"

namespace aotc::infer {

Types reshape(Infer& r) {
  r.arity(1);
  r.fact(ShapeGuard::Kind::eq, r.in(0).elems(), r.result().elems(), "element count");
  return {{r.in(0).dtype, r.result().dims}};
}

Types permute(Infer& r) {
  r.arity(1);
  const Ints& perm = r.n.get<Ints>(Attr::perm);
  const Exprs& dims = r.in(0).dims;
  r.require(perm.size() == dims.size(), "perm has {} entries", perm.size());
  Ints sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) r.require(sorted[i] == static_cast<int64_t>(i), "perm is not a permutation");
  Exprs out;
  for (int64_t p : perm) out.push_back(dims[p]);
  return {{r.in(0).dtype, out}};
}

Types expand(Infer& r) {
  r.arity(1);
  const Exprs &from = r.in(0).dims, &to = r.result().dims;
  r.require(from.size() == to.size(), "rank changes from {} to {}", from.size(), to.size());
  for (size_t i = 0; i < to.size(); ++i)
    if (!from[i].is(1)) r.equal(from[i], to[i], "a dim that is not 1");
  return {{r.in(0).dtype, to}};
}

Types slice(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  const int d = r.dim(x.rank());
  const Expr& start = r.n.get<Expr>(Attr::start);
  const int64_t step = r.n.get<int64_t>(Attr::step);
  r.require(step >= 1, "step {} is not positive", step);
  r.require(r.result().rank() == x.rank(), "rank changes");
  Exprs out = x.dims;
  for (int i = 0; i < x.rank(); ++i)
    if (i != d) r.equal(x.dims[i], r.result().dims[i], "a dim that is not sliced");
  out[d] = r.result().dims[d];
  r.at_most(0, start, "slice start");
  r.at_most(start + (out[d] - 1) * step + 1, x.dims[d], "slice end");
  return {{x.dtype, out}};
}

Types flip(Infer& r) {
  r.arity(1);
  r.increasing_dims(r.in(0).rank());
  return {r.in(0)};
}

Types strided(Infer& r) {
  r.arity(1);
  const Exprs& strides = r.n.get<Exprs>(Attr::strides);
  const Exprs& dims = r.result().dims;
  r.require(strides.size() == dims.size(), "one stride per dim");
  Expr last = r.n.get<Expr>(Attr::start);
  r.at_most(0, last, "start");
  for (size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  if (std::none_of(dims.begin(), dims.end(), [](const Expr& d) { return d.is(0); })) r.at_most(last + 1, r.in(0).elems(), "last element");
  return {{r.in(0).dtype, dims}};
}

Types pad(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  r.require(r.n.get<Exprs>(Attr::lo).size() == x.dims.size() && r.result().rank() == x.rank(), "one lo per dim");
  r.require(r.n.has(Attr::value), "has no value");
  return {{x.dtype, r.result().dims}};
}

Types window(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  const Ints& kernel = r.n.get<Ints>(Attr::kernel);
  const int k = static_cast<int>(kernel.size());
  r.require(k >= 1 && k <= x.rank(), "kernel of {} dims on rank {}", k, x.rank());
  r.per_spatial(Attr::kernel, k, 1);
  r.per_spatial(Attr::stride, k, 1);
  r.per_spatial(Attr::padding, k, 0);
  r.per_spatial(Attr::dilation, k, 1);
  r.require(r.n.has(Attr::value), "has no value");
  const Exprs& to = r.result().dims;
  r.require(r.result().rank() == x.rank() + k, "the result must be of rank {}", x.rank() + k);
  for (int i = 0; i < x.rank() - k; ++i) r.equal(x.dims[i], to[i], "leading dim");
  for (int i = 0; i < k; ++i) r.require(to[x.rank() + i].is(kernel[i]), "trailing dims must be the kernel's");
  return {{x.dtype, to}};
}

Types cat(Infer& r) {
  r.require(r.arity() >= 1, "no input");
  TensorType out = r.in(0);
  const int d = r.dim(out.rank());
  for (size_t i = 1; i < r.arity(); ++i) {
    const TensorType& x = r.in(i);
    r.require(x.dtype == out.dtype, "operand types differ");
    r.require(x.rank() == out.rank(), "ranks differ");
    for (int j = 0; j < out.rank(); ++j) out.dims[j] = j == d ? out.dims[j] + x.dims[j] : r.equal(out.dims[j], x.dims[j], "dims");
  }
  return {out};
}

}  // namespace aotc::infer
