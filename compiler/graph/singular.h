#pragma once
// Numbers that the meaning of Op::svd and Op::cholesky depends on (graph/ops.def).
#include <cstdint>

namespace aotc {

/// The sign of a singular vector or eigenvector is free: of each the first value of at least this part of its largest size is positive. No
/// ratio that symmetric matrices have often, so that roundings do not choose.
constexpr double kSignedPart = 0.6;
/// A column of a smaller sum of squares counts as zeros, where the matrix's largest value is from 1 to 2.
constexpr double kSmallestSquare = 1e-200;

/// Of a float32 matrix of so many rows or fewer, what lies below an infinite pivot is NaN, and so the next pivot fails: as in MKL's kernel
/// for small matrices, which eager calls. Else it is 0. Kernels: kCholeskyNan.
constexpr int64_t kCholeskyNanRows = 16;

}  // namespace aotc
