#pragma once
#include <string>

#include "graph/graph.h"

namespace aotc::passes {
struct PassContext;
/// Where PassContext::weights says so: the archive's constants of float32, bfloat16 and float16 that products multiply, and large tables
/// that rows are looked up in, take the numbers that few bits have, before anything is computed from them. PassContext::rounded_weights
/// knows them from then on. Comes before constants are folded.
void round_weights(Graph&, PassContext&);
/// Why a constant that products multiply stays as it is; empty: it need not.
std::string weight_refusal(const ConstData& c, const PassContext& ctx);
}  // namespace aotc::passes
