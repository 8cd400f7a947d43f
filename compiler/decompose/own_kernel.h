#pragma once
// Custom operators that have a kernel of the user's own: as pointwise operators of the graph, or as Op::custom.
#include "decompose/rule.h"
#include "own/description.h"

namespace aotc::decompose {

/// By the first description that takes the node's tensors. Throws Refused where none does, Diagnostic where what one says of the results is
/// not what the archive has.
void run_own(Rule& r, const own::Kernels& all);
/// What an expression gives for the node's arguments: of its own type and dims.
ValueId pointwise_value(Rule& r, const own::Kernels& all, const own::Pointwise& e);

}  // namespace aotc::decompose
