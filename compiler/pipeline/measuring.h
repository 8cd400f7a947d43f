#pragma once
// The Measurer of builds on this machine: one kernel of a module becomes an artifact of its own, with one plan variant a candidate, made
// as every artifact is made. A child process loads it and times its runs, so that what is measured is what the plan would call.
#include <functional>
#include <memory>

#include "base/worker_process.h"
#include "emit/toolchain.h"
#include "graph/graph.h"
#include "loop/loop.h"
#include "plan/build.h"
#include "search/alternatives.h"
#include "search/measurer.h"

namespace aotc::own {
struct Kernels;
}

namespace aotc::pipeline {

/// A module of one kernel, or the whole of one. Buffers of one kernel are inputs and outputs but for the constants. One more input tells
/// the variants apart, and one a shape symbol gives it its value.
struct OneKernel {
  Graph graph;
  loop::Module module;
  SymId candidate;
  std::vector<std::vector<int64_t>> shapes;  ///< of the inputs, at the tuned sizes
  /// By input of int64, where time depends on its elements: the first and the last of them, the others in equal steps between these.
  std::map<size_t, std::pair<int64_t, int64_t>> values;
  size_t candidate_input = 0;
};
/// `syms`: the variant's table, of which the module's is the same without its ranges. Fails where the kernel cannot stand alone.
Result<OneKernel> one_kernel(const Graph& graph, const loop::Module& module, const search::Subject& subject, size_t candidates);

struct MeasuringOptions {
  Target target;
  Goal goal;
  std::string work_dir;  ///< exists
  WorkerCommand worker = own_worker("measure-worker");
  int jobs = 1;
  emit::CacheOptions cache = emit::user_cache();
  search::Alternatives alternatives;  ///< of what is measured
  /// Errors of a whole module's candidates, at the tuned sizes of a variant (WholeJudge); empty: nobody can tell.
  std::function<Result<double>(const SymTable& syms, double seconds)> references;
  std::function<Result<std::vector<search::WholeError>>(const SymTable& syms, const std::string& artifact, size_t candidates,
                                                        double seconds)>
      errors;
  std::shared_ptr<const own::Kernels> own = {};  ///< of the module's custom operators
};
/// A whole module and how its kernels are computed.
struct WholeChoice {
  const Graph* graph;
  const loop::Module* module;
  const SymTable* syms;               ///< of the variant that is timed: an artifact for its tuned sizes
  plan::ChooseFn choose;              ///< with what the alternatives say of single kernels
  search::Alternatives alternatives;  ///< of the plan
  bool own_weights = true;            ///< as BuildOptions::owns_weights
};
/// An artifact of it at `path`, made as a build makes it. Throws Diagnostic.
void build_whole(const WholeChoice& whole, const MeasuringOptions& options, const std::string& path);
/// Runs of artifacts that take the inputs of `whole` in turns of some calls each, about `seconds` in all.
std::vector<search::Timing> time_in_turns(const WholeChoice& whole, const std::vector<std::string>& paths, const MeasuringOptions& options,
                                          double seconds);

/// The whole module with one more input, which tells the variants apart.
Result<OneKernel> whole_module(const Graph& graph, const loop::Module& module, const SymTable& syms, size_t candidates);

/// What a build's kernels are computed by: `choose`, but for what the alternatives say of single kernels.
plan::ChooseFn with_alternatives(plan::ChooseFn choose, const search::Alternatives& alternatives);

/// Why the machine of the worker cannot measure for `machine`; empty: it has the instruction set, or a GPU of the architecture.
std::string cannot_measure(const Machine& machine, const WorkerCommand& worker);
/// The one code version of the target that the machine stands for.
Target target_of(const Target& target, const Machine& machine);
std::unique_ptr<search::Measurer> make_measurer(const Graph& graph, const loop::Module& module, const MeasuringOptions& options);

}  // namespace aotc::pipeline
