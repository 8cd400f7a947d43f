#pragma once
// Numbers of float32 as three of bf16, whose sum they are: the upper eight bits of a mantissa, the next eight, the last eight. Of the nine
// products of two numbers' parts the six largest are what float32 can hold of their product: what is left is below 2^-24 of it. Infinities
// and numbers that are none have parts whose products are none; of numbers below 2^-111 nothing is left but the first part, and tiles take
// a denormal one for zero.
#include "tile_blocks.h"

namespace {

constexpr int64_t kParts = 3;
/// A step of 16 rows of A: a tile for each part. Of a panel: the two tiles of columns for each part.
constexpr int64_t kRowStepBytes = kParts * kTileBytes, kPanelStepBytes = 2 * kParts * kTileBytes;

constexpr uint32_t kUpper = 0xffff0000;
constexpr uint32_t kHasRest = 0x78000000;  ///< bits of the exponent of which numbers from 2^-111 on have one

/// The first kCount parts of x below those of y, at dst and `apart` bytes after each other.
template <int64_t kCount = kParts>
__attribute__((always_inline)) inline void split_pair(__m512 x, __m512 y, char* dst, int64_t apart) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(kUpper));
#pragma GCC unroll 3
  for (int64_t part = 0; part < kCount; ++part) {
    const __m512i xi = _mm512_castps_si512(x), yi = _mm512_castps_si512(y);
    // x's upper half below y's
    _mm512_store_si512(dst + part * apart, _mm512_ternarylogic_epi32(_mm512_srli_epi32(xi, 16), yi, upper, 0xf8));
    if (part + 1 == kCount) break;
    // Differences that are denormal, which tiles take for zeros, cost vectors some 150 cycles.
    const __m512i rest = _mm512_set1_epi32(kHasRest);
    x = _mm512_maskz_sub_ps(_mm512_test_epi32_mask(xi, rest), x, _mm512_castsi512_ps(_mm512_and_si512(xi, upper)));
    y = _mm512_maskz_sub_ps(_mm512_test_epi32_mask(yi, rest), y, _mm512_castsi512_ps(_mm512_and_si512(yi, upper)));
  }
}

/// Which numbers of a step's 32 are pairs: 2 j and 2 j + 1, whose rows of a panel lie in the order in which memory gives them, or j and
/// j + 16, for which rows need no shuffles, which would take the tiles' port.
enum class Pairs { neighbours, halves };

/// 32 numbers of a row, `mask` of each half, to `dst` and kTileBytes after each other.
template <Pairs kPairs>
__attribute__((always_inline)) inline void split_row(const float* src, __mmask16 mask0, __mmask16 mask1, char* dst) {
  __m512 x = _mm512_maskz_loadu_ps(mask0, src), y = _mm512_maskz_loadu_ps(mask1, src + 16);
  if constexpr (kPairs == Pairs::neighbours) {
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512 first = _mm512_permutex2var_ps(x, even, y);
    y = _mm512_permutex2var_ps(x, _mm512_or_si512(even, _mm512_set1_epi32(1)), y), x = first;
  }
  split_pair(x, y, dst, kTileBytes);
}

/// Pair j of a panel's step, of `rows` rows that are there, to row j of each of the six tiles at dst, or of those of the first kCount
/// parts.
template <Pairs kPairs, int64_t kCount = kParts>
__attribute__((always_inline)) inline void split_panel_pair(const float* src, int64_t j, int64_t rows, char* dst) {
  constexpr bool kNear = kPairs == Pairs::neighbours;
  const int64_t first = kNear ? 2 * j : j, second = first + (kNear ? 1 : kTileRows);
#pragma GCC unroll 2
  for (int64_t half = 0; half < 2; ++half) {
    const float* at = src + half * kTileCols;
    const __m512 x = first < rows ? _mm512_loadu_ps(at + first * AOTC_PANEL_N) : _mm512_setzero_ps();
    const __m512 y = second < rows ? _mm512_loadu_ps(at + second * AOTC_PANEL_N) : _mm512_setzero_ps();
    split_pair<kCount>(x, y, dst + j * 64 + half * kTileBytes, 2 * kTileBytes);
  }
}
/// `rows` of a step's rows of a panel to its six tiles at dst; the others are zeros.
template <Pairs kPairs, int64_t kCount = kParts>
inline void split_panel_step(const float* src, int64_t rows, char* dst) {
  for (int64_t j = 0; j < kTileRows; ++j) split_panel_pair<kPairs, kCount>(src, j, rows, dst);
}

/// Which of the six places between a step's products.
template <int kIndex>
struct Sixth {
  static constexpr int64_t kBegin = kIndex * kTileRows / 6, kEnd = (kIndex + 1) * kTileRows / 6;  ///< of a panel step's pairs
};
/// A sixth of a whole step, for the tiles to hide.
template <int64_t kCount = kParts, class Which>
__attribute__((always_inline)) inline void split_sixth(Which, const float* src, char* dst) {
#pragma GCC unroll 3
  for (int64_t j = Which::kBegin; j < Which::kEnd; ++j) split_panel_pair<Pairs::neighbours, kCount>(src, j, kTileK, dst);
}

/// The sums of 2 x 2 tiles, or fewer, and what one step of k adds to them. kCount: parts of a number of the weight, 3 or 1.
template <bool kTwo, bool kWide, int64_t kCount = kParts>
struct PartTiles {
  Tiles& t;
  void begin() {
    t.zero<0>();
    if constexpr (kWide) t.zero<1>();
    if constexpr (kTwo) t.zero<2>();
    if constexpr (kTwo && kWide) t.zero<3>();
  }
  /// height: rows of a tile.
  void end(float* sums, int64_t ld, int64_t height) {
    t.store<0>(sums, ld * 4);
    if constexpr (kWide) t.store<1>(sums + kTileCols, ld * 4);
    if constexpr (kTwo) t.store<2>(sums + height * ld, ld * 4);
    if constexpr (kTwo && kWide) t.store<3>(sums + height * ld + kTileCols, ld * 4);
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
  /// Tiles are loaded seven times two for six products, or four times two for three. beside(Sixth<i>) is done between them.
  template <class Beside>
  __attribute__((always_inline)) void step(const char* a0, const char* a1, const char* b, Beside&& beside) {
    rows<2>(a0, a1), columns<0>(b), multiply();
    beside(Sixth<0>());
    if constexpr (kCount == 1) {
      beside(Sixth<1>());
      rows<1>(a0, a1), multiply();
      beside(Sixth<2>()), beside(Sixth<3>());
      rows<0>(a0, a1), multiply();
      beside(Sixth<4>()), beside(Sixth<5>());
      return;
    }
    rows<1>(a0, a1), multiply();
    beside(Sixth<1>());
    columns<1>(b), multiply();
    beside(Sixth<2>());
    rows<0>(a0, a1), multiply();
    beside(Sixth<3>());
    columns<2>(b), multiply();
    beside(Sixth<4>());
    columns<0>(b), multiply();
    beside(Sixth<5>());
  }
};

}  // namespace
