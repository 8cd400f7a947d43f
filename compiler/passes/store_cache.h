#pragma once
#include "graph/graph.h"

namespace aotc::passes {
struct PassContext;
/// Where PassContext::cache says so: states of floats that attention alone reads, as keys or values through views and lookups of whole rows
/// (along the last dim), and that are written by rows or as a whole, become states of bytes (cache_storage.h). What is written is rounded
/// there; attention reads the bytes and multiplies by the scales. Requires fused attention; precisions come later.
void store_cache(Graph&, PassContext&);
}  // namespace aotc::passes
