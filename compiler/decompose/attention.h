#pragma once
// What attention and its gradients share.
#include "decompose/tensor.h"

namespace aotc::decompose {

/// The factor of the scores: given, or 1 / sqrt(head size).
struct AttentionScale {
  double number = 1;
  std::optional<T> computed;  ///< a factor beside `number`, of rank 0
};
AttentionScale attention_scale(Rule& r, const T& query);
T operator*(const T& scores, const AttentionScale& scale);

}  // namespace aotc::decompose
