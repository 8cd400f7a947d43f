#pragma once
// What poolings and their gradients share.
#include "decompose/tensor.h"

namespace aotc::decompose {

/// The last k dims, or their numbers.
std::vector<Expr> last(const std::vector<Expr>& dims, int k);
Ints trailing(const T& x, int k);
/// A vector along dim i of k, broadcastable to them.
T along(const T& v, int i, int k);

/// The windows of a pooling, per spatial dim.
struct PoolWindows {
  Ints kernel, stride, padding, dilation;
};
PoolWindows pool_windows(Rule& r, int k);
/// The spatial sizes of a pool's result, those of its input given. In ceil mode a window may end past the padded input, but begins within
/// its front part.
std::vector<Expr> pool_sizes(Rule& r, const std::vector<Expr>& in, const PoolWindows& w);
/// How many elements average pooling divides by, per place of the result, in dtype t: a rank-0 value where it is one number.
T pool_divisor(Rule& r, const PoolWindows& w, const std::vector<Expr>& in, const std::vector<Expr>& out, DType t);

/// The windows of adaptive pooling along one dim: first element and length, int64 vectors of the result's size.
struct AdaptiveRange {
  T first, length;
};
AdaptiveRange adaptive_range(Builder& b, const Expr& in, const Expr& out);

/// [.., S1..Sk] → [.., O1..Ok, K1..Kk]: adaptive windows; what a window shorter than the longest does not cover holds `fill`.
struct Adaptive {
  T windows;
  std::vector<T> first;   ///< a dim: the first index of each window, [Oi]
  std::vector<T> length;  ///< [Oi]
  Ints uniform;           ///< > 0: every window has this dim's size of `windows`
};
Adaptive adaptive_windows(Rule& r, const T& x, const std::vector<Expr>& out, double fill);

}  // namespace aotc::decompose
