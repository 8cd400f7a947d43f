#pragma once
// Fused loops whose results pass the caches by where the estimates do not say so: for whoever has measured the whole.
#include <optional>

#include "forms/form.h"

namespace aotc::forms::cpu {

/// The choice for a fused loop of a CPU whose results, in long rows, fill twice L2 at the sizes worth tuning for; nothing for all else.
std::optional<Choice> stored_far(const Site& s);

}  // namespace aotc::forms::cpu
