#pragma once
// Sizes that are a decimal number times a size, as float64 computes them.
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

/// The floor of what float64 gives for n times it, for 0 <= n < 2^31: the fraction's own, but one less at those whole multiples that stay
/// below (0.7 * 170 is 118.99999999999999).
Expr floor_of_product(const Decimal& d, const Expr& n);

}  // namespace aotc::import
