#pragma once
// Child processes: argument lists, never a shell. Each is the head of a process group of its own, so that Ctrl-C in a terminal reaches aotc
// alone, which ends its children (end_children) before it goes.
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace aotc {

struct ProcessResult {
  int exit_code = -1;  ///< 128 + signal when killed, 127 when it could not start
  std::string output;  ///< stdout and stderr together
  bool ok() const { return exit_code == 0; }
};
ProcessResult run_process(const std::vector<std::string>& argv);
/// At most `jobs` at a time; results in the order of the commands. `done(i, result)` is called on the calling thread as each ends; when it
/// throws, the commands under way are ended.
std::vector<ProcessResult> run_processes(const std::vector<std::vector<std::string>>& commands, int jobs,
                                         const std::function<void(size_t, const ProcessResult&)>& done = {});

/// Starts argv[0] (looked up in PATH) with these descriptors as its standard input, output and error; -1: /dev/null as input, ours as
/// output and error. 0, or the errno that says why not.
int spawn(const std::vector<std::string>& argv, int in, int out, int err, pid_t* pid);

/// Ends all processes that descend from this one: SIGTERM (a compiler then removes its temporary files), after `seconds` SIGKILL. Returns
/// when they are gone. Not to be called while another thread waits for a child that it still needs.
void end_children(double seconds);

}  // namespace aotc
