#pragma once
// Which calls of a GPU's module are one launch: kernels of one block each that run one after another, and neighbouring calls of one kernel
// that do not need each other's results (the keys and the values that a layer writes into its caches). A launch that overlaps the one
// before takes longer than a barrier of a block; blocks that would have to wait for each other on several processors are no faster joined.
#include <functional>
#include <vector>

#include "base/machine.h"
#include "forms/list.h"
#include "loop/loop.h"

namespace aotc::plan {

/// Calls [first, last) of a module that are one launch, and how each is computed there.
struct JoinGroup {
  size_t first = 0, last = 0;
  std::vector<forms::Choice> choices;
  bool beside = false;  ///< calls of one kernel beside each other
};

using DecisionOf = std::function<const forms::Decision&(loop::KernelId)>;

/// Groups of two calls or more in rising order.
std::vector<JoinGroup> find_joined(const loop::Module& m, const SymTable& syms, const Goal& goal, const DecisionOf& decision_of);

}  // namespace aotc::plan
