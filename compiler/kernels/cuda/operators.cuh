// The core pointwise operators. Every operator is a function template op_<name>; arithmetic on 16-bit floats goes through float.
#pragma once
#include "numbers.cuh"

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
