#pragma once
#include <string_view>

#include "graph/graph.h"

namespace aotc {

/// Bytes up to which a state that conditions of the run are computed from is kept twice, so that a run that fails leaves the old content.
inline constexpr int64_t kSmallStateBytes = int64_t{1} << 16;

/// The `kind` of a check without which no state is changed.
inline constexpr std::string_view kBeforeWrites = "before_writes";

/// An index of scatter and index_put of GPUs that writes nothing and is no fault (passes/check_state_writes.cpp).
inline constexpr int64_t kNowhere = INT64_MIN;

inline bool is_small_state(const TensorType& t) {
  const auto bytes = t.bytes().as_const();
  return bytes && *bytes <= kSmallStateBytes;
}

}  // namespace aotc
