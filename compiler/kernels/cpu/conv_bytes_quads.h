#pragma once
// Lines of taps of depthwise convolutions of bytes, four lines at once: the bytes of four lines of a channel lie side by side in a lane, so
// that one vpdpbusd sums four taps of a column. A column of pixels is brought into that order once for all outputs that it meets.
#include "bytes.h"

namespace {

#if defined(__AVX512VNNI__)

/// What serves rows of a kernel: `lines` lines (of depth and height) of `width` taps side by side, `stride` pixels apart.
inline bool serves_quads(int64_t lines, int64_t width, int64_t stride) {
  return lines <= 8 && (width == 3 || width == 5) && (stride == 1 || stride == 2);
}

struct QuadRow {
  const uint8_t* at[8];  // of each line its column 0, at the first of the channels
  int64_t apart[8];      // bytes from column to column; 0: the line lies outside, and `at` is what lies around
  int64_t columns;       // of a line; others lie outside
  int around;
  const int32_t* weights;  // [tap of width][quad of lines][vector][lane], four bytes each
};

template <int kWidth, int kStride, int kQuads, int NV>
class Quads {
  static constexpr int kOutputs = 4;  // unrolled

  struct Column {
    Ints v[kQuads][NV];
  };
  const QuadRow& row_;
  __mmask64 some_;

  __attribute__((always_inline)) __m512i load(const uint8_t* p) const {
    const __m512i turned = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    return _mm512_permutexvar_epi32(turned, _mm512_maskz_loadu_epi8(some_, p));
  }
  __attribute__((always_inline)) void fill(Column& to, int64_t column) const {
    if (__builtin_expect(column < 0 || column >= row_.columns, 0)) {
#pragma GCC unroll 2
      for (int q = 0; q < kQuads; ++q)
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) to.v[q][j] = set_bytes(static_cast<char>(row_.around));
      return;
    }
#pragma GCC unroll 2
    for (int q = 0; q < kQuads; ++q) {
      __m512i r[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) r[i] = load(row_.at[4 * q + i] + column * row_.apart[4 * q + i]);
      const __m512i low0 = _mm512_unpacklo_epi8(r[0], r[1]), low1 = _mm512_unpacklo_epi8(r[2], r[3]);
      to.v[q][0] = _mm512_unpacklo_epi16(low0, low1);
      if constexpr (NV > 1) to.v[q][1] = _mm512_unpackhi_epi16(low0, low1);
      if constexpr (NV > 2) {
        const __m512i high0 = _mm512_unpackhi_epi8(r[0], r[1]), high1 = _mm512_unpackhi_epi8(r[2], r[3]);
        to.v[q][2] = _mm512_unpacklo_epi16(high0, high1), to.v[q][3] = _mm512_unpackhi_epi16(high0, high1);
      }
    }
  }

 public:
  Quads(const QuadRow& row, int64_t channels) : row_(row), some_(channels >= 64 ? ~__mmask64{0} : (__mmask64{1} << channels) - 1) {}

  /// `count` outputs, the first of which begins at column `first`; to: NV vectors each, `ld` apart.
  void run(int64_t first, int64_t count, int32_t* to, int64_t ld) const {
    Column kept[kWidth];
#pragma GCC unroll 8
    for (int t = 0; t + kStride < kWidth; ++t) fill(kept[t], first + t);
    int64_t column = first + kWidth - kStride;
    const auto one = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int s = 0; s < kStride; ++s) fill(kept[kWidth - kStride + s], column + s);
      column += kStride;
      Ints sum[NV];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sum[j] = set_ints(0);
#pragma GCC unroll 8
      for (int t = 0; t < kWidth; ++t)
#pragma GCC unroll 2
        for (int q = 0; q < kQuads; ++q)
#pragma GCC unroll 4
          for (int j = 0; j < NV; ++j)
            sum[j] = ByteProducts::dot(sum[j], load_ints(row_.weights + ((t * kQuads + q) * NV + j) * kLanes), {kept[t].v[q][j]});
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) store_ints(to + j * kLanes, sum[j]);
      to += ld;
#pragma GCC unroll 8
      for (int t = 0; t + kStride < kWidth; ++t) kept[t] = kept[t + kStride];
    };
    for (; count >= kOutputs; count -= kOutputs) {
#pragma GCC unroll 4
      for (int i = 0; i < kOutputs; ++i) one();
    }
    for (; count > 0; --count) one();
  }
};

using QuadsFn = void (*)(const QuadRow&, int64_t channels, int64_t first, int64_t count, int32_t* to, int64_t ld);
template <int kWidth, int kStride, int kQuads, int NV>
__attribute__((noinline)) void run_quads(const QuadRow& row, int64_t channels, int64_t first, int64_t count, int32_t* to, int64_t ld) {
  Quads<kWidth, kStride, kQuads, NV>(row, channels).run(first, count, to, ld);
}
/// By width 3 or 5, stride 1 or 2, quads 1 or 2, vectors 2 or 4.
inline QuadsFn quads_of(int64_t width, int64_t stride, int64_t quads, int vectors) {
  static constexpr QuadsFn kTable[2][2][2][2] = {
      {{{run_quads<3, 1, 1, 2>, run_quads<3, 1, 1, 4>}, {run_quads<3, 1, 2, 2>, run_quads<3, 1, 2, 4>}},
       {{run_quads<3, 2, 1, 2>, run_quads<3, 2, 1, 4>}, {run_quads<3, 2, 2, 2>, run_quads<3, 2, 2, 4>}}},
      {{{run_quads<5, 1, 1, 2>, run_quads<5, 1, 1, 4>}, {run_quads<5, 1, 2, 2>, run_quads<5, 1, 2, 4>}},
       {{run_quads<5, 2, 1, 2>, run_quads<5, 2, 1, 4>}, {run_quads<5, 2, 2, 2>, run_quads<5, 2, 2, 4>}}}};
  return kTable[width == 5][stride == 2][quads == 2][vectors == 4];
}

#endif

}  // namespace
