#include "import/rounded_caches.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace aotc::import {
namespace {

/// Operators that write to their first argument, or to a copy of it, and where what they write stands.
struct CacheWrite {
  std::string_view target;
  size_t source;
};
constexpr CacheWrite kCacheWrites[] = {
    {"aten.index_put.default", 2},  {"aten.index_put_.default", 2},    {"aten._unsafe_index_put.default", 2},
    {"aten.index_copy.default", 3}, {"aten.index_copy_.default", 3},   {"aten.copy.default", 1},
    {"aten.copy_.default", 1},      {"aten.slice_scatter.default", 1}, {"aten.select_scatter.default", 1}};

}  // namespace

/// As the pass store_cache does.
at::Tensor RoundedCaches::rounded(const at::Tensor& x) const {
  if (float8_) return at::clamp(x, -448, 448).to(at::kFloat).to(at::kFloat8_e4m3fn).to(x.scalar_type());
  const at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  const at::Tensor scale = at::amax(at::abs(wide), {-1}, true) / 127;
  const at::Tensor by = at::where(scale > 0, scale, at::ones_like(scale));
  return (at::clamp(at::round(wide / by), -127, 127) * scale).to(x.scalar_type());
}

at::Tensor RoundedCaches::add(const at::Tensor& cache) {
  const at::Tensor t = cache.numel() == 0 || cache.dim() == 0 ? cache : rounded(cache).contiguous();
  keep(t);
  return t;
}

void RoundedCaches::keep(const at::Tensor& cache) {
  const c10::StorageImpl* const storage = cache.storage().unsafeGetStorageImpl();
  caches_.emplace(storage, cache.storage().getWeakStorageImpl());
}

bool RoundedCaches::holds(const at::Tensor& x) const { return x.has_storage() && caches_.count(x.storage().unsafeGetStorageImpl()) > 0; }

bool RoundedCaches::apply(std::string_view target, std::vector<c10::IValue>& arguments) const {
  if (caches_.empty()) return false;
  for (const CacheWrite& w : kCacheWrites) {
    if (w.target != target) continue;
    const at::Tensor to = arguments.at(0).toTensor();
    if (!holds(to)) return false;
    const at::Tensor x = arguments.at(w.source).toTensor();
    if (x.dim() > 0 && x.size(-1) == to.size(-1) && x.numel() > 0) arguments[w.source] = rounded(x);
    return true;
  }
  return false;
}

void RoundedCaches::written(const c10::IValue& result) {
  if (result.isTensor() && result.toTensor().has_storage()) keep(result.toTensor());
}

}  // namespace aotc::import
