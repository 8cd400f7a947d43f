#pragma once
// The CUDA C++ of a part's kernels, and their machine code: compiled one by one, in parallel, through the cache of objects.
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/machine.h"
#include "base/worker_process.h"
#include "emit/cuda/nvrtc.h"
#include "emit/object_cache.h"
#include "plan/build.h"

namespace aotc::artifact {

/// The headers of kernels/cuda, by which generated code includes them.
std::vector<emit::cuda::SourceFile> cuda_headers();
/// What the text of every kernel begins with.
std::string cuda_prelude();
/// The text of each kernel that the plans launch, after cuda_prelude(), in the order of PlanSet::configs; includes headers of kernels/cuda.
std::vector<std::string> cuda_sources(const loop::Module& module, const plan::PlanSet& plans, const Goal& goal);

struct CubinOptions {
  std::string work_dir;      ///< exists
  emit::CacheOptions cache;  ///< in its folder sources are left that NVRTC does not survive, too
  int jobs = 1;
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
  double limit_s = 600;  ///< of one kernel
  /// Processor time of NVRTC after which a kernel is given up as late, unless it is one of `patient`.
  double slow_s = std::numeric_limits<double>::infinity();
  std::vector<bool> patient;  ///< by kernel; those beyond its end are not
  /// Told of a kernel that is waited for: after 10 s, and whenever the time has doubled. One thread at a time.
  std::function<void(const std::string& line)> waiting;
  /// Machine code of a kernel's text that is there already, or nothing. May be null.
  std::function<std::optional<std::string>(const std::string& source, const std::string& sm)> given;
  WorkerCommand worker = own_worker("cubin-worker");
};
/// A kernel on which NVRTC crashed, twice and the second time in a fresh process, or took longer than a limit.
struct LostCubin {
  size_t kernel = 0;
  std::string sm;
  std::string why;     ///< "NVRTC 13.0 crashed (Segmentation fault)"
  std::string source;  ///< the file where its source was left; empty: nowhere
  bool late = false;   ///< given up after slow_s: more time may end it
};
struct Cubins {
  std::vector<std::vector<std::string>> of;  ///< an architecture, a kernel: its bytes
  size_t cached = 0;
  std::vector<LostCubin> lost;  ///< in the order of `of`
};
/// `names`: of the kernels; `sms`: "sm_90a", or "compute_90" for PTX. NVRTC runs in workers (cubin_worker.h), `jobs` at a time. Throws
/// Diagnostic (toolchain) where NVRTC is not found or does not compile one.
Cubins compile_cubins(const std::vector<std::string>& sources, const std::vector<std::string>& names, const std::vector<std::string>& sms,
                      const CubinOptions& options);

/// A part's kernels as text and as machine code.
struct CudaCode {
  std::vector<std::string> sources;
  Cubins cubins;
};

}  // namespace aotc::artifact
