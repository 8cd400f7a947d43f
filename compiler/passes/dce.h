#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Erases nodes that no output or state needs, and lets go of the data of constants that nothing uses.
void dce(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
