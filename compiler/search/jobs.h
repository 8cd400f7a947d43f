#pragma once
// What tune.cpp and trades.cpp share: the contracts of a module, and the measuring of one of them.
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "search/tune.h"

namespace aotc::search {

constexpr double kWholeGain = 0.99;  ///< by which all that won must make the whole faster

/// What is left of the seconds that a search may take, by the wall clock.
class Budget {
 public:
  explicit Budget(double seconds) : end_(std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds)) {}
  double left() const { return std::chrono::duration<double>(end_ - std::chrono::steady_clock::now()).count(); }

 private:
  std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> end_;
};

/// A contract of the module, and how much of a run it is.
struct Job {
  Subject subject;
  forms::Decision decision;  ///< the cost model's
  double weight = 0;         ///< estimated nanoseconds a run, over all calls
  double calls = 0;          ///< a run of each variant
};
using Jobs = std::map<std::string, Job>;
Jobs jobs_of(const loop::Module& module, const std::vector<SymTable>& syms, const Goal& goal);

/// Measures the candidates of the job's decision, at most `most`, for about `seconds`: the first one stays unless another wins twice,
/// with at most `gain` of its time. record->measured is 0 where none ran.
forms::Decision search_one(const Job& job, Measurer& measurer, size_t most, double seconds, double gain, TuningRecord* record);

/// Seconds in which the whole is measured both ways.
double whole_seconds(const TuneOptions& options);
/// Whether the whole takes clearly less time with `tuned` than with `before`; that it cannot be told counts as `otherwise`.
bool whole_gains(const SymTable& syms, const TuneOptions& options, const Tuned& before, const Tuned& tuned, bool otherwise);

}  // namespace aotc::search
