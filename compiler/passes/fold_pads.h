#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Zeros around the images of a convolution become its padding, on either side by itself. Sums have the same terms.
void fold_pads(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
