#pragma once
// A loop Module as CUDA: source, cubins and launches. The plan takes the launches, the tables the cubins.
#include <string>
#include <vector>

#include "base/target.h"
#include "emit/cuda/launch.h"
#include "emit/cuda/nvrtc.h"
#include "loop/loop.h"

namespace aotc::emit::cuda {

struct CudaCode {
  std::string source;                  ///< one translation unit; includes device.cuh and gemm.cuh
  std::vector<std::string> functions;  ///< by KernelId: name of the __global__ function
  std::vector<Launch> launches;        ///< by KernelId
};
/// Throws one Diagnostic (unsupported) that lists every kernel without a CUDA form.
CudaCode emit_module(const loop::Module& m);

struct Cubin {
  std::string sm;
  std::vector<std::byte> bytes;
};
/// Compiles for each architecture of the target. `headers`: device.cuh and gemm.cuh.
std::vector<Cubin> compile_module(const CudaCode& code, const std::vector<SourceFile>& headers, const std::vector<std::string>& sms);

}  // namespace aotc::emit::cuda
