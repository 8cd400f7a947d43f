#include "import/decimal.h"

#include <algorithm>
#include <cmath>

namespace aotc::import {
namespace {

/// 1 where z >= 0, else 0.
Expr step(const Expr& z) { return min(max(z + 1, 0), 1); }

/// What float64 computes from a decimal and a size: a whole number by `by`, which it gives off / num of it too low or too high.
struct Computed {
  const Decimal& d;
  bool low;      ///< else too high
  bool divided;  ///< by the decimal: a little higher still, by the square of that
  Expr n;
  int64_t by, most;

  // A whole value k, 2^e < k <= 2^(e+1), that is too low is rounded to k unless it is farther away than 2^(e-53), the half of the space
  // that numbers have there (where it is just as far, to k as well, which is even); one that is too high, 2^e <= k < 2^(e+1), the same.
  // Values that are not whole are farther from a whole number than this.
  bool stays(int64_t k, int e) const {
    const double away = static_cast<double>(k) * std::abs(d.off), half = std::ldexp(static_cast<double>(d.num), e - 53);
    return away > half || (away == half && divided && !low);
  }
  /// 1 where the value is whole, and not what float64 gives; it may be 1 where the value is not whole.
  Expr beside() const {
    Expr all(0);
    for (int e = -1; (int64_t{1} << std::max(e, 0)) <= most; ++e) {
      const int64_t last = low ? int64_t{1} << (e + 1) : (int64_t{1} << (e + 1)) - 1;
      const double from = std::ldexp(static_cast<double>(d.num), e - 53) / std::abs(d.off);  // about where they begin
      if (from > static_cast<double>(last)) continue;
      int64_t first = std::max({e < 0 ? int64_t{1} : (int64_t{1} << e) + (low ? 1 : 0), static_cast<int64_t>(from) - 1});
      while (first <= last && !stays(first, e)) ++first;
      if (first <= last) all += step(n - first * by) - step(n - (last + 1) * by);
    }
    return all;
  }
  Rounded rounded() const {
    if (d.off == 0 || rounds_to_multiples(d)) return {floordiv(n, by), ceildiv(n, by)};
    return low ? Rounded{floordiv(n - beside(), by), ceildiv(n, by)} : Rounded{floordiv(n, by), ceildiv(n + beside(), by)};
  }
};

}  // namespace

std::optional<Decimal> decimal(double d) {
  for (int64_t den = 3; den <= 1000 && std::abs(d) < 1e6; ++den)
    if (const double num = std::round(d * static_cast<double>(den)), off = std::fma(d, static_cast<double>(den), -num);
        std::abs(off) <= std::abs(num) * 0x1p-53)
      return Decimal{static_cast<int64_t>(num), den, off};
  return std::nullopt;
}

bool rounds_to_multiples(const Decimal& d) { return std::abs(d.off) <= std::abs(static_cast<double>(d.num)) * 0x1p-54; }

Rounded product_with(const Decimal& d, const Expr& n, int64_t divisor, int64_t most) {
  return Computed{d, d.off < 0, false, n * d.num, d.den * divisor, most}.rounded();
}
Rounded quotient_by(const Decimal& d, const Expr& n, int64_t divisor, int64_t most) {
  return Computed{d, d.off > 0, true, n * d.den, d.num * divisor, most}.rounded();
}

}  // namespace aotc::import
