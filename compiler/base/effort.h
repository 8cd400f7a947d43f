#pragma once
// What compiling itself may take: limits of what passes look through and compute ahead of time. They are the same for every target.
#include <cstddef>
#include <cstdint>

namespace aotc::effort {

// Constants that are folded.
inline constexpr int64_t kGrowthBytes = 4 << 20;       ///< that a result may take beyond what it is computed from
inline constexpr int64_t kAllGrowthBytes = 256 << 20;  ///< and all results together
inline constexpr int64_t kRepeatedBytes = 64 << 20;    ///< of full(), iota() and expand() that something is computed from
inline constexpr double kMultiplications = 4e9;        ///< of a product
inline constexpr size_t kLookedAtBytes = 64 << 10;     ///< of an archive's constant that is looked at for equal elements and positions

inline constexpr size_t kLayoutTries = 1'000'000;    ///< convolutions times operators whose layouts are changed one by one
inline constexpr size_t kPickedOps = 100;            ///< operators on what is picked of a table's columns
inline constexpr int64_t kPairedColumns = 64 << 10;  ///< of a product, each of which is looked at for its mate

}  // namespace aotc::effort
