#pragma once
// CUDA C++ of several kernels as one (forms/joined.h): each is a device function there (AOTC_PART of kernels/cuda/device.cuh).
#include <string>
#include <vector>

namespace aotc::emit::cuda {

struct JoinedText {
  struct Part {
    std::string symbol, source;  ///< the function of `source`
  };
  struct Call {
    size_t part = 0;
    std::vector<int> args, sizes;  ///< of the whole kernel's, those of the part in their order
  };
  int threads = 0;      ///< of a block, and of every part
  bool beside = false;  ///< all calls are of one part; call n is that of the blocks whose blockIdx.y is n
  size_t n_ptr = 0, n_size = 0;
  std::vector<Part> parts;
  std::vector<Call> calls;
};
std::string emit_joined(const JoinedText& text, const std::string& symbol);

}  // namespace aotc::emit::cuda
