#pragma once
// What the CUDA forms of convolutions have in common.
#include "forms/cuda/common.h"
#include "forms/cuda/simt_tile.h"

namespace aotc::forms::cuda {
/// One contract for all of them: they are measured against each other.
std::string conv_contract(const loop::ConvKernel& k, const Site& s);
}  // namespace aotc::forms::cuda
