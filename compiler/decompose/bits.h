#pragma once
// Memory as another type: the bits of elements, taken apart or put together along the last dim.
#include "decompose/tensor.h"

namespace aotc::decompose {

/// What dense memory that holds x holds as `to`: as many elements where both are as wide, else more or fewer along the last dim, the lowest
/// bits first. What is left of x's last dim where it is not a multiple of what makes an element is not read.
T retyped(const T& x, DType to);

/// The integers as wide as the type, signed ones except bool's.
DType bits_type(DType t);

}  // namespace aotc::decompose
