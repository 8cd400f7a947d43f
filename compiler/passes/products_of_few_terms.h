#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Products of few terms are written out as sums of products: on CPUs those of few columns (of points with a rotation, of small matrices
/// each with its own), whose operands tiles would take longer to copy than to multiply; on GPUs those whose tiles would be mostly padding.
void products_of_few_terms(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
