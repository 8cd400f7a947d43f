#pragma once
#include "graph/graph.h"

namespace aotc::passes {
struct PassContext;
/// Where PassContext::weights says so: constant float32 weights of products become integers with scales, rounded to nearest, and the
/// products read `integers * scales + offsets`, computed from them. Tables that are looked up are read so, too; what else reads such a
/// weight reads the rounded one, but what was folded of it before keeps its own numbers. Requires folded constants; nothing may fold them
/// afterwards.
void quantize_weights(Graph&, PassContext&);
}  // namespace aotc::passes
