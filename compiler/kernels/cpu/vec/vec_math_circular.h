#pragma once
// Circular and hyperbolic functions and their inverses, of f32 and f64 vectors: about 2 ulp over the whole range, NaN, infinities and signs
// of zeros as in C. Polynomials of f32 are weighted least squares over Chebyshev nodes; those of f64, and how arguments are brought near
// 0, are of Moshier's Cephes library (sin, cos, atan) and of fdlibm (asin).
#include "vec_math_f64.h"

namespace {

// ---- f32 ------------------------------------------------------------------------------------------------------------------------------
constexpr float kHalfPi = 1.57079637f, kHalfPiRest = -4.37113883e-8f, kPi = 3.14159274f, kPiRest = -8.74227766e-8f;
constexpr float kLn2 = 0.693147181f;

extern "C" float tanf(float) noexcept;
AOTC_F f32v v_tan(f32v x) {
  const f32v n = rnd_even(x * 0.636619747f), r = less_quadrants(x, n), z = r * r;
  f32v p = kf(4.3659294e-3f);
  p = fma(p, z, 1.11448469e-4f);
  p = fma(p, z, 1.08178835e-2f);
  p = fma(p, z, 2.12892685e-2f);
  p = fma(p, z, 5.40585481e-2f);
  p = fma(p, z, 1.33326754e-1f);
  p = fma(p, z, 3.33333492e-1f);
  const f32v t = fma(p * z, r, r);
  const f32v y = (to_i32(n) & 1) != 0 ? -1.0f / t : x == 0.0f ? x : t;
  const i32v far = (v_abs(x) <= kNearQuadrants) == 0;
  if (__builtin_expect(any(far), 0)) return far_lanes(x, y, far, tanf);
  return y;
}

/// atan(t) for 0 <= t <= 1.
AOTC_I f32v atan_of_ratio(f32v t) {
  const f32v z = t * t;
  f32v p = kf(-1.77755882e-3f);
  p = fma(p, z, 1.08415438e-2f);
  p = fma(p, z, -3.10391579e-2f);
  p = fma(p, z, 5.78153618e-2f);
  p = fma(p, z, -8.39493126e-2f);
  p = fma(p, z, 1.09491825e-1f);
  p = fma(p, z, -1.42636463e-1f);
  p = fma(p, z, 1.99984893e-1f);
  p = fma(p, z, -3.33332956e-1f);
  return fma(p * z, t, t);
}
AOTC_F f32v v_atan(f32v x) {
  const f32v a = v_abs(x);
  const i32v steep = a > 1.0f;
  const f32v y = atan_of_ratio(steep ? 1.0f / a : a);
  return v_copysign(steep ? (kHalfPi - y) + kHalfPiRest : y, x);
}
AOTC_F f32v v_atan2(f32v y, f32v x) {
  const f32v a = v_abs(y), b = v_abs(x);
  const i32v steep = a > b;
  const f32v least = steep ? b : a, most = steep ? a : b;
  f32v t = least / most;
  t = (least == 0.0f) & (most == 0.0f) ? kf(0) : t;
  t = (least == __builtin_inff()) & (most == __builtin_inff()) ? kf(1) : t;
  f32v r = atan_of_ratio(t);
  r = steep ? (kHalfPi - r) + kHalfPiRest : r;
  r = bits(x) < 0 ? (kPi - r) + kPiRest : r;
  return v_copysign(x != x ? x : r, y);
}

/// asin of a where that is at most 1/2, else asin(sqrt((1 - a) / 2)), for 0 <= a <= 1.
AOTC_I f32v asin_near(f32v a) {
  const i32v large = a > 0.5f;
  const f32v z = large ? fma(a, kf(-0.5f), 0.5f) : a * a, s = large ? v_sqrt(z) : a;
  f32v p = kf(3.75026315e-2f);
  p = fma(p, z, 1.44473463e-2f);
  p = fma(p, z, 3.18059362e-2f);
  p = fma(p, z, 4.45170552e-2f);
  p = fma(p, z, 7.5005047e-2f);
  p = fma(p, z, 1.66666597e-1f);
  return fma(p * z, s, s);
}
AOTC_F f32v v_asin(f32v x) {
  const f32v a = v_abs(x), y = asin_near(a);
  return v_copysign(a > 0.5f ? (kHalfPi - (y + y)) + kHalfPiRest : y, x);
}
AOTC_F f32v v_acos(f32v x) {
  const f32v a = v_abs(x), y = asin_near(a), twice = y + y;
  const f32v far = x < 0.0f ? (kPi - twice) + kPiRest : twice;
  return a > 0.5f ? far : kHalfPi - (v_copysign(y, x) - kHalfPiRest);
}

/// exp(|x|) / 2 and exp(-|x|) / 2, which is left larger where nobody sees it beside the other.
struct HalfExps {
  f32v rising, falling;
};
AOTC_I HalfExps half_exps(f32v x) {
  const ExpParts e = exp_parts(clamp_keep_nan(v_abs(x), 0.0f, 95.0f));
  const f32v h = scale2(e.m, e.n - 1.0f);
  return {h, 0.25f / least_or_b(kf(1e9f), h)};
}
AOTC_F f32v v_sinh(f32v x) {
  const HalfExps h = half_exps(x);
  const f32v z = x * x;
  f32v p = kf(2.81767507e-6f);
  p = fma(p, z, 1.98360198e-4f);
  p = fma(p, z, 8.33335053e-3f);
  p = fma(p, z, 1.66666672e-1f);
  return v_abs(x) < 1.0f ? fma(p * z, x, x) : v_copysign(h.rising - h.falling, x);
}
AOTC_F f32v v_cosh(f32v x) {
  const HalfExps h = half_exps(x);
  return h.rising + h.falling;
}
AOTC_F f32v v_asinh(f32v x) {
  const f32v a = v_abs(x), z = x * x;
  f32v p = kf(-1.32053997e-2f);
  p = fma(p, z, 2.81490814e-2f);
  p = fma(p, z, -4.43801507e-2f);
  p = fma(p, z, 7.49861374e-2f);
  p = fma(p, z, -1.66666418e-1f);
  const f32v l = v_log(a > 1e9f ? a : a + v_sqrt(z + 1.0f));
  return v_copysign(a < 0.5f ? fma(p * z, x, x) : a > 1e9f ? l + kLn2 : l, x);
}
AOTC_F f32v v_acosh(f32v x) {
  const f32v t = x - 1.0f, l = v_log(x);
  return x > 1e9f ? l + kLn2 : x < 1.0f ? kf(__builtin_nanf("")) : v_log1p(t + v_sqrt(t * (x + 1.0f)));
}
AOTC_F f32v v_atanh(f32v x) {
  const f32v a = v_abs(x), z = x * x;
  f32v p = kf(1.76834598e-1f);
  p = fma(p, z, 5.12452945e-2f);
  p = fma(p, z, 1.18271373e-1f);
  p = fma(p, z, 1.42222762e-1f);
  p = fma(p, z, 2.00025499e-1f);
  p = fma(p, z, 3.33332986e-1f);
  return a < 0.5f ? fma(p * z, x, x) : v_copysign(0.5f * v_log((1.0f + a) / (1.0f - a)), x);
}

// ---- f64 ------------------------------------------------------------------------------------------------------------------------------
constexpr double kHalfPi64 = 1.57079632679489655800, kHalfPiRest64 = 6.12323399573676603587e-17;
constexpr double kNearQuadrants64 = 1e6;

/// x = n * pi/2 + r with |r| <= pi/4, for |x| <= kNearQuadrants64; n modulo 4 are the low bits of `quadrant`.
struct Quadrant {
  f64h r;
  i64h quadrant;
};
AOTC_I Quadrant quadrant_of(f64h x) {
  const f64h t = fma(x, kdh(0.63661977236758134308), kWholeShift), n = t - kWholeShift;
  f64h r = fma(n, kdh(-kHalfPi64), x);
  r = fma(n, kdh(-kHalfPiRest64), r);
  return {fma(n, kdh(1.49738490485919169e-33), r), bits(t)};
}
struct SinCos {
  f64h sin, cos;
};
/// Of |r| <= pi/4.
AOTC_I SinCos sin_cos_near(f64h r) {
  const f64h z = r * r, half = z * 0.5;
  f64h s = kdh(1.58962301576546568060e-10);
  s = fma(s, z, -2.50507477628578072866e-8);
  s = fma(s, z, 2.75573136213857245213e-6);
  s = fma(s, z, -1.98412698295895385996e-4);
  s = fma(s, z, 8.33333333332211858878e-3);
  s = fma(s, z, -1.66666666666666307295e-1);
  f64h c = kdh(-1.13585365213876817300e-11);
  c = fma(c, z, 2.08757008419747316778e-9);
  c = fma(c, z, -2.75573141792967388112e-7);
  c = fma(c, z, 2.48015872888517045348e-5);
  c = fma(c, z, -1.38888888888730564116e-3);
  c = fma(c, z, 4.16666666666665929218e-2);
  const f64h w = 1.0 - half;
  return {fma(s * z, r, r), w + fma(c, z * z, (1.0 - w) - half)};
}
AOTC_I f64h sin_or_cos(f64h x, int64_t quadrant_shift) {
  const Quadrant q = quadrant_of(x);
  const SinCos y = sin_cos_near(q.r);
  const i64h at = q.quadrant + quadrant_shift;
  return (f64h)(bits((at & 1) != 0 ? y.cos : y.sin) ^ ((at & 2) << 62));
}
AOTC_I f64h tan_near(f64h x) {
  const Quadrant q = quadrant_of(x);
  const SinCos y = sin_cos_near(q.r);
  const i64h odd = (q.quadrant & 1) != 0;
  return (odd ? -y.cos : y.sin) / (odd ? y.sin : y.cos);
}
AOTC_F f64h far_lanes(f64h x, f64h y, double (*f)(double)) {
  for (int l = 0; l < AOTC_L / 2; ++l)
    if (!(__builtin_fabs(x[l]) <= kNearQuadrants64)) y[l] = f(x[l]);
  return x == 0.0 ? x : y;
}
AOTC_I bool any_far(f64v x) {
  const i64v near = {(i64h)(abs_of(x.lo) <= kNearQuadrants64), (i64h)(abs_of(x.hi) <= kNearQuadrants64)};
  return any(~narrow(near));
}
extern "C" double sin(double) noexcept;
extern "C" double cos(double) noexcept;
extern "C" double tan(double) noexcept;
AOTC_F f64v v_sin(f64v x) {
  const f64h lo = sin_or_cos(x.lo, 0), hi = sin_or_cos(x.hi, 0);
  if (__builtin_expect(any_far(x), 0)) return {far_lanes(x.lo, lo, sin), far_lanes(x.hi, hi, sin)};
  return {x.lo == 0.0 ? x.lo : lo, x.hi == 0.0 ? x.hi : hi};
}
AOTC_F f64v v_cos(f64v x) {
  f64v y = {sin_or_cos(x.lo, 1), sin_or_cos(x.hi, 1)};
  if (__builtin_expect(any_far(x), 0))
    for (int l = 0; l < AOTC_L / 2; ++l) {
      if (!(__builtin_fabs(x.lo[l]) <= kNearQuadrants64)) y.lo[l] = cos(x.lo[l]);
      if (!(__builtin_fabs(x.hi[l]) <= kNearQuadrants64)) y.hi[l] = cos(x.hi[l]);
    }
  return y;
}
AOTC_F f64v v_tan(f64v x) {
  const f64h lo = tan_near(x.lo), hi = tan_near(x.hi);
  if (__builtin_expect(any_far(x), 0)) return {far_lanes(x.lo, lo, tan), far_lanes(x.hi, hi, tan)};
  return {x.lo == 0.0 ? x.lo : lo, x.hi == 0.0 ? x.hi : hi};
}

/// atan(num / den) for 0 <= num <= den, neither both 0 nor both infinite: beyond tan(pi/8) by the angle that is left to pi/4.
AOTC_I f64h atan_of_ratio(f64h num, f64h den) {
  const i64h wide = num > den * 0.41421356237309503;
  const f64h t = (wide ? num - den : num) / (wide ? num + den : den), z = t * t;
  f64h p = kdh(-8.750608600031904122785e-1);
  p = fma(p, z, -1.615753718733365076637e1);
  p = fma(p, z, -7.500855792314704667340e1);
  p = fma(p, z, -1.228866684490136173410e2);
  p = fma(p, z, -6.485021904942025371773e1);
  f64h q = z + 2.485846490142306297962e1;
  q = fma(q, z, 1.650270098316988542046e2);
  q = fma(q, z, 4.328810604912902668951e2);
  q = fma(q, z, 4.853903996359136964868e2);
  q = fma(q, z, 1.945506571482613964425e2);
  const f64h y = fma(z * (p / q), t, t);
  return wide ? y + kHalfPiRest64 * 0.5 + kHalfPi64 * 0.5 : y;
}
AOTC_I f64h atan_of(f64h x) {
  const f64h a = abs_of(x), one = kdh(1);
  const i64h steep = a > 1.0, infinite = a == __builtin_inf();
  const f64h y = atan_of_ratio(infinite ? kdh(0) : steep ? one : a, steep & ~infinite ? a : one);
  return sign_of(steep ? kHalfPi64 - (y - kHalfPiRest64) : y, x);
}
AOTC_I f64h atan2_of(f64h y, f64h x) {
  f64h a = abs_of(y), b = abs_of(x);
  // Only the ratio counts: huge and tiny numbers are brought to where sums and products of the two are exact enough.
  const f64h most_of = a > b ? a : b;
  const f64h by = most_of > 0x1p1000 ? kdh(0x1p-100) : most_of < 0x1p-900 ? kdh(0x1p100) : kdh(1);
  const i64h none = (a == 0.0) & (b == 0.0), both = (a == __builtin_inf()) & (b == __builtin_inf());
  a = both ? kdh(1) : a * by;
  b = none | both ? kdh(1) : b * by;
  const i64h steep = a > b;
  const f64h num = steep ? b : a, den = steep ? a : b;
  f64h r = atan_of_ratio(den == __builtin_inf() ? kdh(0) : num, den == __builtin_inf() ? kdh(1) : den);
  r = steep ? kHalfPi64 - (r - kHalfPiRest64) : r;
  r = bits(x) < 0 ? 2 * kHalfPi64 - (r - 2 * kHalfPiRest64) : r;
  return sign_of(x != x ? x : y != y ? y : r, y);
}

/// asin of a where that is at most 1/2, else asin(sqrt((1 - a) / 2)), for 0 <= a <= 1.
AOTC_I f64h asin_near(f64h a) {
  const i64h large = a > 0.5;
  const f64h z = large ? fma(a, kdh(-0.5), 0.5) : a * a, s = large ? sqrt_h(z) : a;
  f64h p = kdh(3.47933107596021167570e-05);
  p = fma(p, z, 7.91534994289814532176e-04);
  p = fma(p, z, -4.00555345006794114027e-02);
  p = fma(p, z, 2.01212532134862925881e-01);
  p = fma(p, z, -3.25565818622400915405e-01);
  p = fma(p, z, 1.66666666666666657415e-01);
  f64h q = kdh(7.70381505559019352791e-02);
  q = fma(q, z, -6.88283971605453293030e-01);
  q = fma(q, z, 2.02094576023350569471e+00);
  q = fma(q, z, -2.40339491173441421878e+00);
  q = fma(q, z, 1.0);
  return fma(z * (p / q), s, s);
}
AOTC_I f64h asin_of(f64h x) {
  const f64h a = abs_of(x), y = asin_near(a);
  return sign_of(a > 0.5 ? kHalfPi64 - (y + y - kHalfPiRest64) : y, x);
}
AOTC_I f64h acos_of(f64h x) {
  const f64h a = abs_of(x), y = asin_near(a), twice = y + y;
  return a > 0.5 ? (x < 0.0 ? 2 * kHalfPi64 - (twice - 2 * kHalfPiRest64) : twice) : kHalfPi64 - (sign_of(y, x) - kHalfPiRest64);
}

AOTC_I f64h sinh_of(f64h x) {
  const f64h a = abs_of(x), m = expm1_of(a < 700.0 ? a : kdh(0)), half = exp_of(a * 0.5);
  const f64h y = 0.5 * (m + m / (m + 1.0));
  return x != x ? x : sign_of(a < 700.0 ? y : 0.5 * half * half, x);
}
AOTC_I f64h cosh_of(f64h x) {
  const f64h a = abs_of(x), e = exp_of(a < 700.0 ? a : kdh(0)), half = exp_of(a * 0.5);
  return x != x ? x : a < 700.0 ? 0.5 * e + 0.5 / e : 0.5 * half * half;
}
constexpr double kLn2Of64 = 0.693147180559945309417;
AOTC_I f64h asinh_of(f64h x) {
  const f64h a = abs_of(x), z = a * a;
  const i64h large = a > 1e9;
  const f64h y = large ? log_of(a) + kLn2Of64 : log1p_of(a + z / (1.0 + sqrt_h(z + 1.0)));
  return x != x ? x : sign_of(y, x);
}
AOTC_I f64h acosh_of(f64h x) {
  const f64h t = x - 1.0;
  return x > 1e9 ? log_of(x) + kLn2Of64 : x < 1.0 ? kdh(__builtin_nan("")) : log1p_of(t + sqrt_h(t * (x + 1.0)));
}
AOTC_I f64h atanh_of(f64h x) {
  const f64h a = abs_of(x);
  return sign_of(0.5 * log1p_of((a + a) / (1.0 - a)), x);
}

#define AOTC_HALVES(name) \
  AOTC_F f64v v_##name(f64v x) { return {name##_of(x.lo), name##_of(x.hi)}; }
AOTC_HALVES(atan)
AOTC_HALVES(asin)
AOTC_HALVES(acos)
AOTC_HALVES(sinh)
AOTC_HALVES(cosh)
AOTC_HALVES(asinh)
AOTC_HALVES(acosh)
AOTC_HALVES(atanh)
#undef AOTC_HALVES
AOTC_F f64v v_atan2(f64v y, f64v x) { return {atan2_of(y.lo, x.lo), atan2_of(y.hi, x.hi)}; }

}  // namespace
