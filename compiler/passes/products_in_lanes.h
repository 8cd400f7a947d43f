#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// On CPUs, batched products of small matrices whose elements are neighbours in memory of the same elements of the next product (the
/// batch's dims lie last: spectra times weights a mode) are multiplied and summed with a lane for each product; copying them into the rows
/// that tiles read would take longer. So are matrices that are read along their columns, times a vector, the terms of a sum being few.
void products_in_lanes(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
