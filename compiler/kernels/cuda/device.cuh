// Device support for generated CUDA kernels: storage types, the core pointwise operators, block-wide reductions. Self-contained (NVRTC
// compiles it with no include path). Every operator is a function template op_<name>; arithmetic on 16-bit floats goes through float.
#pragma once
#include "ptx.cuh"

// How the function of a kernel begins whose blocks are no cluster: its name and its one parameter. Kernels that are parts of another one
// (compiler/forms/joined.h) have AOTC_KERNEL defined as AOTC_PART.
#define AOTC_GLOBAL(threads, resident, name) \
  extern "C" __global__ void __launch_bounds__(threads, resident) name(const __grid_constant__ name##_args a)
#define AOTC_PART(threads, resident, name) static __device__ void name(const name##_args& a)
#define AOTC_KERNEL AOTC_GLOBAL

// ---- 16-bit floats: round to nearest even ----------------------------------------------------------------------------------------------
struct f16 {
  u16 bits;
  f16() = default;
  AOTC_DI explicit f16(float f) : bits(f16_bits(f)) {}
  AOTC_DI operator float() const { return f16_value(bits); }
};
struct bf16 {
  u16 bits;
  bf16() = default;
  AOTC_DI explicit bf16(float f) : bits(bf16_bits(f)) {}
  AOTC_DI operator float() const { return __uint_as_float(static_cast<u32>(bits) << 16); }
};

// ---- 8-bit floats: to nearest even; e4m3fn takes its largest number for what is larger, e5m2 infinity ------------------------------------
// Of a magnitude: `Mantissa` bits, normal from 2^Least on. Below that the sum with a large number leaves what is rounded in its last bits.
template <int Mantissa, int Least> AOTC_DI u32 eight_bits(u32 magnitude) {
  constexpr u32 large = u32(127 + 23 + Least - Mantissa) << 23;
  if (magnitude < u32(127 + Least) << 23) return __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(large)) - large;
  return ((magnitude + ((1u << (22 - Mantissa)) - 1) + (magnitude >> (23 - Mantissa) & 1)) >> (23 - Mantissa)) - (u32(126 + Least) << Mantissa);
}
struct e4m3fn {
  u8 bits;
  e4m3fn() = default;
  AOTC_DI explicit e4m3fn(float f) {
    const u32 u = __float_as_uint(f), magnitude = u & 0x7fffffffu;
    bits = u8((u >> 24 & 0x80u) | (magnitude > 0x7f800000u ? 0x7fu : eight_bits<3, -6>(magnitude > 0x43e00000u ? 0x43e00000u : magnitude)));
  }
  AOTC_DI operator float() const {
    const u32 magnitude = bits & 0x7fu, sign = u32(bits & 0x80u) << 24;
    return __uint_as_float(sign | (magnitude == 0x7fu ? 0x7ff00000u : __float_as_uint(__uint_as_float(magnitude << 20) * 0x1p120f)));
  }
};
struct e5m2 {
  u8 bits;
  e5m2() = default;
  AOTC_DI explicit e5m2(float f) {
    const u32 u = __float_as_uint(f), magnitude = u & 0x7fffffffu;
    bits = u8((u >> 24 & 0x80u) | (magnitude > 0x7f800000u ? 0x7fu : magnitude >= 0x47700000u ? 0x7cu : eight_bits<2, -14>(magnitude)));
  }
  AOTC_DI operator float() const { return f16_value(static_cast<u16>(bits << 8)); }
};

// Two numbers rounded to T, with one instruction.
template <class T> AOTC_DI void round_pair(float (&v)[2]);
template <> AOTC_DI void round_pair<f16>(float (&v)[2]) {
  const u32 w = f16_pair(v[0], v[1]);
  v[0] = f16_value(static_cast<u16>(w)), v[1] = f16_value(static_cast<u16>(w >> 16));
}
template <> AOTC_DI void round_pair<bf16>(float (&v)[2]) {
  const u32 w = bf16_pair(v[0], v[1]);
  v[0] = __uint_as_float(w << 16), v[1] = __uint_as_float(w & 0xffff0000u);
}

