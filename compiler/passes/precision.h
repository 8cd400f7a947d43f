#pragma once
#include "passes/passes.h"

namespace aotc::passes {
/// Products, convolutions, attention and (on CPUs) recurrences of float32 multiply bf16 where PassContext::precision says so: their
/// operands are rounded, their sums and everything between them stay float32. An operand is rounded where it is computed, above the views
/// (and choices among elements) that lie between, once for all that multiply it; what attention gives is rounded once more, as its kernels
/// do; a recurrence rounds its state where it multiplies it. Changes numerics; what the graph takes and gives keeps its types. Requires
/// folded scales (fold_conv_bn) and found attention; leaves casts of constants to fold.
void precision(Graph& g, PassContext& ctx);

/// "bf16": every contraction; "bf16,f32,asked": the first, the second, all others. Throws Diagnostic (usage).
std::function<Precision(size_t place)> parse_precisions(std::string_view text);
}  // namespace aotc::passes
