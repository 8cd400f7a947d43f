#pragma once
// pow, erfc and erfinv of f32 vectors: pow is rounded once nearly always (it is computed in f64), erfc has 3 ulp, erfinv 4; NaN, infinities
// and signs of zeros as in C. Polynomials of erfc and erfinv are weighted least squares over Chebyshev nodes: erfc after M. Shepherd and
// J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x" (1981), erfinv after M. Giles, "Approximating the erfinv function"
// (GPU Computing Gems, 2010).
#include "vec_math_circular.h"

namespace {

/// log2 of finite a > 0 that was an f32, to 1e-10 of it.
AOTC_I f64h log2_of_single(f64h a) {
  const Split x = split(a);
  const f64h s = x.f / (x.f + 2.0), z = s * s;
  f64h p = kdh(2.0 / 13);
  p = fma(p, z, 2.0 / 11);
  p = fma(p, z, 2.0 / 9);
  p = fma(p, z, 2.0 / 7);
  p = fma(p, z, 2.0 / 5);
  p = fma(p, z, 2.0 / 3);
  p = fma(p, z, 2.0);
  return fma(s * p, kdh(1.44269504088896340736), x.k);
}
/// 2^t to 1e-9 of it; t within [-1000, 1000] or NaN.
AOTC_I f64h exp2_to_single(f64h t) {
  const f64h whole = t + kWholeShift, r = (t - (whole - kWholeShift)) * kLn2Of64;
  f64h p = kdh(1.0 / 40320);
  p = fma(p, r, 1.0 / 5040);
  p = fma(p, r, 1.0 / 720);
  p = fma(p, r, 1.0 / 120);
  p = fma(p, r, 1.0 / 24);
  p = fma(p, r, 1.0 / 6);
  p = fma(p, r, 0.5);
  p = fma(p, r, 1.0);
  p = fma(p, r, 1.0);
  return p * power_of_2(bits(whole) - bits(kdh(kWholeShift)));
}
AOTC_I f64h pow_of_single(f64h a, f64h y) {
  f64h l = log2_of_single(a);
  l = a == 0.0 ? kdh(-__builtin_inf()) : a == __builtin_inf() ? a : l;
  l = a != a ? a : l;
  return exp2_to_single(clamp_keep_nan(y * l, -1000, 1000));
}
AOTC_F f32v v_pow(f32v x, f32v y) {
  const f32v a = v_abs(x), whole = rnd_zero(y), half = y * 0.5f;
  const f64v base = to_f64(a), exponent = to_f64(y);
  f32v r = to_f32(f64v{pow_of_single(base.lo, exponent.lo), pow_of_single(base.hi, exponent.hi)});
  r = (a == 1.0f) & ((y == y) | (x == 1.0f)) ? kf(1) : r;
  const i32v odd = (whole == y) & (rnd_zero(half) != half);
  r = (bits(x) < 0) & odd ? -r : r;
  r = (x < 0.0f) & (a != __builtin_inff()) & (whole != y) ? kf(__builtin_nanf("")) : r;
  return y == 0.0f ? kf(1) : r;
}

AOTC_F f32v v_erfc(f32v x) {
  const f32v a = v_abs(x), t = least_or_b(kf(10.2f), a);  // erfc(10.2) is below every number, NaN stays
  // q = (t - 4) / (t + 4), from -1 to 0.44.
  const f32v by = 1.0f / (t + 4.0f), near = (t - 4.0f) * by;
  const f32v q = fma(by, fma(near, -t, fma(near + 1.0f, kf(-4.0f), t)), near);
  f32v p = kf(8.08896963e-4f);
  p = fma(p, q, 6.79697096e-3f);
  p = fma(p, q, -1.61062106e-2f);
  p = fma(p, q, 3.63974199e-2f);
  p = fma(p, q, -6.65735006e-2f);
  p = fma(p, q, 9.38417837e-2f);
  p = fma(p, q, -1.00995533e-1f);
  p = fma(p, q, 6.8091087e-2f);
  p = fma(p, q, 1.53774451e-2f);
  p = fma(p, q, -1.39621004e-1f);
  p = fma(p, q, 2.32995138e-1f);
  // (1 + p) / (1 + 2t), and what rounding that quotient lost.
  const f32v over = 1.0f / fma(kf(2.0f), t, 1.0f), first = fma(p, over, over);
  const f32v ratio = fma((p - first) + fma(first * -2.0f, t, 1.0f), over, first);
  // exp(-t^2) of the upper half of t's digits, whose square is exact, and of the rest, at most 0.05.
  const f32v upper = as_f32(bits(t) & ~0xfff), d = (t - upper) * (t + upper);
  f32v rest = kf(1.0f / 24);
  rest = fma(rest, d, -1.0f / 6);
  rest = fma(rest, d, 0.5f);
  rest = fma(rest, d, -1.0f);
  const f32v e = v_exp(-upper * upper), y = fma(rest * d, e, e) * ratio;
  return a < 0x1p-12f ? fma(x, kf(-1.12837917f), 1.0f) : x < 0.0f ? 2.0f - y : y;
}

AOTC_F f32v v_erfinv(f32v x) {
  const f32v w = -v_log((1.0f - x) * (1.0f + x));
  const i32v far = w > 5.0f;
  const f32v u = far ? v_sqrt(w) - 3.0f : w - 2.5f;
  f32v p = far ? kf(0.0f) : kf(-8.94141383e-9f);
  const auto add = [&](float near_end, float far_end) __attribute__((always_inline)) { p = fma(p, u, far ? kf(far_end) : kf(near_end)); };
  add(2.32647999e-8f, -1.5902915e-4f);
  add(4.68266961e-7f, 7.9552854e-5f);
  add(-3.46309298e-6f, 1.29211508e-3f);
  add(-4.97306974e-6f, -3.65276146e-3f);
  add(2.18345886e-4f, 5.7653999e-3f);
  add(-1.25272525e-3f, -7.62765808e-3f);
  add(-4.17738827e-3f, 9.43502411e-3f);
  add(2.4664028e-1f, 1.00167441f);
  add(1.50140941f, 2.83297706f);
  const f32v a = v_abs(x);
  return a == 1.0f ? v_copysign(kf(__builtin_inff()), x) : a < 1.0f ? p * x : kf(__builtin_nanf(""));
}

}  // namespace
