#pragma once
// Everything of a loop Module that becomes C++ for CPUs: its LoopKernels and the epilogues and prologues of its contractions.
#include <string>
#include <vector>

#include "base/target.h"
#include "emit/cpu/loop_emitter.h"
#include "loop/attached.h"
#include "loop/loop.h"

namespace aotc::emit::cpu {

struct SourceUnit {
  std::string name;                ///< file name: "loops0_avx2.cpp"
  std::string source;              ///< unit_source()
  std::vector<std::string> flags;  ///< unit_flags()
};
/// Names of the functions, an aotc_kernel_fn, and an aotc_epilogue_fn or aotc_prologue_fn, with C linkage. Instruction sets with the same
/// loop code share them.
std::string kernel_function(const std::string& kernel, Isa isa);
std::string attached_function(const std::string& kernel, const loop::Attached& attached, Isa isa);

/// One or more units for each loop_isa() among `isas`; cut by the length of the text only, so that equal modules give equal units.
std::vector<SourceUnit> emit_module(const loop::Module& m, const std::vector<Isa>& isas);

/// Spec of a contraction's epilogue or prologue: its sizes stand behind the contraction's own.
FunctionSpec attached_spec(const loop::Kernel& contraction, const loop::LoopKernel& attached, const std::string& symbol);

}  // namespace aotc::emit::cpu
