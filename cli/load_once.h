#pragma once
// Starts the embedded load_once program (cli/worker/load_once.c) on an artifact.
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "graph/interp.h"

namespace aotc::cli {
struct LoadOnce {
  double load_us, first_call_us;
  int64_t peak_rss_bytes, base_rss_bytes;
};
/// In a process of its own, a run of the method of that number with inputs of these shapes (zeros). flags: AOTC_MODEL_*. An ordinary
/// failure is a value.
Result<LoadOnce> load_once(const std::string& artifact, int threads, uint32_t flags, int method, const std::vector<HostTensor>& inputs);
}  // namespace aotc::cli
