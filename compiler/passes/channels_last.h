#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// The layout of activations. A tensor whose channels go last is, in the graph, a permuted one: convolutions for which
/// PassContext::conv_ns says that channels-last is faster become `conv {channels_last}` (or matmul, where the kernel is one pixel), and
/// what lies between them (pointwise nodes, reductions, views, cat) is computed on the permuted tensors, so that permutes stand only where
/// both layouts meet. Norms of groups of channels are computed channel by channel then (spread_groups.h). A connected group of such
/// convolutions is left alone where the reorders at its borders cost more than it gains.
void channels_last(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
