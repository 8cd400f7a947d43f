#pragma once
// What writes of keys and values leave in a cache that an artifact stores in 8 bits (--kv-cache), for the oracle of verify.
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <map>
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
  void keep(const at::Tensor& cache);
  bool holds(const at::Tensor& x) const;
  /// What holds a cache's numbers, for all views of it. A reference that keeps none alive, but its place: another tensor is not there.
  std::map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> caches_;
  const bool float8_;
};

}  // namespace aotc::import
