#pragma once
// CUDA C++ of attention (kernels/cuda/attention.cuh, attention_plain.cuh, attention_wgmma.cuh): the __global__ function `symbol` and its
// argument struct.
#include <string>

#include "emit/cuda/launch.h"
#include "loop/loop.h"

namespace aotc::emit::cuda {

/// `syms`: ranges of sizes that the code is for.
/// On the ordinary units: every type and head size.
std::string emit_attention_plain(const loop::AttentionKernel& k, const SymTable& syms, const std::string& symbol);
/// On tensor cores; the head sizes are the tile's.
std::string emit_attention_mma(const loop::AttentionKernel& k, const SymTable& syms, const AttentionTile& tile, const std::string& symbol);
/// On Hopper's tensor cores (kernels/cuda/attention_wgmma.cuh). Its tensor maps: queries, keys, values; of bytes, queries alone.
std::string emit_attention_wgmma(const loop::AttentionKernel& k, const SymTable& syms, const AttentionWgmmaTile& tile,
                                 const std::string& symbol);

}  // namespace aotc::emit::cuda
