#pragma once
// Sizes that a run finds in data: how many elements are nonzero, or unequal, a number that is read and used as a size. Such a size is a
// symbol whose value the graph computes and whose largest value the inputs' sizes give.
//
// Rules see the symbol as any other size. When the graph is whole, take_bounds makes every tensor as large as it can become: the elements
// that it has come first in each dim, in their order, and what lies behind them means nothing. Operators that would read it (reductions,
// products, sorts, indices ..) are given what changes nothing instead, or places that are not written. So all sizes are known when a run
// starts; the sizes that outputs really have are results (OutputInfo::found).
#include <map>

#include "graph/builder.h"

namespace aotc::decompose {

struct FoundSize {
  ValueId value;  ///< int64 of rank 0
  Expr bound;     ///< its largest value, made of sizes of inputs and other found sizes
};
using FoundSizes = std::map<SymId, FoundSize>;
/// Sizes that the run's checks hold to each other (the parts of a split and the whole): neither passes the other's bound.
using EqualSizes = std::vector<std::pair<Expr, Expr>>;

/// `file`: of the model, for messages. Throws Diagnostic (ExitCode::unsupported) where an operator's result means nothing at its bound.
void take_bounds(Graph& g, const FoundSizes& sizes, const EqualSizes& equal, const std::string& file);

}  // namespace aotc::decompose
