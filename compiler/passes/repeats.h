#pragma once
// Along which dims a value repeats itself, and the same value without its repetitions.
#include "passes/rewrite.h"

namespace aotc::passes {

/// For each dim of v whether all along it is equal, as views and the pointwise ops above them show. Dims of size 1 do not repeat.
std::vector<bool> repeats(const Graph& g, ValueId v);

/// v with size 1 for the dims along which it repeats(): expanded it is v. v itself where there are none.
ValueId without_repeats(Rewriter& r, ValueId v);

/// The size of the inner part of dim d along which v repeats, where a reshape has put d together of an outer and an inner part
/// (repeat_interleave): v[.., i * size + j, ..] is the same for all j < size. Nothing where there is no such reshape.
std::optional<Expr> inner_repeats(const Graph& g, ValueId v, int64_t d);

/// v with dim d as two, [.., outer, inner, ..]; inner_repeats(g, v, d) is inner.
ValueId with_split(Rewriter& r, ValueId v, int64_t d, const Expr& outer, const Expr& inner);

}  // namespace aotc::passes
