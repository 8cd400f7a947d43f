#pragma once
// Vectors of integers, as wide as those of float32.
#include "simd.h"

namespace {

using Floats = Vec<float>;
constexpr int kLanes = Floats::kLanes;

#if defined(__AVX512F__)
using Ints = __m512i;
inline Ints load_ints(const void* p) { return _mm512_loadu_si512(p); }
inline Ints set_ints(int x) { return _mm512_set1_epi32(x); }
inline Ints set_bytes(char x) { return _mm512_set1_epi8(x); }
inline Ints add_ints(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline Ints and_ints(Ints a, Ints b) { return _mm512_and_si512(a, b); }
inline Ints shift_right16(Ints a, int n) { return _mm512_srli_epi16(a, n); }
inline Ints shift_signed16(Ints a, int n) { return _mm512_srai_epi16(a, n); }
inline Ints shift_left16(Ints a, int n) { return _mm512_slli_epi16(a, n); }
inline Ints shift_left32(Ints a, int n) { return _mm512_slli_epi32(a, n); }
inline Ints shift_right32(Ints a, int n) { return _mm512_srli_epi32(a, n); }
inline Ints shift_signed32(Ints a, int n) { return _mm512_srai_epi32(a, n); }
inline Ints flip_ints(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
inline Ints multiply_pairs(Ints a, Ints b) { return _mm512_madd_epi16(a, b); }
inline Floats::V to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
#else
using Ints = __m256i;
inline Ints load_ints(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline Ints set_ints(int x) { return _mm256_set1_epi32(x); }
inline Ints set_bytes(char x) { return _mm256_set1_epi8(x); }
inline Ints add_ints(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
inline Ints and_ints(Ints a, Ints b) { return _mm256_and_si256(a, b); }
inline Ints shift_right16(Ints a, int n) { return _mm256_srli_epi16(a, n); }
inline Ints shift_signed16(Ints a, int n) { return _mm256_srai_epi16(a, n); }
inline Ints shift_left16(Ints a, int n) { return _mm256_slli_epi16(a, n); }
inline Ints shift_left32(Ints a, int n) { return _mm256_slli_epi32(a, n); }
inline Ints shift_right32(Ints a, int n) { return _mm256_srli_epi32(a, n); }
inline Ints shift_signed32(Ints a, int n) { return _mm256_srai_epi32(a, n); }
inline Ints flip_ints(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
inline Ints multiply_pairs(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }
inline Floats::V to_floats(Ints a) { return _mm256_cvtepi32_ps(a); }
#endif

inline int load_int(const void* p) {
  int x;
  __builtin_memcpy(&x, p, 4);
  return x;
}

}  // namespace
