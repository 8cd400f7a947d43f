// At their bounds: operators that compute one element from many. What a tensor does not have is replaced by what changes nothing.
#include <limits>

#include "decompose/at_bounds.h"

namespace aotc::decompose {

void AtBounds::number(At& a) { give(a, 0, value(a.n.get<Expr>(Attr::expr))); }

void AtBounds::reduce(At& a) {
  const Ints dims = a.n.get<Ints>(Attr::dims);
  const ReduceKind kind = a.n.reduce_kind();
  const bool arg = kind == ReduceKind::argmax || kind == ReduceKind::argmin;
  if (arg)
    for (size_t i = 1; i < dims.size(); ++i)  // the result counts elements in these dims
      if (found(a.x()[static_cast<size_t>(dims[i])])) refuse(a, "it counts places over several such dims; reduce one of them at a time");
  const DType t = input(a, 0).dtype();
  const auto neutral = [&]() -> T {
    switch (kind) {
      case ReduceKind::sum: return {b_, full(b_, t, {}, 0.0)};
      case ReduceKind::prod: return {b_, full(b_, t, {}, 1.0)};
      case ReduceKind::min:
      case ReduceKind::argmin: return extreme(t, End::greatest);
      default: return extreme(t, End::least);
    }
  };
  a.n.inputs[0] = masked(a, 0, dims, neutral());
  keep(a);
}

void AtBounds::matmul(At& a) {
  const auto rank = static_cast<int64_t>(a.x().size());
  a.n.inputs = {masked(a, 0, {rank - 1}, 0.0), masked(a, 1, {rank - 2}, 0.0)};  // both: zero times what may be NaN is none
  keep(a);
}

void AtBounds::attention(At& a) {
  const Expr keys = a.in.at(1)->at(2);
  if (found(keys)) {
    const T inside = within(a, keys, 3, 4);
    a.n.inputs[1] = masked(a, 1, {2}, 0.0);
    a.n.inputs[2] = masked(a, 2, {2}, 0.0);
    if (a.n.inputs.size() < 4) {
      a.n.inputs.push_back(inside);
    } else {
      const T mask = input(a, 3);
      a.n.inputs[3] = is_bool(mask.dtype()) ? mask & inside : where(inside, mask, -std::numeric_limits<double>::infinity());
    }
  }
  keep(a);
}

/// What stands behind all others: in rising order NaN does, and of equal ones those that come later.
void AtBounds::sort(At& a) {
  const int64_t d = a.n.get<int64_t>(Attr::dim);
  if (found(a.x()[static_cast<size_t>(d)])) {
    const DType t = input(a, 0).dtype();
    const bool falls = a.n.get<bool>(Attr::descending);
    const T last = falls ? extreme(t, End::least) : is_float(t) ? T(b_, full(b_, t, {}, std::nan(""))) : extreme(t, End::greatest);
    a.n.inputs[0] = masked(a, 0, {d}, last);
    a.n.attrs[Attr::stable] = true;
  }
  keep(a);
}

void AtBounds::topk(At& a) {
  const int64_t d = a.n.get<int64_t>(Attr::dim);
  if (!found(a.x()[static_cast<size_t>(d)])) {
    a.n.attrs[Attr::sorted] = true;  // of as many as there may be, the first are those
    return keep(a);
  }
  const DType t = input(a, 0).dtype();
  const bool largest = a.n.get<bool>(Attr::largest);
  const T last = largest ? extreme(t, End::least) : is_float(t) ? T(b_, full(b_, t, {}, std::nan(""))) : extreme(t, End::greatest);
  const std::vector<ValueId> sorted =
      b_.make(Op::sort, {masked(a, 0, {d}, last)}, {{Attr::dim, d}, {Attr::descending, largest}, {Attr::stable, true}});
  for (size_t i = 0; i < 2; ++i) give(a, i, T(b_, sorted[i]).slice(static_cast<int>(d), 0, bound(a, a.out[i]->at(static_cast<size_t>(d)))));
}

void AtBounds::window(At& a) {
  const auto k = static_cast<int64_t>(a.n.get<Ints>(Attr::kernel).size()), rank = static_cast<int64_t>(a.x().size());
  Ints spatial;
  for (int64_t d = rank - k; d < rank; ++d) spatial.push_back(d);
  a.n.inputs[0] = masked(a, 0, spatial, fill_of(a, input(a, 0).dtype()));
  keep(a);
}

void AtBounds::conv(At& a) {
  const Exprs &x = a.x(), &w = *a.in.at(1);
  if (found(w)) refuse(a, "its weights have such a size");
  if (found(x[1])) refuse(a, "the channels are such a size");
  Ints spatial;
  for (size_t d = 2; d < x.size(); ++d) spatial.push_back(static_cast<int64_t>(d));
  if (found(x, 2) && a.n.has(Attr::value)) refuse(a, "its images have such sizes");
  a.n.inputs[0] = masked(a, 0, spatial, 0.0);
  keep(a);
}

void AtBounds::matrices(At& a) {
  for (const Exprs* dims : a.in)
    if (found(*dims, dims->size() - 2) || found(*dims, dims->size() - 1)) refuse(a, "its matrices have such a size");
  keep(a);
}

/// A square matrix goes on as the identity does, which stays apart from it: nothing of it is mixed with what there is. Right-hand sides go
/// on as zeros.
void AtBounds::square_matrices(At& a) {
  const size_t rank = a.x().size();
  if (found(a.x(), rank - 2)) {
    if (a.x()[rank - 2] != a.x()[rank - 1]) refuse(a, "its matrices have such a size, and are not square");
    const Expr& size = a.x()[rank - 1];
    const Expr most = bound(a, size);
    const int r = static_cast<int>(rank);
    const T inside = within(a, size, r - 2, r) & within(a, size, r - 1, r);
    const T x = input(a, 0);
    const T identity = (iota(b_, {most, most}, 0) == iota(b_, {most, most}, 1)).to(x.dtype());
    a.n.inputs[0] = where(inside, x, identity);
    if (a.in.size() > 1) {
      const auto rows = static_cast<int64_t>(a.in[1]->size()) - 2;
      a.n.inputs[1] = masked(a, 1, {rows, rows + 1}, 0.0);
    }
  }
  keep(a);
}

void AtBounds::recurrence(At& a) {
  const auto steps = static_cast<size_t>(a.n.get<int64_t>(Attr::dim));
  if (found(a.x()[steps]) || found(a.x()[2])) refuse(a, "the number of its steps is such a size");
  keep(a);
}

void AtBounds::fourier(At& a) {
  const auto d = static_cast<size_t>(a.n.get<int64_t>(Attr::dim));
  if (found(a.x()[d]) || found(a.n.get<Expr>(Attr::k))) refuse(a, "its lines have such a length");
  keep(a);
}

}  // namespace aotc::decompose
