#pragma once
// Forward analysis for epilogues: which values can be computed on the accumulators of which contraction.
#include <set>

#include "loop/partition.h"

namespace aotc::loop {
/// Makes a group for every contraction and opaque node and fills anchor and at. A value is anchored at the latest contraction m such
/// that it is made of m's result by pointwise ops and one-to-one views, and all its other operands do not depend on m.
/// No value of `alone` on the way has a second user.
void find_anchors(Partition& p, const std::set<ValueId>& alone);
}  // namespace aotc::loop
