#pragma once
// CUDA C++ of contractions over operands that are found element by element (kernels/cuda/simt.cuh, conv.cuh): the __global__
// function `symbol` and what belongs to it.
#include <string>

#include "emit/cuda/launch.h"
#include "loop/loop.h"

namespace aotc::emit::cuda {

std::string emit_simt_matmul(const loop::MatmulKernel& k, const SimtTile& tile, const std::string& symbol);

/// A thread an output.
std::string emit_conv_points(const loop::ConvKernel& k, int threads, const std::string& symbol);
/// A product for each group.
std::string emit_conv_simt(const loop::ConvKernel& k, const SimtTile& tile, const std::string& symbol);
std::string emit_conv_mma(const loop::ConvKernel& k, const MatmulTile& tile, const std::string& symbol);

}  // namespace aotc::emit::cuda
