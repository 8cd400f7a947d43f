#pragma once
// exp, log, tanh and their like of f64 vectors: 1 ulp over the whole range, expm1, log2 and hypot 2, tanh 2.6; NaN and infinities as in C.
// Polynomials are those of Taylor, long enough that what is left out is below a quarter of an ulp; log(1 + f) is by atanh(f / (2 + f)).
#include "vec_math.h"

namespace {

AOTC_I f64h fma(f64h a, f64h b, f64h c) {
#if !defined(AOTC_SAME_BITS)
  return a * b + c;
#elif defined(__clang__)
  return __builtin_elementwise_fma(a, b, c);
#elif AOTC_L == 16
  return __builtin_ia32_vfmaddpd512_mask(a, b, c, static_cast<uint8_t>(-1), 4);
#else
  return __builtin_ia32_vfmaddpd256(a, b, c);
#endif
}
AOTC_I f64h fma(f64h a, f64h b, double c) { return fma(a, b, kdh(c)); }
AOTC_I i64h bits(f64h x) { return (i64h)x; }
AOTC_I f64h abs_of(f64h x) { return (f64h)(bits(x) & INT64_MAX); }
AOTC_I f64h sign_of(f64h x, f64h sign) { return (f64h)((bits(x) & INT64_MAX) | (bits(sign) & INT64_MIN)); }

/// x = n * ln(2) + r with |r| <= ln(2)/2, for |x| < 2000.
struct Reduced {
  f64h r, n;
  i64h k;  ///< n
};
constexpr double kWholeShift = 0x1.8p52;  ///< added, it rounds to whole numbers, which are the low bits then
AOTC_I Reduced reduce_exp(f64h x) {
  const f64h t = fma(x, kdh(1.44269504088896340736), kWholeShift), n = t - kWholeShift;
  const f64h r = fma(n, kdh(-6.93147180369123816490e-01), x);
  return {fma(n, kdh(-1.90821492927058770002e-10), r), n, bits(t) - bits(kdh(kWholeShift))};
}
/// (exp(r) - 1 - r) / r^2.
AOTC_I f64h exp_tail(f64h r) {
  f64h p = kdh(1.0 / 6227020800);
  p = fma(p, r, 1.0 / 479001600);
  p = fma(p, r, 1.0 / 39916800);
  p = fma(p, r, 1.0 / 3628800);
  p = fma(p, r, 1.0 / 362880);
  p = fma(p, r, 1.0 / 40320);
  p = fma(p, r, 1.0 / 5040);
  p = fma(p, r, 1.0 / 720);
  p = fma(p, r, 1.0 / 120);
  p = fma(p, r, 1.0 / 24);
  p = fma(p, r, 1.0 / 6);
  return fma(p, r, 0.5);
}
/// 2^k, -1022 <= k <= 1023.
AOTC_I f64h power_of_2(i64h k) { return (f64h)((k + 1023) << 52); }
/// x * 2^k for |k| <= 2044; rounds once where the result is subnormal.
AOTC_I f64h scale2(f64h x, i64h k) {
  const i64h half = (i64h)((u64h)(k + 4096) >> 1) - 2048;
  return x * power_of_2(half) * power_of_2(k - half);
}
AOTC_I f64h clamp_keep_nan(f64h x, double lo, double hi) {
  x = x > hi ? kdh(hi) : x;
  return x < lo ? kdh(lo) : x;
}

AOTC_I f64h zero_below(f64h x, double least, f64h y) { return x < least ? kdh(0) : y; }

AOTC_I f64h exp_of(f64h x) {
  const Reduced e = reduce_exp(clamp_keep_nan(x, -746, 710));
  return scale2(zero_below(x, -745.5, fma(exp_tail(e.r), e.r * e.r, e.r) + 1.0), e.k);
}
AOTC_I f64h exp2_of(f64h x) {
  const f64h c = clamp_keep_nan(x, -1080, 1030), t = c + kWholeShift, r = (c - (t - kWholeShift)) * 0.693147180559945309417;
  return scale2(zero_below(x, -1075.5, fma(exp_tail(r), r * r, r) + 1.0), bits(t) - bits(kdh(kWholeShift)));
}
AOTC_I f64h expm1_of(f64h x) {
  const Reduced e = reduce_exp(clamp_keep_nan(x, -50, 710));
  const f64h s = power_of_2(e.k - 1), y = fma(fma(exp_tail(e.r), e.r * e.r, e.r), s, s - 0.5);  // a half: 2^n may overflow alone
  return x == 0.0 ? x : y + y;
}
/// -m / (m + 2) of m = exp(-2 |x|) - 1.
AOTC_I f64h tanh_of(f64h x) {
  const f64h a = abs_of(x);
  const Reduced e = reduce_exp((a > 20.0 ? kdh(20) : a) * -2.0);
  const f64h s = power_of_2(e.k), m = fma(fma(exp_tail(e.r), e.r * e.r, e.r), s, s - 1.0);
  return sign_of(m / (m + 2.0), x);
}

/// x = (1 + f) * 2^k with 1 + f in [sqrt(1/2), sqrt(2)), for finite x > 0.
struct Split {
  f64h f, k;
};
AOTC_I Split split(f64h x) {
  const i64h tiny = x < 2.2250738585072014e-308;
  x = tiny ? x * 0x1p54 : x;
  const i64h sqrt_half = klh(0x3fe6a09e667f3bcd);
  // The exponent's distance from that of sqrt(1/2), in the upper bits of a number that is not negative.
  const i64h up = (i64h)((u64h)(bits(x) - sqrt_half + klh(int64_t{2048} << 52)) >> 52);
  const f64h k = (f64h)(up + bits(kdh(0x1p52))) - (0x1p52 + 2048);
  return {(f64h)(bits(x) - ((up - 2048) << 52)) - 1.0, k - (tiny ? kdh(54) : kdh(0))};
}
/// log(1 + f) - f.
AOTC_I f64h log_tail(f64h f) {
  const f64h s = f / (f + 2.0), z = s * s, half = f * f * 0.5;
  f64h p = kdh(2.0 / 23);
  p = fma(p, z, 2.0 / 21);
  p = fma(p, z, 2.0 / 19);
  p = fma(p, z, 2.0 / 17);
  p = fma(p, z, 2.0 / 15);
  p = fma(p, z, 2.0 / 13);
  p = fma(p, z, 2.0 / 11);
  p = fma(p, z, 2.0 / 9);
  p = fma(p, z, 2.0 / 7);
  p = fma(p, z, 2.0 / 5);
  p = fma(p, z, 2.0 / 3);
  return fma(s, fma(p, z, half), -half);
}
AOTC_I f64h log_edges(f64h x, f64h y) {
  y = x == __builtin_inf() ? x : y;
  y = x == 0.0 ? kdh(-__builtin_inf()) : y;
  y = x < 0.0 ? kdh(__builtin_nan("")) : y;
  return x != x ? x : y;
}
constexpr double kLn2Hi = 6.93147180369123816490e-01, kLn2Lo = 1.90821492927058770002e-10;  // fdlibm's halves: hi * k is exact
AOTC_I f64h log_of(f64h x) {
  const Split s = split(x);
  return log_edges(x, fma(s.k, kdh(kLn2Hi), s.f + fma(s.k, kdh(kLn2Lo), log_tail(s.f))));
}
AOTC_I f64h log2_of(f64h x) {
  const Split s = split(x);
  const f64h t = log_tail(s.f), m = s.f + t, rest = (s.f - m) + t;
  // log2(e) = 1.4426950216293335 + 1.92596299112661746887e-8.
  const f64h l = fma(m, kdh(1.92596299112661746887e-8), rest * 1.44269504088896340736);
  return log_edges(x, fma(m, kdh(1.4426950216293335), l) + s.k);
}
AOTC_I f64h log1p_of(f64h x) {
  const f64h u = x + 1.0;
  const Split s = split(u);
  const f64h back = u - 1.0, lost = ((x - back) + (1.0 - (u - back))) / u;  // what rounding 1 + x lost, relative
  const f64h y = log_edges(u, fma(s.k, kdh(kLn2Hi), s.f + (fma(s.k, kdh(kLn2Lo), log_tail(s.f)) + lost)));
  return abs_of(x) < 1e-16 ? x : x == __builtin_inf() ? x : y;
}

#define AOTC_HALVES(name) \
  AOTC_F f64v v_##name(f64v x) { return {name##_of(x.lo), name##_of(x.hi)}; }
AOTC_HALVES(exp)
AOTC_HALVES(exp2)
AOTC_HALVES(expm1)
AOTC_HALVES(tanh)
AOTC_HALVES(log)
AOTC_HALVES(log2)
AOTC_HALVES(log1p)
#undef AOTC_HALVES

AOTC_I f64h hypot_of(f64h x, f64h y) {
  const f64h a = abs_of(x), b = abs_of(y), most = a > b ? a : b;
  const f64h by = most > 0x1p500 ? kdh(0x1p-600) : most < 0x1p-400 ? kdh(0x1p600) : kdh(1), u = a * by, v = b * by;
  const f64h r = sqrt_h(u * u + v * v) / by;
  return (a == __builtin_inf()) | (b == __builtin_inf()) ? kdh(__builtin_inf()) : r;
}
AOTC_F f64v v_hypot(f64v x, f64v y) { return {hypot_of(x.lo, y.lo), hypot_of(x.hi, y.hi)}; }

/// log(exp(x) + exp(y)) without overflow.
AOTC_I f64h logaddexp_of(f64h x, f64h y) {
  const f64h most = x > y ? x : y, least = x > y ? y : x;
  const f64h r = most + log1p_of(exp_of(least - most));
  return (x == y) & (abs_of(x) == __builtin_inf()) ? x : r;
}
AOTC_F f64v v_logaddexp(f64v x, f64v y) { return {logaddexp_of(x.lo, y.lo), logaddexp_of(x.hi, y.hi)}; }

}  // namespace
