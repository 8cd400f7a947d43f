#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// On GPUs transposed convolutions whose windows overlap become convolutions where the windows are multiples of the steps: outputs that
/// lie `stride` apart see the same taps, so each such phase is some output channels of one convolution, which are brought to their places.
/// Requires folded constants; leaves views of constants.
void transposed_phases(Graph&, PassContext&);
}  // namespace aotc::passes
