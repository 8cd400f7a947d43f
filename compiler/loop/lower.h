#pragma once
#include "base/target.h"
#include "graph/graph.h"
#include "loop/loop.h"

namespace aotc::loop {
/// Graph → Loop: decides what is fused with what and makes the kernels. Requires the canonical form that passes/ leaves.
Module lower(const Graph& g, const Target& target);
}  // namespace aotc::loop
