#pragma once
#include "graph/graph.h"
#include "loop/loop.h"
#include "loop/rules.h"

namespace aotc::loop {
/// Graph → Loop: decides what is fused with what and makes the kernels. Requires the canonical form that passes/ leaves.
Module lower(const Graph& g, const FusionRules& rules = {});
/// Of the kernel of a recurrence: steps, batch, columns of the state, its width; rows from a step to the next, rows from one of the batch
/// to the next.
Exprs recurrence_sizes(const Graph& g, const Node& recurrence);
}  // namespace aotc::loop
