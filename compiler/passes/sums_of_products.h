#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Sums over products of tensors of which each lacks a dim of the other, (a[:, None] * b[None]).sum(-1), become products of matrices where
/// these read far fewer numbers than are multiplied: chunks of state-space layers, linear attention. Of several factors each is multiplied
/// into one of two operands, or, where it has none of the dims of the sum, into the result. Changes rounding: sums have another order, and
/// products of 16-bit floats are not rounded before they are summed. Requires canonical views.
void sums_of_products(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
