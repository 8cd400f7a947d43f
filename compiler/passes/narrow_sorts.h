#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// On GPUs, 64-bit integers that are known to have 16 or 32 bits (numbers of experts, from a topk) are sorted as such: a key and its index
/// are then one word.
void narrow_sorts(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
