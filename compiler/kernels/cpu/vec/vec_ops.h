#pragma once
// The pointwise core ops that are not transcendental, for every register type; v_<op> has the meaning of <op> in graph/ops.def.
#include "vec_memory.h"
#include "vec_turn.h"

namespace {

#define AOTC_PAIR2(f, a, b) \
  { f(a.lo, b.lo), f(a.hi, b.hi) }
// A binary operator on all register types.
#define AOTC_BIN_ALL(name, OP)                                              \
  AOTC_I f32v name(f32v a, f32v b) { return a OP b; }                       \
  AOTC_I i32v name(i32v a, i32v b) { return a OP b; }                       \
  AOTC_I f64v name(f64v a, f64v b) { return {a.lo OP b.lo, a.hi OP b.hi}; } \
  AOTC_I i64v name(i64v a, i64v b) { return {a.lo OP b.lo, a.hi OP b.hi}; }
#define AOTC_BIN_FLT(name, OP)                        \
  AOTC_I f32v name(f32v a, f32v b) { return a OP b; } \
  AOTC_I f64v name(f64v a, f64v b) { return {a.lo OP b.lo, a.hi OP b.hi}; }
#define AOTC_BIN_INT(name, OP)                        \
  AOTC_I i32v name(i32v a, i32v b) { return a OP b; } \
  AOTC_I i64v name(i64v a, i64v b) { return {a.lo OP b.lo, a.hi OP b.hi}; }
#define AOTC_CMP(name, OP)                                                                              \
  AOTC_I i32v name(f32v a, f32v b) { return a OP b; }                                                   \
  AOTC_I i32v name(i32v a, i32v b) { return a OP b; }                                                   \
  AOTC_I i32v name(f64v a, f64v b) { return narrow(i64v{(i64h)(a.lo OP b.lo), (i64h)(a.hi OP b.hi)}); } \
  AOTC_I i32v name(i64v a, i64v b) { return narrow(i64v{(i64h)(a.lo OP b.lo), (i64h)(a.hi OP b.hi)}); }
AOTC_BIN_ALL(v_add, +)
AOTC_BIN_ALL(v_sub, -)
AOTC_BIN_ALL(v_mul, *)
AOTC_BIN_FLT(v_div, /)
AOTC_BIN_INT(v_bit_and, &)
AOTC_BIN_INT(v_bit_or, |)
AOTC_BIN_INT(v_bit_xor, ^)
AOTC_CMP(v_eq, ==)
AOTC_CMP(v_ne, !=)
AOTC_CMP(v_lt, <)
AOTC_CMP(v_le, <=)
AOTC_CMP(v_gt, >)
AOTC_CMP(v_ge, >=)
#undef AOTC_BIN_ALL
#undef AOTC_BIN_FLT
#undef AOTC_BIN_INT
#undef AOTC_CMP

// Splats of each register type's constant, so that templates below can name them.
AOTC_I f32v like(f32v, double x) { return kf(static_cast<float>(x)); }
AOTC_I f64v like(f64v, double x) { return kd(x); }
AOTC_I i32v like(i32v, double x) { return ki(static_cast<int32_t>(x)); }
AOTC_I i64v like(i64v, double x) { return kl(static_cast<int64_t>(x)); }

AOTC_I f32v v_neg(f32v a) { return -a; }
AOTC_I f64v v_neg(f64v a) { return {-a.lo, -a.hi}; }
AOTC_I i32v v_neg(i32v a) { return -a; }
AOTC_I i64v v_neg(i64v a) { return {-a.lo, -a.hi}; }
AOTC_I f64v from_bits(i64v a) { return {(f64h)a.lo, (f64h)a.hi}; }
AOTC_I i64v bits(f64v a) { return {(i64h)a.lo, (i64h)a.hi}; }
AOTC_I i32v v_bitwise_not(i32v a) { return ~a; }
AOTC_I i64v v_bitwise_not(i64v a) { return {~a.lo, ~a.hi}; }
AOTC_I i32v v_logical_not(i32v a) { return ~a; }
AOTC_I f32v v_abs(f32v a) { return as_f32(bits(a) & 0x7fffffff); }
AOTC_I f64v v_abs(f64v a) { return from_bits(v_bit_and(bits(a), kl(INT64_MAX))); }
AOTC_I i32v v_abs(i32v a) { return a < 0 ? -a : a; }
AOTC_I i64v v_abs(i64v a) { return sel(v_lt(a, kl(0)), v_neg(a), a); }
template <class V>
AOTC_I V v_sign(V a) {  // NaN gives 0, as PyTorch's CPU kernel
  const V zero = like(a, 0), one = like(a, 1);
  return sel(v_gt(a, zero), one, sel(v_lt(a, zero), v_neg(one), zero));
}
AOTC_I f32v v_copysign(f32v a, f32v b) { return as_f32((bits(a) & 0x7fffffff) | (bits(b) & INT32_MIN)); }
AOTC_I f64v v_copysign(f64v a, f64v b) { return from_bits(v_bit_or(v_bit_and(bits(a), kl(INT64_MAX)), v_bit_and(bits(b), kl(INT64_MIN)))); }
template <class V>
AOTC_I i32v v_isnan(V a) {
  return v_ne(a, a);
}
AOTC_I i32v v_isinf(f32v a) { return v_abs(a) == __builtin_inff(); }
AOTC_I i32v v_isinf(f64v a) { return v_eq(v_abs(a), kd(__builtin_inf())); }
AOTC_I i32v v_isinf(i32v a) { return a ^ a; }
AOTC_I i32v v_isinf(i64v) { return ki(0); }

// maxps and minps: b where either is NaN.
#if defined(__clang__)
AOTC_I f32v greatest_or_b(f32v a, f32v b) { return a > b ? a : b; }
AOTC_I f32v least_or_b(f32v a, f32v b) { return a < b ? a : b; }
#elif AOTC_L == 16
AOTC_I f32v greatest_or_b(f32v a, f32v b) { return __builtin_ia32_maxps512_mask(a, b, a, static_cast<uint16_t>(-1), 4); }
AOTC_I f32v least_or_b(f32v a, f32v b) { return __builtin_ia32_minps512_mask(a, b, a, static_cast<uint16_t>(-1), 4); }
#else
AOTC_I f32v greatest_or_b(f32v a, f32v b) { return __builtin_ia32_maxps256(a, b); }
AOTC_I f32v least_or_b(f32v a, f32v b) { return __builtin_ia32_minps256(a, b); }
#endif
/// A splat of a number known to the compiler, which is no zero.
AOTC_I bool known(f32v x) { return __builtin_constant_p(x[0]) && (x[0] < 0 || x[0] > 0); }
// NaN wins in both.
template <class V>
AOTC_I V v_maximum(V a, V b) {
  const V m = sel(v_gt(a, b), a, b);
  return sel(v_ne(a, a), a, m);
}
template <class V>
AOTC_I V v_minimum(V a, V b) {
  const V m = sel(v_lt(a, b), a, b);
  return sel(v_ne(a, a), a, m);
}
AOTC_I f32v v_maximum(f32v a, f32v b) { return known(b) ? greatest_or_b(b, a) : v_maximum<f32v>(a, b); }
AOTC_I f32v v_minimum(f32v a, f32v b) { return known(b) ? least_or_b(b, a) : v_minimum<f32v>(a, b); }
AOTC_I i32v v_maximum(i32v a, i32v b) { return a > b ? a : b; }
AOTC_I i32v v_minimum(i32v a, i32v b) { return a < b ? a : b; }
AOTC_I i64v v_maximum(i64v a, i64v b) { return {a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi}; }
AOTC_I i64v v_minimum(i64v a, i64v b) { return {a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi}; }
AOTC_I f32v v_relu(f32v a) { return greatest_or_b(kf(0), a); }
template <class V>
AOTC_I V v_relu(V a) {  // NaN: the comparison is false, so a is kept
  return sel(v_lt(a, like(a, 0)), like(a, 0), a);
}

#if AOTC_L == 16
#define AOTC_ROUND(name, mode)                                                                                  \
  AOTC_I f32v name(f32v a) { return __builtin_ia32_rndscaleps_mask(a, mode, a, static_cast<uint16_t>(-1), 4); } \
  AOTC_I f64h name(f64h a) { return __builtin_ia32_rndscalepd_mask(a, mode, a, static_cast<uint8_t>(-1), 4); }
#else
#define AOTC_ROUND(name, mode)                                            \
  AOTC_I f32v name(f32v a) { return __builtin_ia32_roundps256(a, mode); } \
  AOTC_I f64h name(f64h a) { return __builtin_ia32_roundpd256(a, mode); }
#endif
AOTC_ROUND(rnd_even, 8)
AOTC_ROUND(rnd_down, 9)
AOTC_ROUND(rnd_up, 10)
AOTC_ROUND(rnd_zero, 11)
#undef AOTC_ROUND
#define AOTC_ROUND_OP(name, f)                            \
  AOTC_I f32v name(f32v a) { return f(a); }               \
  AOTC_I f64v name(f64v a) { return {f(a.lo), f(a.hi)}; } \
  AOTC_I i32v name(i32v a) { return a; }                  \
  AOTC_I i64v name(i64v a) { return a; }
AOTC_ROUND_OP(v_round, rnd_even)
AOTC_ROUND_OP(v_floor, rnd_down)
AOTC_ROUND_OP(v_ceil, rnd_up)
AOTC_ROUND_OP(v_trunc, rnd_zero)
#undef AOTC_ROUND_OP

#if AOTC_L == 16 && defined(__clang__)
AOTC_I f32v v_sqrt(f32v a) { return __builtin_ia32_sqrtps512(a, 4); }
AOTC_I f64h sqrt_h(f64h a) { return __builtin_ia32_sqrtpd512(a, 4); }
#elif AOTC_L == 16
AOTC_I f32v v_sqrt(f32v a) { return __builtin_ia32_sqrtps512_mask(a, a, static_cast<uint16_t>(-1), 4); }
AOTC_I f64h sqrt_h(f64h a) { return __builtin_ia32_sqrtpd512_mask(a, a, static_cast<uint8_t>(-1), 4); }
#else
AOTC_I f32v v_sqrt(f32v a) { return __builtin_ia32_sqrtps256(a); }
AOTC_I f64h sqrt_h(f64h a) { return __builtin_ia32_sqrtpd256(a); }
#endif
AOTC_I f64v v_sqrt(f64v a) { return {sqrt_h(a.lo), sqrt_h(a.hi)}; }
template <class V>
AOTC_I V v_reciprocal(V a) {
  return v_div(like(a, 1), a);
}
template <class V>
AOTC_I V v_rsqrt(V a) {
  return v_div(like(a, 1), v_sqrt(a));
}

/// A divisor of many: multiplies by the reciprocal where that is neither huge nor subnormal (the quotient is then within 1.5 ulp).
struct divisor {
  f32v y, reciprocal;
  bool safe;
};
AOTC_I divisor divide_by(f32v y) {
  const float a = __builtin_fabsf(y[0]);
  return {y, 1.0f / y, a > 1e-36f && a < 1e36f};
}
AOTC_I f32v div_by(f32v x, const divisor& d) { return d.safe ? x * d.reciprocal : x / d.y; }

// ---- division -------------------------------------------------------------------------------------------------------------------------
// Integers lane by lane (no machine has a vector integer division); a divisor of 0 gives 0.
template <class V, class F>
AOTC_I V lane_by_lane(V a, V b, F f) {
  typedef decltype(f(0, 0)) T;
  constexpr int n = sizeof(V) / sizeof(T);
  T x[n], y[n];
  __builtin_memcpy(x, &a, sizeof x);
  __builtin_memcpy(y, &b, sizeof y);
  for (int l = 0; l < n; ++l) x[l] = f(x[l], y[l]);
  __builtin_memcpy(&a, x, sizeof x);
  return a;
}
#define AOTC_INT_DIV(name, EXPR)                                                                                              \
  AOTC_F i32v name(i32v a, i32v b) {                                                                                          \
    return lane_by_lane(a, b, [](int32_t x, int32_t y) -> int32_t { return y == 0 ? 0 : (y == -1 ? (EXPR##_M1) : (EXPR)); }); \
  }                                                                                                                           \
  AOTC_F i64v name(i64v a, i64v b) {                                                                                          \
    return lane_by_lane(a, b, [](int64_t x, int64_t y) -> int64_t { return y == 0 ? 0 : (y == -1 ? (EXPR##_M1) : (EXPR)); }); \
  }
#define AOTC_TRUNC x / y
#define AOTC_TRUNC_M1 -x
#define AOTC_FLOOR x / y - ((x % y != 0) & ((x < 0) != (y < 0)))
#define AOTC_FLOOR_M1 -x
#define AOTC_FMOD x % y
#define AOTC_FMOD_M1 0
#define AOTC_REM x - (x / y - ((x % y != 0) & ((x < 0) != (y < 0)))) * y
#define AOTC_REM_M1 0
AOTC_INT_DIV(v_div_trunc, AOTC_TRUNC)
AOTC_INT_DIV(v_div_floor, AOTC_FLOOR)
AOTC_INT_DIV(v_fmod, AOTC_FMOD)
AOTC_INT_DIV(v_remainder, AOTC_REM)
#undef AOTC_INT_DIV
template <class V>
AOTC_I V fl_div_trunc(V a, V b) {
  return v_trunc(v_div(a, b));
}
AOTC_I f32v v_div_trunc(f32v a, f32v b) { return fl_div_trunc(a, b); }
AOTC_I f64v v_div_trunc(f64v a, f64v b) { return fl_div_trunc(a, b); }
extern "C" double fmod(double, double) noexcept;
extern "C" float fmodf(float, float) noexcept;
/// Exact: in f64 a quotient of two f32 below 2^29 is not rounded across a whole number, and what the divisor's multiple leaves fits.
AOTC_F f32v v_fmod(f32v a, f32v b) {
  const f64v x = to_f64(a), y = to_f64(b), q = v_trunc(v_div(x, y));
  const i32v near = v_lt(v_abs(q), kd(0x1p29)) & v_lt(v_abs(b), kf(__builtin_inff()));
  if (__builtin_expect(any(~near), 0)) return lane_by_lane(a, b, [](float u, float v) -> float { return fmodf(u, v); });
  const f64v r = {x.lo - q.lo * y.lo, x.hi - q.hi * y.hi};
  return v_copysign(to_f32(r), a);
}
/// Exact: a quotient below 2^52 is rounded across a whole number only upwards, and what is left then lies below 0 by less than b.
AOTC_I f64h what_is_left(f64h a, f64h b, f64h q) {
  const f64h r = a - q * b;
  return r < 0.0 ? r + b : r;
}
AOTC_F f64v v_fmod(f64v a, f64v b) {
  const f64v x = v_abs(a), y = v_abs(b), q = v_trunc(v_div(x, y));
  const i32v near = v_lt(q, kd(0x1p52)) & v_lt(y, kd(__builtin_inf()));
  if (__builtin_expect(any(~near), 0)) return lane_by_lane(a, b, [](double u, double v) -> double { return fmod(u, v); });
  return v_copysign(f64v{what_is_left(x.lo, y.lo, q.lo), what_is_left(x.hi, y.hi, q.hi)}, a);
}
template <class V>
AOTC_I V fl_remainder(V a, V b) {  // Python's %
  const V r = v_fmod(a, b), zero = like(a, 0);
  return sel(v_bit_and(v_ne(r, zero), v_bit_xor(v_lt(b, zero), v_lt(r, zero))), v_add(r, b), r);
}
AOTC_F f32v v_remainder(f32v a, f32v b) { return fl_remainder(a, b); }
AOTC_F f64v v_remainder(f64v a, f64v b) { return fl_remainder(a, b); }
/// As c10::div_floor_floating: exact where a/b rounds across an integer; b == 0 gives a / b.
template <class V>
AOTC_I V fl_div_floor(V a, V b) {
  const V zero = like(a, 0), one = like(a, 1), m = v_fmod(a, b);
  V q = v_div(v_sub(a, m), b);
  q = sel(v_bit_and(v_ne(m, zero), v_bit_xor(v_lt(b, zero), v_lt(m, zero))), v_sub(q, one), q);
  V f = v_floor(q);
  f = sel(v_gt(v_sub(q, f), like(a, 0.5)), v_add(f, one), f);
  f = sel(v_eq(q, zero), v_copysign(zero, v_div(a, b)), f);
  return sel(v_eq(b, zero), v_div(a, b), f);
}
AOTC_F f32v v_div_floor(f32v a, f32v b) { return fl_div_floor(a, b); }
AOTC_F f64v v_div_floor(f64v a, f64v b) { return fl_div_floor(a, b); }

// Shifts by a count outside [0, bits): 0, or the sign for a right shift. Narrow types: bits counts the type's own width.
AOTC_I i32v v_shl(i32v a, i32v b) { return sel((b < 0) | (b > 31), ki(0), a << (b & 31)); }
AOTC_I i32v v_shr(i32v a, i32v b) { return a >> sel((b < 0) | (b > 31), ki(31), b); }
AOTC_F i64v v_shl(i64v a, i64v b) {
  return lane_by_lane(a, b, [](int64_t x, int64_t y) -> int64_t { return y < 0 || y > 63 ? 0 : x << y; });
}
AOTC_F i64v v_shr(i64v a, i64v b) {
  return lane_by_lane(a, b, [](int64_t x, int64_t y) -> int64_t { return x >> (y < 0 || y > 63 ? 63 : y); });
}
/// Integer powers wrap; a negative exponent gives 0 but for the bases 1 and -1, as PyTorch.
template <class T>
AOTC_I T ipow(T x, T y) {
  if (y < 0) return x == 1 ? 1 : (x == -1 ? (y % 2 ? -1 : 1) : 0);
  T r = 1;
  for (; y; y /= 2, x *= x)
    if (y % 2) r *= x;
  return r;
}
AOTC_F i32v v_pow(i32v a, i32v b) {
  return lane_by_lane(a, b, [](int32_t x, int32_t y) -> int32_t { return ipow(x, y); });
}
AOTC_F i64v v_pow(i64v a, i64v b) {
  return lane_by_lane(a, b, [](int64_t x, int64_t y) -> int64_t { return ipow(x, y); });
}
template <class U, class T>
AOTC_I T igcd(T x, T y) {
  U a = x < 0 ? 0 - (U)x : (U)x, b = y < 0 ? 0 - (U)y : (U)y;
  while (b != 0) {
    const U r = a % b;
    a = b, b = r;
  }
  return (T)a;
}
AOTC_F i32v v_gcd(i32v a, i32v b) {
  return lane_by_lane(a, b, [](int32_t x, int32_t y) -> int32_t { return igcd<uint32_t>(x, y); });
}
AOTC_F i64v v_gcd(i64v a, i64v b) {
  return lane_by_lane(a, b, [](int64_t x, int64_t y) -> int64_t { return igcd<uint64_t>(x, y); });
}

/// Of unsigned numbers below 2^32 in 64 bits.
AOTC_I u64h mul_low(u64h a, u64h b) {
#if defined(__AVX512F__)
  return (u64h)__builtin_ia32_pmuludq512_mask((i32v)a, (i32v)b, ll8{}, static_cast<uint8_t>(-1));
#else
  return (u64h)__builtin_ia32_pmuludq256((i32v)a, (i32v)b);
#endif
}
/// Philox4x32-10 (Salmon et al., 2011) at the counter {low, high, 0, 0}: its first two words.
AOTC_I i64h philox_half(i64h counter, i64h key) {
  const u64h low = (u64h){} + 0xFFFFFFFFu, m0 = (u64h){} + 0xD2511F53u, m1 = (u64h){} + 0xCD9E8D57u;
  u64h c0 = (u64h)counter & low, c1 = (u64h)counter >> 32, c2 = {}, c3 = {}, k0 = (u64h)key & low, k1 = (u64h)key >> 32;
  for (int round = 0; round < 10; ++round, k0 = (k0 + 0x9E3779B9u) & low, k1 = (k1 + 0xBB67AE85u) & low) {
    const u64h a = mul_low(c0, m0), b = mul_low(c2, m1);
    c0 = (b >> 32) ^ c1 ^ k0, c1 = b & low;
    c2 = (a >> 32) ^ c3 ^ k1, c3 = a & low;
  }
  return (i64h)(c0 | c1 << 32);
}
AOTC_F i64v v_philox(i64v a, i64v b) { return {philox_half(a.lo, b.lo), philox_half(a.hi, b.hi)}; }
AOTC_F i32v v_philox(i32v a, i32v b) { return narrow(v_philox(to_i64(a), to_i64(b))); }

template <class V>
AOTC_I V v_where(i32v m, V a, V b) {
  return sel(m, a, b);
}

}  // namespace
