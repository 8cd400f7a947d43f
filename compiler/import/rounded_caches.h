#pragma once
// What writes of keys and values leave in a cache that an artifact stores in 8 bits (--kv-cache), for the oracle of verify.
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <set>
#include <string_view>
#include <vector>

namespace aotc::import {

class RoundedCaches {
 public:
  explicit RoundedCaches(bool float8) : float8_(float8) {}
  /// A new run: nothing is a cache.
  void clear() { caches_.clear(); }
  /// Writes to this tensor, or to views of it, are rounded; so is what it holds.
  at::Tensor add(const at::Tensor& cache);
  /// The arguments of a call of `target` with what it writes to a cache rounded. True where its result is a cache then.
  bool apply(std::string_view target, std::vector<c10::IValue>& arguments) const;
  void written(const c10::IValue& result);

 private:
  at::Tensor rounded(const at::Tensor& x) const;
  std::set<const void*> caches_;  // by their memory
  const bool float8_;
};

}  // namespace aotc::import
