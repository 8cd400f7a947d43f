// Pointwise operators of one tensor.
#include <cmath>
#include <limits>

#include "decompose/bits.h"
#include "decompose/families.h"

namespace aotc::decompose {
namespace {

/// Integers are computed, and returned, as float32.
template <Op op>
void floating(Rule& r) {
  const T x = tensor(r, "self");
  r.set(unary(op, x.to(float_type(x.dtype()))));
}

/// The operator is the identity on integers.
template <Op op>
void rounding(Rule& r) {
  const T x = tensor(r, "self");
  if (is_complex(x.dtype())) r.refuse("complex tensors are not supported");
  r.set(is_float(x.dtype()) ? unary(op, x) : x);
}

template <Op op>
void same_type(Rule& r) {
  const T x = tensor(r, "self");
  if (is_complex(x.dtype())) r.refuse("complex tensors are not supported");
  if (is_bool(x.dtype()))
    r.set(x);  // abs, sign and positive of a bool
  else
    r.set(unary(op, x));
}

void identity(Rule& r) { r.set(r.tensor("self")); }

void neg(Rule& r) {
  const T x = tensor(r, "self");
  r.set(-x);
}

void round_decimals(Rule& r) {
  const T x = tensor(r, "self");
  const int64_t d = r.integer("decimals");
  if (!is_float(x.dtype())) return r.set(x);
  if (d == 0) return r.set(unary(Op::round, x));
  const double p = std::pow(10.0, static_cast<double>(std::abs(d)));
  const T y = x.up();
  const T z = d > 0 ? unary(Op::round, y * p) / p : unary(Op::round, y / p) * p;
  r.set(z.to(x.dtype()));
}

enum class ZeroPoint { given, learned };

/// Rounds to the grid of a quantized type and back. The mask says which elements lie within it. A NaN becomes the least number of the grid.
/// So does, with a scale per channel, what an int64 does not hold: LibTorch casts to one there before it clamps.
template <ZeroPoint kind>
void fake_quantize(Rule& r) {
  const T x = tensor(r, "self");
  const DType t = compute_type(x.dtype());
  const double lo = static_cast<double>(r.integer("quant_min")), hi = static_cast<double>(r.integer("quant_max"));
  const bool channels = r.has("axis");
  bool fractions = false;
  T scale = x, zero = x;
  if (r.is_tensor("scale")) {
    scale = tensor(r, "scale").to(DType::f32), zero = tensor(r, "zero_point");
    if (kind == ZeroPoint::learned) zero = unary(Op::trunc, minimum(maximum(zero.to(DType::f32) + 0.5, lo), hi));
    const bool real = kind == ZeroPoint::given && is_float(zero.dtype());
    fractions = real && channels;
    zero = (real && !channels ? zero.to(DType::i64) : zero).to(t);
    std::vector<Expr> dims(static_cast<size_t>(x.rank()), Expr(1));
    if (channels) {
      const size_t axis = static_cast<size_t>(r.dim("axis", x.rank()));
      dims[axis] = x.dim(static_cast<int>(axis));
    }
    scale = scale.reshape(dims), zero = zero.reshape(dims);
  } else {
    scale = T(r.b, full(r.b, DType::f32, {}, r.number("scale")));
    zero = T(r.b, full(r.b, t, {}, static_cast<double>(r.integer("zero_point"))));
  }
  // The reciprocal is taken in float32, as is the product at the end where there is one scale.
  const T y = x.to(t) * (1.0 / scale).to(t);
  const T q = fractions ? unary(Op::round, y + zero) : unary(Op::round, y) + zero;
  const T held = channels ? (q > lo) & (q < 0x1p63) : q > lo, whole = minimum(where(held, q, lo), hi) - zero;
  T result = (channels ? whole * scale.to(t) : whole.to(DType::f32) * scale).to(x.dtype()), mask = (q >= lo) & (q <= hi);
  if (r.has("fake_quant_enabled")) {
    const T on = tensor(r, "fake_quant_enabled").reshape(std::vector<Expr>(static_cast<size_t>(x.rank()), Expr(1))) != 0.0;
    result = where(on, result, x), mask = mask | !on;
  }
  r.set(0, result);
  if (r.wants(1)) r.set(1, mask);
}

void frac(Rule& r) {
  const T x = tensor(r, "self");
  r.set(x - unary(Op::trunc, x));
}

void square(Rule& r) {
  const T x = tensor(r, "self").to(r.meta_result().dtype);
  r.set(x * x);
}

T finite(const T& x) { return !(unary(Op::isnan, x) | unary(Op::isinf, x)); }

void is_nan(Rule& r) {
  const T x = tensor(r, "self");
  r.set(is_float(x.dtype()) ? unary(Op::isnan, x) : T(r.b, full(r.b, DType::boolean, x.dims(), 0.0)));
}
void is_inf(Rule& r) {
  const T x = tensor(r, "self");
  r.set(is_float(x.dtype()) ? unary(Op::isinf, x) : T(r.b, full(r.b, DType::boolean, x.dims(), 0.0)));
}
void is_finite(Rule& r) {
  const T x = tensor(r, "self");
  r.set(is_float(x.dtype()) ? finite(x) : T(r.b, full(r.b, DType::boolean, x.dims(), 1.0)));
}
template <int sign>
void is_signed_inf(Rule& r) {
  const T x = tensor(r, "self");
  if (!is_float(x.dtype())) return r.set(full(r.b, DType::boolean, x.dims(), 0.0));
  r.set(unary(Op::isinf, x) & (sign > 0 ? x > 0.0 : x < 0.0));
}

void signbit(Rule& r) {
  const T x = tensor(r, "self");
  if (is_bool(x.dtype()) || x.dtype() == DType::u8) return r.set(full(r.b, DType::boolean, x.dims(), 0.0));
  if (!is_float(x.dtype())) return r.set(x < 0.0);
  r.set(binary(Op::copysign, x.like(1.0), x) < 0.0);
}

void logical_not(Rule& r) { r.set(!tensor(r, "self").to(DType::boolean)); }

void bitwise_not(Rule& r) {
  const T x = tensor(r, "self");
  r.set(is_bool(x.dtype()) ? !x : unary(Op::bitwise_not, x));
}

template <int to_radians>
void degrees(Rule& r) {
  const T x = tensor(r, "self");
  const T y = x.to(float_type(x.dtype()));
  r.set((y.up() * (to_radians ? M_PI / 180.0 : 180.0 / M_PI)).to(y.dtype()));
}

void sinc(Rule& r) {
  const T x = tensor(r, "self");
  const T y = x.to(float_type(x.dtype())).up();
  const T p = y * M_PI;
  r.set(where(y == 0.0, 1.0, unary(Op::sin, p) / p).to(float_type(x.dtype())));
}

void logit(Rule& r) {
  const T x = tensor(r, "self");
  const DType out = float_type(x.dtype());
  T y = x.to(out).up();
  if (!r.none("eps")) {
    const double eps = r.number("eps");
    if (eps >= 0) y = minimum(maximum(y, eps), 1.0 - eps);
  }
  r.set(log(y / (1.0 - y)).to(out));
}

double largest(DType t) {
  if (t == DType::f64) return std::numeric_limits<double>::max();
  if (t == DType::f32) return std::numeric_limits<float>::max();
  return t == DType::f16 ? 65504.0 : 3.3895313892515355e38;
}

void nan_to_num(Rule& r) {
  const T x = tensor(r, "self");
  if (!is_float(x.dtype())) return r.set(x);
  const double nan = r.number_or("nan", 0.0);
  const double pos = r.number_or("posinf", largest(x.dtype()));
  const double neg = r.number_or("neginf", -largest(x.dtype()));
  T y = where(unary(Op::isnan, x), nan, x);
  y = where(x == std::numeric_limits<double>::infinity(), pos, y);
  r.set(where(x == -std::numeric_limits<double>::infinity(), neg, y));
}

void log_sigmoid(Rule& r) {
  const T x = tensor(r, "self"), y = x.up(), small = exp(-abs(y));
  r.set(0, (minimum(y, 0.0) - unary(Op::log1p, small)).to(x.dtype()));
  if (!r.wants(1)) return;
  const TensorType buffer = r.meta_result(1);  // what the gradient reads; empty where its kernel computes it again
  r.set(1, buffer.elems().is(0) ? T(r.b, full(r.b, buffer.dtype, buffer.dims, 0.0)) : small.to(buffer.dtype).reshape(buffer.dims));
}

/// -x * log(x), 0 at 0, -inf below.
void entr(Rule& r) {
  const T x = tensor(r, "self");
  const DType out = float_type(x.dtype());
  const T y = x.to(out).up();
  const T v = where(y == 0.0, 0.0, -y * log(y));
  r.set(where(y < 0.0, -std::numeric_limits<double>::infinity(), v).to(out));
}

void ndtr(Rule& r) {
  const T x = tensor(r, "self");
  const DType out = float_type(x.dtype());
  const T y = x.to(out).up() * M_SQRT1_2;
  r.set((unary(Op::erfc, -y) * 0.5).to(out));
}

T log_ndtr_of(const T& y) {
  // Near where erfc leaves the range of its type, by the asymptotic series 1 - 1/z + 3/z^2 - 15/z^3 ..
  const T z = y * y, w = 1.0 / z;
  T series = w * -13.0 + 1.0;
  for (double k : {11.0, 9.0, 7.0, 5.0, 3.0}) series = series * w * -k + 1.0;
  const T far = z * -0.5 - log(-y) - 0.5 * std::log(2 * M_PI) + unary(Op::log1p, -(w * series));
  const T near = log(unary(Op::erfc, y * -M_SQRT1_2) * 0.5), above = unary(Op::log1p, unary(Op::erfc, y * M_SQRT1_2) * -0.5);
  return where(y < -35.0, far, where(y < -1.0, near, above));
}
void log_ndtr(Rule& r) {
  const T x = tensor(r, "self");
  const DType out = float_type(x.dtype());
  r.set(log_ndtr_of(x.to(out).to(DType::f64)).to(out));
}

void is_real(Rule& r) { r.set(full(r.b, DType::boolean, r.b.dims(r.tensor("self")), 1.0)); }

void angle(Rule& r) {
  const T x = tensor(r, "self");
  if (is_complex(x.dtype())) r.refuse("complex tensors are not supported");
  const DType out = float_type(x.dtype());
  const T y = x.to(out);
  const T v = where(y < 0.0, y.like(M_PI), 0.0);
  r.set(where(unary(Op::isnan, y), y, v));
}

/// x as a mantissa from 1/2 to 1 and a power of two, both read out of the bits of float64, in which narrower types have no denormals.
void frexp(Rule& r) {
  const T x0 = tensor(r, "self"), x = x0.to(DType::f64);
  const bool wide = x0.dtype() == DType::f64;
  const T tiny = abs(x) < 0x1p-1022, normal = wide ? where(tiny, x * 0x1p54, x) : x;
  const T bits = retyped(normal, DType::i64);
  const T plain = (x == 0.0) | unary(Op::isinf, x) | unary(Op::isnan, x);
  T power = binary(Op::bit_and, binary(Op::shr, bits, 52.0), 2047.0) - 1022.0;
  if (wide) power = where(tiny, power - 54.0, power);
  const auto constant = [&](int64_t v) { return T(r.b, r.b.full_int({DType::i64, bits.dims()}, v)); };
  const T kept = binary(Op::bit_and, bits, constant(~(int64_t{2047} << 52)));
  const T mantissa = retyped(binary(Op::bit_or, kept, constant(int64_t{1022} << 52)), DType::f64);
  r.set(0, where(plain, x, mantissa).to(x0.dtype()));
  r.set(1, where(plain, 0.0, power).to(DType::i32));
}

constexpr RuleRow kRows[] = {
    {"aten.fake_quantize_per_tensor_affine.default aten.fake_quantize_per_tensor_affine.tensor_qparams "
     "aten.fake_quantize_per_tensor_affine_cachemask.default aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default "
     "aten.fake_quantize_per_channel_affine.default aten.fake_quantize_per_channel_affine_cachemask.default",
     fake_quantize<ZeroPoint::given>},
    {"aten._fake_quantize_learnable_per_tensor_affine.default aten._fake_quantize_learnable_per_channel_affine.default",
     fake_quantize<ZeroPoint::learned>},
    {"aten.acos.default aten.arccos.default", floating<Op::acos>},
    {"aten.acosh.default aten.arccosh.default", floating<Op::acosh>},
    {"aten.asin.default aten.arcsin.default", floating<Op::asin>},
    {"aten.asinh.default aten.arcsinh.default", floating<Op::asinh>},
    {"aten.atan.default aten.arctan.default", floating<Op::atan>},
    {"aten.atanh.default aten.arctanh.default", floating<Op::atanh>},
    {"aten.cos.default", floating<Op::cos>},
    {"aten.cosh.default", floating<Op::cosh>},
    {"aten.digamma.default aten.special_digamma.default aten.special_psi.default", floating<Op::digamma>},
    {"aten.erf.default aten.special_erf.default", floating<Op::erf>},
    {"aten.erfc.default aten.special_erfc.default", floating<Op::erfc>},
    {"aten.erfinv.default aten.special_erfinv.default", floating<Op::erfinv>},
    {"aten.exp.default", floating<Op::exp>},
    {"aten.exp2.default aten.special_exp2.default", floating<Op::exp2>},
    {"aten.expm1.default aten.special_expm1.default", floating<Op::expm1>},
    {"aten.lgamma.default aten.special_gammaln.default", floating<Op::lgamma>},
    {"aten.log.default", floating<Op::log>},
    {"aten.log10.default", floating<Op::log10>},
    {"aten.log1p.default aten.special_log1p.default", floating<Op::log1p>},
    {"aten.log2.default", floating<Op::log2>},
    {"aten.reciprocal.default", floating<Op::reciprocal>},
    {"aten.rsqrt.default", floating<Op::rsqrt>},
    {"aten.sigmoid.default aten.special_expit.default", floating<Op::sigmoid>},
    {"aten.sin.default", floating<Op::sin>},
    {"aten.sinh.default", floating<Op::sinh>},
    {"aten.sqrt.default", floating<Op::sqrt>},
    {"aten.tan.default", floating<Op::tan>},
    {"aten.tanh.default", floating<Op::tanh>},
    {"aten.frexp.Tensor", frexp},
    {"aten.ceil.default", rounding<Op::ceil>},
    {"aten.floor.default", rounding<Op::floor>},
    {"aten.round.default", rounding<Op::round>},
    {"aten.trunc.default aten.fix.default", rounding<Op::trunc>},
    {"aten.round.decimals aten.special_round.default", round_decimals},
    {"aten.frac.default", frac},
    {"aten.abs.default aten.absolute.default", same_type<Op::abs>},
    {"aten.sign.default aten.sgn.default", same_type<Op::sign>},
    {"aten.neg.default aten.negative.default", neg},
    {"aten.positive.default", identity},
    {"aten.square.default", square},
    {"aten.isnan.default", is_nan},
    {"aten.isinf.default", is_inf},
    {"aten.isfinite.default", is_finite},
    {"aten.isposinf.default", is_signed_inf<1>},
    {"aten.isneginf.default", is_signed_inf<-1>},
    {"aten.signbit.default", signbit},
    {"aten.logical_not.default", logical_not},
    {"aten.bitwise_not.default", bitwise_not},
    {"aten.deg2rad.default", degrees<1>},
    {"aten.rad2deg.default", degrees<0>},
    {"aten.sinc.default aten.special_sinc.default", sinc},
    {"aten.logit.default aten.special_logit.default", logit},
    {"aten.nan_to_num.default", nan_to_num},
    {"aten.log_sigmoid.default aten.log_sigmoid_forward.default", log_sigmoid},
    {"aten.special_entr.default", entr},
    {"aten.special_ndtr.default", ndtr},
    {"aten.special_log_ndtr.default", log_ndtr},
    {"aten.isreal.default", is_real},
    {"aten.angle.default", angle},
};
}  // namespace

RuleTable pointwise_unary_rules() { return kRows; }

}  // namespace aotc::decompose
