#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Merges chains of views, drops those that change nothing, and lets views of full() be full().
void canonical_views(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
