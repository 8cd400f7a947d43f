#include "cli.h"
#include "search/measure.h"

namespace aotc::cli {

Run add_measure_worker(CLI::App&) {
  return [](const Common&) { return search::run_measure_worker(); };
}

}  // namespace aotc::cli
