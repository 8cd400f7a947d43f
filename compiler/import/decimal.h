#pragma once
// Sizes that are a decimal number times a size, or a size by one, as float64 computes them.
#include <optional>

#include "sym/expr.h"

namespace aotc::import {

/// A float64 as the fraction of small numbers that it is the nearest number to (0.7, 1.37).
struct Decimal {
  int64_t num, den;
  double off;  ///< float * den - num, exactly
};

/// None where no fraction with a divisor of at most 1000 is that near.
std::optional<Decimal> decimal(double d);

/// Does float64 round every multiple of it that the fraction has whole to that whole number?
bool rounds_to_multiples(const Decimal& d);

/// The floor and the ceiling of what float64 gives for a product of it or a quotient by it.
struct Rounded {
  Expr floor, ceil;
};
/// Of n / divisor times it, for 0 <= n and a product of at most `most`; divisor: a power of two. den * divisor * most (of a quotient num *
/// divisor * most) is at most 2^50. They are the fraction's own, but one less at those whole multiples that stay below (0.7 * 170 is
/// 118.99999999999999), or more at those above.
Rounded product_with(const Decimal& d, const Expr& n, int64_t divisor, int64_t most);
/// The same of n / divisor by it, num > 0 (10.5 / 0.7 is 15.000000000000002).
Rounded quotient_by(const Decimal& d, const Expr& n, int64_t divisor, int64_t most);

}  // namespace aotc::import
