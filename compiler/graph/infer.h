#pragma once
// The type rule of every core op, in one place: used by Builder, by the verifier and by the text parser.
#include "graph/graph.h"

namespace aotc {

/// Result types of `node` given its input types and attributes. `given`: what an op cannot infer (dims and dtype of full, dtype of cast
/// and matmul, dims of reshape/expand/slice/pad/window/strided/iota); for the others it may be null, and where it is not null it is
/// checked. Throws InternalError (AOTC_CHECK) when the node is not well typed; the text says which rule.
std::vector<TensorType> infer_types(const Graph& g, const Node& node, const TensorType* given);

}  // namespace aotc
