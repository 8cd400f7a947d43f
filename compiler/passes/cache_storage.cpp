#include "passes/cache_storage.h"

#include <fmt/format.h>

#include "base/diagnostic.h"

namespace aotc::passes {
namespace {

struct CacheRow {
  std::string_view name;
  CacheStorage storage;
};
constexpr CacheRow kCacheRows[] = {{"", CacheStorage::as_is}, {"int8", CacheStorage::int8}, {"fp8", CacheStorage::fp8}};

const CacheRow& cache_row(CacheStorage storage) { return kCacheRows[static_cast<size_t>(storage)]; }

}  // namespace

CacheStorage parse_cache_storage(std::string_view name) {
  for (const CacheRow& r : kCacheRows)
    if (r.name == name) return r.storage;
  throw Diagnostic(ExitCode::usage, {}, fmt::format("--kv-cache {}: expected int8 or fp8", name));
}

std::string_view cache_storage_name(CacheStorage storage) { return cache_row(storage).name; }
std::string scales_name(const std::string& cache) { return cache + ".scales"; }

int64_t StoredCaches::bytes_before() const {
  int64_t sum = 0;
  for (const StoredCache& c : caches) sum += c.bytes_before;
  return sum;
}

int64_t StoredCaches::bytes() const {
  int64_t sum = 0;
  for (const StoredCache& c : caches) sum += c.bytes;
  return sum;
}

}  // namespace aotc::passes
