#pragma once
// Weights of products as numbers of few bits with scales: values * scales + offsets.
#include <memory>

#include "graph/big_array.h"
#include "graph/builder.h"

namespace aotc::passes {

template <class T>
ConstData constant_of(std::string name, DType t, Exprs dims, std::vector<T> values) {
  auto data = std::make_shared<std::vector<T>>(std::move(values));
  const auto* bytes = reinterpret_cast<const std::byte*>(data->data());
  return {std::move(name), {t, std::move(dims)}, data, bytes, data->size() * sizeof(T)};
}

template <class T>
ConstData constant_of(std::string name, DType t, Exprs dims, const BigArray<T>& values) {
  return {
      std::move(name), {t, std::move(dims)}, values.memory(), reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}

/// Constants of a weight [n, k]: values of signed bytes or of float8_e4m3fn [n, k]; scales and offsets (floats of 16 or 32 bits) [groups,
/// n], by_column [n, groups], of which one serves `group` values of k. Without scales the values are the weight; without offsets all of
/// these are zero.
struct ByteWeight {
  int64_t n = 0, k = 0, group = 0, groups = 0;
  ValueId values = kNone<ValueId>, scales = kNone<ValueId>, offsets = kNone<ValueId>;
  bool by_column = false;
};

/// The weight [n, k] as float32, as forms recognise it (loop/quantised.h).
ValueId floats_of(Builder& b, const ByteWeight& w);
/// The rows of it that `at` picks: [.., k].
ValueId picked_floats_of(Builder& b, const ByteWeight& w, ValueId at);

}  // namespace aotc::passes
