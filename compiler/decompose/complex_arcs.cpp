// Inverse trigonometric and hyperbolic functions of complex tensors, computed in float64: arcs of Hull, Fairgrieve and Tang, "Implementing
// the complex arcsine and arccosine functions using exception handling" (ACM TOMS 23, 1997).
#include <limits>
#include <numbers>

#include "decompose/complex.h"
#include "decompose/families.h"

namespace aotc::decompose {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Of float64: squares of magnitudes between do not leave the normal numbers. Those of float32 lie between.
constexpr double kFar = 1e150, kThin = 1e-150;
constexpr double kSteep = 0.6417;  ///< sine from which the angle is found by its tangent
constexpr double kNearOne = 1.5;

T turn_of(const T& y, const T& x) { return binary(Op::atan2, y, x); }
T signed_as(const T& x, const T& sign) { return binary(Op::copysign, x, sign); }
T negative(const T& x) { return signed_as(x.like(1), x) < 0.0; }
Complex turned(const Complex& z) { return {-z.im, z.re}; }  ///< i z
Complex turned_back(const Complex& z) { return {z.im, -z.re}; }

/// Of |re| + |im| i: the real parts of arcsine and arccosine, and the imaginary part of the first.
struct Arcs {
  T sine, cosine, height;
};
Arcs arcs(const Complex& z) {
  const T x = abs(z.re), y = abs(z.im), within = x <= 1.0;
  const T r = binary(Op::hypot, x + 1.0, y), s = binary(Op::hypot, x - 1.0, y), a = (r + s) * 0.5, b = x / a, sum = a + x;
  const T left = y * y / (r + x + 1.0);
  const T inner = sqrt(sum * 0.5 * (left + (s + (1.0 - x)))), outer = y * sqrt((sum / (r + x + 1.0) + sum / (s + (x - 1.0))) * 0.5);
  const T base = where(within, inner, outer), flat = b <= kSteep;
  T sine = where(flat, unary(Op::asin, b), unary(Op::atan, x / base)), cosine = where(flat, unary(Op::acos, b), unary(Op::atan, base / x));
  const T more = (left + where(x < 1.0, y * y / (s + (1.0 - x)), s + (x - 1.0))) * 0.5;  // a - 1
  T height = where(a <= kNearOne, unary(Op::log1p, more + sqrt(more * (a + 1.0))), log(a + sqrt(a * a - 1.0)));
  height = where((y < kThin) & within, where(x == 1.0, sqrt(y), y / sqrt((1.0 - x) * (x + 1.0))), height);
  const T far = maximum(x, y) > kFar, infinite = unary(Op::isinf, x) | unary(Op::isinf, y);
  height = where(far, log(binary(Op::hypot, x * 0.25, y * 0.25)) + 3 * std::numbers::ln2, height);
  const T lost = infinite & (unary(Op::isnan, x) | unary(Op::isnan, y));
  sine = where(lost, std::nan(""), where(far, turn_of(x, y), sine)), cosine = where(lost, std::nan(""), where(far, turn_of(y, x), cosine));
  return {sine, cosine, where(infinite, kInfinity, height)};
}

Complex arcsine(const Complex& z) {
  const Arcs a = arcs(z);
  return {where(z.re == 0.0, z.re, signed_as(a.sine, z.re)), signed_as(a.height, z.im)};
}
Complex arccosine(const Complex& z) {
  const Arcs a = arcs(z);
  const T right = where(z.re == 0.0, std::numbers::pi / 2, a.cosine);
  return {where(negative(z.re), std::numbers::pi - right, right), -signed_as(a.height, z.im)};
}
Complex arc_hyperbolic_sine(const Complex& z) { return turned(arcsine(turned_back(z))); }
Complex arc_hyperbolic_cosine(const Complex& z) {
  const Complex c = arccosine(z);
  return {abs(c.im), signed_as(c.re, z.im)};
}
Complex arc_hyperbolic_tangent(const Complex& z) {
  const T x = abs(z.re), y = abs(z.im), far = maximum(x, y) > kFar, size = binary(Op::hypot, x, y);
  const T infinite = unary(Op::isinf, x) | unary(Op::isinf, y);
  T re = where(far, x / size / size, unary(Op::log1p, x * 4.0 / ((1.0 - x) * (1.0 - x) + y * y)) * 0.25);
  re = where((x == 1.0) & (y < kThin) & (y > 0.0), (std::numbers::ln2 - log(y)) * 0.5, re);
  re = where(infinite, 0.0, where(x == 0.0, x, re));
  const T im = where(far, std::numbers::pi / 2, turn_of(y * 2.0, (1.0 - x) * (x + 1.0) - y * y) * 0.5);
  const T beside = where(unary(Op::isnan, y), y, std::numbers::pi / 2);  // of infinite numbers
  return {signed_as(re, z.re), signed_as(where(infinite, beside, im), z.im)};
}
Complex arctangent(const Complex& z) { return turned_back(arc_hyperbolic_tangent(turned(z))); }

template <Complex (*f)(const Complex&)>
void function(Rule& r) {
  const DType t = part_type(r);
  const Complex y = f(complex_operand(r, "self", DType::f64));
  r.set(join({y.re.to(t), y.im.to(t)}));
}

constexpr RuleRow kRows[] = {
    {"aten.acos.default aten.arccos.default", function<arccosine>},
    {"aten.acosh.default aten.arccosh.default", function<arc_hyperbolic_cosine>},
    {"aten.asin.default aten.arcsin.default", function<arcsine>},
    {"aten.asinh.default aten.arcsinh.default", function<arc_hyperbolic_sine>},
    {"aten.atan.default aten.arctan.default", function<arctangent>},
    {"aten.atanh.default aten.arctanh.default", function<arc_hyperbolic_tangent>},
};
}  // namespace

RuleTable complex_arc_rules() { return kRows; }

}  // namespace aotc::decompose
