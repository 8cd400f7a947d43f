#pragma once
// Runs a loop Module whose kernels are all LoopKernels through emitted and compiled code.
#include <vector>

#include "base/target.h"
#include "graph/interp.h"
#include "loop/loop.h"

namespace aotc::test {

/// Outputs in order. FAILs on a compiler error.
std::vector<HostTensor> run_module(const loop::Module& m, const Graph& g, const std::vector<HostTensor>& inputs, Isa isa);
/// Lowers g, runs it and the interpreter, and compares all outputs (relative to the largest element of each).
void check_graph(const Graph& g, const std::vector<HostTensor>& inputs, Isa isa);
HostTensor random_input(const TensorType& t, const std::vector<int64_t>& dims, uint32_t seed, int64_t int_below);

}  // namespace aotc::test
