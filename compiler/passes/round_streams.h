#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// What epilogues of convolutions of bf16 compute in float32 for other kernels to read (PassContext::handed_on; residual
/// streams above all) is stored as bf16: whoever reads it reads the rounded number, and arithmetic stays float32. Not what a kernel sums,
/// what stays in the nearest cache, nor what the graph gives. Changes numerics; follows `precision` and does nothing without its choice.
void round_streams(Graph& g, PassContext& ctx);
}  // namespace aotc::passes
