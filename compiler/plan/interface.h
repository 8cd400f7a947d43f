#pragma once
// How each kernel is called: the sizes it takes, its work units, grain and scratch. The plan and the emitters both ask here, so that they
// cannot disagree. CPU only; the CUDA emitter has its own launch rule (emit/cuda/launch.h).
#include <vector>

#include "loop/loop.h"
#include "plan/loop_interface.h"
#include "sym/expr.h"

namespace aotc::plan {

struct KernelInterface {
  std::vector<Expr> sizes;  ///< args->size[i]; for a LoopKernel: the shape symbols that it uses, by SymId
  Expr work = 1;            ///< LoopKernel: loop_work()
  Expr grain = 1;
  Expr scratch_bytes = 0;  ///< per thread: `local` params, contraction blocks
};
}  // namespace aotc::plan
