// Type rules: ops whose elements are chosen by index tensors.
#include <algorithm>

#include "base/words.h"
#include "graph/infer_detail.h"

namespace aotc::infer {

/// Dims of x[i1..ik]: the index dims stand at out_pos among the dims of x that are not indexed.
static Exprs index_dims(Infer& r, size_t first_index) {
  const TensorType& x = r.in(0);
  const Ints& dims = r.increasing_dims(x.rank());
  r.require(!dims.empty() && dims.size() == r.arity() - first_index, "one index tensor per indexed dim");
  Exprs at = r.in(first_index).dims;
  for (size_t i = first_index; i < r.arity(); ++i) {
    r.require(r.in(i).dtype == DType::i64, "indices must be int64");
    at = r.equal(at, r.in(i).dims, "index dims");
  }
  Exprs out;
  for (int i = 0; i < x.rank(); ++i)
    if (!std::binary_search(dims.begin(), dims.end(), i)) out.push_back(x.dims[i]);
  const int64_t pos = r.n.get<int64_t>(Attr::out_pos);
  r.require(pos >= 0 && pos <= static_cast<int64_t>(out.size()), "out_pos {} is not within the {} remaining dims", pos, out.size());
  out.insert(out.begin() + pos, at.begin(), at.end());
  return out;
}

Types index(Infer& r) {
  r.require(r.arity() >= 2, "no index tensor");
  return {{r.in(0).dtype, index_dims(r, 1)}};
}

Types index_put(Infer& r) {
  r.require(r.arity() >= 3, "no index tensor");
  r.require(r.in(0).dtype == r.in(1).dtype, "operand types differ");
  r.n.get<bool>(Attr::accumulate);
  r.equal(index_dims(r, 2), r.in(1).dims, "values dims");
  return {r.in(0)};
}

Types add_rows(Infer& r) {
  r.arity(4, 5);
  const TensorType &x = r.in(0), &table = r.in(1), &from = r.in(2), &to = r.in(3);
  const bool widened = is_half(table.dtype) && x.dtype == DType::f32;
  r.require((x.dtype == table.dtype || widened) && is_float(x.dtype), "operand types differ, or are no floats");
  r.require(!r.n.get<bool>(Attr::largest) || (r.n.get<bool>(Attr::begins) && r.arity() == 4), "the largest are of bags without factors");
  r.require(x.rank() == 2 && table.rank() == 2 && from.rank() == 1, "not rows of tables");
  r.require(from.dtype == DType::i64 && to.dtype == DType::i64, "indices must be int64");
  r.equal(x.dims[1], table.dims[1], "columns");
  if (r.n.get<bool>(Attr::begins))
    r.equal(to.dims[0], x.dims[0], "rows");
  else
    r.equal(from.dims, to.dims, "indices");
  if (r.arity() == 5) {
    r.require(r.in(4).dtype == x.dtype && r.in(4).rank() == 1, "not a factor a row");
    r.equal(r.in(4).dims[0], from.dims[0], "factors");
  }
  return {x};
}

static void check_along(Infer& r, const TensorType& i, const TensorType& x, int d) {
  r.require(i.dtype == DType::i64, "indices must be int64");
  r.require(i.rank() == x.rank(), "ranks differ");
  for (int j = 0; j < x.rank(); ++j)
    if (j != d) r.at_most(i.dims[j], x.dims[j], "index dim");
}

Types gather(Infer& r) {
  r.arity(2);
  check_along(r, r.in(1), r.in(0), r.dim(r.in(0).rank()));
  return {{r.in(0).dtype, r.in(1).dims}};
}

Types scatter(Infer& r) {
  r.arity(3);
  const TensorType &x = r.in(0), &i = r.in(1), &src = r.in(2);
  check_along(r, i, x, r.dim(x.rank()));
  r.require(src.dtype == x.dtype && src.rank() == x.rank(), "the source's type or rank differs");
  for (int j = 0; j < x.rank(); ++j) r.at_most(i.dims[j], src.dims[j], "source dim");
  static constexpr std::string_view kKinds = "none sum prod amax amin mean";
  const std::string& kind = r.n.get<std::string>(Attr::reduce);
  r.require(has_word(kKinds, kind), "unknown reduce '{}'", kind);
  r.n.get<bool>(Attr::include_self);
  return {x};
}

}  // namespace aotc::infer
