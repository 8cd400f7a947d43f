#include "base/unit_roots.h"

#include <catch2/catch.hpp>
#include <cmath>

using aotc::unit_root;

TEST_CASE("roots of unity are rounded once") {
  constexpr long double kPi = 3.141592653589793238462643383279502884L;
  double worst = 0;
  for (const int64_t n : {1, 2, 3, 5, 6, 7, 8, 12, 13, 17, 24, 48, 100, 127, 1000, 4095, 65536})
    for (int64_t j = 0; j < n; ++j) {
      const long double a = 2 * kPi * static_cast<long double>(j) / static_cast<long double>(n);  // to 2^-61 of a turn
      const std::complex<double> w = unit_root(j, n);
      worst =
          std::max({worst, static_cast<double>(std::abs(std::cos(a) - w.real())), static_cast<double>(std::abs(std::sin(a) - w.imag()))});
    }
  CHECK(worst * 0x1p54 < 1.05);  // half of what lies between doubles below 1
}

TEST_CASE("roots of unity are exact where they can be, and mirror each other") {
  for (const int64_t n : {4, 8, 12, 1000, 4096}) {
    CHECK(unit_root(0, n) == std::complex<double>(1, 0));
    CHECK(unit_root(n / 4, n) == std::complex<double>(0, 1));
    CHECK(unit_root(n / 2, n) == std::complex<double>(-1, 0));
    CHECK(unit_root(3 * n / 4, n) == std::complex<double>(0, -1));
  }
  for (const int64_t n : {3, 7, 8, 10, 48, 1001})
    for (int64_t j = 1; j < n; ++j) CHECK(unit_root(n - j, n) == std::conj(unit_root(j, n)));
  CHECK(unit_root(1, 8).real() == unit_root(1, 8).imag());
  CHECK(unit_root(1, 6).real() == 0.5);
  CHECK(unit_root(2, 6).real() == -0.5);
}