template <class A, class B> struct same { static constexpr bool value = false; };
template <class A> struct same<A, A> { static constexpr bool value = true; };
template <bool C, class A, class B> struct choose { typedef A type; };
template <class A, class B> struct choose<false, A, B> { typedef B type; };
// The type in which arithmetic on T is done.
template <class T> struct compute { typedef T type; };
template <> struct compute<f16> { typedef float type; };
template <> struct compute<bf16> { typedef float type; };
template <> struct compute<e4m3fn> { typedef float type; };
template <> struct compute<e5m2> { typedef float type; };
template <class T> struct is_floating { static constexpr bool value = false; };
template <> struct is_floating<float> { static constexpr bool value = true; };
template <> struct is_floating<double> { static constexpr bool value = true; };
template <> struct is_floating<f16> { static constexpr bool value = true; };
template <> struct is_floating<bf16> { static constexpr bool value = true; };
template <> struct is_floating<e4m3fn> { static constexpr bool value = true; };
template <> struct is_floating<e5m2> { static constexpr bool value = true; };

// Float to integer as x86 gives it to PyTorch: what a 64-bit integer (for int: a 32-bit one) does not hold becomes the least one, and
// narrower types wrap.
template <class To, class From>
AOTC_DI To truncate_to(From v) {
  if constexpr (same<To, int>::value) return v >= From(-0x1p31) && v < From(0x1p31) ? static_cast<int>(v) : static_cast<int>(0x80000000u);
  else return static_cast<To>(v >= From(-0x1p63) && v < From(0x1p63) ? static_cast<i64>(v) : static_cast<i64>(0x8000000000000000ull));
}
template <class To, class From>
AOTC_DI To op_cast(From v) {
  if constexpr (same<To, From>::value) return v;
  else if constexpr (same<To, bool>::value) return v != From(0.0f);
  else if constexpr (is_floating<To>::value && sizeof(To) < 4) return To(static_cast<float>(v));
  else if constexpr (is_floating<From>::value && !is_floating<To>::value) return truncate_to<To>(static_cast<typename compute<From>::type>(v));
  else return static_cast<To>(static_cast<typename compute<From>::type>(v));
}
template <class To, class From>
AOTC_DI To op_bitcast(From v) {
  static_assert(sizeof(To) == sizeof(From), "bitcast keeps the width");
  To r;
  memcpy(&r, &v, sizeof r);
  return r;
}

