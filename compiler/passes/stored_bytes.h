#pragma once
#include <vector>

#include "base/target.h"
#include "graph/graph.h"

namespace aotc::passes {
struct PassContext;

/// By node: makes floats of integers (float8: of float8_e4m3fn, too) that the archive stores in a byte an element or less, elementwise, for
/// products with values of the run and lookups alone. Folded they would take two to four times the memory; they are computed where they are
/// read.
std::vector<bool> widens_stored_bytes(const Graph& g, const Target& target);

}  // namespace aotc::passes
