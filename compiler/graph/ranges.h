#pragma once
#include <optional>

#include "graph/graph.h"

namespace aotc {
/// Bounds of every element of an integer or bool value, where its definition shows them: positions, constants, what is computed from them.
std::optional<Interval> int_range(const Graph& g, ValueId v);
}  // namespace aotc
