#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Limits that float32 values never reach are dropped: relu of what is not negative, minimum with what is not less; as clamps behind
/// activations and roundings leave them.
void drop_limits(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
