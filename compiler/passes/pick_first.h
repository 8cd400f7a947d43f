#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Where a computed value is only gathered from, few of its elements, the operands are gathered from and what was picked is computed alone:
/// the logarithms of softmax at the targets of a loss. Goes through pointwise operators, dims that are expanded stay so. Requires canonical
/// views.
void pick_first(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
