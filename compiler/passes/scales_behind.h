#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// On CPUs, float32 products with a constant weight of signed bytes [n, k] that the program widens itself, times a number for each column
/// or times nothing: the product is with the bytes, whose scales are one (loop::QuantisedWeight takes it), and its result is scaled. That
/// rounds once for a sum, instead of once for each of its terms.
void scales_behind(Graph&, PassContext&);
}  // namespace aotc::passes