// Index arithmetic: floor division and modulo for any sign of the dividend.
AOTC_DI i64 floordiv(i64 a, i64 b) { i64 q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
AOTC_DI i64 floormod(i64 a, i64 b) { i64 r = a % b; return r + ((r != 0) & ((r < 0) != (b < 0)) ? b : 0); }
// Of what is below 2^32 and not negative.
AOTC_DI i64 narrow_div(i64 a, i64 b) { return static_cast<u32>(a) / static_cast<u32>(b); }
AOTC_DI i64 narrow_mod(i64 a, i64 b) { return static_cast<u32>(a) % static_cast<u32>(b); }
// Of numbers that are not negative: most of the time both have 31 bits.
AOTC_DI i64 quotient(i64 x, i64 by) { return (x | by) >> 31 ? x / by : static_cast<i64>(static_cast<u32>(x) / static_cast<u32>(by)); }
AOTC_DI i64 rest(i64 x, i64 by) { return x - quotient(x, by) * by; }
AOTC_DI i64 imin(i64 a, i64 b) { return a < b ? a : b; }
AOTC_DI i64 imax(i64 a, i64 b) { return a > b ? a : b; }

// ---- several elements at once ------------------------------------------------------------------------------------------------------------
// At a multiple of their bytes, or of 16.
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Wide { T v[N]; };
AOTC_DI bool aligned16(const void* p) { return (reinterpret_cast<u64>(p) & 15) == 0; }
template <class T, int N> AOTC_DI Wide<T, N> load_wide(const T* p) { return *reinterpret_cast<const Wide<T, N>*>(p); }
// The same where `on`, else zeros.
template <class T, int N> AOTC_DI Wide<T, N> load_wide_if(const T* p, bool on) {
  Wide<T, N> w{};
  if constexpr (sizeof w == 16) {
    u32 words[4];
    load_words_if(words, p, on);
    memcpy(&w, words, 16);
  } else {
    if (on) w = load_wide<T, N>(p);
  }
  return w;
}
// Of a tensor, 16 bytes that are not read again soon. Constant: no step writes them.
template <bool Constant, class T, int N> AOTC_DI Wide<T, N> load_once(const T* p) {
  static_assert(sizeof(Wide<T, N>) == 16, "16 bytes");
  u32 words[4];
  load_words_once<Constant>(words, p);
  Wide<T, N> w;
  memcpy(&w, words, 16);
  return w;
}
// To shared memory or to the scratch of a run; to a tensor. Streams: what is written is not read soon.
template <class T, int N> AOTC_DI void keep_wide(T* p, const Wide<T, N>& w) {
  if constexpr (sizeof(w) % 16 == 0) {  // as words: the compiler may store the elements of a structure one by one
#pragma unroll
    for (int i = 0; i < int(sizeof w) / 16; ++i) {
      uint4 words;
      memcpy(&words, reinterpret_cast<const char*>(&w) + i * 16, 16);
      reinterpret_cast<uint4*>(p)[i] = words;
    }
  } else {
    *reinterpret_cast<Wide<T, N>*>(p) = w;
  }
}
template <bool Streams, class T, int N> AOTC_DI void store_wide(T* p, const Wide<T, N>& w) {
  if constexpr (sizeof(w) % 16 == 0) {
#pragma unroll
    for (int i = 0; i < int(sizeof w) / 16; ++i) {
      u32 words[4];
      memcpy(words, reinterpret_cast<const char*>(&w) + i * 16, 16);
      store_words<Streams>(reinterpret_cast<char*>(p) + i * 16, words);
    }
  } else if constexpr (sizeof(w) % 4 == 0) {
    u32 words[sizeof(w) / 4];
    memcpy(words, &w, sizeof w);
    store_words<Streams>(p, words);
  } else {
    keep_wide(p, w);
  }
}

// ---- one input -----------------------------------------------------------------------------------------------------------------------
// AOTC_FLOAT1(name, expression for float, expression for double)
#define AOTC_FLOAT1(name, f32_expr, f64_expr)                                   \
  AOTC_DI float op_##name(float x) { return f32_expr; }                         \
  AOTC_DI double op_##name(double x) { return f64_expr; }                       \
  AOTC_DI f16 op_##name(f16 x) { return f16(op_##name(static_cast<float>(x))); } \
  AOTC_DI bf16 op_##name(bf16 x) { return bf16(op_##name(static_cast<float>(x))); }
AOTC_FLOAT1(sqrt, sqrtf(x), sqrt(x))
AOTC_FLOAT1(rsqrt, rsqrt_fast(x), 1.0 / sqrt(x))
AOTC_FLOAT1(reciprocal, 1.0f / x, 1.0 / x)
AOTC_FLOAT1(exp, expf(x), exp(x))
AOTC_FLOAT1(exp2, exp2f(x), exp2(x))
AOTC_FLOAT1(expm1, expm1f(x), expm1(x))
AOTC_FLOAT1(log, logf(x), log(x))
AOTC_FLOAT1(log2, log2f(x), log2(x))
AOTC_FLOAT1(log10, log10f(x), log10(x))
AOTC_FLOAT1(log1p, log1pf(x), log1p(x))
AOTC_FLOAT1(sin, sinf(x), sin(x))
AOTC_FLOAT1(cos, cosf(x), cos(x))
AOTC_FLOAT1(tan, tanf(x), tan(x))
AOTC_FLOAT1(asin, asinf(x), asin(x))
AOTC_FLOAT1(acos, acosf(x), acos(x))
AOTC_FLOAT1(atan, atanf(x), atan(x))
AOTC_FLOAT1(sinh, sinhf(x), sinh(x))
AOTC_FLOAT1(cosh, coshf(x), cosh(x))
AOTC_FLOAT1(tanh, tanhf(x), tanh(x))
AOTC_FLOAT1(asinh, asinhf(x), asinh(x))
AOTC_FLOAT1(acosh, acoshf(x), acosh(x))
AOTC_FLOAT1(atanh, atanhf(x), atanh(x))
AOTC_FLOAT1(erf, erff(x), erf(x))
AOTC_FLOAT1(erfc, erfcf(x), erfc(x))
AOTC_FLOAT1(erfinv, erfinvf(x), erfinv(x))
AOTC_FLOAT1(lgamma, lgammaf(x), lgamma(x))
// Where the result is rounded to 16 bits: x Phi(x), at most 2e-6 from it, and erf that is added to something of about 1, at most 6e-7 from it. The
// exponent of erfc(a / sqrt(2)) = 2^-(a Q(a)) with a fitted quartic Q.
AOTC_DI float erfc_exponent(float a) {
  float q = fmaf(a, 5.20458514e-4f, -7.39751083e-3f);
  q = fmaf(a, q, 5.25612374e-2f);
  q = fmaf(a, q, 4.59254682e-1f);
  q = fmaf(a, q, 1.15109144f);
  return -a * q;
}
AOTC_DI float erf_to_add(float x) { return copysignf(1.0f - exp2_fast(erfc_exponent(fabsf(x) * 1.41421356f)), x); }
AOTC_DI float gelu_to_round(float x) {
  const float a = fabsf(x);
  return fmaf(a, fmaf(exp2_fast(erfc_exponent(a)), -0.5f, 0.5f), 0.5f * x);
}
// exp where the result is rounded to 16 bits: its relative error is below 1e-5.
AOTC_DI float exp_to_round(float x) { return exp2_fast(x * 1.44269504f); }
// 1 / (1 + e) without a branch, so that many overlap; by parts of 2^-24, of which none is too small for the reciprocal.
AOTC_DI float logistic(float e) { return reciprocal_fast(fmaf(e, 0x1p-24f, 0x1p-24f)) * 0x1p-24f; }
AOTC_FLOAT1(sigmoid, logistic(expf(-x)), 1.0 / (1.0 + exp(-x)))
AOTC_DI float sigmoid_to_round(float x) { return logistic(exp2_fast(x * -1.44269504f)); }  // as exp_to_round
// Digamma: reflection for x < 0, recurrence up to 10, then the asymptotic series (Abramowitz and Stegun 6.3.6, 6.3.7, 6.3.18).
AOTC_DI double digamma64(double x) {
  const double pi = 3.14159265358979323846;
  double r = 0;
  if (x == 0) return copysign(__longlong_as_double(0x7ff0000000000000ll), -x);
  if (x < 0) {
    if (x == trunc(x)) return __longlong_as_double(0x7ff8000000000000ll);
    r = -pi / tan(pi * (x - trunc(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) r -= 1 / x;
  const double z = 1 / (x * x);
  return r + log(x) - 0.5 / x -
         z * (8.33333333333333333333e-2 - z * (8.33333333333333333333e-3 - z * (3.96825396825396825397e-3 - z * (4.16666666666666666667e-3 -
         z * (7.57575757575757575758e-3 - z * 2.10927960927960927961e-2)))));
}
AOTC_FLOAT1(digamma, static_cast<float>(digamma64(x)), digamma64(x))
AOTC_FLOAT1(ceil, ceilf(x), ceil(x))
AOTC_FLOAT1(floor, floorf(x), floor(x))
AOTC_FLOAT1(round, rintf(x), rint(x))
AOTC_FLOAT1(trunc, truncf(x), trunc(x))
#undef AOTC_FLOAT1

// Integers wrap: sums that run over are of unsigned type, for a compiler takes a signed one for impossible. Those of fewer than 32 bits are hidden
// before they are cut: the assembler takes some 16-bit ones (of the least number neg.s16, abs.s16) for what they would be in 32 bits.
template <class T> struct wrapping { typedef u32 type; };
template <> struct wrapping<i64> { typedef u64 type; };
template <> struct wrapping<u64> { typedef u64 type; };
template <class T> AOTC_DI T wrapped(typename wrapping<T>::type v) {
  if constexpr (sizeof(T) < 4) asm("" : "+r"(v));
  return static_cast<T>(v);
}
template <class T> AOTC_DI T op_neg(T x) {
  if constexpr (is_floating<T>::value) return T(-typename compute<T>::type(x));
  else return wrapped<T>(0 - static_cast<typename wrapping<T>::type>(x));
}
template <class T> AOTC_DI T op_abs(T x) {
  typename compute<T>::type v = x;
  if constexpr (same<decltype(v), float>::value) return T(fabsf(v));
  else if constexpr (same<T, double>::value) return fabs(v);
  else {  // not by the assembler's own abs, whose results it takes for not negative
    typedef typename wrapping<T>::type U;
    int sign = v < 0 ? -1 : 0;
    asm("" : "+r"(sign));
    const U mask = static_cast<U>(i64(sign));
    return wrapped<T>((static_cast<U>(x) ^ mask) - mask);
  }
}
template <class T> AOTC_DI T op_sign(T x) {
  typename compute<T>::type v = x;
  return T(static_cast<decltype(v)>((v > 0) - (v < 0)));  // 0 for NaN
}
template <class T> AOTC_DI T op_relu(T x) { return typename compute<T>::type(x) < 0 ? T(static_cast<typename compute<T>::type>(0)) : x; }
template <class T> AOTC_DI bool op_isnan(T x) { typename compute<T>::type v = x; return v != v; }
template <class T> AOTC_DI bool op_isinf(T x) {
  if constexpr (is_floating<T>::value) { typename compute<T>::type v = x; return v == v && v - v != v - v; }
  else return false;
}
AOTC_DI bool op_logical_not(bool x) { return !x; }
template <class T> AOTC_DI T op_bitwise_not(T x) { return static_cast<T>(~x); }

// ---- two inputs ----------------------------------------------------------------------------------------------------------------------
#define AOTC_ARITH2(name, sign)                                            \
  template <class T> AOTC_DI T op_##name(T a, T b) {                       \
    typedef typename compute<T>::type C;                                   \
    typedef typename wrapping<T>::type U;                                  \
    if constexpr (is_floating<T>::value) return T(static_cast<C>(C(a) sign C(b))); \
    else return wrapped<T>(static_cast<U>(a) sign static_cast<U>(b));      \
  }
AOTC_ARITH2(add, +)
AOTC_ARITH2(sub, -)
AOTC_ARITH2(mul, *)
#undef AOTC_ARITH2
template <class T> AOTC_DI T op_div(T a, T b) {
  typedef typename compute<T>::type C;
  return T(static_cast<C>(C(a) / C(b)));
}
AOTC_DI f16 from_bits(u16 bits) {
  f16 r;
  r.bits = bits;
  return r;
}
template <> AOTC_DI f16 op_add(f16 a, f16 b) { return from_bits(f16_add(a.bits, b.bits)); }
template <> AOTC_DI f16 op_sub(f16 a, f16 b) { return from_bits(f16_sub(a.bits, b.bits)); }
template <> AOTC_DI f16 op_mul(f16 a, f16 b) { return from_bits(f16_mul(a.bits, b.bits)); }
// A product that no sum takes unrounded.
AOTC_DI float rounded_product(float a, float b) { return __fmul_rn(a, b); }
AOTC_DI double rounded_product(double a, double b) { return __dmul_rn(a, b); }
// Many quotients by one divisor: a * by * scale, where by is the reciprocal of b / scale, which loses no digits.
struct Reciprocal { float by, scale; };
AOTC_DI Reciprocal reciprocal_of(float b) {
  const float scale = fabsf(b) < 0x1p-100f ? 0x1p64f : fabsf(b) > 0x1p100f ? 0x1p-64f : 1.0f;
  return {1.0f / (b * scale), scale};
}
AOTC_DI float op_div_by(float a, const Reciprocal& b) { return a * b.by * b.scale; }
AOTC_DI float c_fmod(float a, float b) { return fmodf(a, b); }
AOTC_DI double c_fmod(double a, double b) { return fmod(a, b); }
AOTC_DI float c_trunc(float a) { return truncf(a); }
AOTC_DI double c_trunc(double a) { return trunc(a); }
AOTC_DI float c_floor(float a) { return floorf(a); }
AOTC_DI double c_floor(double a) { return floor(a); }
template <class T> AOTC_DI bool is_minus_one(T b) { return T(-1) < T(0) && b == T(-1); }  // a quotient by it may overflow
template <class T> AOTC_DI T op_div_trunc(T a, T b) {
  if constexpr (is_floating<T>::value) { typedef typename compute<T>::type C; return T(c_trunc(C(a) / C(b))); }
  else return b == 0 ? T(0) : is_minus_one(b) ? T(0 - u64(a)) : T(a / b);
}
template <class T> AOTC_DI T op_fmod(T a, T b) {
  if constexpr (is_floating<T>::value) { typedef typename compute<T>::type C; return T(c_fmod(C(a), C(b))); }
  else return b == 0 || is_minus_one(b) ? T(0) : T(a % b);
}
template <class T> AOTC_DI T op_remainder(T a, T b) {
  if constexpr (is_floating<T>::value) {
    typedef typename compute<T>::type C;
    C r = c_fmod(C(a), C(b));
    if (r != 0 && ((r < 0) != (C(b) < 0))) r += C(b);
    return T(r);
  } else {
    if (b == 0 || is_minus_one(b)) return T(0);
    T r = a % b;
    return r != 0 && ((r < 0) != (b < 0)) ? T(r + b) : r;
  }
}
template <class T> AOTC_DI T op_div_floor(T a, T b) {
  if constexpr (is_floating<T>::value) {  // as PyTorch: from the remainder, so that a == b * q + r
    typedef typename compute<T>::type C;
    const C x = a, y = b;
    if (y == 0) return T(x / y);
    C r = c_fmod(x, y), q = (x - r) / y;
    if (r != 0 && ((y < 0) != (r < 0))) q -= 1;
    if (q == 0) return T(static_cast<C>(copysign(0.0, double(x / y))));
    C f = c_floor(q);
    if (q - f > C(0.5)) f += 1;
    return T(f);
  } else {
    if (b == 0) return T(0);
    if (is_minus_one(b)) return T(0 - u64(a));
    T q = a / b;
    return a % b != 0 && ((a < 0) != (b < 0)) ? T(q - 1) : q;
  }
}
template <class T> AOTC_DI T op_gcd(T x, T y) {
  u64 a = x < 0 ? 0 - static_cast<u64>(x) : static_cast<u64>(x), b = y < 0 ? 0 - static_cast<u64>(y) : static_cast<u64>(y);
  while (b != 0) {
    const u64 r = a % b;
    a = b, b = r;
  }
  return static_cast<T>(a);
}
/// Philox4x32-10 (Salmon et al., 2011) at the counter {low, high, 0, 0}: its first two words.
template <class T> AOTC_DI T op_philox(T counter, T key) {
  const u64 c = static_cast<u64>(static_cast<i64>(counter)), k = static_cast<u64>(static_cast<i64>(key));
  u32 c0 = static_cast<u32>(c), c1 = static_cast<u32>(c >> 32), c2 = 0, c3 = 0, k0 = static_cast<u32>(k), k1 = static_cast<u32>(k >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const u64 a = static_cast<u64>(0xD2511F53u) * c0, b = static_cast<u64>(0xCD9E8D57u) * c2;
    c0 = static_cast<u32>(b >> 32) ^ c1 ^ k0, c1 = static_cast<u32>(b);
    c2 = static_cast<u32>(a >> 32) ^ c3 ^ k1, c3 = static_cast<u32>(a);
  }
  return static_cast<T>(static_cast<i64>(c0 | static_cast<u64>(c1) << 32));
}
template <class T> AOTC_DI T op_pow(T a, T b) {
  if constexpr (same<T, double>::value) return pow(a, b);
  else if constexpr (is_floating<T>::value) return T(powf(float(a), float(b)));
  else {
    if (b < 0) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 == 0 ? T(1) : T(-1)) : T(0);
    u64 r = 1, x = static_cast<u64>(static_cast<i64>(a));
    for (u64 e = static_cast<u64>(b); e; e >>= 1, x *= x) if (e & 1) r *= x;
    return static_cast<T>(r);
  }
}
#define AOTC_FLOAT2(name)                                                                                                     \
  AOTC_DI float op_##name(float a, float b) { return name##f(a, b); }                                                               \
  AOTC_DI double op_##name(double a, double b) { return name(a, b); }                                                               \
  template <class T> AOTC_DI T op_##name(T a, T b) { return T(name##f(static_cast<float>(a), static_cast<float>(b))); }
AOTC_FLOAT2(atan2)
AOTC_FLOAT2(hypot)
AOTC_FLOAT2(copysign)
#undef AOTC_FLOAT2
AOTC_DI float op_nextafter(float a, float b) { return nextafterf(a, b); }
AOTC_DI double op_nextafter(double a, double b) { return nextafter(a, b); }
template <class T> AOTC_DI T op_nextafter(T a, T b) {  // the next 16-bit number
  const float x = a, y = b;
  if (x != x || y != y) return T(x + y);
  if (x == y) return b;
  T r;
  if (x == 0) r.bits = y < 0 ? 0x8001 : 0x0001;
  else r.bits = static_cast<u16>(a.bits + ((y > x) == (x > 0) ? 1 : -1));
  return r;
}
template <class T> AOTC_DI T op_minimum(T a, T b) {
  typename compute<T>::type x = a, y = b;
  if constexpr (same<decltype(x), float>::value) return T(min_nan(x, y));
  if constexpr (is_floating<T>::value) { if (x != x) return a; if (y != y) return b; }
  return x < y ? a : b;
}
template <class T> AOTC_DI T op_maximum(T a, T b) {
  typename compute<T>::type x = a, y = b;
  if constexpr (same<decltype(x), float>::value) return T(max_nan(x, y));
  if constexpr (is_floating<T>::value) { if (x != x) return a; if (y != y) return b; }
  return x > y ? a : b;
}
#define AOTC_COMPARE(name, sign) \
  template <class T> AOTC_DI bool op_##name(T a, T b) { return typename compute<T>::type(a) sign typename compute<T>::type(b); }
AOTC_COMPARE(eq, ==)
AOTC_COMPARE(ne, !=)
AOTC_COMPARE(lt, <)
AOTC_COMPARE(le, <=)
AOTC_COMPARE(gt, >)
AOTC_COMPARE(ge, >=)
#undef AOTC_COMPARE
template <class T> AOTC_DI T op_bit_and(T a, T b) { return static_cast<T>(a & b); }
template <class T> AOTC_DI T op_bit_or(T a, T b) { return static_cast<T>(a | b); }
template <class T> AOTC_DI T op_bit_xor(T a, T b) { return static_cast<T>(a ^ b); }
template <class T> AOTC_DI T op_shl(T a, T b) { return b < 0 || b >= T(sizeof(T) * 8) ? T(0) : wrapped<T>(static_cast<typename wrapping<T>::type>(static_cast<u64>(a) << b)); }
template <class T> AOTC_DI T op_shr(T a, T b) { return b < 0 || b >= T(sizeof(T) * 8) ? (a < 0 ? T(-1) : T(0)) : static_cast<T>(a >> b); }
template <class T> AOTC_DI T op_where(bool c, T a, T b) { return c ? a : b; }

/// n, of which the compiler knows nothing: NVRTC 13.0 to 13.5 crash on some loops that they see go round at most once.
AOTC_DI i64 unknown(i64 n) {
  asm("" : "+l"(n));
  return n;
}

// ---- reductions over a block ------------------------------------------------------------------------------------------------------------
// A reducer has a value type, an identity and an associative combine. Results are the same for every run: the tree is fixed.
template <class T> AOTC_DI T lowest();
template <class T> AOTC_DI T highest();
#define AOTC_LIMITS(T, lo, hi)                       \
  template <> AOTC_DI T lowest<T>() { return lo; }   \
  template <> AOTC_DI T highest<T>() { return hi; }
AOTC_LIMITS(f16, f16(-__int_as_float(0x7f800000)), f16(__int_as_float(0x7f800000)))
AOTC_LIMITS(bf16, bf16(-__int_as_float(0x7f800000)), bf16(__int_as_float(0x7f800000)))
AOTC_LIMITS(float, -__int_as_float(0x7f800000), __int_as_float(0x7f800000))
AOTC_LIMITS(double, -__longlong_as_double(0x7ff0000000000000ll), __longlong_as_double(0x7ff0000000000000ll))
AOTC_LIMITS(i64, static_cast<i64>(0x8000000000000000ull), 0x7fffffffffffffffll)
AOTC_LIMITS(int, static_cast<int>(0x80000000u), 0x7fffffff)
AOTC_LIMITS(short, -32768, 32767)
AOTC_LIMITS(i8, -128, 127)
AOTC_LIMITS(u8, 0, 255)
AOTC_LIMITS(bool, false, true)
#undef AOTC_LIMITS

template <class T> struct ReduceSum {
  typedef T V;
  static AOTC_DI V init() { return V(0); }
  static AOTC_DI V combine(V a, V b) { return op_add(a, b); }
};
template <class T> struct ReduceProd {
  typedef T V;
  static AOTC_DI V init() { return V(1); }
  static AOTC_DI V combine(V a, V b) { return op_mul(a, b); }
};
template <class T> struct ReduceMax {
  typedef T V;
  static AOTC_DI V init() { return lowest<T>(); }
  static AOTC_DI V combine(V a, V b) { return op_maximum(a, b); }
};
template <class T> struct ReduceMin {
  typedef T V;
  static AOTC_DI V init() { return highest<T>(); }
  static AOTC_DI V combine(V a, V b) { return op_minimum(a, b); }
};
template <class T> struct Indexed { T value; i64 index; };
// First index on ties; NaN wins. An index of -1 is the identity.
template <class T, bool Max> struct ReduceArg {
  typedef Indexed<T> V;
  static AOTC_DI V init() { return V{T(0), -1}; }
  static AOTC_DI V combine(V a, V b) {
    if (b.index < 0) return a;
    if (a.index < 0) return b;
    const bool an = op_isnan(a.value), bn = op_isnan(b.value);
    if (an != bn) return an ? a : b;
    const bool a_better = Max ? a.value > b.value : a.value < b.value, b_better = Max ? b.value > a.value : b.value < a.value;
    if (an || (!a_better && !b_better)) return a.index < b.index ? a : b;
    return a_better ? a : b;
  }
};

// Of a scan: the last index on ties; b is later than a.
template <class T, bool Max> struct LastReduceArg {
  typedef Indexed<T> V;
  static AOTC_DI V init() { return V{T(0), -1}; }
  static AOTC_DI V combine(V a, V b) {
    if (b.index < 0) return a;
    if (a.index < 0 || op_isnan(b.value)) return b;
    if (op_isnan(a.value)) return a;
    return (Max ? b.value >= a.value : b.value <= a.value) ? b : a;
  }
};
template <class T> struct ReduceLogSumExp {
  typedef T V;
  typedef typename compute<T>::type C;
  static AOTC_DI V init() { return lowest<T>(); }
  static AOTC_DI V combine(V a, V b) {
    const C x = a, y = b, most = op_maximum(x, y), least = op_minimum(x, y);
    return least == lowest<C>() || most - least != most - least ? V(most + C(0)) : V(most + op_log1p(op_exp(least - most)));  // 0.0 of -0.0
  }
};

// A value of any size as f makes it of each of its 32-bit words.
template <class V, class F> AOTC_DI V by_words(V v, F f) {
  constexpr int words = (sizeof(V) + 3) / 4;
  u32 w[words] = {};
  memcpy(w, &v, sizeof v);
#pragma unroll
  for (int i = 0; i < words; ++i) w[i] = f(w[i]);
  memcpy(&v, w, sizeof v);
  return v;
}
template <class V> AOTC_DI V shuffle_up(V v, int by) {
  return by_words(v, [&](u32 w) { return __shfl_up_sync(0xffffffffu, w, by); });
}
template <class V> AOTC_DI V shuffle_of(V v, int lane) {
  return by_words(v, [&](u32 w) { return __shfl_sync(0xffffffffu, w, lane); });
}
template <class V> AOTC_DI V shuffle_xor(V v, int lane_mask) {
  return by_words(v, [&](u32 w) { return __shfl_xor_sync(0xffffffffu, w, lane_mask); });
}
// All lanes get the result.
template <class R> AOTC_DI typename R::V of_lanes(typename R::V v) {
#pragma unroll
  for (int m = 16; m; m >>= 1) v = R::combine(v, shuffle_xor(v, m));
  return v;
}
template <class T> AOTC_DI void clear(T& x) { x = T(); }
template <class T, int N> AOTC_DI void clear(T (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) clear(x[i]);
}
// v in a warp's first lane, what changes nothing in the others.
template <class R> AOTC_DI typename R::V in_first_lane(typename R::V v) { return (threadIdx.x & 31) == 0 ? v : R::init(); }
// Every thread of the block, of Threads (a power of two, at least 32), gets the result. All threads must call it. Slot: two calls with the
// same reducer and slot need a barrier between them.
template <class R, int Threads, int Slot> AOTC_DI typename R::V block_reduce(typename R::V v) {
  constexpr int warps = Threads / 32;
  v = of_lanes<R>(v);
  if constexpr (warps > 1) {
    __shared__ __align__(16) char raw[warps * sizeof(typename R::V)];
    typename R::V* partial = reinterpret_cast<typename R::V*>(raw);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = v;
    __syncthreads();
    v = partial[threadIdx.x & (warps - 1)];
#pragma unroll
    for (int m = warps / 2; m; m >>= 1) v = R::combine(v, shuffle_xor(v, m));
  }
  return v;
}
// The running reduction of the values of the first n lanes.
template <class R> AOTC_DI typename R::V scan_of_lanes(typename R::V v, int n) {
  for (int by = 1; by < n; by *= 2) {
    const typename R::V earlier = shuffle_up(v, by);
    if ((threadIdx.x & 31) >= by) v = R::combine(earlier, v);
  }
  return v;
}
// The running reduction of the values of the threads before this one after `carry`, which becomes that of all. All threads of the block, of
// Threads, must call it.
template <class R, int Threads, int Slot> AOTC_DI typename R::V block_scan_before(typename R::V& carry, typename R::V v) {
  typedef typename R::V V;
  constexpr int warps = Threads / 32;
  __shared__ __align__(16) char raw[warps * sizeof(V)];
  V* const of_warps = reinterpret_cast<V*>(raw);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  v = scan_of_lanes<R>(v, 32);
  const V earlier_lanes = shuffle_up(v, 1);
  __syncthreads();  // what was read of an earlier call is read
  if (lane == 31) of_warps[warp] = v;
  __syncthreads();
  const V sums = scan_of_lanes<R>(lane < warps ? of_warps[lane] : R::init(), warps);
  const V earlier = shuffle_of(sums, warp > 0 ? warp - 1 : 0), all = shuffle_of(sums, warps - 1);
  V before = carry;
  if (warp > 0) before = R::combine(before, earlier);
  carry = R::combine(carry, all);
  return lane > 0 ? R::combine(before, earlier_lanes) : before;
}
