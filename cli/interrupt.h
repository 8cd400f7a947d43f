#pragma once
// The orderly end of a build by a signal.
#include <csignal>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace aotc::cli {

/// While it lives, SIGINT, SIGTERM and SIGHUP (where they were not ignored) end the process like this: its child processes, then the
/// folders given to remove_at_end, then exit code 128 + signal. A second signal ends it at once. One at a time: signals belong to the
/// process.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  /// Any thread.
  void remove_at_end(const std::string& folder);
  /// For the thread that works, when it fails: does not return where a signal is the cause.
  void wait_if_signalled() const;

 private:
  void listen();
  [[noreturn]] void end(int signal);
  int pipe_[2] = {-1, -1};
  std::mutex mutex_;
  std::vector<std::string> folders_;
  struct sigaction before_[3] = {};
  std::thread listener_;
};

}  // namespace aotc::cli
