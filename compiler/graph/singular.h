#pragma once
// Numbers that Op::svd's meaning depends on (graph/ops.def).

namespace aotc {

/// The sign of a singular vector or eigenvector is free: of each the first value of at least this part of its largest size is positive. No
/// ratio that symmetric matrices have often, so that roundings do not choose.
constexpr double kSignedPart = 0.6;
/// A column of a smaller sum of squares counts as zeros, where the matrix's largest value is from 1 to 2.
constexpr double kSmallestSquare = 1e-200;

}  // namespace aotc
