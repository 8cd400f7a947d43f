#pragma once
#include <string>

#include "emit/cuda/launch.h"
#include "loop/loop.h"

namespace aotc::emit::cuda {

/// Whether gemm.cuh has products of operands of this type.
constexpr bool has_matmul(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }
/// CUDA C++ of one product, its __global__ function `symbol`: an instance of kernels/cuda/gemm.cuh with the segments' epilogues as
/// functors. float32 (three tf32 products, or one), bfloat16 and float16; b may be computed.
std::string emit_matmul(const loop::MatmulKernel& k, const MatmulTile& tile, const std::string& symbol);
}  // namespace aotc::emit::cuda
