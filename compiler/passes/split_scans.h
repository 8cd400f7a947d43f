#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// A scan along few lines that are longer than a block takes goes in parts on GPUs: each part's result, then a scan of every part that goes
/// on from the results of those before it.
void split_scans(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
