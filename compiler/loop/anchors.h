#pragma once
// Forward analysis for epilogues: which values can be computed on the accumulators of which contraction.
#include <set>

#include "loop/partition.h"

namespace aotc::loop {

/// A cast to a type of more bytes, or what bytes stand for, (q - zero) * scale: who uses the result computes it from the narrow one.
bool widens(const Graph& g, const Node& n);

/// Makes a group for every contraction and opaque node and fills anchor and at. A value is anchored at a contraction m such that it is made
/// of m's result by pointwise ops and one-to-one views, and all its other operands do not depend on m: of several, at the latest of those
/// beside which the fewest bytes are stored. No value of `alone` on the way has a second user.
void find_anchors(Partition& p, const std::set<ValueId>& alone);
}  // namespace aotc::loop
