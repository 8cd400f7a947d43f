#pragma once
#include "passes/passes.h"

namespace aotc::passes {

/// On GPUs, recurrent layers of a known number of steps whose weights are too many for the registers of a cluster become their steps:
/// products that the whole GPU computes, each with its cell. The state is rounded to its type at each step.
void unroll_recurrences(Graph& g, PassContext& ctx);

}  // namespace aotc::passes
