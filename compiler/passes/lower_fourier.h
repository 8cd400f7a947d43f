#pragma once
#include "passes/passes.h"

namespace aotc::passes {

/// Fourier transforms become products with matrices of waves where the target has no kernel of theirs (GPUs: lines that do not lie in
/// shared memory), and where that should be less work: short lines, and too few of them to fill the lanes of a CPU. They sum in another
/// order than the kernel.
void lower_fourier(Graph& g, PassContext& ctx);

}  // namespace aotc::passes
