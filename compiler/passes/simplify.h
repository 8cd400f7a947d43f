#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Algebra that is exact in floating point (up to the sign of zero): neutral elements, double negation, casts of casts, special powers.
void simplify(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
