#pragma once
#include "loop/demand.h"
#include "plan/build.h"

namespace aotc::plan {
/// What a step has to compute and to move at least, over shape symbols; of strips and joined kernels, all of them.
loop::Demand demand_of(const loop::Module& module, const PlanSet& plans, const Plan& plan, const Step& step);
}  // namespace aotc::plan
