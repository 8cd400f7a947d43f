#pragma once
#include <string>

#include "base/machine.h"
#include "plan/build.h"

namespace aotc::emit {
/// The CUDA C++ of all functions that the plans launch, one translation unit; includes the headers of kernels/cuda.
std::string emit_cuda(const loop::Module& module, const plan::PlanSet& plans, const Machine& machine);
}  // namespace aotc::emit
