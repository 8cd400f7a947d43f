#pragma once
// The memory plan: offsets in one arena for buffers with live ranges and symbolic sizes.
#include <optional>
#include <vector>

#include "plan/plan.h"

namespace aotc::plan {

inline constexpr int64_t kArenaAlign = 64;

struct MemoryItem {
  Expr bytes;
  LiveRange live;
  std::optional<size_t> in_place_of;  ///< index of the item whose storage this one takes over (equal bytes)
};
struct MemoryPlan {
  std::vector<Expr> offsets;  ///< multiples of kArenaAlign
  Expr arena_bytes;
};
/// Sound for every value of the symbols: two items whose lives overlap never overlap in space. Orders by the sizes at
/// SymTable::hint, then offset(i) = max over the items that lie below it of offset + bytes, so one relation serves all sizes.
MemoryPlan plan_memory(const std::vector<MemoryItem>& items, const SymTable& syms);

}  // namespace aotc::plan
