#pragma once
// The child process that measures (aotc measure-worker, measure_worker.cpp) and the side that drives it. What crashes or hangs there is
// lost, not the build.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace aotc::search {

/// A child that answers a line of JSON with a line of JSON, started when first needed and again after a loss.
class WorkerProcess {
 public:
  /// command: program and arguments; {} is this executable with "measure-worker".
  explicit WorkerProcess(std::vector<std::string> command = {});
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  /// Fails with the worker's reason, or "crashed", or "took longer than ...".
  Result<nlohmann::json> ask(const nlohmann::json& request, double limit_s);

 private:
  struct Child;
  std::vector<std::string> command_;
  std::unique_ptr<Child> child_;
};

}  // namespace aotc::search
