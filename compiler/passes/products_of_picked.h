#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// On CPUs, products of one row each with a matrix that the row's index picks (a relation's, an expert's, an adapter's) are multiplied and
/// summed where the matrices lie: written out for tiles they would be copied, as many elements as are multiplied.
void products_of_picked(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
