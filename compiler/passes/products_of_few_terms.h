#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// On CPUs, products of few terms and few columns (of points with a rotation, of small matrices each with its own) are written out as sums
/// of products: tiles would take longer to copy such operands than to multiply them.
void products_of_few_terms(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
