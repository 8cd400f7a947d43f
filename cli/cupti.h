#pragma once
// When kernels and copies run on a GPU, as CUPTI tells it, NVIDIA's library for profilers. It is found at run time; nothing links with it.
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "artifact.h"

namespace aotc::cli {

/// A kernel, or a copy ("copy") or fill ("fill") of the driver's.
struct KernelSpan {
  std::string name;
  double begin_us = 0, us = 0;  ///< from the beginning of the first run's first
  uint32_t stream = 0;
  std::array<int32_t, 3> grid{}, block{};   ///< kernels
  int32_t shared_bytes = 0;                 ///< static and dynamic
  uint32_t registers = 0, local_bytes = 0;  ///< per thread
};

struct KernelTrace {
  std::string library;                        ///< "CUPTI 13.0"
  std::vector<std::vector<KernelSpan>> runs;  ///< by begin
};

/// What the device does in some runs of the artifact, made as with these flags of a context. Why not, where there is no CUPTI (AOTC_CUPTI
/// names the library, else CUDA_HOME, the loader's path, Python's packages and /usr/local/cuda* are looked in) or it refuses. Kernels that
/// run after this in the process may take longer: last of what is measured.
Result<KernelTrace> trace_kernels(const Artifact& artifact, int threads, uint32_t flags, search::Device* device,
                                  const std::vector<HostTensor>& inputs);

/// {"by", "runs", "us": from the first to the last of a run, "busy_us": any of them under way, "list": a row for each of a run, in order,
/// of means}, or {"missing": why}.
nlohmann::json kernels_json(const Result<KernelTrace>& trace);
void print_kernels(const nlohmann::json& kernels);
/// One run, in the format of Chrome's trace viewer: a process of its own, with a thread for each stream.
nlohmann::json kernel_events(const Result<KernelTrace>& trace);

}  // namespace aotc::cli
