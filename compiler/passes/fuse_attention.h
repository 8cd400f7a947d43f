#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Recognises matmul, scale, mask, softmax, matmul as one attention node; reads repeated key and value heads once; turns a mask that is
/// the lower triangle into the causal flag. The softmax is then computed by the attention kernel, in another order.
void fuse_attention(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
