// Functions of complex tensors that are not linear.
#include <cmath>
#include <limits>

#include "decompose/complex.h"
#include "decompose/families.h"

namespace aotc::decompose {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Complex of(Rule& r, std::string_view name = "self") { return complex_operand(r, name, part_type(r)); }
T magnitude(const Complex& z) { return binary(Op::hypot, z.re, z.im); }
T angle(const Complex& z) { return binary(Op::atan2, z.im, z.re); }
T is_nan(const T& x) { return unary(Op::isnan, x); }
T infinite(const T& x) { return unary(Op::isinf, x); }
T zero_like(const T& x) { return binary(Op::copysign, x.like(0), x); }
Complex scaled(const Complex& z, double by) { return {z.re * by, z.im * by}; }
Complex turned(const Complex& z) { return {-z.im, z.re}; }  ///< i z
Complex turned_back(const Complex& z) { return {z.im, -z.re}; }
Complex chosen(const T& c, const Complex& a, const Complex& b) { return {where(c, a.re, b.re), where(c, a.im, b.im)}; }

// Functions of zeros, infinities and NaN give what C's (C11, Annex G) do, with which PyTorch computes them: a part that is 0 stays 0 beside
// one that runs over.

/// e^x, which times any sine or cosine runs over only where the product does: first times rest, then times power.
struct Growth {
  T power, rest;
};
double largest_exponent(const T& x) { return x.dtype() == DType::f64 ? 709 : 88; }
Growth growth(const T& x) {
  const double most = largest_exponent(x);
  const T over = x > most;
  return {exp(where(over, x - most, x)), where(over, x.like(std::exp(most)), 1.0)};
}
T grown(const T& wave, const Growth& g) { return wave * g.rest * g.power; }

Complex power_of_e(const Complex& z) {
  const Growth g = growth(z.re);
  const T cosine = unary(Op::cos, z.im), wild = is_nan(cosine), none = wild & (z.re == -kInfinity);
  const T re = where(wild & (z.re == kInfinity), z.re, grown(cosine, g));
  const T im = where(z.im == 0.0, z.im, grown(unary(Op::sin, z.im), g));
  return chosen(none, {z.re.like(0), zero_like(z.im)}, {re, im});
}

/// A number times a power of four whose magnitude neither runs over nor loses digits.
struct Scaled {
  Complex z;
  T large, tiny;  ///< where it was divided by 4, where multiplied by 2^kUp
};
constexpr double kUp = 120;
Scaled scaled_within(const Complex& z) {
  const bool wide = z.re.dtype() == DType::f64;
  const T most = maximum(abs(z.re), abs(z.im));
  const T large = most > (wide ? 0x1p1020 : 0x1p124), tiny = most < (wide ? 0x1p-900 : 0x1p-100);
  const T by = where(large, most.like(0.25), where(tiny, most.like(std::exp2(kUp)), 1.0));
  return {{z.re * by, z.im * by}, large, tiny};
}

Complex logarithm(const Complex& z) {
  const Scaled s = scaled_within(z);
  const T lost = where(s.large, z.re.like(2 * std::log(2.0)), where(s.tiny, z.re.like(-kUp * std::log(2.0)), 0.0));
  return {log(magnitude(s.z)) + lost, angle(z)};
}

/// The larger of the two parts has no cancellation; the other one follows from it.
Complex root(const Complex& z) {
  const Scaled s = scaled_within(z);
  const T back = where(s.large, z.re.like(2), where(s.tiny, z.re.like(std::exp2(-kUp / 2)), 1.0));
  const T part = sqrt((magnitude(s.z) + abs(s.z.re)) * 0.5), other = abs(s.z.im) / (part * 2.0);
  const T none = (z.re == 0.0) & (z.im == 0.0), far = infinite(z.re);
  const T large = part * back, small = where(none | (far & !is_nan(z.im)), 0.0, where(far, z.im, other * back));
  const T right = z.re >= 0.0;
  const Complex y = {where(right, large, small), binary(Op::copysign, where(right, small, large), z.im)};
  return chosen(infinite(z.im), {abs(z.im), z.im}, y);
}

/// a b where products of infinities count more than NaN (C11, G.5.1).
Complex product_of_any(const Complex& a, const Complex& b) {
  const Complex plain = times(a, b);
  const auto whole = [](const T& x) { return where(is_nan(x), zero_like(x), x); };
  const auto side = [](const T& x) { return binary(Op::copysign, infinite(x).to(x.dtype()), x); };
  const T first = infinite(a.re) | infinite(a.im), second = infinite(b.re) | infinite(b.im);
  const T third = (infinite(a.re * b.re) | infinite(a.im * b.im) | infinite(a.re * b.im) | infinite(a.im * b.re)) & !(first | second);
  Complex x = chosen(first, {side(a.re), side(a.im)}, a), y = chosen(first, {whole(b.re), whole(b.im)}, b);
  y = chosen(second, {side(y.re), side(y.im)}, y), x = chosen(second | third, {whole(x.re), whole(x.im)}, x);
  y = chosen(third, {whole(y.re), whole(y.im)}, y);
  const Complex wild = times(x, y);
  const T again = is_nan(plain.re) & is_nan(plain.im) & (first | second | third);
  return chosen(again, {wild.re * kInfinity, wild.im * kInfinity}, plain);
}
Complex power(const Complex& a, const Complex& b) { return power_of_e(product_of_any(b, logarithm(a))); }

/// cosh(x) and sinh(x), divided by rest.
struct Hyperbolic {
  T cosine, sine, rest;
};
Hyperbolic hyperbolic(const T& x) {
  const T a = abs(x), over = a > largest_exponent(x);
  const Growth g = growth(a);
  const T half = g.power * 0.5;
  return {where(over, half, unary(Op::cosh, x)), where(over, binary(Op::copysign, half, x), unary(Op::sinh, x)), g.rest};
}

Complex hyperbolic_sine(const Complex& z) {
  const Hyperbolic h = hyperbolic(z.re);
  const T cosine = unary(Op::cos, z.im), wild = is_nan(cosine);
  const T re = where(wild & infinite(z.re), abs(z.re), cosine * h.rest * h.sine);
  return {where(wild & (z.re == 0.0), z.re, re), where(z.im == 0.0, z.im, unary(Op::sin, z.im) * h.rest * h.cosine)};
}
Complex hyperbolic_cosine(const Complex& z) {
  const Hyperbolic h = hyperbolic(z.re);
  const T cosine = unary(Op::cos, z.im), wild = is_nan(cosine);
  const T im = where(wild & (z.re == 0.0), 0.0, unary(Op::sin, z.im) * h.rest * h.sine);
  const T level = where(is_nan(z.re), z.im, z.im * binary(Op::copysign, z.re.like(1), z.re));
  return {where(wild & infinite(z.re), abs(z.re), cosine * h.rest * h.cosine), where(z.im == 0.0, level, im)};
}
Complex sine(const Complex& z) {
  const Hyperbolic h = hyperbolic(z.im);
  const T cosine = unary(Op::cos, z.re), wild = is_nan(cosine);
  const T im = where(wild & infinite(z.im), abs(z.im), cosine * h.rest * h.sine);
  return {where(z.re == 0.0, z.re, unary(Op::sin, z.re) * h.rest * h.cosine), where(wild & (z.im == 0.0), z.im, im)};
}
Complex cosine(const Complex& z) { return hyperbolic_cosine(turned(z)); }

/// Beyond this, tanh of a real part is one to the last bit of a float64.
constexpr double kFlat = 22;
Complex hyperbolic_tangent(const Complex& z) {
  const T a = abs(z.re), far = a > kFlat, c = unary(Op::cos, z.im), s = unary(Op::sin, z.im), wild = is_nan(c), infinitely = infinite(z.re);
  const T sh = unary(Op::sinh, where(far, 0.0, z.re)), n = sh * sh + c * c;
  const T ch = sqrt(sh * sh + 1.0);
  const T re = where(far & (infinitely | !wild), tanh(z.re), where(z.re == 0.0, z.re, sh * ch / n));
  const T im = where(far, s * c * 4.0 * exp(a * -2.0), where(z.im == 0.0, z.im, s * c / n));
  return {re, where(infinitely & wild, zero_like(z.im), im)};
}

template <Complex (*f)(const Complex&)>
void function(Rule& r) {
  r.set(join(f(of(r))));
}
Complex square(const Complex& z) { return times(z, z); }
Complex inverse_root(const Complex& z) { return inverse(root(z)); }
Complex tangent(const Complex& z) { return turned_back(hyperbolic_tangent(turned(z))); }
Complex logistic(const Complex& z) {
  const Complex e = power_of_e({-z.re, -z.im});
  return inverse({e.re + 1.0, e.im + 0.0});
}
/// exp(z) - 1 without the difference of numbers near 1.
Complex less_one(const Complex& z) {
  const T half = unary(Op::sin, z.im * 0.5);
  return {unary(Op::expm1, z.re) * unary(Op::cos, z.im) - half * half * 2.0, exp(z.re) * unary(Op::sin, z.im)};
}
Complex power_of_two(const Complex& z) { return power_of_e(scaled(z, std::log(2.0))); }
Complex logarithm_2(const Complex& z) { return scaled(logarithm(z), 1 / std::log(2.0)); }
Complex logarithm_10(const Complex& z) { return scaled(logarithm(z), 1 / std::log(10.0)); }
/// log(1 + z); near 0 by |1 + z|^2 - 1, which keeps the digits that 1 + z loses.
Complex logarithm_1p(const Complex& z) {
  const Complex whole = logarithm({z.re + 1.0, z.im});
  const T near = unary(Op::log1p, z.re * (z.re + 2.0) + z.im * z.im) * 0.5;
  return {where(magnitude(z) < 0.5, near, whole.re), whole.im};
}
Complex direction(const Complex& z) {
  const T m = magnitude(z), none = m == 0.0;
  return {where(none, 0.0, z.re / m), where(none, 0.0, z.im / m)};
}

void pow_rule(Rule& r) {
  const Complex a = of(r);
  const std::string_view name = "exponent";
  std::optional<double> e;
  if (!r.is_tensor(name) && !std::holds_alternative<std::complex<double>>(r.arg(name))) e = r.number(name);
  if (e == 0.0) return r.set(join({a.re.like(1), a.im.like(0)}));
  if (e == 1.0) return r.set(join(a));
  if (e == 2.0) return r.set(join(square(a)));
  if (e == 3.0) return r.set(join(times(square(a), a)));
  if (e == -1.0) return r.set(join(inverse(a)));
  if (e == -2.0) return r.set(join(inverse(square(a))));
  if (e == 0.5) return r.set(join(root(a)));
  if (e == -0.5) return r.set(join(inverse_root(a)));
  r.set(join(power(a, of(r, name))));
}

/// The type in which two operands are compared: results are bool.
DType compared_type(Rule& r) {
  const import::TensorMeta *a = r.meta_arg("self"), *b = r.meta_arg("other");
  const auto wide = [](const import::TensorMeta* m) { return m && (m->dtype == DType::c128 || m->dtype == DType::f64); };
  return wide(a) || wide(b) ? DType::f64 : DType::f32;
}
template <bool equal>
void compare(Rule& r) {
  const DType t = compared_type(r);
  const Complex a = complex_operand(r, "self", t), b = complex_operand(r, "other", t);
  const T same = (a.re == b.re) & (a.im == b.im);
  r.set(equal ? same : !same);
}

T either(const Complex& z, Op op) { return unary(op, z.re) | unary(op, z.im); }
template <Op op>
void property(Rule& r) {
  r.set(either(apart(tensor(r, "self")), op));
}
void is_finite(Rule& r) {
  const Complex z = apart(tensor(r, "self"));
  r.set(!(either(z, Op::isnan) | either(z, Op::isinf)));
}
void is_real(Rule& r) { r.set(apart(tensor(r, "self")).im == 0.0); }

Complex dot_of(const Complex& p, int dim, bool keep) { return {p.re.sum({dim}, keep), p.im.sum({dim}, keep)}; }
template <bool conjugate>
void dot(Rule& r) {
  const Complex a = of(r), b = of(r, r.has("tensor") ? "tensor" : "other");
  r.set(join(dot_of(times(conjugate ? Complex{a.re, -a.im} : a, b), 0, false)));
}
void vecdot(Rule& r) {
  const Complex a = of(r, "x"), b = of(r, "y");
  const Complex p = times({a.re, -a.im}, b);
  r.set(join(dot_of(p, r.dim("dim", p.re.rank() + 1), false)));
}

/// self + value * tensor1 * tensor2, or / tensor2, in this order.
template <Complex (*f)(const Complex&, const Complex&)>
void addc(Rule& r) {
  const Complex a = of(r), value = complex_operand(r, "value", part_type(r)), b = f(times(value, of(r, "tensor1")), of(r, "tensor2"));
  r.set(join({a.re + b.re, a.im + b.im}));
}

/// other - alpha * self.
void rsub(Rule& r) {
  const Complex a = of(r), b = of(r, "other"), alpha = complex_operand(r, "alpha", part_type(r));
  const Complex c = times({-alpha.re, alpha.im.like(0) - alpha.im}, a);
  r.set(join({b.re + c.re, b.im + c.im}));
}

void copy(Rule& r) {
  const T x = tensor(r, "self");
  if (!complex_arg(r, "self")) return r.set(of(r, "src").re.to(x.dtype()).expand(x.dims()));
  r.set(T(r.b, join(of(r, "src"))).expand(x.dims()));
}

void ones(Rule& r) {
  TensorType t = r.meta_result();
  if (!complex_result(r)) return r.set(full(r.b, t.dtype, t.dims, 1));
  if (r.has("size")) r.agree_argument("size", t.dims);
  t.dims.pop_back();
  const T one(r.b, full(r.b, t.dtype, t.dims, 1));
  r.set(join({one, one.like(0)}));
}

/// The conjugate of the transposed matrix.
void conjugate_transpose(Rule& r) {
  const Complex z = apart(tensor(r, "self"));
  r.set(join({{r.b, r.b.transpose(z.re, -2, -1)}, -T(r.b, r.b.transpose(z.im, -2, -1))}));
}

constexpr RuleRow kRows[] = {
    {"aten.reciprocal.default", function<inverse>},
    {"aten.square.default", function<square>},
    {"aten.exp.default", function<power_of_e>},
    {"aten.sqrt.default", function<root>},
    {"aten.rsqrt.default", function<inverse_root>},
    {"aten.log.default", function<logarithm>},
    {"aten.log2.default", function<logarithm_2>},
    {"aten.log10.default", function<logarithm_10>},
    {"aten.log1p.default", function<logarithm_1p>},
    {"aten.exp2.default", function<power_of_two>},
    {"aten.expm1.default", function<less_one>},
    {"aten.sin.default", function<sine>},
    {"aten.cos.default", function<cosine>},
    {"aten.tan.default", function<tangent>},
    {"aten.sinh.default", function<hyperbolic_sine>},
    {"aten.cosh.default", function<hyperbolic_cosine>},
    {"aten.tanh.default", function<hyperbolic_tangent>},
    {"aten.sigmoid.default", function<logistic>},
    {"aten.sgn.default", function<direction>},
    {"aten.pow.Tensor_Scalar aten.pow.Tensor_Tensor aten.pow.Scalar", pow_rule},
    {"aten.eq.Tensor aten.eq.Scalar", compare<true>},
    {"aten.ne.Tensor aten.ne.Scalar", compare<false>},
    {"aten.isnan.default", property<Op::isnan>},
    {"aten.isinf.default", property<Op::isinf>},
    {"aten.isfinite.default", is_finite},
    {"aten.isreal.default", is_real},
    {"aten.dot.default", dot<false>},
    {"aten.vdot.default", dot<true>},
    {"aten.linalg_vecdot.default", vecdot},
    {"aten.addcmul.default", addc<times>},
    {"aten.addcdiv.default", addc<quotient>},
    {"aten.rsub.Tensor aten.rsub.Scalar", rsub},
    {"aten.copy.default", copy},
    {"aten.ones.default aten.ones_like.default aten.new_ones.default", ones},
    {"aten.einsum.default", complex_einsum},
    {"aten.mH.default aten.adjoint.default", conjugate_transpose},
};
}  // namespace

RuleTable complex_math_rules() { return kRows; }

}  // namespace aotc::decompose
