#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace aotc {

/// The least and the largest number of an integer type.
struct IntRange {
  int64_t least, most;
};
constexpr IntRange int_range(DType t) {
  if (t == DType::u8) return {0, 255};
  const auto most = static_cast<int64_t>((uint64_t{1} << (8 * dtype_bytes(t) - 1)) - 1);
  return {-most - 1, most};
}

}  // namespace aotc
