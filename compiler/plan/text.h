#pragma once
#include <string>

#include "plan/build.h"

namespace aotc::plan {
/// A readable dump: ranges, steps, buffers with lives and offsets, a map of the arena, totals. For --print-ir-after and explain.
std::string print(const Plan& plan, const loop::Module& module);
/// The line of totals: arena, sum of all buffers, lower bound.
std::string summary(const Plan& plan);
std::string print(const PlanSet& set, const loop::Module& module);
}  // namespace aotc::plan
