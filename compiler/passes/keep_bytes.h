#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// What quantised programs do between products stays bytes where that gives the same numbers: the largest of dequantised values is the
/// largest of the bytes, dequantised; dequantised values quantised by the same parameters are the bytes that they were.
void keep_bytes(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
