#pragma once
// Packing of intervals with sizes: the concrete part of the memory plan.
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace aotc::plan {

struct Packed {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};
/// Offsets for these sizes such that items whose lives overlap do not overlap: the best of several greedy orders and of a short search
/// that moves what lies on top to the front. Deterministic.
Packed pack_intervals(const std::vector<LiveRange>& lives, const std::vector<int64_t>& sizes);
/// The largest sum of sizes of items that live at the same time.
int64_t largest_live_set(const std::vector<LiveRange>& lives, const std::vector<int64_t>& sizes);

inline bool overlap(LiveRange a, LiveRange b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace aotc::plan
