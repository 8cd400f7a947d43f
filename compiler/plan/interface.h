#pragma once
// How each kernel is called: the sizes it takes, its work units, grain and scratch. The plan and the emitters both ask here, so that they
// cannot disagree. CPU only; the CUDA emitter has its own launch rule (emit/cuda/launch.h).
#include <vector>

#include "loop/loop.h"
#include "sym/expr.h"

namespace aotc::plan {

struct KernelInterface {
  std::vector<Expr> sizes;  ///< args->size[i]; for a LoopKernel: the shape symbols that it uses, by SymId
  Expr work = 1;  ///< LoopKernel: the flattened outer points (with no outer var: 1), or what the CPU emitter's collapse makes of them
  Expr grain = 1;
  Expr scratch_bytes = 0;  ///< per thread: `local` params, contraction blocks
};
/// The shape symbols that a LoopKernel's code needs at run time, sorted.
std::vector<SymId> kernel_symbols(const loop::LoopKernel& k);

}  // namespace aotc::plan
