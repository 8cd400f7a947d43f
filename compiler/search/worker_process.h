#pragma once
// The child process that measures (aotc measure-worker, measure_worker.cpp) and the side that drives it. What crashes or hangs there is
// lost, not the build.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace aotc::search {

/// A worker: the program, its arguments, and what it reads before the first request.
struct WorkerCommand {
  std::vector<std::string> words;  ///< empty: this executable with "measure-worker"
  std::string preamble;
  bool elsewhere = false;  ///< it does not see this machine's files
};
/// aotc-device on another machine: over ssh's standard input and output, which bring it there first. Fails where there is none beside this
/// program.
Result<WorkerCommand> worker_on(const std::string& host);

/// A child that answers a line of JSON with a line of JSON, started when first needed and again after a loss.
class WorkerProcess {
 public:
  explicit WorkerProcess(WorkerCommand command = {});
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  /// Fails with the worker's reason, or "crashed", or "took longer than ...".
  /// attachment: bytes that follow the line; the request says how many.
  Result<nlohmann::json> ask(const nlohmann::json& request, double limit_s, const std::string& attachment = {});
  bool elsewhere() const { return command_.elsewhere; }

 private:
  struct Child;
  WorkerCommand command_;
  std::unique_ptr<Child> child_;
};

}  // namespace aotc::search
