#pragma once
// The choice for each contraction of a plan. `default` mode takes the cost model's best; tuning (tune.h) puts measured ones first.
#include <map>
#include <string>

#include "plan/choice.h"
#include "search/candidates.h"

namespace aotc::search {

/// Choices that were measured, by contract key.
using Tuned = std::map<std::string, plan::Choice>;

/// What build_plans calls. Deterministic in its arguments; copies them.
plan::ChooseFn chooser(const Target& target, Tuned tuned = {});

}  // namespace aotc::search
