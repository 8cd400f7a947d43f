#pragma once
// Vectors for generated CPU code: AOTC_L lanes of every element type. GCC vector extensions and a few __builtin_ia32; no header but
// <stdint.h>, internal linkage throughout (one instruction set a translation unit). Register types: f32v holds f32, bf16 and f16;
// f64v f64; i64v i64; i32v all narrower integers (kept sign- or zero-extended) and bool (all bits set or none).
// Needs GCC 12 or newer, or Clang; compile with -fwrapv.
#include <stdint.h>

#if defined(__AVX512F__)
#define AOTC_L 16
#else
#define AOTC_L 8
#endif
// AOTC_SAME_BITS: results have the same bits with every instruction set. Nothing is contracted but by fma(), polynomials are those of eight
// lanes, and sums along a row go by the sixteen lanes that one set of accumulators has: AOTC_SUM_VECTORS vectors.
#if defined(AOTC_SAME_BITS)
#define AOTC_SUM_VECTORS (16 / AOTC_L)
#else
#define AOTC_SUM_VECTORS 1
#endif
#define AOTC_SUM_L (AOTC_L * AOTC_SUM_VECTORS)
// Instructions and tables that only wide vectors have; GCC's builtins.
#if AOTC_L == 16 && !defined(__clang__) && !defined(AOTC_SAME_BITS)
#define AOTC_WIDE_MATH 1
#else
#define AOTC_WIDE_MATH 0
#endif
#define AOTC_I static inline __attribute__((always_inline, unused))
#define AOTC_F static inline __attribute__((unused))
#define AOTC_I_MEMBER __attribute__((always_inline))
#define AOTC_VEC(n) __attribute__((vector_size(n)))
#define AOTC_MEM(n) __attribute__((vector_size(n), aligned(1), may_alias))

namespace {

typedef float f32v AOTC_VEC(AOTC_L * 4);
typedef int32_t i32v AOTC_VEC(AOTC_L * 4);
typedef uint32_t u32v AOTC_VEC(AOTC_L * 4);
typedef int64_t i64h AOTC_VEC(AOTC_L * 4);
typedef uint64_t u64h AOTC_VEC(AOTC_L * 4);
typedef double f64h AOTC_VEC(AOTC_L * 4);
typedef float f32h AOTC_VEC(AOTC_L * 2);
typedef int32_t i32h AOTC_VEC(AOTC_L * 2);
typedef int16_t i16q AOTC_VEC(AOTC_L * 2);
typedef uint16_t u16q AOTC_VEC(AOTC_L * 2);
typedef int8_t i8q AOTC_VEC(AOTC_L);
typedef uint8_t u8q AOTC_VEC(AOTC_L);
struct f64v {
  f64h lo, hi;
};
struct i64v {
  i64h lo, hi;
};

// Element types in memory that C++ has no type for.
struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};
/// A bf16 in memory; what is stored is one already and need not be rounded.
struct bf16_as_is {
  uint16_t bits;
};
struct e4m3fn {
  uint8_t bits;
};
struct e5m2 {
  uint8_t bits;
};
struct b8 {
  uint8_t value;
};

/// A compile-time number, passed as an argument.
template <int N>
struct number {
  static constexpr int value = N;
};
/// What follows, for each of n.value vectors side by side.
#define AOTC_EACH _Pragma("GCC unroll 8") for (int u = 0; u < n.value; ++u)
// How many lanes of a vector are alive: all, or the first n.
struct full {};
struct part {
  int n;
};

/// body(lanes, number of the vector, point) of AOTC_SUM_L lanes from point v on, those of the accumulators' set `u`.
template <int U, class Body>
AOTC_I void sum_lanes(full w, number<U>, int64_t v, const Body& body) {
  body(w, number<AOTC_SUM_VECTORS * U>(), v);
#if AOTC_SUM_VECTORS == 2
  body(w, number<2 * U + 1>(), v + AOTC_L);
#endif
}
template <int U, class Body>
AOTC_I void sum_lanes(part w, number<U>, int64_t v, const Body& body) {
#if AOTC_SUM_VECTORS == 2
  if (w.n >= AOTC_L) {
    body(full(), number<2 * U>(), v);
    if (w.n > AOTC_L) body(part{w.n - AOTC_L}, number<2 * U + 1>(), v + AOTC_L);
    return;
  }
#endif
  body(w, number<AOTC_SUM_VECTORS * U>(), v);
}

