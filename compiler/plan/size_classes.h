#pragma once
// Where the best choices of kernels depend on sizes: the ranges of a variant are cut into classes, each with a plan of its own.
#include <map>
#include <vector>

#include "base/machine.h"
#include "forms/list.h"
#include "loop/loop.h"
#include "plan/plan.h"

namespace aotc::plan {

/// How finely ranges are cut.
struct ClassRules {
  double tolerance =
      0.04;      ///< that a class may take longer at one of its sizes, by the cost model, than what is chosen for that size alone
  int most = 6;  ///< classes of a variant; the tolerance grows until there are no more
};

/// Ranges that cover those given, in rising order; the one given where one plan serves all of it. `whole` has the decisions for the range
/// as one; a class keeps the stored forms of weights that these have, so that no weight is stored twice. Other symbols than the one that is
/// cut are at their hints (SymTable::hint).
std::vector<std::vector<SymRange>> size_classes(const loop::Module& module, const std::vector<SymRange>& ranges, const Machine& machine,
                                                const std::map<loop::KernelId, forms::Decision>& whole, const ClassRules& rules);

/// `d` or, where its choice stores a weight in another form than `whole`, the cheapest candidate that stores it alike.
forms::Decision with_stored_form(forms::Decision d, const loop::Kernel& kernel, const forms::Choice& whole);

}  // namespace aotc::plan
