#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Attention of float32 becomes two products and what lies between them on GPUs, where these should take less: the products' kernels are
/// those of the tensor cores of the newest kind, attention's of that accuracy are not. Asks PassContext::contraction_ns.
void open_attention(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
