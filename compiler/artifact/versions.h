#pragma once
// The code versions of a CPU artifact: what its kernels were compiled for is what it demands, which may be less than the target allows.
#include "base/target.h"
#include "plan/build.h"

namespace aotc::artifact {

/// The target with each instruction set lowered to the best one that a kernel of the plans has code for; those that are equal then are one.
/// Nothing is lowered for a GPU.
Target used_target(const plan::PlanSet& plans, const Target& target);
/// AOTC_CPU_* that the code version `isa` demands; 0 where the plans call no kernel.
uint32_t cpu_needs(const plan::PlanSet& plans, Isa isa);

}  // namespace aotc::artifact
