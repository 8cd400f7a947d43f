#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// A convolution channel by channel whose window is all of its input is a sum of products: each element is needed once, so there is nothing
/// for neighbouring outputs to share. Sums go in the order of any other reduction.
void whole_windows(Graph&, PassContext&);
}  // namespace aotc::passes
