#pragma once
// Vectors of the instruction set that this translation unit is compiled for (AOTC_ISA names it). Everything has internal linkage, so that
// two instruction sets never share a function. No standard headers beyond the compiler's own.
#include <immintrin.h>
#include <stdint.h>

#include "aotc/dtype.h"
#include "entry.h"

namespace {

using u16 = uint16_t;
using u32 = uint32_t;

struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};

template <class T>
constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}
template <class T>
constexpr T max_of(T a, T b) {
  return a < b ? b : a;
}
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
template <class A, class B>
inline constexpr bool same_type = false;
template <class A>
inline constexpr bool same_type<A, A> = true;

/// Whether the run is to end, asked within a long unit.
inline bool run_ends(const aotc_kargs* args) { return __builtin_expect(args->ends != nullptr, 0) && args->ends(args->ends_user) != 0; }
/// What the thread's call before noted of its scratch (aotc_kargs::held): the key of what lies there, -1 where nothing does.
inline int64_t held_key(const aotc_kargs* args, int word = 0) { return args->held ? args->held[word] : -1; }
inline void hold_key(const aotc_kargs* args, int64_t key, int word = 0) {
  if (args->held) args->held[word] = key;
}

inline float to_acc(float x) { return x; }
inline double to_acc(double x) { return x; }
inline float to_acc(bf16 x) {
  u32 b = static_cast<u32>(x.bits) << 16;
  float f;
  __builtin_memcpy(&f, &b, 4);
  return f;
}
inline float to_acc(f16 x) { return _cvtsh_ss(x.bits); }

// Integers are summed unsigned: they wrap.
inline u32 to_acc(uint8_t x) { return x; }
inline u32 to_acc(int8_t x) { return static_cast<u32>(x); }
inline u32 to_acc(int16_t x) { return static_cast<u32>(x); }
inline u32 to_acc(int32_t x) { return static_cast<u32>(x); }
inline uint64_t to_acc(int64_t x) { return static_cast<uint64_t>(x); }

inline void from_acc(float x, float* out) { *out = x; }
inline void from_acc(double x, double* out) { *out = x; }
inline void from_acc(float x, f16* out) { out->bits = static_cast<u16>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)); }
inline void from_acc(float x, bf16* out) {
  u32 b;
  __builtin_memcpy(&b, &x, 4);
  out->bits = static_cast<u16>(x != x ? (b >> 16) | 64 : (b + 0x7fff + ((b >> 16) & 1)) >> 16);
}

template <class T>
struct Vec;

#if defined(__AVX512F__)
template <>
struct Vec<float> {
  using V = __m512;
  static constexpr int kLanes = 16;
  static V zero() { return _mm512_setzero_ps(); }
  static V load(const void* p) { return _mm512_loadu_ps(p); }
  static void store(void* p, V v) { _mm512_storeu_ps(p, v); }
  static V set1(float x) { return _mm512_set1_ps(x); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V add(V a, V b) { return _mm512_add_ps(a, b); }
  static V max(V a, V b) { return _mm512_max_ps(a, b); }
};
template <>
struct Vec<double> {
  using V = __m512d;
  static constexpr int kLanes = 8;
  static V zero() { return _mm512_setzero_pd(); }
  static V load(const void* p) { return _mm512_loadu_pd(p); }
  static void store(void* p, V v) { _mm512_storeu_pd(p, v); }
  static V set1(double x) { return _mm512_set1_pd(x); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static V add(V a, V b) { return _mm512_add_pd(a, b); }
  static V max(V a, V b) { return _mm512_max_pd(a, b); }
};
inline __m512 load_half(const f16* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
inline __m512 load_half(const bf16* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
#else
template <>
struct Vec<float> {
  using V = __m256;
  static constexpr int kLanes = 8;
  static V zero() { return _mm256_setzero_ps(); }
  static V load(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
  static void store(void* p, V v) { _mm256_storeu_ps(static_cast<float*>(p), v); }
  static V set1(float x) { return _mm256_set1_ps(x); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V add(V a, V b) { return _mm256_add_ps(a, b); }
  static V max(V a, V b) { return _mm256_max_ps(a, b); }
};
template <>
struct Vec<double> {
  using V = __m256d;
  static constexpr int kLanes = 4;
  static V zero() { return _mm256_setzero_pd(); }
  static V load(const void* p) { return _mm256_loadu_pd(static_cast<const double*>(p)); }
  static void store(void* p, V v) { _mm256_storeu_pd(static_cast<double*>(p), v); }
  static V set1(double x) { return _mm256_set1_pd(x); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static V add(V a, V b) { return _mm256_add_pd(a, b); }
  static V max(V a, V b) { return _mm256_max_pd(a, b); }
};
inline __m256 load_half(const f16* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline __m256 load_half(const bf16* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
#endif

/// The first n elements, fewer than a vector; lanes beyond are zeros, nothing is read there.
inline Vec<float>::V load_first(const float* p, int64_t n) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
#else
  static const int32_t kMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_maskload_ps(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMask + 8 - n)));
#endif
}

template <class H>
Vec<float>::V load_first(const H* p, int64_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const __m256i x = _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), p);
  H part[16];
  __builtin_memcpy(part, &x, sizeof part);
#else
  H part[Vec<float>::kLanes] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
#endif
  return load_half(part);
}

/// Eight elements as floats; u32 pairs of bf16 travel as the bits of a float.
inline __m256 load8(const float* p) { return _mm256_loadu_ps(p); }
inline __m256 load8(const f16* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline __m256 load8(const bf16* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}

/// r[i] lane j <-> r[j] lane i.
inline void transpose8(__m256 r[8]) {
  __m256 t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

}  // namespace
