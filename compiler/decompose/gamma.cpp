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

/// log(1 + u) - u, as exact as u where that is small: log(1 + u) is twice the inverse hyperbolic tangent of u / (2 + u).
T log1p_less_itself(const T& u) {
  const T r = u / (u + 2.0), q = r * r;
  T series = q.like(1.0 / 15);
  for (int k = 13; k > 1; k -= 2) series = series * q + 1.0 / k;
  return where(abs(u) < 0.125, r * q * series * 2.0 - u * r, unary(Op::log1p, u) - u);
}

/// log gamma(1 + a) of a >= 0, as exact as a where that is small.
T lgamma_beside_one(const T& a) {
  constexpr double kZeta[] = {1.6449340668482264, 1.2020569031595943, 1.0823232337111382, 1.0369277551433699, 1.0173430619844491,
                              1.0083492773819228, 1.0040773561979443, 1.0020083928260822, 1.0009945751278181};  ///< zeta(2), zeta(3) ..
  constexpr double kEuler = 0.57721566490153286;
  T series = a.like(0.0);
  for (size_t k = std::size(kZeta); k-- > 0;) series = series * -a + kZeta[k] / static_cast<double>(k + 2);
  return where(a < 1.0 / 32, a * (a * series - kEuler), unary(Op::lgamma, a + 1.0));
}

/// What the lower function of small a lacks of 1, for x up to 1.1: a power series, too.
T small_upper(const T& a, const T& x) {
  constexpr int kTerms = 18;
  T power = x.like(1.0), sum = x.like(0.0);
  for (int n = 1; n <= kTerms; ++n) {
    power = power * x * (-1.0 / n);
    sum = sum + power / (a + static_cast<double>(n));
  }
  const T lacks = unary(Op::expm1, a * log(x) - lgamma_beside_one(a));
  return -lacks - a * (lacks + 1.0) * sum;
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

  const T top = a - 1.0, from = x - top, right = x > top;
  const T slope = abs(top / x - 1.0), bend = top / x / x;
  const T reach = 2 * kNothing / (slope + sqrt(slope * slope + bend * (2 * kNothing)));
  const T half = where(right, reach * 1.4, maximum(-reach, -x)) * 0.5;
  T sum = x.like(0.0);
  for (const auto& [at, weight] : gauss_legendre<kPoints>())
    sum = sum + exp(top * log1p_less_itself((from + half * (at + 1)) / top)) * weight;
  const T q = 1.0 / (top * top);
  const T stirling = exp((1.0 / 12 - q * (1.0 / 360 - q * (1.0 / 1260))) / top);
  const T product = sum * half / (sqrt(top) * stirling) * (1 / std::sqrt(2 * M_PI)),
          integral = where(product != product, 0.0, product);  // 0 * inf

  const T large = a >= kLarge, near = x < a + 1.0;
  const T small = (x <= 1.1) & (a <= where(x <= 0.5, -0.4 / log(x), x * 1.1));
  return {where(large, where(right, 1.0 - integral, -integral), where(near, below, 1.0 - beyond)),
          where(large, where(right, integral, integral + 1.0), where(small, small_upper(a, x), where(near, 1.0 - below, beyond)))};
}

/// What is asked first where several hold is LibTorch's order: a function of 0 or of infinity is known whatever the other number is.
template <bool lower>
void incomplete_gamma(Rule& r) {
  const auto [a, x] = both(r);
  const Gammas g = incomplete_gammas(a, x);
  const double all = lower ? 1 : 0, none = 1 - all;  ///< of the integral
  T y = where((a != a) | (x != x), kNan, lower ? g.lower : g.upper);
  y = where(x == kInfinity, all, y);
  y = where(a == kInfinity, where(x == kInfinity, kNan, y.like(none)), y);
  y = where(x == 0.0, none, y);
  y = where(a == 0.0, where(x > 0.0, all, y.like(kNan)), y);
  r.set(where((x < 0.0) | (a < 0.0), kNan, y).to(r.meta_result().dtype));
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
  const T mirrored = zeta_of_positive(s, safe), rest = zeta_of_positive(s, where(left, 1.0 - q, 0.5));
  const T half = s * 0.5, even = floor(half) == half;
  T y = where(left, where(even, start + mirrored - rest, start - mirrored + rest), start);
  // LibTorch's product of s to s + 22 is infinite there, and times sums of 0 a NaN.
  y = where((y == 0.0) & (s > std::pow(std::numeric_limits<double>::max(), 1.0 / 23)), kNan, y);
  y = where(left & (floor(s) != s), kNan, y);
  y = where((q <= 0.0) & (floor(q) == q), kInfinity, y);
  y = where(s < 1.0, kNan, y);
  r.set(where(s == 1.0, kInfinity, y).to(r.meta_result().dtype));
}

constexpr RuleRow kRows[] = {
    {"aten.igamma.default aten.special_gammainc.default", incomplete_gamma<true>},
    {"aten.igammac.default aten.special_gammaincc.default", incomplete_gamma<false>},
    {"aten.special_zeta.default aten.special_zeta.self_scalar aten.special_zeta.other_scalar", zeta},
};
}  // namespace

RuleTable gamma_rules() { return kRows; }

}  // namespace aotc::decompose
