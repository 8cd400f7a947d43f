#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Indices at which states are written, and those that runs look elements up by (token ids), where integers of the inputs alone decide them
/// and no branch decides whether, become conditions of the run, which come, as those of the program, before all writes: a run where one
/// does not hold changes no state. Not those that are computed from the new content of a state of more than kSmallStateBytes
/// (graph/states.h): the write itself reports them. GPUs, whose steps do not wait for conditions: the writes go nowhere (kNowhere) where
/// any of them does not hold, and states that are written otherwise keep their old content.
void check_state_writes(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
