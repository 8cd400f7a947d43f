#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Products of 8-bit floats multiply bfloat16, which holds them all, unless PassContext::contraction_ns says that the target's own take
/// less. Comes before constants are folded: then those of the casts are.
void widen_float8(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
