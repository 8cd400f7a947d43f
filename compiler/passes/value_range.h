#pragma once
// What is known of a value's elements, whatever the inputs are.
#include <limits>

#include "graph/graph.h"

namespace aotc::passes {

/// Of elements that are numbers: none is below lo or above hi.
struct Range {
  double lo = -std::numeric_limits<double>::infinity(), hi = std::numeric_limits<double>::infinity();
  bool within(double least, double most) const { return lo >= least && hi <= most; }
};

/// The range of v's elements, looked for in what v is computed from: float32 and integers.
Range range_of(const Graph& g, ValueId v);

}  // namespace aotc::passes
