#pragma once
// CUDA C++ to cubins.
#include <string>
#include <vector>

#include "emit/cuda/nvrtc.h"

namespace aotc::emit::cuda {

struct Cubin {
  std::string sm;
  std::vector<std::byte> bytes;
};
/// Compiles one translation unit for each architecture. `headers`: those of kernels/cuda.
std::vector<Cubin> compile_module(const std::string& source, const std::vector<SourceFile>& headers, const std::vector<std::string>& sms);

}  // namespace aotc::emit::cuda
