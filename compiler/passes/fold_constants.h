#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Computes nodes whose inputs are all constants. Results much larger than what they are computed from (expand, full, iota) are left to the
/// kernels; views that need no copy share their data, and permuted weights stay views of the weight.
void fold_constants(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
