#pragma once
#include "graph/graph.h"

namespace aotc {
/// Order, arity, attributes, types (infer_types again), uses before definition, outputs and states. Throws InternalError naming `after`
/// (the pass that just ran) and the node.
void verify(const Graph& g, std::string_view after);
/// Every node has a result that is used, as it is after each pass. Throws InternalError in the same way.
void verify_live(const Graph& g, std::string_view after);
}  // namespace aotc
