#pragma once
#include <map>
#include <string_view>
#include <vector>

#include "plan/build.h"

namespace aotc::plan {
/// What the plans refer to is there, choices are such as kernels take, and every plan verifies. AOTC_CHECKs.
void verify(const PlanSet& set, std::string_view after);
/// At sample values of the symbols (ends of the ranges, tune sizes, some between): no two live arena buffers overlap, offsets are aligned
/// and inside the arena, every step's arguments are live and placed, sizes are not negative. AOTC_CHECKs.
void verify(const Plan& plan, const SymTable& syms, std::string_view after);
/// The module's table with the plan's ranges.
SymTable narrowed(const SymTable& syms, const std::vector<SymRange>& ranges);
/// Values of all shape symbols at sample points within the plan's ranges; at least one point.
std::vector<std::map<SymId, int64_t>> sample_points(const SymTable& narrowed_syms, const std::vector<SymId>& symbols);
}  // namespace aotc::plan
