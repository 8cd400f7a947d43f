// Element types and what is done with their bits: conversions, index arithmetic, several elements at once.
#pragma once
#include "ptx.cuh"

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
