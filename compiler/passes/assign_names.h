#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Gives every node a name: that of its archive node, or one made from its op.
void assign_names(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
