#pragma once
// Loop Module → Plans: live ranges, in-place reuse, arena, weights, steps. One Plan a variant.
#include <functional>
#include <vector>

#include "graph/graph.h"
#include "loop/loop.h"
#include "plan/choice.h"
#include "plan/plan.h"
#include "plan/weights.h"

namespace aotc::plan {

/// The kernel-specific part of a step on a GPU: kind, symbol, sizes, grid, block, smem_bytes.
using LaunchFn = std::function<Step(loop::KernelId id, const loop::Kernel& kernel)>;

struct PlanOptions {
  /// One entry a variant: the ranges that it narrows. Empty: one variant for the whole range.
  std::vector<std::vector<SymRange>> variants;
  ChooseFn choose;       ///< empty: default_choice
  LaunchFn launch;       ///< set: a GPU plan (no panels, no CPU interface)
  bool in_place = true;  ///< for tests and bisecting
};

/// All plans of a model and what they share.
struct PlanSet {
  std::vector<SymId> symbols;         ///< the model's symbols: shape symbols of the inputs' dims, by id; the numbers of SlotTable
  std::vector<Plan> plans;            ///< as PlanOptions::variants
  std::vector<KernelConfig> configs;  ///< Step::config
  std::vector<Weight> weights;        ///< PlannedBuffer::index of Place::weight
  uint64_t weights_bytes = 0;
  std::vector<int> state_initial;  ///< by StateId: weight number of its initial content, or -1 for zeros
};

PlanSet build_plans(const Graph& graph, const loop::Module& module, const PlanOptions& options);

}  // namespace aotc::plan
