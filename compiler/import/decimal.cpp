#include "import/decimal.h"

#include <algorithm>
#include <cmath>

namespace aotc::import {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;

/// 1 where z >= 0, else 0.
Expr step(const Expr& z) { return min(max(z + 1, 0), 1); }

}  // namespace

std::optional<Decimal> decimal(double d) {
  for (int64_t den = 3; den <= 1000 && std::abs(d) < 1e6; ++den)
    if (const double num = std::round(d * static_cast<double>(den)), off = std::fma(d, static_cast<double>(den), -num);
        std::abs(off) <= std::abs(num) * 0x1p-53)
      return Decimal{static_cast<int64_t>(num), den, off};
  return std::nullopt;
}

bool rounds_to_multiples(const Decimal& d) { return std::abs(d.off) <= std::abs(static_cast<double>(d.num)) * 0x1p-54; }

// A product that the fraction has at k, 2^e < k <= 2^(e+1), is rounded to k unless it is farther below than 2^(e-53), the half of the space
// that numbers have there (where it is just as far, to k as well, which is even). Products that are not whole are farther from a whole
// number than all of this.
Expr floor_of_product(const Decimal& d, const Expr& n) {
  Expr less(0);
  if (d.off < 0 && !rounds_to_multiples(d)) {
    const auto stays_below = [&](int64_t j, int e) { return static_cast<double>(j) * -d.off > std::ldexp(1.0, e - 53); };
    for (int e = 0; (int64_t{1} << e) / d.num < kMost / d.den; ++e) {
      const int64_t above = (int64_t{1} << e) / d.num, last = (int64_t{2} << e) / d.num;
      int64_t first = std::max(above + 1, static_cast<int64_t>(std::ldexp(1.0, e - 53) / -d.off));
      while (first <= last && !stays_below(first, e)) ++first;
      if (first <= last) less += step(n - first * d.den) - step(n - (last + 1) * d.den);
    }
  }
  return floordiv(n * d.num - less, d.den);
}

}  // namespace aotc::import
