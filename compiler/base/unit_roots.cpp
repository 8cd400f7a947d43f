#include "base/unit_roots.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace aotc {

std::complex<double> unit_root(int64_t j, int64_t n) {
  // Into the first eighth of the circle in integers. 2 pi j / n in doubles alone is wrong by up to 4e-16, and so are its cosine and sine.
  const bool below = 2 * j > n;
  if (below) j = n - j;  // [0, n/2]
  const bool left = 4 * j > n;
  int64_t num = 2 * j, den = n;  // the angle is pi num / den
  if (left) num = den - num;     // [0, 1/2]
  const bool steep = 4 * num > den;
  if (steep) num = den - 2 * num, den = 2 * den;  // [0, 1/4]
  const long double a = std::numbers::pi_v<long double> * static_cast<long double>(num) / static_cast<long double>(den);
  double c = static_cast<double>(std::cos(a)), s = static_cast<double>(std::sin(a));
  if (steep) std::swap(c, s);
  return {left ? -c : c, below ? -s : s};
}

}  // namespace aotc
