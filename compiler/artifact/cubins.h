#pragma once
// The CUDA C++ of a part's kernels, and their machine code: compiled one by one, in parallel, through the cache of objects.
#include <functional>
#include <string>
#include <vector>

#include "base/machine.h"
#include "plan/build.h"

namespace aotc::artifact {

/// What the text of every kernel begins with.
std::string cuda_prelude();
/// The text of each kernel that the plans launch, after cuda_prelude(), in the order of PlanSet::configs; includes headers of kernels/cuda.
std::vector<std::string> cuda_sources(const loop::Module& module, const plan::PlanSet& plans, const Machine& machine);

struct CubinOptions {
  std::string cache_dir;  ///< as CompileOptions has it
  int jobs = 1;
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
};
struct Cubins {
  std::vector<std::vector<std::string>> of;  ///< an architecture, a kernel: its bytes
  size_t cached = 0;
};
/// `names`: of the kernels; `sms`: "sm_90a", or "compute_90" for PTX. Throws Diagnostic (toolchain) where NVRTC is not found or does not
/// compile one.
Cubins compile_cubins(const std::vector<std::string>& sources, const std::vector<std::string>& names, const std::vector<std::string>& sms,
                      const CubinOptions& options);

}  // namespace aotc::artifact
