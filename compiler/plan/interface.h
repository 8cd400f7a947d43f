#pragma once
// How each kernel is called: the sizes it takes, its work units, grain and scratch. The plan and the emitters both ask here, so that they
// cannot disagree. CPU only; the CUDA emitter has its own launch rule (emit/cuda/launch.h).
#include <string>
#include <vector>

#include "loop/loop.h"
#include "plan/choice.h"
#include "plan/loop_interface.h"
#include "sym/expr.h"

namespace aotc::plan {

struct KernelInterface {
  std::string symbol;  ///< generated: the kernel's name. Library: "aotc_gemm_f32", to which the emitter adds "_<isa>"
  bool library = false;
  std::vector<Expr> sizes;  ///< args->size[i]; for a LoopKernel: the shape symbols that it uses, by SymId
  Expr work = 1;            ///< LoopKernel: loop_work()
  Expr grain = 1;
  Expr scratch_bytes = 0;  ///< per thread: `local` params, contraction blocks
};
/// `choice` must fit the kernel's kind (monostate: default_choice). Exprs are over shape symbols.
KernelInterface interface_of(const loop::Kernel& kernel, const Choice& choice, const SymTable& syms);

/// "f32", "i64", "bool": the dtype part of library symbols.
std::string_view symbol_dtype(DType t);
/// AOTC_CELL_* of a recurrence.
int recurrence_cell(const loop::LibraryKernel& k);
/// Params of the kernel that take an argument (loop::takes_argument), in call order; args->ptr[i] is the i-th.
std::vector<loop::ParamId> argument_params(const loop::Kernel& kernel);
/// Index into args->ptr of a param.
int argument_index(const loop::Kernel& kernel, loop::ParamId p);

}  // namespace aotc::plan
