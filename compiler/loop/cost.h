#pragma once
// Rough costs of recomputing a value, in simple arithmetic operations an element.
#include "graph/graph.h"

namespace aotc::loop {

struct Estimate {
  int cost = 0;   ///< saturates
  int loads = 0;  ///< of values that are stored anyway
};
int op_cost(Op op);
/// By ValueId: the whole chain of pointwise ops and views up to leaves, reductions and contractions.
IdVec<ValueId, Estimate> estimate_costs(const Graph& g);

}  // namespace aotc::loop
