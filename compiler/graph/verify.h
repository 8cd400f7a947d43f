#pragma once
#include "graph/graph.h"

namespace aotc {
/// Order, arity, attributes, types (infer_types again), uses before definition, outputs and states. Throws InternalError naming `after`
/// (the pass that just ran) and the node.
void verify(const Graph& g, std::string_view after);
}  // namespace aotc
