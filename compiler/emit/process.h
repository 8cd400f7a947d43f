#pragma once
// Child processes: argument lists, never a shell.
#include <functional>
#include <string>
#include <vector>

namespace aotc::emit {

struct ProcessResult {
  int exit_code = -1;  ///< 128 + signal when killed, 127 when it could not start
  std::string output;  ///< stdout and stderr together
  bool ok() const { return exit_code == 0; }
};
ProcessResult run_process(const std::vector<std::string>& argv);
/// At most `jobs` at a time; results in the order of the commands. `done(i, result)` is called on the calling thread as each ends.
std::vector<ProcessResult> run_processes(const std::vector<std::vector<std::string>>& commands, int jobs,
                                         const std::function<void(size_t, const ProcessResult&)>& done = {});

}  // namespace aotc::emit
