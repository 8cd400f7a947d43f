#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Convolutions of the same images by constant weights whose results are added or subtracted become one, by the sum of the weights: of
/// kernels of different sizes the smaller lie where they are within the largest; an image with a scale per channel that is added is a
/// kernel of one place (branches as RepVGG and MobileOne have them; not on GPUs, whose tensor cores cut sums off: an image added by itself
/// is nearer). So do products of one matrix. Each weight is rounded once more. Only f32 and f64.
void add_weights(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
