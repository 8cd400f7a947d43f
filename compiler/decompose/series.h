#pragma once
// Series in which special functions are computed.
#include <span>

#include "decompose/tensor.h"

namespace aotc::decompose {

/// c[0] / 2 + c[1] T1(at) + c[2] T2(at) ..: at from -1 to 1.
T chebyshev(const T& at, std::span<const double> c);

}  // namespace aotc::decompose
