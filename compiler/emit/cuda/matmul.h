#pragma once
#include <string>

#include "emit/cuda/launch.h"
#include "loop/loop.h"

namespace aotc::emit::cuda {
/// CUDA C++ of one product: an instance of kernels/cuda/gemm.cuh with the segments' epilogues as functors. float32 (three tf32 products),
/// bfloat16 and float16 operands; others are refused (Diagnostic, unsupported).
std::string emit_matmul(const loop::MatmulKernel& k, const MatmulTile& tile, const Launch& launch);
}  // namespace aotc::emit::cuda
