#pragma once
#include "base/machine.h"
#include "loop/loop.h"

namespace aotc::forms {

/// Elementwise loops over what a segment of a product stores that read, for each of its elements, that and the one at a fixed distance (a
/// rotation of q or k by positions) become the segment's epilogue, which has both sums (Segment::mates), where a form computes that in
/// less time than both: nothing is stored between them.
void finish_mates(loop::Module& m, const Goal& goal);

}  // namespace aotc::forms
