#include <sys/prctl.h>

#include <csignal>

#include "cli.h"
#include "search/measure_worker.h"

namespace aotc::cli {

Run add_measure_worker(CLI::App&) {
  return [](const Common&) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody is left to hear the answer
    return search::run_measure_worker();
  };
}

}  // namespace aotc::cli
