#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// A scan along few lines that are longer than the blocks of a cluster share goes in parts on GPUs: each part's result, a scan of those,
/// and a scan of every part that goes on from what came before it.
void split_scans(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
