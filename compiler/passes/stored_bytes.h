#pragma once
#include <vector>

#include "graph/graph.h"

namespace aotc::passes {
struct PassContext;

/// By node: makes floats of integers that the archive stores in a byte an element or less, elementwise, for products with values of the run
/// and lookups alone. Folded they would take four times the memory; they are computed where they are read.
std::vector<bool> widens_stored_bytes(const Graph& g);

/// Products and lookups of such weights read them as passes/byte_weight.h says, products of CPUs in float32. A weight that no scales of
/// groups describe is folded. Requires folded constants; nothing may fold them afterwards.
void stored_bytes(Graph&, PassContext&);
}  // namespace aotc::passes
