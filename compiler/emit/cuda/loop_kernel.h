#pragma once
#include <string>

#include "emit/cuda/launch.h"
#include "loop/loop.h"

namespace aotc::emit::cuda {
/// CUDA C++ of one fused kernel: its argument struct and its __global__ function `symbol`. Arguments: one struct by value,
/// { int* fault; void* scratch; void* ptr[n]; i64 size[m]; }.
std::string emit_loop_kernel(const loop::LoopKernel& k, const LoopLaunch& launch, const std::string& symbol);

/// "struct NAME_args { int* fault; void* scratch; void* ptr[2]; i64 size[1]; };", with "TensorMap map[2];" at its end where there are maps.
std::string argument_struct(const std::string& kernel, size_t n_ptr, size_t n_size, size_t n_maps = 0);
}  // namespace aotc::emit::cuda
