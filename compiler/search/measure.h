#pragma once
// Timing of candidates: the worker (a child process: aotc measure-worker) and the side that drives it. A candidate that crashes or hangs is
// lost, not the build.
#include <functional>
#include <memory>
#include <string>

#include "search/json.h"

namespace aotc::search {

/// The worker: a JSON request a line on stdin ({"contract", "choice", "isa", "threads", "seconds"}), an answer a line on stdout ({"ns"} or
/// {"error"}), until stdin ends. Returns the exit code.
int run_measure_worker();

/// Nanoseconds of one call of the kernel, in this process.
Result<double> measure_here(const Contract& contract, const plan::Choice& choice, Isa isa, int threads, double seconds);

/// A child that measures, started when first needed and again after a loss.
class MeasureProcess {
 public:
  /// command: program and arguments; {} is this executable with "measure-worker".
  explicit MeasureProcess(std::vector<std::string> command = {});
  ~MeasureProcess();
  MeasureProcess(const MeasureProcess&) = delete;
  /// Fails with the worker's reason, or "crashed", or "took longer than ...".
  Result<double> measure(const Contract& contract, const plan::Choice& choice, Isa isa, int threads, double seconds);

 private:
  struct Child;
  std::vector<std::string> command_;
  std::unique_ptr<Child> child_;
};

}  // namespace aotc::search
