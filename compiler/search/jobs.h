#pragma once
// What tune.cpp and trades.cpp share: the contracts of a module, and the measuring of one of them.
#include <map>
#include <string>
#include <vector>

#include "search/tune.h"

namespace aotc::search {

constexpr double kWholeGain = 0.99;  ///< by which all that won must make the whole faster

/// A contract of the module, and how much of a run it is.
struct Job {
  Subject subject;
  forms::Decision decision;  ///< the cost model's
  double weight = 0;         ///< estimated nanoseconds a run, over all calls
  double calls = 0;          ///< a run of each variant
};
using Jobs = std::map<std::string, Job>;
Jobs jobs_of(const loop::Module& module, const std::vector<SymTable>& syms, const Machine& machine);

/// Measures the candidates of the job's decision, at most `most`, for about `seconds`: the first one stays unless another wins twice.
/// record->measured is 0 where none ran.
forms::Decision search_one(const Job& job, Measurer& measurer, size_t most, double seconds, TuningRecord* record);

/// Whether the whole takes clearly less time with `tuned` than with `before`; that it cannot be told counts as `otherwise`.
bool whole_gains(const SymTable& syms, const TuneOptions& options, const Tuned& before, const Tuned& tuned, bool otherwise);

}  // namespace aotc::search
