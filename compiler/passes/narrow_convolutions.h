#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Of convolutions of few channels the columns of the windows become channels, or their last dims, or all of them, where PassContext says
/// that this and the reorder that it takes are faster: conv(x, w) is a convolution of a window of w's last dims at every place, whose
/// kernel has one place along them; with all of them it is a product. Requires folded constants; leaves views of constants.
void narrow_convolutions(Graph&, PassContext&);
}  // namespace aotc::passes
