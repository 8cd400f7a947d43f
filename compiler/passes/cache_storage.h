#pragma once
// In what the keys and values that a decoder keeps in states are stored (--kv-cache).
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace aotc::passes {

enum class CacheStorage : uint8_t {
  as_is,
  int8,  ///< by row: scale = max|x| / 127 in float32, a state of its own; x / scale to nearest even
  fp8,   ///< float8_e4m3fn to nearest even, saturating at 448, without scales
};
/// What --kv-cache says: "int8", "fp8" or "" (as they are). Throws Diagnostic (usage).
CacheStorage parse_cache_storage(std::string_view name);
std::string_view cache_storage_name(CacheStorage storage);

/// The name of the state of a cache's scales.
std::string scales_name(const std::string& cache);

/// A state that is stored so.
struct StoredCache {
  std::string name;
  DType before = DType::f32;            ///< of the program's buffer
  int64_t bytes = 0, bytes_before = 0;  ///< scales among the former
  friend bool operator==(const StoredCache&, const StoredCache&) = default;
};
/// What store_cache did.
struct StoredCaches {
  CacheStorage storage = CacheStorage::as_is;
  std::vector<StoredCache> caches;
  std::vector<std::pair<std::string, std::string>> left;  ///< states that attention reads or might, and why they stay as they are
  int64_t bytes_before() const;
  int64_t bytes() const;
};

}  // namespace aotc::passes
