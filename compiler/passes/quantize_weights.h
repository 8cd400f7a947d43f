#pragma once
#include "graph/graph.h"

namespace aotc::passes {
struct PassContext;
/// Products of weights that round_weights rounded read `values * scales + offsets` (or bfloat16), computed from constants of few bits; so
/// do lookups in them. Products of 16-bit floats by such weights are of float32 where forms know no others (ArchTraits::float32_by_bytes).
/// What else reads them keeps the floats, which are the same numbers. Requires folded constants; nothing may fold them afterwards.
void quantize_weights(Graph&, PassContext&);
}  // namespace aotc::passes
