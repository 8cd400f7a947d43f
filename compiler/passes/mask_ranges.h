#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// GPUs: attention over many keys with a computed bool mask gets, for each row of the mask, where the keys that it shows begin and end
/// (ops.def), once for all attention with that mask. Kernels leave out what lies outside, such as the part of a cache that is not filled
/// yet, and do not read the mask of rows that show all of their range.
void mask_ranges(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
