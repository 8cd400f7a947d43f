#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Where all that is read of a value is one slice, computes that slice alone: slices move towards the inputs through operators that compute
/// each row from the same row of their operands (pointwise, reductions of other dims, rows of products, queries of attention, batches,
/// views). Lookups stay whole, since a run reports their indices that are out of range. Requires canonical views; leaves slices of full()
/// and of constants.
void hoist_slices(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
