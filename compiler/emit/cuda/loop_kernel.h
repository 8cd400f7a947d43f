#pragma once
#include <string>

#include "emit/cuda/launch.h"
#include "loop/loop.h"

namespace aotc::emit::cuda {
/// CUDA C++ of one fused kernel: its argument struct and its __global__ function `symbol`. Arguments: one struct by value,
/// { int* fault; void* scratch; void* ptr[n]; i64 size[m]; }.
std::string emit_loop_kernel(const loop::LoopKernel& k, const LoopLaunch& launch, const std::string& symbol);

/// A __device__ function `name(a, to)` of all threads of a block, a: of the type `args` with these sizes: every row that a prologue with
/// reductions computes, to shared memory. The launch: of rows, without locals. apart: its code is there once, however many calls there are.
std::string emit_rows_function(const loop::LoopKernel& k, const LoopLaunch& launch, const std::string& name, const std::string& args,
                               const std::vector<SymId>& symbols, bool apart = false);

/// The launch of such a function in the kernel of a product, whose blocks have so many threads.
LoopLaunch launch_of_rows(const loop::MatmulKernel& k, int threads);

/// Neighbours that a thread takes at once of a scan along rows of so many elements.
int neighbours_of_scan(int64_t extent, int threads);

/// "struct NAME_args { int* fault; void* scratch; void* ptr[2]; i64 size[1]; };", with "TensorMap map[2];" at its end where there are maps.
std::string argument_struct(const std::string& kernel, size_t n_ptr, size_t n_size, size_t n_maps = 0);
/// The same with a pointer for each of the parameters that is an argument.
std::string argument_struct(const std::string& kernel, const IdVec<loop::ParamId, loop::Param>& params, size_t n_size, size_t n_maps = 0);
}  // namespace aotc::emit::cuda
