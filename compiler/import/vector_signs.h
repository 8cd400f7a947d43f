#pragma once
// Signs of singular vectors and eigenvectors in the oracle's results.
#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

namespace aotc::import {

/// Vectors that an operator is free to give with either sign get those of Op::svd, so that they can be compared. Vectors of equal values,
/// and those beyond the singular values, are free in more than their signs and stay as they are.
void settle_signs(std::string_view target, std::vector<c10::IValue>& results);

}  // namespace aotc::import
