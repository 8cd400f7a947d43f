#pragma once
// IR text in, stages, IR text out: what `aotc opt` and the filetests do. The three texts are told apart by their first word (graph, module,
// plans).
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/text.h"
#include "passes/passes.h"
#include "plan/build.h"
#include "search/alternatives.h"

namespace aotc::opt {

/// A model somewhere on its road; the stages that it came through are kept.
struct Ir {
  std::optional<Graph> graph;
  std::optional<loop::Module> module;
  std::optional<plan::PlanSet> plans;
};

struct Options {
  passes::PassContext context;  ///< its target is that of all stages
  /// Of the stage plan, as a plan's name says them: "batch=1", "batch in [2, 64] by 2, len=8", "default". None: one for all sizes.
  std::vector<std::string> variants;
  bool size_classes = false;          ///< of the stage plan: each variant has a plan for each of its size classes
  search::Alternatives alternatives;  ///< that take the place of what a build does by itself
};

/// Throws Diagnostic (file, line, column).
Ir parse(std::string_view text, std::string_view file_name, const ParseOptions& options = {});
/// Stages by name, with commas: passes ("all" is the whole list) take a graph to a graph, "loop" a graph to loops, "plan" loops to plans.
/// Where the contents of constants are not known, plans are made for contents that are made up from their names; states of a text of loops
/// begin as zeros.
void run(Ir& ir, std::string_view stages, const Options& options);
std::string print(const Ir& ir, const PrintOptions& options = {});  ///< of the last stage

struct Stage {
  std::string_view name, what, targets = {};  ///< targets: "CPUs", "GPUs", or empty for all
};
std::vector<Stage> stages();  ///< all that run() knows

}  // namespace aotc::opt
