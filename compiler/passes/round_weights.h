#pragma once
#include <string>

#include "graph/graph.h"

namespace aotc::passes {
struct PassContext;
/// Why a constant that products multiply stays as it is; empty: it need not.
std::string weight_refusal(const ConstData& c, const PassContext& ctx);
}  // namespace aotc::passes
