#pragma once
#include <string>
#include <vector>

#include "emit/cuda/launch.h"
#include "loop/loop.h"

namespace aotc::emit::cuda {

/// Whether wgmma.cuh has products of operands of this type; float32 is rounded to TF32.
constexpr bool has_wgmma(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }

/// How an operand lies in memory: `along_k` with k as the contiguous index, else across it.
enum class OperandOrder : uint8_t { along_k, across_k };

/// The batch dimensions of the product along which an operand changes, the last one first: the outer coordinates of its tensor map.
std::vector<size_t> mapped_batch(const loop::MatmulKernel& k, const loop::Operand& o);

/// CUDA C++ of one product, its __global__ function `symbol`: an instance of kernels/cuda/wgmma.cuh with the segments' epilogues as
/// functors. Its tensor maps: the operand of 64 lines a warpgroup, then the other one (with `swap` b, then a).
std::string emit_wgmma(const loop::MatmulKernel& k, const WgmmaTile& tile, OperandOrder a, OperandOrder b, const std::string& symbol);
}  // namespace aotc::emit::cuda
