#pragma once
#include "graph/graph.h"
#include "loop/loop.h"
#include "loop/rules.h"

namespace aotc::loop {
/// Graph → Loop: decides what is fused with what and makes the kernels. Requires the canonical form that passes/ leaves.
Module lower(const Graph& g, const FusionRules& rules = {});
}  // namespace aotc::loop
