#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// A reduction of many elements to a few results goes in two steps, so that all threads, or the blocks of a GPU, work on it: partial
/// results of a fixed number of chunks (the result does not depend on the number of threads), then the result of those. Where the
/// largest is goes so on GPUs only.
void split_reductions(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
