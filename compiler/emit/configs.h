#pragma once
#include <string>

#include "base/target.h"
#include "plan/build.h"

namespace aotc::emit {
/// "static const aotc_gemm_config NAME = {...};" and what it points at, for one instruction set.
std::string emit_config(const loop::Kernel& kernel, const plan::KernelConfig& config, Isa isa, const std::string& name);
}  // namespace aotc::emit
