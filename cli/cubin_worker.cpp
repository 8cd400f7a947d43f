#include "artifact/cubin_worker.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "cli.h"

namespace aotc::cli {
namespace {

/// Ends this process with the one that asks, whatever NVRTC does: nobody is left to hear the answer. By the pipe, not by PR_SET_PDEATHSIG:
/// that follows the thread that started the worker, and others may ask it after that one has ended.
void end_with_the_asker() {
  std::thread([] {
    pollfd requests{STDIN_FILENO, 0, 0};
    while (poll(&requests, 1, -1) < 0 && errno == EINTR) {}
    _exit(0);
  }).detach();
}

}  // namespace

Run add_cubin_worker(CLI::App&) {
  return [](const Common&) {
    end_with_the_asker();
    return artifact::run_cubin_worker();
  };
}

}  // namespace aotc::cli
