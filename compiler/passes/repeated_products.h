#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Products of matrices that both repeat along a batch dim (the groups of state-space layers, whose heads share them) are computed once and
/// repeated. The results are the same numbers.
void repeated_products(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
