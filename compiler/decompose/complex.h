#pragma once
// Complex tensors in rules: real ones with a last dim of 2.
#include "decompose/rule.h"
#include "decompose/tensor.h"

namespace aotc::decompose {

struct Complex {
  T re, im;
};

Complex times(const Complex& a, const Complex& b);
Complex apart(const T& pair);
T join(const Complex& c);
bool complex_arg(const Rule& r, std::string_view name);
/// The real type of the result's parts.
DType part_type(const Rule& r);
/// An operand that is complex, real, or a number.
Complex complex_operand(Rule& r, std::string_view name, DType t);

/// A sum of waves along the last dim: of the first `in` numbers x[j] of n, the others being zero, the first `out` of
/// sum_j x[j] e^(sign 2 pi i j k / n).
struct Waves {
  int64_t n, in, out;
  int sign;               ///< -1: forward
  bool real_out = false;  ///< only the real part of the sums is wanted: the other is not valid
};
/// As products with matrices of waves: one with all of them, or where that is less work for factors of n one after another.
Complex sum_of_waves(const T& re, const std::optional<T>& im, const Waves& w);
/// The longest length that sum_of_waves takes in one product; longer ones must have factors of at most this.
constexpr int64_t kLongestWaves = 4096;
/// Whether sum_of_waves takes n numbers.
bool has_waves(int64_t n);

RuleTable fourier_rules();
RuleTable complex_math_rules();
void complex_einsum(Rule& r);
/// The rule for real tensors on both parts in turn, where that serves this operator (decompose/complex_parts.cpp).
RuleFn find_rule_by_parts(std::string_view overload);
/// Whether the rule for real tensors serves tensors whose last dim is the pair.
bool pair_rides_along(std::string_view overload);

}  // namespace aotc::decompose
