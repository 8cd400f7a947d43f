#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Operands of products that are computed in another order than they are multiplied in, so that batches would lie side by side in memory
/// (masks and decays of state-space layers, written with their heads last): what pointwise ops compute is computed in the product's order,
/// where more of what they read lies so. Requires canonical views.
void operands_in_order(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