// f of each lane, of each lane of a half.
#define AOTC_LANES_4(f, d, c) f(c, d), f(c + 1, d), f(c + 2, d), f(c + 3, d)
#if AOTC_L == 16
#define AOTC_HALF_LANES(f, d) AOTC_LANES_4(f, d, 0), AOTC_LANES_4(f, d, 4)
#define AOTC_LANES(f, d) AOTC_HALF_LANES(f, d), AOTC_LANES_4(f, d, 8), AOTC_LANES_4(f, d, 12)
#define AOTC_LANES_LO(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define AOTC_LANES_HI(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#define AOTC_JOIN(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define AOTC_EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31)
#define AOTC_REVERSED(v) __builtin_shufflevector(v, v, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
AOTC_I i32v iota32() { return i32v{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }
AOTC_I i64v iota64() { return {i64h{0, 1, 2, 3, 4, 5, 6, 7}, i64h{8, 9, 10, 11, 12, 13, 14, 15}}; }
#else
#define AOTC_HALF_LANES(f, d) AOTC_LANES_4(f, d, 0)
#define AOTC_LANES(f, d) AOTC_HALF_LANES(f, d), AOTC_LANES_4(f, d, 4)
#define AOTC_LANES_LO(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define AOTC_LANES_HI(v) __builtin_shufflevector(v, v, 4, 5, 6, 7)
#define AOTC_JOIN(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define AOTC_EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#define AOTC_REVERSED(v) __builtin_shufflevector(v, v, 7, 6, 5, 4, 3, 2, 1, 0)
AOTC_I i32v iota32() { return i32v{0, 1, 2, 3, 4, 5, 6, 7}; }
AOTC_I i64v iota64() { return {i64h{0, 1, 2, 3}, i64h{4, 5, 6, 7}}; }
#endif

AOTC_I f32v kf(float x) { return x - f32v{}; }
AOTC_I i32v ki(int32_t x) { return x - i32v{}; }
AOTC_I f64h kdh(double x) { return x - f64h{}; }
AOTC_I i64h klh(int64_t x) { return x - i64h{}; }
AOTC_I f64v kd(double x) { return {kdh(x), kdh(x)}; }
AOTC_I i64v kl(int64_t x) { return {klh(x), klh(x)}; }
AOTC_I i32v kb(bool x) { return ki(-static_cast<int32_t>(x)); }
/// base, base + step, ...
AOTC_I i64v ramp(int64_t base, int64_t step) {
  const i64v i = iota64();
  return {i.lo * step + base, i.hi * step + base};
}

/// x, which no sum takes as a product that was not rounded.
AOTC_I f32v rounded(f32v x) {
  asm("" : "+x"(x));
  return x;
}
AOTC_I f64v rounded(f64v x) {
  asm("" : "+x"(x.lo), "+x"(x.hi));
  return x;
}

AOTC_I i32v bits(f32v x) { return (i32v)x; }
AOTC_I f32v as_f32(i32v x) { return (f32v)x; }

// ---- conversions of one vector: what __builtin_convertvector means, in one instruction where GCC 12 would use several ------------------
#if AOTC_L == 16 && !defined(__clang__)
typedef char c16 AOTC_VEC(16);
typedef long long ll8 AOTC_VEC(64);
AOTC_I i32v ext32(i8q x) { return __builtin_ia32_pmovsxbd512_mask((c16)x, i32v{}, static_cast<uint16_t>(-1)); }
AOTC_I i32v ext32(u8q x) { return __builtin_ia32_pmovzxbd512_mask((c16)x, i32v{}, static_cast<uint16_t>(-1)); }
AOTC_I i32v ext32(i16q x) { return __builtin_ia32_pmovsxwd512_mask(x, i32v{}, static_cast<uint16_t>(-1)); }
AOTC_I i32v ext32(u16q x) { return __builtin_ia32_pmovzxwd512_mask((i16q)x, i32v{}, static_cast<uint16_t>(-1)); }
AOTC_I u8q cut8(i32v x) { return (u8q)__builtin_ia32_pmovdb512_mask(x, c16{}, static_cast<uint16_t>(-1)); }
AOTC_I u16q cut16(i32v x) { return (u16q)__builtin_ia32_pmovdw512_mask(x, i16q{}, static_cast<uint16_t>(-1)); }
AOTC_I f64h ext64(f32h x) { return __builtin_ia32_cvtps2pd512_mask(x, f64h{}, static_cast<uint8_t>(-1), 4); }
AOTC_I i64h ext64(i32h x) { return (i64h)__builtin_ia32_pmovsxdq512_mask(x, ll8{}, static_cast<uint8_t>(-1)); }
AOTC_I f32h cut32(f64h x) { return __builtin_ia32_cvtpd2ps512_mask(x, f32h{}, static_cast<uint8_t>(-1), 4); }
AOTC_I i32h cut32(i64h x) { return __builtin_ia32_pmovqd512_mask((ll8)x, i32h{}, static_cast<uint8_t>(-1)); }
#elif AOTC_L == 8 && !defined(__clang__)
typedef char c16 AOTC_VEC(16);
typedef char c32 AOTC_VEC(32);
typedef int32_t i32q AOTC_VEC(16);
typedef long long ll2 AOTC_VEC(16);
typedef long long ll4 AOTC_VEC(32);
template <class To, class From>
AOTC_I To same_bytes(From x) {
  static_assert(sizeof(To) == sizeof(From), "");
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}
template <class V>
AOTC_I c16 in_low(V eight_bytes) {
  return (c16)ll2{same_bytes<long long>(eight_bytes), 0};
}
AOTC_I i32v ext32(i8q x) { return __builtin_ia32_pmovsxbd256(in_low(x)); }
AOTC_I i32v ext32(u8q x) { return __builtin_ia32_pmovzxbd256(in_low(x)); }
AOTC_I i32v ext32(i16q x) { return __builtin_ia32_pmovsxwd256(x); }
AOTC_I i32v ext32(u16q x) { return __builtin_ia32_pmovzxwd256((i16q)x); }
AOTC_I u8q cut8(i32v x) {
  const c32 of_half = {0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                       0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  const i32v both = __builtin_ia32_permvarsi256((i32v)__builtin_ia32_pshufb256((c32)x, of_half), i32v{0, 4, 0, 4, 0, 4, 0, 4});
  return same_bytes<u8q>(((ll4)both)[0]);
}
AOTC_I u16q cut16(i32v x) {
  const c32 of_half = {0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1};
  return (u16q)__builtin_ia32_si_si256((i32v)__builtin_ia32_permdi256((ll4)__builtin_ia32_pshufb256((c32)x, of_half), 8));
}
AOTC_I f64h ext64(f32h x) { return __builtin_ia32_cvtps2pd256(x); }
AOTC_I i64h ext64(i32h x) { return (i64h)__builtin_ia32_pmovsxdq256(x); }
AOTC_I f32h cut32(f64h x) { return __builtin_ia32_cvtpd2ps256(x); }
AOTC_I i32h cut32(i64h x) { return __builtin_ia32_si_si256(__builtin_ia32_permvarsi256((i32v)x, i32v{0, 2, 4, 6, 0, 2, 4, 6})); }
#else
AOTC_I i32v ext32(i8q x) { return __builtin_convertvector(x, i32v); }
AOTC_I i32v ext32(u8q x) { return __builtin_convertvector(x, i32v); }
AOTC_I i32v ext32(i16q x) { return __builtin_convertvector(x, i32v); }
AOTC_I i32v ext32(u16q x) { return __builtin_convertvector(x, i32v); }
AOTC_I u8q cut8(i32v x) { return __builtin_convertvector(x, u8q); }
AOTC_I u16q cut16(i32v x) { return __builtin_convertvector(x, u16q); }
AOTC_I f64h ext64(f32h x) { return __builtin_convertvector(x, f64h); }
AOTC_I i64h ext64(i32h x) { return __builtin_convertvector(x, i64h); }
AOTC_I f32h cut32(f64h x) { return __builtin_convertvector(x, f32h); }
AOTC_I i32h cut32(i64h x) { return __builtin_convertvector(x, i32h); }
#endif

// ---- masks --------------------------------------------------------------------------------------------------------------------------
AOTC_I i64v widen_mask(i32v m) { return {ext64(AOTC_LANES_LO(m)), ext64(AOTC_LANES_HI(m))}; }
#if AOTC_L == 8 && !defined(__clang__)
AOTC_I i32v narrow(i64v m) {
  const f32v lows = __builtin_ia32_shufps256((f32v)m.lo, (f32v)m.hi, 0x88);  // 0 1 4 5 2 3 6 7
  return (i32v)__builtin_ia32_permdi256((ll4)lows, 0xd8);
}
#else
AOTC_I i32v narrow(i64v m) { return AOTC_JOIN(cut32(m.lo), cut32(m.hi)); }
#endif
AOTC_I f32v sel(i32v m, f32v a, f32v b) { return m ? a : b; }
AOTC_I i32v sel(i32v m, i32v a, i32v b) { return m ? a : b; }
AOTC_I f64v sel(i32v m, f64v a, f64v b) {
  const i64v w = widen_mask(m);
  return {w.lo ? a.lo : b.lo, w.hi ? a.hi : b.hi};
}
AOTC_I i64v sel(i32v m, i64v a, i64v b) {
  const i64v w = widen_mask(m);
  return {w.lo ? a.lo : b.lo, w.hi ? a.hi : b.hi};
}
AOTC_I i32v alive(full) { return ki(-1); }
AOTC_I i32v alive(part w) { return iota32() < w.n; }
template <class V>
AOTC_I V keep(full, V x, V) {
  return x;
}
template <class V>
AOTC_I V keep(part w, V x, V dead) {
  return sel(alive(w), x, dead);
}
#if AOTC_L == 16 && !defined(__clang__)
AOTC_I uint16_t kmask(i32v m) { return static_cast<uint16_t>(__builtin_ia32_ptestmd512(m, m, static_cast<uint16_t>(-1))); }
#endif
#if AOTC_L == 16 && !defined(__clang__)
AOTC_I bool any(i32v m) { return kmask(m) != 0; }
#elif AOTC_L == 8
AOTC_I bool any(i32v m) { return __builtin_ia32_movmskps256((f32v)m) != 0; }
#else
AOTC_I bool any(i32v m) {
  bool r = false;
  for (int l = 0; l < AOTC_L; ++l) r |= m[l] != 0;
  return r;
}
#endif

// ---- conversions between register types ----------------------------------------------------------------------------------------------
/// GCC takes a number that is cut to an integer and made a float again, element by element, for trunc, which keeps -0.0 and what no integer
/// holds.
AOTC_I i64h no_trunc(i64h x) {
#if AOTC_L == 8
  asm("" : "+x"(x));
#endif
  return x;
}
AOTC_I f32v to_f32(f32v x) { return x; }
AOTC_I f32v to_f32(i32v x) { return __builtin_convertvector(x, f32v); }
AOTC_I f32v to_f32(f64v x) { return AOTC_JOIN(cut32(x.lo), cut32(x.hi)); }
AOTC_I f32v to_f32(i64v x) {
#if AOTC_L == 8
  // No instruction has 64 bits here: numbers that 32 hold, as most do, go together.
  const i32v n = narrow(x);
  const i64v back = widen_mask(n);
  if (!any(~narrow(i64v{(i64h)(back.lo == x.lo), (i64h)(back.hi == x.hi)}))) return to_f32(n);
#endif
  return AOTC_JOIN(__builtin_convertvector(no_trunc(x.lo), f32h), __builtin_convertvector(no_trunc(x.hi), f32h));
}
AOTC_I f64v to_f64(f64v x) { return x; }
AOTC_I f64v to_f64(f32v x) { return {ext64(AOTC_LANES_LO(x)), ext64(AOTC_LANES_HI(x))}; }
AOTC_I f64v to_f64(i32v x) { return {__builtin_convertvector(AOTC_LANES_LO(x), f64h), __builtin_convertvector(AOTC_LANES_HI(x), f64h)}; }
AOTC_I f64v to_f64(i64v x) { return {__builtin_convertvector(no_trunc(x.lo), f64h), __builtin_convertvector(no_trunc(x.hi), f64h)}; }
AOTC_I i64v to_i64(i64v x) { return x; }
AOTC_I i64v to_i64(i32v x) { return {ext64(AOTC_LANES_LO(x)), ext64(AOTC_LANES_HI(x))}; }
AOTC_I i64v to_i64(f32v x) {
#if AOTC_L == 8
  if (!any(~((f32v)((i32v)x & 0x7fffffff) < 0x1p31f))) return to_i64(__builtin_convertvector(x, i32v));
#endif
  return {__builtin_convertvector(AOTC_LANES_LO(x), i64h), __builtin_convertvector(AOTC_LANES_HI(x), i64h)};
}
AOTC_I i64v to_i64(f64v x) { return {__builtin_convertvector(x.lo, i64h), __builtin_convertvector(x.hi, i64h)}; }
AOTC_I i32v to_i32(i32v x) { return x; }
AOTC_I i32v to_i32(f32v x) { return __builtin_convertvector(x, i32v); }
/// INT32_MIN for what int32 does not have, as of float32: not the low half of an int64.
AOTC_I i32v to_i32(f64v x) { return AOTC_JOIN(__builtin_convertvector(x.lo, i32h), __builtin_convertvector(x.hi, i32h)); }
AOTC_I i32v to_i32(i64v x) { return narrow(x); }

// Integers narrower than 32 bits live extended in i32v; these bring a result back into range.
AOTC_I i32v wrap_i8(i32v x) { return (x << 24) >> 24; }
AOTC_I i32v wrap_u8(i32v x) { return x & 255; }
AOTC_I i32v wrap_i16(i32v x) { return (x << 16) >> 16; }

// 16-bit floats.
AOTC_I f32v f32_of_bf16(u16q x) { return (f32v)(ext32(x) << 16); }
AOTC_I u32v bf16_bits(f32v x) {  // round to nearest even; NaN stays a NaN
  const u32v u = (u32v)x;
  const u32v r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return x == x ? r : ((u >> 16) | 0x40u);
}
#if defined(__AVX512BF16__)
AOTC_I u16q bf16_of_f32(f32v x) {
  // The instruction takes denormals for zeros.
  if (__builtin_expect(__builtin_ia32_fpclassps512_mask(x, 0x20, static_cast<uint16_t>(-1)), 0)) return cut16((i32v)bf16_bits(x));
  u16q y;
  asm("vcvtneps2bf16 %1, %0" : "=v"(y) : "v"(x));
  return y;
}
#else
AOTC_I u16q bf16_of_f32(f32v x) { return cut16((i32v)bf16_bits(x)); }
#endif
#if AOTC_L == 16
AOTC_I f32v f32_of_f16(u16q x) { return __builtin_ia32_vcvtph2ps512_mask((i16q)x, f32v{}, static_cast<uint16_t>(-1), 4); }
AOTC_I u16q f16_of_f32(f32v x) { return (u16q)__builtin_ia32_vcvtps2ph512_mask(x, 0, i16q{}, static_cast<uint16_t>(-1)); }
#else
AOTC_I f32v f32_of_f16(u16q x) { return __builtin_ia32_vcvtph2ps256((i16q)x); }
AOTC_I u16q f16_of_f32(f32v x) { return (u16q)__builtin_ia32_vcvtps2ph256(x, 0); }
#endif
#if defined(__AVX512BF16__)
AOTC_I f32v round_bf16(f32v x) { return f32_of_bf16(bf16_of_f32(x)); }
#else
AOTC_I f32v round_bf16(f32v x) {
  const u32v u = (u32v)x;
  const f32v r = (f32v)((u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u);
  return x == x ? r : kf(__builtin_nanf(""));  // a NaN may have no bit but low ones
}
#endif
AOTC_I f32v round_f16(f32v x) { return f32_of_f16(f16_of_f32(x)); }

// 8-bit floats, in the low bits of lanes: to nearest even; e4m3fn takes its largest number for what is larger, e5m2 infinity. A NaN is not
// kept bit by bit.
AOTC_I f32v f32_of_e4m3fn(i32v b) {
  const i32v magnitude = b & 127, sign = b & 128;
  const f32v x = f32_of_f16(cut16((sign << 8) | (magnitude << 7))) * 256.0f;
  return (f32v)(magnitude == 127 ? (sign << 24) | 0x7ff00000 : (i32v)x);
}
AOTC_I f32v f32_of_e5m2(i32v b) { return f32_of_f16(cut16(b << 8)); }
/// Of a magnitude: `Mantissa` bits, normal from 2^Least on. Below that the sum with a large number leaves what is rounded in its last bits.
template <int Mantissa, int Least>
AOTC_I i32v eight_bits(f32v a) {
  const u32v u = (u32v)a;
  const u32v normal = ((u + ((1u << (22 - Mantissa)) - 1) + ((u >> (23 - Mantissa)) & 1u)) >> (23 - Mantissa)) -
                      (static_cast<uint32_t>(126 + Least) << Mantissa);
  constexpr uint32_t kLarge = static_cast<uint32_t>(127 + 23 + Least - Mantissa) << 23;  // its last bit is that of the least number
  const f32v large = (f32v)(u32v{} + kLarge);
  const i32v least = (i32v)(a + large) - static_cast<int32_t>(kLarge);
  return (i32v)u < static_cast<int32_t>((127 + Least) << 23) ? least : (i32v)normal;
}
AOTC_I i32v e4m3fn_bits(f32v x) {
  const i32v u = (i32v)x, magnitude = u & 0x7fffffff;
  const i32v held = magnitude > 0x43e00000 ? ki(0x43e00000) : magnitude;
  const i32v bits = magnitude > 0x7f800000 ? ki(127) : eight_bits<3, -6>((f32v)held);
  return bits | (i32v)(((u32v)u >> 24) & 128u);
}
AOTC_I i32v e5m2_bits(f32v x) {
  const i32v u = (i32v)x, magnitude = u & 0x7fffffff;
  const i32v bits = magnitude >= 0x47700000 ? ki(0x7c) : eight_bits<2, -14>((f32v)magnitude);
  return (magnitude > 0x7f800000 ? ki(127) : bits) | (i32v)(((u32v)u >> 24) & 128u);
}
AOTC_I f32v round_e4m3fn(f32v x) { return f32_of_e4m3fn(e4m3fn_bits(x)); }
AOTC_I f32v round_e5m2(f32v x) { return f32_of_e5m2(e5m2_bits(x)); }

// ---- index arithmetic -----------------------------------------------------------------------------------------------------------------
AOTC_I int64_t floordiv(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
AOTC_I int64_t mod(int64_t a, int64_t b) { return a - floordiv(a, b) * b; }
AOTC_I int64_t imin(int64_t a, int64_t b) { return a < b ? a : b; }
AOTC_I int64_t imax(int64_t a, int64_t b) { return a > b ? a : b; }
/// Lanes l with d + k*l < n, k not 0.
AOTC_I i32v lanes_below(int64_t n, int64_t d, int64_t k) {
  d -= n;
  if (k > 0) return iota32() < static_cast<int32_t>(d < 0 ? imin((k - 1 - d) / k, AOTC_L) : 0);
  return iota32() > static_cast<int32_t>(d < 0 ? -1 : imin(d / -k, AOTC_L));
}
/// Steps t >= 1 after which d + k*t >= 0 becomes true (k > 0, d < 0) or false (k < 0, d >= 0); a large number when it never changes.
AOTC_I int64_t steps_to_sign_change(int64_t d, int64_t k) {
  if (k > 0) return d < 0 ? (k - 1 - d) / k : INT64_MAX / 4;
  return d >= 0 ? d / -k + 1 : INT64_MAX / 4;
}

}  // namespace
