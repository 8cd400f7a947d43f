#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Products of weights with rows that are columns in memory, whose results are transposed back (mixers of tokens, gates along positions,
/// forecasts): (v^T w)^T is w^T v, in which nothing lies across. What is between two of them, or a product and the way back, is computed on
/// the other side, too: functions of each element with constants along the columns. CPUs; sums in the order of before.
void transposed_products(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
