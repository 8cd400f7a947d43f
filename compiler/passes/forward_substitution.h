#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Rows that are solved one after the other, a[.., i, :i] += a[.., i, :i] @ a[.., :i, :i] for i from 1 to the last, become one
/// solve_triangular: chunks of gated delta nets write a triangular system so, in as many copies of the matrix as it has rows. f32 and f64.
/// Changes
/// rounding: sums are taken in double. Requires canonical views.
void forward_substitution(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
