#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Of convolutions of few channels the columns of the windows become channels, where PassContext says that this and the reorder that it
/// takes are faster: conv(x, w) is a convolution of a window of w's last dim at every place, whose kernel has one column. Requires folded
/// constants; leaves views of constants.
void narrow_convolutions(Graph&, PassContext&);
}  // namespace aotc::passes
