#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// On GPUs, products of 16-bit operands whose rows are no multiples of 16 bytes multiply copies whose rows are filled up with zeros, where
/// that is faster than to read them element by element. Requires folded constants; a fold_constants follows.
void align_products(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
