// Functions of complex tensors that are not linear.
#include <cmath>
#include <limits>

#include "decompose/complex.h"
#include "decompose/families.h"

namespace aotc::decompose {
namespace {

Complex of(Rule& r, std::string_view name = "self") { return complex_operand(r, name, part_type(r)); }
T magnitude(const Complex& z) { return binary(Op::hypot, z.re, z.im); }
T angle(const Complex& z) { return binary(Op::atan2, z.im, z.re); }
Complex scaled(const Complex& z, double by) { return {z.re * by, z.im * by}; }
Complex turned(const Complex& z) { return {-z.im, z.re}; }  ///< i z
Complex turned_back(const Complex& z) { return {z.im, -z.re}; }

Complex power_of_e(const Complex& z) {
  const T m = exp(z.re);
  return {m * unary(Op::cos, z.im), m * unary(Op::sin, z.im)};
}

Complex logarithm(const Complex& z) { return {log(magnitude(z)), angle(z)}; }

/// The larger of the two parts has no cancellation; the other one follows from it.
Complex root(const Complex& z) {
  const T large = sqrt((magnitude(z) + abs(z.re)) * 0.5);
  const T small = where(large == 0.0, 0.0, abs(z.im) / (large * 2.0));
  const T right = z.re >= 0.0;
  return {where(right, large, small), binary(Op::copysign, where(right, small, large), z.im)};
}

/// a to the power b, as a length and an angle.
Complex power(const Complex& a, const Complex& b) {
  const T length = magnitude(a), turn = angle(a);
  const T m = binary(Op::pow, length, b.re) * exp(-(b.im * turn));
  const T t = b.im * where(length == 0.0, 0.0, log(length)) + b.re * turn;
  return {m * unary(Op::cos, t), m * unary(Op::sin, t)};
}

Complex cosine(const Complex& z) { return {unary(Op::cos, z.re) * unary(Op::cosh, z.im), -(unary(Op::sin, z.re) * unary(Op::sinh, z.im))}; }
Complex sine(const Complex& z) { return {unary(Op::sin, z.re) * unary(Op::cosh, z.im), unary(Op::cos, z.re) * unary(Op::sinh, z.im)}; }
/// Beyond this, tanh of a real part is one to the last bit of a float64, and the imaginary part is nothing beside it.
constexpr double kFlat = 22;
Complex hyperbolic_tangent(const Complex& z) {
  const T t = tanh(z.re), far = abs(z.re) > kFlat, c = unary(Op::cos, z.im), s = unary(Op::sin, z.im);
  const T sh = unary(Op::sinh, where(far, 0.0, z.re)), n = sh * sh + c * c;
  const T ch = sqrt(sh * sh + 1.0);
  return {where(far, t, sh * ch / n), where(far, 0.0, s * c / n)};
}

template <Complex (*f)(const Complex&)>
void function(Rule& r) {
  r.set(join(f(of(r))));
}
Complex square(const Complex& z) { return times(z, z); }
Complex inverse_root(const Complex& z) { return inverse(root(z)); }
Complex tangent(const Complex& z) { return turned_back(hyperbolic_tangent(turned(z))); }
Complex hyperbolic_sine(const Complex& z) { return turned_back(sine(turned(z))); }
Complex hyperbolic_cosine(const Complex& z) { return cosine(turned(z)); }
Complex logistic(const Complex& z) {
  const Complex e = power_of_e({-z.re, -z.im});
  return inverse({e.re + 1.0, e.im});
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

constexpr int64_t kMostFactors = 8;  ///< of a whole power that is multiplied out

void pow_rule(Rule& r) {
  const Complex a = of(r);
  const std::string_view name = "exponent";
  std::optional<double> e;
  if (!r.is_tensor(name) && !std::holds_alternative<std::complex<double>>(r.arg(name))) e = r.number(name);
  if (e == 0.5) return r.set(join(root(a)));
  if (!e || *e != std::floor(*e) || std::abs(*e) > static_cast<double>(kMostFactors)) return r.set(join(power(a, of(r, name))));
  Complex z{a.re.like(1), a.im.like(0)};
  for (int64_t i = 0; i < static_cast<int64_t>(std::abs(*e)); ++i) z = i == 0 ? a : times(z, a);
  r.set(join(*e < 0 ? inverse(z) : z));
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

void addcmul(Rule& r) {
  const Complex a = of(r), b = times(of(r, "tensor1"), of(r, "tensor2"));
  const double v = r.number_or("value", 1.0);
  r.set(join({a.re + b.re * v, a.im + b.im * v}));
}
void addcdiv(Rule& r) {
  const Complex a = of(r), b = quotient(of(r, "tensor1"), of(r, "tensor2"));
  const double v = r.number_or("value", 1.0);
  r.set(join({a.re + b.re * v, a.im + b.im * v}));
}

void rsub(Rule& r) {
  const Complex a = of(r), b = of(r, "other");
  const double alpha = r.number_or("alpha", 1.0);
  const auto part = [&](const T& x, const T& y) { return y - (alpha == 1.0 ? x : x * alpha); };
  r.set(join({part(a.re, b.re), part(a.im, b.im)}));
}

void copy(Rule& r) {
  const T x = tensor(r, "self");
  if (!complex_arg(r, "self")) return r.set(of(r, "src").re.to(x.dtype()).expand(x.dims()));
  r.set(T(r.b, join(of(r, "src"))).expand(x.dims()));
}

void ones(Rule& r) {
  TensorType t = r.meta_result();
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
    {"aten.pow.Tensor_Scalar", pow_rule},
    {"aten.pow.Tensor_Tensor", pow_rule},
    {"aten.pow.Scalar", pow_rule},
    {"aten.eq.Tensor", compare<true>},
    {"aten.eq.Scalar", compare<true>},
    {"aten.ne.Tensor", compare<false>},
    {"aten.ne.Scalar", compare<false>},
    {"aten.isnan.default", property<Op::isnan>},
    {"aten.isinf.default", property<Op::isinf>},
    {"aten.isfinite.default", is_finite},
    {"aten.isreal.default", is_real},
    {"aten.dot.default", dot<false>},
    {"aten.vdot.default", dot<true>},
    {"aten.linalg_vecdot.default", vecdot},
    {"aten.addcmul.default", addcmul},
    {"aten.addcdiv.default", addcdiv},
    {"aten.rsub.Tensor", rsub},
    {"aten.rsub.Scalar", rsub},
    {"aten.copy.default", copy},
    {"aten.ones.default", ones},
    {"aten.ones_like.default", ones},
    {"aten.new_ones.default", ones},
    {"aten.einsum.default", complex_einsum},
    {"aten.mH.default", conjugate_transpose},
    {"aten.adjoint.default", conjugate_transpose},
};
}  // namespace

RuleTable complex_math_rules() { return kRows; }

}  // namespace aotc::decompose
