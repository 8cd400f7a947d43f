#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Folds scales and shifts per output channel into the constant weights of the convolution or matrix product before them: each weight is
/// rounded once more. Only f32 and f64 weights.
void fold_conv_bn(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
