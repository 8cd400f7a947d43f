#pragma once
// Loop Module → Plans: live ranges, in-place reuse, arena, weights, steps. One Plan a variant.
#include <functional>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "loop/loop.h"
#include "plan/plan.h"
#include "plan/size_classes.h"
#include "plan/strips.h"
#include "plan/weights.h"

namespace aotc::plan {

/// By variant: how each kernel is computed, and what else there was.
using Decisions = std::vector<std::map<loop::KernelId, forms::Decision>>;

struct PlanOptions {
  /// One entry a variant: the ranges that it narrows. Empty: one variant for the whole range.
  std::vector<std::vector<SymRange>> variants;
  std::optional<ClassRules> classes;           ///< set: a variant has a plan for each of its size classes
  std::vector<SizeClass> size_classes;         ///< not empty: these, of `variants`, instead
  Goal goal = {machine_of(Isa::avx2, 1), {}};  ///< what choices are made for
  ChooseFn choose;                             ///< empty: the cost model (forms::decide)
  StripRules strips;                           ///< which kernels run over them, how high they are
  bool join = true;                            ///< small kernels of a GPU that follow each other are one launch (join.h)
  Decisions* decisions = nullptr;              ///< set: filled in, for reports and explain
  bool in_place = true;                        ///< for tests and bisecting
};

/// All plans of a model and what they share. Stands for itself: its text needs neither Graph nor Module.
struct PlanSet {
  SymTable syms;                      ///< the module's
  std::vector<std::string> kernels;   ///< names, by KernelId
  std::vector<SymId> symbols;         ///< the model's symbols: shape symbols of the inputs' dims, by id; the numbers of SlotTable
  std::vector<Plan> plans;            ///< as PlanOptions::variants, their classes in order
  std::vector<KernelConfig> configs;  ///< Step::config
  std::vector<Weight> weights;        ///< PlannedBuffer::index of Place::weight
  uint64_t weights_bytes = 0;
  std::vector<int> state_initial;  ///< by StateId: weight number of its initial content, or -1 for zeros
};

PlanSet build_plans(const Graph& graph, const loop::Module& module, const PlanOptions& options);

}  // namespace aotc::plan
