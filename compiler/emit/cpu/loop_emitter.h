#pragma once
// A LoopKernel as one C++ function over the vector headers of kernels/cpu/vec.
#include <string>
#include <vector>

#include "loop/loop.h"

namespace aotc::emit::cpu {

enum class FunctionKind : uint8_t { kernel, epilogue, prologue };  ///< aotc_kernel_fn, aotc_epilogue_fn, aotc_prologue_fn

/// How the function is called.
struct FunctionSpec {
  std::string symbol;               ///< C name
  std::vector<SymId> size_symbols;  ///< args->size[first_size + i] is the value of size_symbols[i]
  int first_size = 0;
  int far_size = -1;     ///< args->size[far_size] != 0: results pass the caches by; -1: they never do
  std::vector<int> ptr;  ///< per param: index into args->ptr; unused where the param takes no argument
  FunctionKind kind = FunctionKind::kernel;
};

/// The spec of a kernel that stands alone.
FunctionSpec kernel_spec(const loop::LoopKernel& k, const std::string& symbol);
/// Text of the function. Loops run in units of loop_work(k).
std::string emit_function(const loop::LoopKernel& k, const FunctionSpec& spec);

}  // namespace aotc::emit::cpu
