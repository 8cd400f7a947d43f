#pragma once
// Rows of float32 as integers of 8 bits with a scale and a centre: x = scale * q + centre, q in -127..127.
#include "quant_units.h"

namespace {

struct Int8Row {
  float scale, centre;
  int32_t first;  ///< where the sums of vpdpbusd begin: it multiplies weights 128 higher than they are
};
static_assert(sizeof(Int8Row) <= AOTC_INT8_ROW_BYTES);

#if defined(__AVX512VNNI__)
using Int8Elem = int8_t;
#else
using Int8Elem = int16_t;
#endif
/// Elements from row to row: an odd number of cache lines, for rows a multiple of 512 bytes apart share cache sets.
template <class Elem>
constexpr int64_t int8_pitch(int64_t k) {
  constexpr int64_t kLine = 64 / sizeof(Elem);
  return (ceil_div(k, 64) * 64 / kLine | 1) * kLine;
}

/// The nearest integers of v, in the order of rows: as they are, or 16 bits each for vpmaddwd, of each four 0 2 1 3.
#if defined(__AVX512F__)
inline void store_int8(int8_t* to, Floats::V v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
}
#endif
inline void store_int8(int16_t* to, Floats::V v) {
#if defined(__AVX512F__)
  const __m256i q = _mm256_shufflelo_epi16(_mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v)), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_shufflehi_epi16(q, 0xd8));
#else
  const __m256i q = _mm256_cvtps_epi32(v), halves = _mm256_shufflelo_epi16(_mm256_packs_epi32(q, q), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(_mm256_permute4x64_epi64(halves, 0x08)));
#endif
}

/// Rounds the k values of x. Zeros follow in `to` up to a multiple of 64. What is below 2^-103 of a row's spread is lost; a row with an
/// infinity or a NaN has a scale that is none, so that all its sums are NaN.
template <class Elem>
Int8Row round_int8_row(const float* x, int64_t k, Elem* to) {
  const int64_t whole = k / kLanes * kLanes, rest = k - whole;
  Floats::V least = Floats::set1(x[0]), most = least, checks = Floats::zero();
  const auto see = [&](Floats::V v) {
    least = -Floats::max(-v, -least), most = Floats::max(v, most);
    checks = Floats::fma(v, Floats::zero(), checks);
  };
  for (int64_t i = 0; i < whole; i += kLanes) see(Floats::load(x + i));
  float low = x[0], high = x[0], check = 0;
  for (int64_t i = whole; i < k; ++i) low = min_of(low, x[i]), high = max_of(high, x[i]), check += x[i] * 0;
  for (int i = 0; i < kLanes; ++i) low = min_of(low, least[i]), high = max_of(high, most[i]), check += checks[i];
  const float half = max_of(0.5f * high - 0.5f * low, 0x1p-103f), centre = 0.5f * high + 0.5f * low, inverse = 127 / half;
  const Floats::V c = Floats::set1(centre), f = Floats::set1(inverse);
  for (int64_t i = 0; i < whole; i += kLanes) store_int8(to + i, (Floats::load(x + i) - c) * f);
  int64_t end = whole;
  if (rest) {
    store_int8(to + whole, (load_first(x + whole, rest) - c) * f);
    end = whole + kLanes;
    for (int64_t i = rest; i < kLanes; ++i) {
      const int64_t in_four = sizeof(Elem) == 1 ? i & 3 : ((i & 1) << 1) + ((i & 2) >> 1);
      to[whole + (i & ~int64_t{3}) + in_four] = 0;
    }
  }
  for (int64_t i = end; i < ceil_div(k, 64) * 64; ++i) to[i] = 0;
  Int8Row row{half / 127 + check, centre, 0};
#if defined(__AVX512VNNI__)
  if constexpr (sizeof(Elem) == 1) {
    Ints sum = set_ints(0);
    for (int64_t i = 0; i < k; i += 64) sum = _mm512_dpbusd_epi32(sum, set_bytes(1), load_ints(to + i));
    row.first = -128 * _mm512_reduce_add_epi32(sum);
  }
#endif
  return row;
}

}  // namespace
