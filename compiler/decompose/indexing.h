#pragma once
// What the readers and writers through indices share.
#include "decompose/tensor.h"

namespace aotc::decompose {

/// x[i, :, j]: which dims are indexed, by what, and where the index dims stand in the result.
struct IndexPlan {
  Ints dims;
  std::vector<ValueId> indices;  ///< int64, expanded to index_dims
  std::vector<Expr> index_dims;
  int out_pos = 0;
};
/// From an aten `indices` list (entries may be None; masks become the places where they are true). `selects`: the node's result is what is
/// read so, and the archive names its sizes.
IndexPlan index_plan(Rule& r, const T& x, std::string_view name, bool selects = false);
/// The index of an operator in which negative ones do not count from the end: they become the extent, which is out of range.
T from_start(const T& index, const Expr& extent);
/// x with dim replaced by the dims of index. Negative indices count from the end.
T take_index(const T& x, const T& index, int dim);

/// Which bag each of n indices lies in, given where bags begin (in order; bags may be empty): [n].
T bags_of(const T& offsets, const Expr& n);

/// Where a Python slice bound (negative from the end, clamped, None: fallback) lies within [0, size].
Expr slice_bound(Rule& r, std::string_view name, const Expr& size, const Expr& fallback);
/// The step of a slice, made of sizes.
Expr slice_step(Rule& r);
/// `size` elements of a dim in steps.
T slice_of(const T& x, int dim, const Expr& start, const Expr& size, const Expr& step);
/// The elements from `start` to `end` in steps.
Expr slice_length(Rule& r, const Expr& start, const Expr& end, const Expr& step);
/// A negative index counts from the end.
Expr wrap_index(Rule& r, const Expr& index, const Expr& size);
/// A slice whose bounds or step are read out of a tensor.
struct ReadSlice {
  T start, step;
  Expr length;
};
/// The places start, start + step ..: int64 [length], of a dim of this size. A negative start counts from the end; places past it are out
/// of range.
T places_of(const ReadSlice& s, const Expr& size);
/// Nothing where bounds and step are made of sizes. `length`: as the archive has it.
std::optional<ReadSlice> read_slice(Rule& r, const Expr& size, const Expr& length);
/// x with src written at these places along dim.
T write_along(const T& x, const T& src, const T& places, int dim);
/// Length of the diagonal k places right of the main one.
Expr diagonal_length(Rule& r, const Expr& rows, const Expr& columns, int64_t k);
/// x with x[start : start + n*step : step] along dim replaced by src, whose dim is n.
T write_slice(const T& x, const T& src, int dim, const Expr& start, const Expr& step);
/// The same where x may end before the slice does: every element of x asks which element of src it would be. src has some.
T write_within(const T& x, const T& src, int dim, const Expr& start, const Expr& step);
/// x with src written at the elements of x.as_strided(src.dims(), strides, start), in x's dense order.
T write_strided(const T& x, const T& src, const std::vector<Expr>& strides, const Expr& start);
/// x with `values` added at the places `index` along dim d. 16-bit floats are summed in float32.
T add_at(const T& x, const T& values, const T& index, int d);
/// x with src written at `places`: int64, of src's dims, counted in x's dense order. No place comes twice.
T write_places(const T& x, const T& src, const T& places);

}  // namespace aotc::decompose
