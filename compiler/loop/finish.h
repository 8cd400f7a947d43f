#pragma once
// The last steps of making a LoopKernel out of straight-line instructions: loop order, merged loops, lanes, blocks, canonical symbols.
#include "loop/loop.h"
#include "loop/rules.h"

namespace aotc::loop {

enum class Loops : uint8_t {
  free,   ///< order, merging and lanes are chosen here
  fixed,  ///< epilogues: outer and inner stay; lanes run along inner
};
/// Pre: insts in evaluation order, blocks empty. `base` is the graph's table: symbols beyond it that are not used are dropped.
void finish(LoopKernel& k, const SymTable& base, Loops loops, const FusionRules& rules);

/// Puts every instruction into blocks: values of one row that a later pass over it needs again are computed again when that is cheap,
/// else kept in a `local` parameter.
void schedule(LoopKernel& k, const FusionRules& rules);

}  // namespace aotc::loop
