#pragma once
// Functions that run lane by lane through libm, those that vec_math*.h lack. The formulas of erfinv (of f64) and digamma, which libm lacks,
// stand below with their sources.
#include "vec_math_power.h"

namespace {

extern "C" double exp(double) noexcept;
extern "C" double log(double) noexcept;
extern "C" double log1p(double) noexcept;

#define AOTC_LIBM(name)                                                            \
  extern "C" double name(double) noexcept;                                         \
  AOTC_F f64v v_##name(f64v x) {                                                   \
    return lane_by_lane(x, x, [](double a, double) -> double { return name(a); }); \
  }
AOTC_LIBM(log10)
AOTC_LIBM(erf)
AOTC_LIBM(erfc)
#undef AOTC_LIBM

#define AOTC_LIBM2(name)                                                                \
  extern "C" double name(double, double) noexcept;                                      \
  extern "C" float name##f(float, float) noexcept;                                      \
  AOTC_F f64v v_##name(f64v x, f64v y) {                                                \
    return lane_by_lane(x, y, [](double a, double b) -> double { return name(a, b); }); \
  }                                                                                     \
  AOTC_F f32v v_##name(f32v x, f32v y) {                                                \
    return lane_by_lane(x, y, [](float a, float b) -> float { return name##f(a, b); }); \
  }
AOTC_LIBM2(nextafter)
#undef AOTC_LIBM2
/// The bits of the 16-bit number after a, whose bits these are, towards b.
AOTC_F i32v bits_after(i32v u, f32v a, f32v b) {
  const i32v away = ~(v_gt(b, a) ^ v_gt(a, kf(0)));  // from zero
  return sel(v_eq(a, kf(0)), sel(v_lt(b, kf(0)), ki(0x8001), ki(1)), sel(away, u + 1, u - 1));
}
AOTC_F f32v v_nextafter_f16(f32v a, f32v b) {
  const f32v y = f32_of_f16(cut16(bits_after(ext32(f16_of_f32(a)), a, b)));
  return sel(v_eq(a, b), b, sel(v_isnan(a) | v_isnan(b), a + b, y));
}
AOTC_F f32v v_nextafter_bf16(f32v a, f32v b) {
  const f32v y = as_f32(bits_after((i32v)bf16_bits(a), a, b) << 16);
  return sel(v_eq(a, b), b, sel(v_isnan(a) | v_isnan(b), a + b, y));
}
extern "C" double pow(double, double) noexcept;
AOTC_F f64v v_pow(f64v x, f64v y) {
  return lane_by_lane(x, y, [](double a, double b) -> double { return pow(a, b); });
}

extern "C" double lgamma_r(double, int*) noexcept;
AOTC_F f64v v_lgamma(f64v x) {
  return lane_by_lane(x, x, [](double a, double) -> double {
    int sign;
    return lgamma_r(a, &sign);
  });
}
AOTC_F f32v v_lgamma(f32v x) { return to_f32(v_lgamma(to_f64(x))); }

/// Recurrence up to 10, then the asymptotic series (Abramowitz and Stegun 6.3.18); reflection 6.3.7 below zero. Poles: as PyTorch,
/// digamma(+-0) = -+inf and NaN at negative integers.
AOTC_F double digamma1(double x) {
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  double shift = 0;
  if (x < 0) {
    const double whole = __builtin_trunc(x);
    if (x == whole) return __builtin_nan("");
    shift = -3.14159265358979323846 / tan(3.14159265358979323846 * (x - whole));
    x = 1 - x;
  }
  while (x < 10) {
    shift -= 1 / x;
    x += 1;
  }
  double y = 0;
  if (x < 1e17) {
    const double z = 1 / (x * x);
    y = z * (8.33333333333333333333e-2 +
             z * (-8.33333333333333333333e-3 +
                  z * (3.96825396825396825397e-3 +
                       z * (-4.16666666666666666667e-3 +
                            z * (7.57575757575757575758e-3 + z * (-2.10927960927960927961e-2 + z * 8.33333333333333333333e-2))))));
  }
  return shift + log(x) - 0.5 / x - y;
}
AOTC_F f64v v_digamma(f64v x) {
  return lane_by_lane(x, x, [](double a, double) -> double { return digamma1(a); });
}
AOTC_F f32v v_digamma(f32v x) { return to_f32(v_digamma(to_f64(x))); }

/// M. Giles, "Approximating the erfinv function" (GPU Computing Gems 2010), double precision start of Winitzki's form, then three
/// Newton steps against libm's erf and erfc.
AOTC_F double erfinv1(double y) {
  const double a = __builtin_fabs(y);
  if (!(a < 1)) return a == 1 ? __builtin_copysign(__builtin_inf(), y) : __builtin_nan("");
  const double l = log1p(-a * a), t = 4.33074675078 + l / 2;  // 2/(pi*0.147)
  double x = __builtin_sqrt(__builtin_sqrt(t * t - l / 0.147) - t);
  if (a < 1e-4) x = a * 0.886226925452758;
  for (int i = 0; i < 3; ++i) {
    const double r = a < 0.5 ? erf(x) - a : (1 - a) - erfc(x);
    x -= r / (1.12837916709551257390 * exp(-x * x));
  }
  return __builtin_copysign(x, y);
}
AOTC_F f64v v_erfinv(f64v x) {
  return lane_by_lane(x, x, [](double a, double) -> double { return erfinv1(a); });
}
AOTC_F f64v v_sigmoid(f64v x) { return v_div(kd(1), v_add(kd(1), v_exp(v_neg(x)))); }

}  // namespace
