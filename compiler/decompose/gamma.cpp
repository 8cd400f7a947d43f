// Functions of two arguments around gamma, in float64: the incomplete gamma functions, Hurwitz' zeta.
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "decompose/families.h"
#include "decompose/series.h"

namespace aotc::decompose {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

/// The operands as float64 of the result's dims; either may be a number.
std::pair<T, T> both(Rule& r) {
  const TensorType t = r.meta_result();
  const auto one = [&](std::string_view name) { return T(r.b, materialize(r.b, operand(r, name), t.dtype)).to(DType::f64).expand(t.dims); };
  return {one("self"), one("other")};
}

/// Points and weights of Gauss and Legendre on [-1, 1].
template <int n>
std::array<std::pair<double, double>, n> gauss_legendre() {
  std::array<std::pair<double, double>, n> all;
  for (int i = 0; i < n; ++i) {
    double x = std::cos(M_PI * (i + 0.75) / (n + 0.5)), slope = 1;
    for (int newton = 0; newton < 20; ++newton) {
      double before = 1, p = x;
      for (int k = 2; k <= n; ++k) before = std::exchange(p, ((2 * k - 1) * x * p - (k - 1) * before) / k);
      slope = n * (x * p - before) / (x * x - 1);
      x -= p / slope;
    }
    all[static_cast<size_t>(i)] = {x, 2 / ((1 - x * x) * slope * slope)};
  }
  return all;
}

struct Gammas {
  T lower, upper;  ///< regularised: they sum up to 1
};

/// Below kLarge the power series up to x = a + 1 and Legendre's continued fraction beyond, of as many terms as float64 sees there; above it
/// the integral from x to where nothing is left of it, on the side of x on which the maximum is not.
Gammas incomplete_gammas(const T& a, const T& x) {
  constexpr double kLarge = 100, kNothing = 40;  ///< kNothing: e^-40
  constexpr int kTerms = 100, kPoints = 32;
  T series = x.like(1.0), fraction = x.like(0.0);
  for (int n = kTerms; n > 0; --n) {
    series = x / (a + n) * series + 1.0;
    fraction = (n - a) * n / (x - a + (2.0 * n + 1) - fraction);
  }
  const T factor = exp(a * log(x) - x - unary(Op::lgamma, a + 1.0));
  const T below = factor * series, beyond = factor * a / (x - a + 1.0 - fraction);

  const T top = a - 1.0, right = x > top;
  const T slope = abs(top / x - 1.0), bend = top / (x * x);
  const T reach = 2 * kNothing / (slope + sqrt(slope * slope + bend * (2 * kNothing)));
  const T half = where(right, reach * 1.4, maximum(-reach, -x)) * 0.5;
  T sum = x.like(0.0);
  for (const auto& [at, weight] : gauss_legendre<kPoints>()) {
    const T away = (x + half * (at + 1) - top) / top;
    sum = sum + exp(top * (unary(Op::log1p, away) - away)) * weight;
  }
  const T q = 1.0 / (top * top);
  const T stirling = exp((1.0 / 12 - q * (1.0 / 360 - q * (1.0 / 1260))) / top);
  const T product = sum * half / (sqrt(top * (2 * M_PI)) * stirling), integral = where(product != product, 0.0, product);  // 0 * inf

  const T large = a >= kLarge, near = x < a + 1.0;
  return {where(large, where(right, 1.0 - integral, -integral), where(near, below, 1.0 - beyond)),
          where(large, where(right, integral, integral + 1.0), where(near, 1.0 - below, beyond))};
}

template <bool lower>
void incomplete_gamma(Rule& r) {
  const auto [a, x] = both(r);
  const Gammas g = incomplete_gammas(a, x);
  const double all = lower ? 1 : 0, none = 1 - all;  ///< of the integral
  T y = lower ? g.lower : g.upper;
  y = where(x == kInfinity, all, y);
  y = where(a == kInfinity, where(x == kInfinity, kNan, y.like(none)), y);
  y = where(x == 0.0, none, y);
  y = where(a == 0.0, where(x > 0.0, all, y.like(kNan)), y);
  r.set(where((x >= 0.0) & (a >= 0.0), y, kNan).to(r.meta_result().dtype));
}

/// Hurwitz' zeta(s, q) of q > 0: terms up to q + kTerms, and the series of Euler and Maclaurin for the others.
T zeta_of_positive(const T& s, const T& q) {
  constexpr int kTerms = 10;
  const auto power_of = [&](const T& base) { return binary(Op::pow, base, -s); };
  T power = power_of(q), sum = power;
  for (int k = 1; k <= kTerms; ++k) {
    power = power_of(q + static_cast<double>(k));
    sum = sum + power;
  }
  const T w = q + static_cast<double>(kTerms);
  sum = sum + power * w / (s - 1.0) - power * 0.5;
  // What is left has no part in sums that its first term has none in; where s is large, the factors would overflow.
  T term = power * s / w;
  for (size_t j = 0; j < std::size(kEulerMaclaurin); ++j) {
    const double k = 2.0 * static_cast<double>(j);
    sum = sum + where(power == 0.0, 0.0, term / kEulerMaclaurin[j]);
    term = term * ((s + (k + 1)) / w) * ((s + (k + 2)) / w);
  }
  return sum;
}

/// Left of 0 the terms up to there are those of two other sums, one the other's continuation: with -q = k + part, they are (-1)^s times
/// zeta(s, part) - zeta(s, 1 - q).
void zeta(Rule& r) {
  const auto [s, q] = both(r);
  const T left = q < 0.0, part = -q - floor(-q), safe = where(left, part, 0.5);
  const T start = zeta_of_positive(s, where(left, 1.0 - part, q));
  const T before = zeta_of_positive(s, safe) - zeta_of_positive(s, where(left, 1.0 - q, 0.5));
  const T half = s * 0.5, even = floor(half) == half;
  T y = where(left, start + where(even, before, -before), start);
  y = where(left & (floor(s) != s), kNan, y);
  y = where((q <= 0.0) & (floor(q) == q), kInfinity, y);
  y = where(s > 1.0, y, kNan);
  r.set(where(s == 1.0, kInfinity, y).to(r.meta_result().dtype));
}

constexpr RuleRow kRows[] = {
    {"aten.igamma.default", incomplete_gamma<true>},
    {"aten.special_gammainc.default", incomplete_gamma<true>},
    {"aten.igammac.default", incomplete_gamma<false>},
    {"aten.special_gammaincc.default", incomplete_gamma<false>},
    {"aten.special_zeta.default", zeta},
    {"aten.special_zeta.self_scalar", zeta},
    {"aten.special_zeta.other_scalar", zeta},
};
}  // namespace

RuleTable gamma_rules() { return kRows; }

}  // namespace aotc::decompose
