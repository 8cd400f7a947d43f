#pragma once
#include <vector>

#include "base/target.h"
#include "emit/toolchain.h"
#include "loop/loop.h"

namespace aotc::emit {
/// The generated CPU code of a module: its loop kernels and the epilogues of its contractions, in units of about equal size, per
/// instruction set. Function names: function_name(), epilogue_name() of tables.h.
std::vector<TranslationUnit> cpu_units(const loop::Module& module, const Target& target);
}  // namespace aotc::emit
