#pragma once
// CUDA C++ of contractions over operands that are found element by element (kernels/cuda/simt.cuh, conv.cuh), or in windows by tensor maps
// (conv_wgmma.cuh): the __global__ function `symbol` and what belongs to it.
#include <string>

#include "emit/cuda/launch.h"
#include "loop/loop.h"

namespace aotc::emit::cuda {

std::string emit_simt_matmul(const loop::MatmulKernel& k, const SimtTile& tile, const std::string& symbol);

/// Of few rows, k contiguous in both operands (kernels/cuda/vector.cuh).
std::string emit_vector_matmul(const loop::MatmulKernel& k, const VectorTile& tile, const std::string& symbol);

/// The same on tensor cores (kernels/cuda/stream.cuh): the weight as it is stored, or of few bits in slabs.
std::string emit_stream_matmul(const loop::MatmulKernel& k, const StreamTile& tile, const std::string& symbol);

/// A thread an output.
std::string emit_conv_points(const loop::ConvKernel& k, int threads, const std::string& symbol);
/// A product for each group.
std::string emit_conv_simt(const loop::ConvKernel& k, const SimtTile& tile, const std::string& symbol);
std::string emit_conv_mma(const loop::ConvKernel& k, const MatmulTile& tile, const std::string& symbol);
/// One group, channels last, on Hopper's tensor cores (kernels/cuda/conv_wgmma.cuh). Its tensor maps: the operand of 64 lines a warpgroup,
/// then the other one: windows and weights, or with `swap` the other way round.
std::string emit_conv_wgmma(const loop::ConvKernel& k, const WgmmaTile& tile, const std::string& symbol);
/// One group, few channels, two dims, channels last, on Hopper's tensor cores (kernels/cuda/conv_few.cuh).
std::string emit_conv_few(const loop::ConvKernel& k, const FewTile& tile, const std::string& symbol);
/// Few channels or many groups, channels last, out of patches in shared memory (kernels/cuda/conv_patch.cuh).
std::string emit_conv_patch(const loop::ConvKernel& k, const PatchTile& tile, const std::string& symbol);
/// The epilogue of a channels-last convolution over rows that count the pixels of all images: [n, pixel] x [co] becomes [row] x [co].
loop::LoopKernel conv_rows_epilogue(const loop::ConvKernel& k);
/// Channels of a stage; those of one tap as they are stored for it.
int conv_wgmma_deep(const loop::ConvKernel& k);
int64_t conv_wgmma_channels(const loop::ConvKernel& k);

}  // namespace aotc::emit::cuda
