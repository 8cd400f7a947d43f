#pragma once
// Masks of attention nodes in their simplest form.
#include "passes/rewrite.h"

namespace aotc::passes {
/// An attention with a simpler mask that means the same: bool for 0 and -inf, none where it hides nothing, the causal flag for the lower
/// triangle. Nothing when the mask is as simple as can be.
std::optional<ValueId> simpler_mask(Rewriter& r, const Node& attention);
}  // namespace aotc::passes
