#pragma once
// Numbers of float32 as three of bf16, whose sum they are: the upper eight bits of a mantissa, the next eight, the last eight. Of the nine
// products of two numbers' parts the six largest are what float32 can hold of their product: what is left is below 2^-24 of it. Infinities
// and numbers that are none have parts whose products are none; what is left of numbers below 2^-110 may be denormal, which tiles take for
// zeros.
#include "tile_blocks.h"

namespace {

constexpr int64_t kParts = 3;
/// A step of 16 rows of A: a tile for each part. Of a panel: the two tiles of columns for each part.
constexpr int64_t kRowStepBytes = kParts * kTileBytes, kPanelStepBytes = 2 * kParts * kTileBytes;

constexpr uint32_t kUpper = 0xffff0000;

/// 32 numbers of a row, `mask` of each half, to `dst` and kTileBytes after each other. Whether one of them is denormal.
inline bool split_row(const float* src, __mmask16 mask0, __mmask16 mask1, char* dst) {
  alignas(64) static constexpr uint16_t kOdd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                    33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  const __m512i odd = _mm512_load_si512(kOdd), upper = _mm512_set1_epi32(static_cast<int>(kUpper));
  constexpr int kDenormal = 0x20;  // of vfpclass
  __m512 x = _mm512_maskz_loadu_ps(mask0, src), y = _mm512_maskz_loadu_ps(mask1, src + 16);
  const bool denormal = _mm512_fpclass_ps_mask(x, kDenormal) | _mm512_fpclass_ps_mask(y, kDenormal);
#pragma GCC unroll 3
  for (int64_t part = 0; part < kParts; ++part) {
    const __m512i xi = _mm512_castps_si512(x), yi = _mm512_castps_si512(y);
    _mm512_store_si512(dst + part * kTileBytes, _mm512_permutex2var_epi16(xi, odd, yi));
    if (part + 1 == kParts) break;
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_and_si512(xi, upper)));
    y = _mm512_sub_ps(y, _mm512_castsi512_ps(_mm512_and_si512(yi, upper)));
  }
  return denormal;
}

/// Two rows of a panel of float32, the second null where there is none, to a row of each of the six tiles at dst.
__attribute__((always_inline)) inline void split_pair(const float* even, const float* odd, char* dst) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(kUpper));
#pragma GCC unroll 2
  for (int64_t half = 0; half < 2; ++half, dst += kTileBytes) {
    __m512 x = _mm512_loadu_ps(even + half * kTileCols), y = odd ? _mm512_loadu_ps(odd + half * kTileCols) : _mm512_setzero_ps();
#pragma GCC unroll 3
    for (int64_t part = 0; part < kParts; ++part) {
      const __m512i xi = _mm512_castps_si512(x), yi = _mm512_castps_si512(y);
      // x's upper half below y's
      const __m512i both = _mm512_ternarylogic_epi32(_mm512_srli_epi32(xi, 16), yi, upper, 0xf8);
      _mm512_store_si512(dst + part * 2 * kTileBytes, both);
      if (part + 1 == kParts) break;
      x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_and_si512(xi, upper)));
      y = _mm512_sub_ps(y, _mm512_castsi512_ps(_mm512_and_si512(yi, upper)));
    }
  }
}
/// `rows` of a step's rows of a panel to its six tiles at dst; the others are zeros.
inline void split_panel_step(const float* src, int64_t rows, char* dst) {
  for (int64_t i = 0; i < kTileRows; ++i, src += 2 * AOTC_PANEL_N) {
    if (2 * i < rows)
      split_pair(src, 2 * i + 1 < rows ? src + AOTC_PANEL_N : nullptr, dst + i * 64);
    else
      for (int64_t t = 0; t < 2 * kParts; ++t) _mm512_store_si512(dst + t * kTileBytes + i * 64, _mm512_setzero_si512());
  }
}
/// A sixth of a whole step, for the tiles to hide.
template <int kSixth>
__attribute__((always_inline)) inline void split_sixth(const float* src, char* dst) {
#pragma GCC unroll 3
  for (int64_t i = kSixth * kTileRows / 6; i < (kSixth + 1) * kTileRows / 6; ++i)
    split_pair(src + 2 * i * AOTC_PANEL_N, src + (2 * i + 1) * AOTC_PANEL_N, dst + i * 64);
}

/// The sums of 2 x 2 tiles, or fewer, and what one step of k adds to them.
template <bool kTwo, bool kWide>
struct PartTiles {
  Tiles& t;
  void begin() {
    t.zero<0>();
    if constexpr (kWide) t.zero<1>();
    if constexpr (kTwo) t.zero<2>();
    if constexpr (kTwo && kWide) t.zero<3>();
  }
  void end(float* sums, int64_t ld) {
    t.store<0>(sums, ld * 4);
    if constexpr (kWide) t.store<1>(sums + kTileCols, ld * 4);
    if constexpr (kTwo) t.store<2>(sums + kTileRows * ld, ld * 4);
    if constexpr (kTwo && kWide) t.store<3>(sums + kTileRows * ld + kTileCols, ld * 4);
  }
  template <int kPart>
  void rows(const char* a0, const char* a1) {
    t.load<4>(a0 + kPart * kTileBytes, 64);
    if constexpr (kTwo) t.load<5>(a1 + kPart * kTileBytes, 64);
  }
  template <int kPart>
  void columns(const char* b) {
    t.load<6>(b + kPart * 2 * kTileBytes, 64);
    if constexpr (kWide) t.load<7>(b + (kPart * 2 + 1) * kTileBytes, 64);
  }
  void multiply() {
    t.multiply<0, 4, 6>();
    if constexpr (kWide) t.multiply<1, 4, 7>();
    if constexpr (kTwo) t.multiply<2, 5, 6>();
    if constexpr (kTwo && kWide) t.multiply<3, 5, 7>();
  }
  /// Tiles are loaded seven times two for six products. from: not null: a whole step of the panel, which is split meanwhile.
  __attribute__((always_inline)) void step(const char* a0, const char* a1, const char* b, const float* from, char* to) {
    rows<2>(a0, a1), columns<0>(b), multiply();
    if (from) split_sixth<0>(from, to);
    rows<1>(a0, a1), multiply();
    if (from) split_sixth<1>(from, to);
    columns<1>(b), multiply();
    if (from) split_sixth<2>(from, to);
    rows<0>(a0, a1), multiply();
    if (from) split_sixth<3>(from, to);
    columns<2>(b), multiply();
    if (from) split_sixth<4>(from, to);
    columns<0>(b), multiply();
    if (from) split_sixth<5>(from, to);
  }
};

}  // namespace
