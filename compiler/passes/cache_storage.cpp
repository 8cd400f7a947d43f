#include "passes/cache_storage.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostic.h"

namespace aotc::passes {
namespace {

constexpr std::string_view kNames[] = {"", "int8", "fp8"};  // in the order of CacheStorage

int64_t sum_of(const std::vector<StoredCache>& caches, int64_t StoredCache::*bytes) {
  int64_t sum = 0;
  for (const StoredCache& c : caches) sum += c.*bytes;
  return sum;
}

}  // namespace

CacheStorage parse_cache_storage(std::string_view name) {
  const auto at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at == std::end(kNames)) throw Diagnostic(ExitCode::usage, {}, fmt::format("--kv-cache {}: expected int8 or fp8", name));
  return static_cast<CacheStorage>(at - std::begin(kNames));
}

std::string_view cache_storage_name(CacheStorage storage) { return kNames[static_cast<size_t>(storage)]; }
std::string scales_name(const std::string& cache) { return cache + ".scales"; }

int64_t StoredCaches::bytes_before() const { return sum_of(caches, &StoredCache::bytes_before); }
int64_t StoredCaches::bytes() const { return sum_of(caches, &StoredCache::bytes); }

}  // namespace aotc::passes
