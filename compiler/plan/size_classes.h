#pragma once
// Where the best choices of kernels depend on sizes: the ranges of a variant are cut into classes, each with a plan of its own.
#include <functional>
#include <map>
#include <vector>

#include "base/machine.h"
#include "forms/list.h"
#include "graph/graph.h"
#include "loop/loop.h"
#include "plan/plan.h"

namespace aotc::plan {

/// How a kernel is computed. Deterministic: called once per kernel and plan. Empty: the cost model (forms::decide).
using ChooseFn = std::function<forms::Decision(const forms::Site&)>;

/// What a plan is made for.
struct SizeClass {
  size_t variant = 0;  ///< that it is all of, or a part of
  std::vector<SymRange> ranges;
  int calls = -1;  ///< number in loop::Module::other_calls; -1: the module's calls
};

/// How finely ranges are cut.
struct ClassRules {
  double tolerance =
      0.02;      ///< that a class may take longer at one of its sizes, by the cost model, than what is chosen for that size alone
  int most = 8;  ///< classes of a variant; the tolerance grows until there are no more
};

/// Ranges that cover those given, in rising order; the one given where one plan serves all of it. `whole` has the decisions for the range
/// as one; a class keeps the stored forms of weights that these have, so that no weight is stored twice. Other symbols than the one that is
/// cut are at their hints (SymTable::hint).
std::vector<std::vector<SymRange>> size_classes(const loop::Module& module, const std::vector<SymRange>& ranges, const Goal& goal,
                                                const std::map<loop::KernelId, forms::Decision>& whole, const ClassRules& rules);

/// The classes of all variants (none: one for all sizes), in order, without those whose sizes are taken by one before.
std::vector<SizeClass> classes_of(const Graph& graph, const loop::Module& module, const std::vector<std::vector<SymRange>>& variants,
                                  const Goal& goal, const ClassRules& rules, const ChooseFn& choose);

/// The shape symbols of the inputs' dims, by id.
std::vector<SymId> symbols_of_inputs(const Graph& graph);
/// What is chosen for each kernel that is called.
std::map<loop::KernelId, forms::Decision> decide_all(const loop::Module& module, const SymTable& syms, const Goal& goal,
                                                     const ChooseFn& choose);

/// `d` or, where its choice stores a weight in a form of its own, the cheapest candidate that takes weights as they are, if there is one.
forms::Decision with_dense_weight(forms::Decision d, const loop::Kernel& kernel);
/// `d` or, where its choice stores a weight in another form than `whole`, the cheapest candidate that stores it alike.
forms::Decision with_stored_form(forms::Decision d, const loop::Kernel& kernel, const forms::Choice& whole);

}  // namespace aotc::plan
