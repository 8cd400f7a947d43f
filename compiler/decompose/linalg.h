#pragma once
// Products of tensors.
#include "decompose/tensor.h"

namespace aotc::decompose {

/// torch.matmul with its broadcasting; result in `result` (sums are at least in float32).
T matmul(const T& a, const T& b, DType result);
/// The type in which a product is handed on to something that is added to it: float32 for 16-bit floats, so that it rounds once.
DType product_type(DType t);

// Products that PyTorch leaves to BLAS are not looked at, NaN or not, where their factor is 0.
constexpr int64_t kAlwaysBlas = 400;  ///< multiplications of one product from which on batched products go by BLAS
Expr batch_work(const T& a, const T& b);
/// A sum with a product times 0, where BLAS does not make the product, else the sum without it.
T of_blas(const T& with, const T& without, const Expr& work);

/// A tensor whose dims have labels. A label that two operands share and that is not kept is summed over.
struct Labeled {
  T t;
  std::vector<int> labels;
};
/// Product of two, summed over what `keep` lacks. Dims of size 1 broadcast.
Labeled contract(const Labeled& a, const Labeled& b, const std::vector<int>& keep);
/// Sums what `keep` lacks and permutes to the order of `keep`.
T finish_contraction(const Labeled& a, const std::vector<int>& keep);

constexpr int64_t kMaxPairedRows = 1024;  ///< of distances between all pairs of rows

/// The inverse of a matrix, in float64; the run fails where it is singular (decompose/solve.cpp).
T inverse(Rule& r, const T& matrix);
/// [..., min(m, n)] of a matrix in float64, falling (decompose/spectral.cpp).
T singular_values(Rule& r, const T& matrix);

}  // namespace aotc::decompose
