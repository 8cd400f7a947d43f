#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// On CPUs, what is gathered from along the last dim, more often than copies cost (the columns of an image that is resized), is
/// gathered row by row from a transposed copy, and what becomes of that is transposed back: permute {stored} both. Vectors then
/// read neighbours where they would pick each lane by itself.
void columns_as_rows(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
