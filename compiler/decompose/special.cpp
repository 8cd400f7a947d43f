// Special functions that are computed by series: Bessel functions, derivatives of log gamma, the scaled complement of erf.
#include <cmath>
#include <limits>

#include "decompose/families.h"
#include "decompose/series.h"

namespace aotc::decompose {
namespace {

/// Modified Bessel functions of the first kind, in float64.
template <int order, bool scaled>
void bessel_i(Rule& r) {
  const T x0 = tensor(r, "self");
  const DType out = float_type(x0.dtype());
  const T x = x0.to(out).to(DType::f64), a = abs(x);
  // The power series converges for every x; 60 terms are exact to float64 up to |x| = 30, beyond which the asymptotic one is.
  const T q = a * a * 0.25;
  T term = order == 0 ? a.like(1.0) : a * 0.5, sum = term;
  for (int k = 1; k <= 60; ++k) {
    term = term * q / static_cast<double>(k * (k + order));
    sum = sum + term;
  }
  const double mu = 4.0 * order * order;
  T tail = a.like(1.0), part = tail;
  for (int k = 1; k <= 12; ++k) {
    part = part * ((2.0 * k - 1) * (2.0 * k - 1) - mu) / (a * (8.0 * k));
    tail = tail + part;
  }
  const T far = tail * rsqrt(a) * (1 / std::sqrt(2 * M_PI));
  T y = where(a <= 30.0, scaled ? sum * exp(-a) : sum, scaled ? far : far * exp(a));
  if (order == 1) y = where(x < 0.0, -y, y);
  r.set(y.to(out));
}

/// exp(x*x) * erfc(x), without overflow where x is large: by reflection below 0.
void erfcx(Rule& r) {
  const T x0 = tensor(r, "self");
  const DType out = float_type(x0.dtype());
  const T x = x0.to(out).to(DType::f64), right = scaled_erfc(abs(x));
  r.set(where(x < 0.0, exp(x * x) * 2.0 - right, right).to(out));
}

/// The derivative of digamma, with its recurrence and asymptotic series; by reflection below 1/2. In the tensor's own precision, which
/// decides what comes of the poles.
T trigamma(const T& x) {
  const T left = x < 0.5, sine = unary(Op::sin, x * M_PI);
  T at = where(left, 1.0 - x, x), sum = where(left, (M_PI * M_PI) / (sine * sine) * -1.0, 0.0);
  for (int k = 0; k < 6; ++k) {
    sum = sum + 1.0 / (at * at);
    at = at + 1.0;
  }
  const T q = 1.0 / (at * at);
  sum = sum + (1.0 + 1.0 / (at * 2.0) + q * (1.0 / 6 - q * (1.0 / 30 - q * (1.0 / 42)))) / at;
  return where(left, -sum, sum);
}

/// Hurwitz' zeta(s, q) of float64 q > 0 for a whole s > 1: terms up to q + kTerms, and the series of Euler and Maclaurin for the others.
T zeta(int64_t s, const T& q) {
  constexpr int kTerms = 10;
  const double exponent = static_cast<double>(s);
  T sum = binary(Op::pow, q, -exponent), power = sum;
  for (int k = 1; k <= kTerms; ++k) {
    power = binary(Op::pow, q + static_cast<double>(k), -exponent);
    sum = sum + power;
  }
  const T w = q + static_cast<double>(kTerms);
  sum = sum + power * w / (exponent - 1.0) - power * 0.5;
  double rising = 1;
  for (int j = 0; j < 12; ++j) {
    rising *= exponent + 2 * j;
    power = power / w;
    sum = sum + power * (rising / kEulerMaclaurin[j]);
    rising *= exponent + 2 * j + 1;
    power = power / w;
  }
  return sum;
}

/// The coefficients of the polynomial in cot(pi x) that is the n-th derivative of cot(pi x) by pi x, over n!.
std::vector<double> cotangent_derivative(int64_t n) {
  std::vector<double> p = {0, 1};
  for (int64_t k = 1; k <= n; ++k) {
    std::vector<double> next(p.size() + 1, 0.0);  // -(1 + c*c) p'
    for (size_t i = 1; i < p.size(); ++i) {
      const double d = static_cast<double>(i) * p[i] / static_cast<double>(k);
      next[i - 1] -= d;
      next[i + 1] -= d;
    }
    p = std::move(next);
  }
  return p;
}

/// The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x). Left of 0 by reflection.
void polygamma(Rule& r) {
  const int64_t n = r.integer("n");
  if (n < 0) r.refuse("polygamma of a negative order");
  const T x0 = tensor(r, "self");
  const DType out = float_type(x0.dtype());
  if (n == 0) return r.set(unary(Op::digamma, x0.to(out).up()).to(out));
  if (n == 1) return r.set(trigamma(x0.to(out).up()).to(out));
  const T x = x0.to(out).to(DType::f64);
  const T left = x <= 0.0, right = zeta(n + 1, where(left, 1.0 - x, x));
  // The sum of 1 / (x + k)^(n+1) over all whole k is (-1)^n pi^(n+1) / n! times cot's n-th derivative. The place within the period is
  // exact, and so is the tangent's argument near the poles and in the middle between them.
  const T whole = unary(Op::round, x), part = x - whole;
  const T away = abs(part), past = away > 0.25, tangent = unary(Op::tan, where(past, 0.5 - away, away) * M_PI);
  const T size = where(past, tangent, 1.0 / tangent), cot = where(part < 0.0, -size, size);
  const std::vector<double> p = cotangent_derivative(n);
  T all = x.like(p.back());
  for (size_t i = p.size() - 1; i-- > 0;) all = all * cot + p[i];
  all = all * ((n % 2 == 0 ? 1.0 : -1.0) * std::pow(M_PI, static_cast<double>(n + 1)));
  const T pole = (part == 0.0) | (x == -std::numeric_limits<double>::infinity());
  const T reflected = where(pole, std::numeric_limits<double>::infinity(), n % 2 == 0 ? all + right : all - right);
  const double factor = (n % 2 == 0 ? -1.0 : 1.0) * std::exp(std::lgamma(static_cast<double>(n) + 1.0));
  r.set((where(left, reflected, right) * factor).to(out));
}

/// log|gamma| summed over p shifted arguments.
void mvlgamma(Rule& r) {
  const T x = tensor(r, "self");
  const DType out = float_type(x.dtype());
  const int64_t p = r.integer("p");
  const T y = x.to(out).up();
  T sum = y.like(static_cast<double>(p * (p - 1)) / 4.0 * std::log(M_PI));
  for (int64_t i = 0; i < p; ++i) sum = sum + unary(Op::lgamma, y - static_cast<double>(i) / 2.0);
  r.set(sum.to(out));
}

constexpr RuleRow kRows[] = {
    {"aten.i0.default aten.special_i0.default aten.special_modified_bessel_i0.default", bessel_i<0, false>},
    {"aten.special_i0e.default", bessel_i<0, true>},
    {"aten.special_i1.default aten.special_modified_bessel_i1.default", bessel_i<1, false>},
    {"aten.special_i1e.default", bessel_i<1, true>},
    {"aten.polygamma.default aten.special_polygamma.default", polygamma},
    {"aten.mvlgamma.default aten.special_multigammaln.default", mvlgamma},
    {"aten.special_erfcx.default", erfcx},
};
}  // namespace

T chebyshev(const T& at, std::span<const double> c) {
  // Clenshaw's recurrence.
  const T twice = at * 2.0;
  T above = at.like(0), sum = above;
  for (size_t k = c.size() - 1; k > 0; --k) above = std::exchange(sum, twice * sum - above + c[k]);
  return at * sum - above + c[0] * 0.5;
}

T scaled_erfc(const T& x) {
  // A Chebyshev series of (1 + 2x) times it.
  static constexpr double kSeries[] = {
      2.3551578691348035,      -0.0045900545806464771,  -0.084249133366517918,   0.059209939998191888,    -0.026658668435305752,
      0.0090749976707052651,   -0.0024131635404176082,  0.00049077583652580858,  -6.9169733025012068e-5,  4.1390279860730053e-6,
      7.7403830661984471e-7,   -2.1886401049234714e-7,  1.0764999465669320e-8,   4.5219598112184917e-9,   -7.7544002088116771e-10,
      -6.3180883405402995e-11, 2.8687950113803078e-11,  1.9455869038713771e-13,  -9.6546967013612500e-13, 3.2525485343083932e-14,
      3.3478121989833329e-14,  -1.8645620552638158e-15, -1.2507960121026116e-15, 7.4179744667452197e-17,  5.0677586504599325e-17};
  const T near = chebyshev((x - 3.75) / (x + 3.75), kSeries) / (x * 2.0 + 1.0);
  return where(x > 1e10, 1.0 / std::sqrt(M_PI) / x, near);
}

RuleTable special_rules() { return kRows; }

}  // namespace aotc::decompose
