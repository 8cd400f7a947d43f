#pragma once
// Pieces that reductions and normalisations share. All compute in x's dtype.
#include "decompose/tensor.h"

namespace aotc::decompose {

/// The argument `dim`: absent or None means all.
Ints reduced_dims(Rule& r, int rank, bool empty_means_all);
/// Number of reduced elements, less `minus`, not below 0: a rank-0 value.
T reduced_count(const T& x, const Ints& dims, DType dtype, double minus = 0);
T mean_of(const T& x, const Ints& dims, bool keep);

struct Moments {
  T mean, centered, var;  ///< reduced dims kept as 1
};
/// In x's type, of elements that had the type `of`. However large their mean is, the variance of equal elements is 0, and they are at it.
Moments moments_of(const T& x, DType of, const Ints& dims);
/// The p-norm over dims, kept as 1.
T vector_norm(const T& x, double ord, const Ints& dims);

}  // namespace aotc::decompose
