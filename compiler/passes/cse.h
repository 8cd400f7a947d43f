#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Computes equal nodes once, and keeps one of several constants with the same content.
void cse(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
