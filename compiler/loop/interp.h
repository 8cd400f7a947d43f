#pragma once
// Reference interpreter of loop Modules, the oracle between lowering and code generation. Loops, indices, masks, blocks and buffers are
// executed here; what an operator computes is taken from graph/interp.h. No speed.
#include <vector>

#include "graph/interp.h"
#include "loop/loop.h"

namespace aotc::loop {
/// Runs all calls. Constants and initial states come from `g`, the graph that was lowered; shape symbols are bound from the inputs' dims.
/// Returns outputs, then state updates, as aotc::interpret(g, inputs) does. AOTC_CHECKs that every access is within its buffer and that
/// every element of what is written is written exactly once. A failed index check of the module is a Diagnostic.
std::vector<HostTensor> interpret(const Module& m, const Graph& g, const std::vector<HostTensor>& inputs);
}  // namespace aotc::loop
