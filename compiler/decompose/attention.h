#pragma once
// What attention and its gradients share.
#include "decompose/tensor.h"

namespace aotc::decompose {

/// The factor of the scores: given, or 1 / sqrt(head size).
double attention_scale(Rule& r, const T& query);

}  // namespace aotc::decompose
