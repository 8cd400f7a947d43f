#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// "bf16": every contraction; "bf16,f32,asked": the first, the second, all others. Throws Diagnostic (usage).
std::function<Precision(size_t place)> parse_precisions(std::string_view text);
}  // namespace aotc::passes
