#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Products of one matrix with several constant weights (q, k, v) become one product with the weights side by side, used in slices of
/// columns: the loop stage finishes each slice with an epilogue of its own. Products whose results meet again in pointwise ops (gate and
/// up) stay apart: there the later one's epilogue takes the earlier one's result.
void merge_products(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
