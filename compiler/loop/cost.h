#pragma once
// Rough costs in simple operations an element, by the column of graph/ops.def: fusion, schedules, units of work and unrolling go by them.
#include "graph/graph.h"

namespace aotc::loop {

struct Estimate {
  int cost = 0;   ///< saturates
  int loads = 0;  ///< of values that are stored anyway
};
/// Of a pointwise op in a vectorised loop that makes elements of type t.
int op_cost(Op op, DType t);
/// Of recomputing each value: the whole chain of pointwise ops and views up to leaves, reductions, contractions and values with an anchor:
/// those that the epilogue of a contraction computes, which others find stored. What is expanded to many times its elements counts as a
/// load.
IdVec<ValueId, Estimate> estimate_costs(const Graph& g, const IdVec<ValueId, NodeId>& anchors);

}  // namespace aotc::loop
