#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// On CPUs, products and convolutions of (x - zero) * scale with a constant weight of integers times scales, as quantised programs have
/// them, become sums of bytes, u8 by i8 in 32 bits: sum (x - zero) w = sum x w - zero * sum w, times both scales. What lies around a
/// convolution's images is then `zero`. Sums of integers are exact, where those of float32 round.
/// So do products of bytes that were widened to int32. Comes before constants are folded, for
/// then weights are float32.
void integer_products(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
