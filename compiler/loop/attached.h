#pragma once
// What all kernel kinds have in common: the loops that a contraction carries, and the arguments of a call.
#include <functional>
#include <string>
#include <vector>

#include "loop/loop.h"

namespace aotc::loop {

/// A prologue or epilogue of a contraction.
struct Attached {
  const LoopKernel* loop;
  std::string suffix;  ///< of its name behind the kernel's: "pro_a", "epi0"
};
/// Prologues first, then the epilogues by segment.
std::vector<Attached> attached(const Kernel& kernel);
/// Calls f for each of them, to change it.
void for_each_attached(Kernel& kernel, const std::function<void(LoopKernel&)>& f);

/// Its left operand, its right one and, where there is one, the right one's twin.
std::vector<const Operand*> operands(const MatmulKernel& k);

/// Params of the kernel that take an argument, in call order; args->ptr[i] is the i-th.
std::vector<ParamId> argument_params(const Kernel& kernel);
/// Index into args->ptr of a param.
int argument_index(const Kernel& kernel, ParamId p);

/// Whether some instruction loads from p.
bool loads(const LoopKernel& k, ParamId p);

inline bool reads(const Param& p) { return p.role == ParamRole::input || p.role == ParamRole::inout; }
inline bool writes(const Param& p) { return p.role == ParamRole::output || p.role == ParamRole::inout; }

}  // namespace aotc::loop
