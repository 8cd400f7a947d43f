#pragma once
// A child process that takes jobs, and the side that drives it. What crashes or hangs there is lost, not this process.
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace aotc {

/// A worker: the program, its arguments, and what it reads before the first request.
struct WorkerCommand {
  std::vector<std::string> words;
  std::string preamble;
  bool elsewhere = false;  ///< it does not see this machine's files
};
/// The file of this executable.
std::string this_program();
/// This executable with a verb of its command line.
inline WorkerCommand own_worker(const std::string& verb) { return {{this_program(), verb}, "", false}; }

/// A child that answers a line of JSON with a line of JSON, started when first needed and again after a loss. One thread at a time; several
/// workers may be asked from several threads.
class WorkerProcess {
 public:
  /// Why the last request has no answer of the worker's own.
  enum class Loss { none, not_started, ended, late };
  /// Told several times a second while an answer is waited for: the processor time that the worker has spent on the request, in seconds.
  /// False gives the request up.
  using Watch = std::function<bool(double cpu_s)>;
  explicit WorkerProcess(WorkerCommand command);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  /// Fails with the worker's reason, or "the worker crashed (Segmentation fault)", or "took longer than ...": limit_s to take each part of
  /// the request, and a second more for each 64 KB of it, and limit_s to answer.
  /// attachment: bytes that follow the line; the request says how many. What `watch` gives up is late: "was given up".
  Result<nlohmann::json> ask(const nlohmann::json& request, double limit_s, const std::string& attachment = {}, const Watch& watch = {});
  Loss loss() const { return loss_; }
  int signal() const { return signal_; }  ///< that ended the worker of the last request; 0: none did
  bool elsewhere() const { return command_.elsewhere; }

 private:
  struct Child;
  Result<nlohmann::json> lost(Loss how, std::string why);
  WorkerCommand command_;
  std::unique_ptr<Child> child_;
  Loss loss_ = Loss::none;
  int signal_ = 0;
};

}  // namespace aotc
