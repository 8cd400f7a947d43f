#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Sums that are scattered by one index a row are put row by row. Rows that are picked from a table only to be added to rows elsewhere
/// (bags of embeddings) are added straight from it; on GPUs where the rows say where their indices begin.
void add_picked_rows(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
