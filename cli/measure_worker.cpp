#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "cli.h"
#include "search/measure_worker.h"

namespace aotc::cli {

Run add_measure_worker(CLI::App& app) {
  auto temporary = std::make_shared<bool>(false);
  add_flag(app, "--temporary", *temporary, "the program's own file is removed when it starts");
  return [temporary](const Common&) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody is left to hear the answer
    char path[4096];
    const ssize_t n = *temporary ? readlink("/proc/self/exe", path, sizeof path - 1) : -1;
    if (n > 0) path[n] = 0, unlink(path);
    return search::run_measure_worker();
  };
}

}  // namespace aotc::cli
