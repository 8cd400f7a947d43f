#pragma once
// Keys and values that are stored in bytes (aotc_attention_kv8_*), and how they become floats.
#include "aotc/detail/attention_bytes_abi.h"
#include "panels.h"

namespace {

struct stored_i8 {
  int8_t number;
};
struct stored_e4m3 {
  uint8_t bits;
};

inline float to_acc(stored_i8 x) { return static_cast<float>(x.number); }
/// The bits of a half with the same sign and mantissa, an exponent that is 8 less: 256 times that is the number.
inline float to_acc(stored_e4m3 x) {
  const u32 magnitude = x.bits & 127u, nan = magnitude == 127u ? 0x7e00u : 0u;
  return _cvtsh_ss(static_cast<u16>((x.bits & 128u) << 8 | magnitude << 7 | nan)) * 256.0f;
}

inline __m256 load8(const stored_i8* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline __m256 load8(const stored_e4m3* p) {
  const __m128i x = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m128i magnitude = _mm_and_si128(x, _mm_set1_epi16(127)), sign = _mm_slli_epi16(_mm_and_si128(x, _mm_set1_epi16(128)), 8);
  const __m128i nan = _mm_and_si128(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(127)), _mm_set1_epi16(0x7e00));
  const __m128i half = _mm_or_si128(_mm_or_si128(sign, nan), _mm_slli_epi16(magnitude, 7));
  return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f));
}

#if defined(__AVX512F__)
inline __m512 load_bytes(const stored_i8* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline __m512 load_bytes(const stored_e4m3* p) {
  const __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi16(127));
  const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(x, _mm256_set1_epi16(128)), 8);
  const __m256i nan = _mm256_and_si256(_mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(127)), _mm256_set1_epi16(0x7e00));
  const __m256i half = _mm256_or_si256(_mm256_or_si256(sign, nan), _mm256_slli_epi16(magnitude, 7));
  return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f));
}
#else
template <class K>
inline __m256 load_bytes(const K* p) {
  return load8(p);
}
#endif

inline Vec<float>::V load_wide(const stored_i8* p) { return load_bytes(p); }
inline Vec<float>::V load_wide(const stored_e4m3* p) { return load_bytes(p); }

/// As pack_cols (panels.h), which takes bytes one by one where they lie side by side.
template <class K, class T>
void pack_numbers(const K* src, int64_t rs, int64_t cs, int64_t k, int64_t cols, int64_t to, T* dst, int64_t ld) {
  constexpr bool of_bytes = same_type<K, stored_i8> || same_type<K, stored_e4m3>;
  if (!of_bytes || cs != 1) return pack_cols(src, rs, cs, k, cols, to, dst, ld);
  if constexpr (of_bytes)
    for (int64_t i = 0; i < k; ++i) {
      const K* in = src + i * rs;
      T* out = dst + i * ld;
      int64_t j = 0;
      for (; j + 8 <= cols; j += 8) _mm256_storeu_ps(out + j, load8(in + j));
      for (; j < cols; ++j) out[j] = to_acc(in[j]);
      for (; j < to; ++j) out[j] = 0;
    }
}

}  // namespace
