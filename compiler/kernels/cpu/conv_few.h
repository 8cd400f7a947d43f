#pragma once
// Convolutions of few channels a group, channels-last: aotc_conv_few_* of aotc/detail/conv_few_abi.h. A register tile is neighbouring
// pixels of an output row x output channels; a pixel's values of a line of taps lie side by side, so the tiles read them in place, one line
// after another, or one tap after another where the taps lie apart.
#include "aotc/detail/conv_few_abi.h"
#include "conv_channels_last.h"

namespace {

/// A run of taps that lie side by side: where its values begin for a tile's first pixel, in bytes from the tile's `a`, and its weights.
struct FewLine {
  int64_t at;
  const char* b;
};

/// The last value of a line of an odd number of them, where P multiplies in pairs: what lies behind it is another pixel's.
template <class P>
struct FewTail {
  using V = typename P::V;
  static V mul(V acc, const char*, typename P::B) { return acc; }
};
template <>
struct FewTail<MulBf16> {
  using V = MulBf16::V;
  static V mul(V acc, const char* a, MulBf16::B b) {
    float x;
    __builtin_memcpy(&x, a, 4);
    return Vec<float>::fma(Vec<float>::set1(x), b.even, acc);
  }
};
#if defined(__AVX512BF16__)
template <>
struct FewTail<MulDot> {
  static __m512 mul(__m512 acc, const char* a, MulDot::B b) {
    u32 x;
    __builtin_memcpy(&x, a, 4);
    __m512i pair = _mm512_set1_epi32(static_cast<int>(x));
    asm("" : "+v"(pair));  // or half of it goes by way of a general register
    const __m512i first = _mm512_and_si512(pair, _mm512_set1_epi32(0xffff));
    return _mm512_dpbf16_ps(acc, (__m512bh)first, (__m512bh)b.v);
  }
};
#endif

/// c[MR, NV vectors] (+)= the sum over lines of a[MR, values] * b[values, NV vectors]: `steps` steps of P::kGroup values a line, then with
/// `tail` one value more. Rows of a lie a_stride bytes apart. fin as
/// of micro. The order of a pixel's sum does not depend on the tile.
using FewFn = void (*)(const FewLine* line, const FewLine* end, int64_t steps, bool tail, const char* a, int64_t a_stride, int64_t b_stride,
                       float* c, int64_t ldc, bool first, const TileFinish* fin);
template <class P, int MR, int NV>
__attribute__((noinline)) void few_tile(const FewLine* line, const FewLine* end, int64_t steps, bool tail, const char* a, int64_t a_stride,
                                        int64_t b_stride, float* c, int64_t ldc, bool first, [[maybe_unused]] const TileFinish* fin) {
  using V = typename P::V;
  constexpr int W = Vec<float>::kLanes, kVecB = W * P::kBytesB * P::kGroup, kBases = (MR + 2) / 3;
  constexpr int64_t kStepA = P::kBytesA * P::kGroup;
  V acc[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) acc[i][j] = Vec<float>::zero();
  const char* base[kBases];  // rows three apart share one
#pragma GCC unroll 8
  for (int i = 0; i < kBases; ++i) {
    base[i] = a + 3 * i * a_stride;
    asm("" : "+r"(base[i]));
  }
  const auto step = [&](const char* b, int64_t at, auto mul) __attribute__((always_inline)) {
    typename P::B bv[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) bv[j] = P::load(b + j * kVecB);
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const char* ap = base[i / 3] + (i % 3) * a_stride + at;
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) acc[i][j] = mul(acc[i][j], ap, bv[j]);
    }
  };
  const auto whole = [a_stride](V sum, const char* ap, typename P::B bv) __attribute__((always_inline)) {
    return P::template mul<true>(sum, ap, a_stride, bv);
  };
  for (; line != end; ++line) {
    const char* b = line->b;
    int64_t at = line->at;
    for (int64_t s = 0; s < steps; ++s, at += kStepA, b += b_stride) step(b, at, whole);
    if constexpr (P::kGroup == 2) {
      if (tail)
        step(
            b, at, [](V sum, const char* ap, typename P::B bv) __attribute__((always_inline)) { return FewTail<P>::mul(sum, ap, bv); });
    }
  }
  if (!first) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) acc[i][j] += Vec<float>::load(c + i * ldc + j * W);
  }
  if constexpr (kFinishes<float>) {
    if (fin) return finish_tile<0>(acc, *fin);
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) Vec<float>::store(c + i * ldc + j * W, acc[i][j]);
}

template <class P>
struct FewTable {
  FewFn fn[kMaxMr][2];
  template <int MR>
  constexpr void fill() {
    fn[MR - 1][0] = few_tile<P, MR, 1>, fn[MR - 1][1] = few_tile<P, MR, 2>;
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr FewTable() : fn{} { fill<kMaxMr>(); }
};
template <class P>
inline constexpr FewTable<P> kFewTiles{};

template <class G>
struct ConvFew : ConvLastRows<G> {
  using Base = ConvLastRows<G>;
  using Base::args, Base::cfg, Base::W, Base::s, Base::kPanel, Base::x, Base::w;
  using typename Base::E;
  using typename Base::P;
  using typename Base::Row;
  static constexpr int64_t kRun = AOTC_CONV_FEW_RUN, kMostSummed = 192;  // kMostSummed: values of a sum before it is added to others

  int64_t values, panels, ld;  // of a line of taps; of a group's channels; elements between copied lines
  int64_t runs, reach;         // of a line of taps; columns that it spans
  Row* copied;
  const E* held[AOTC_CONV_FEW_LINES];  // the lines that lie there, all of the same columns
  float* tile;
  Finish finish_in_tiles;

  explicit ConvFew(const aotc_kargs* a) : Base(a), values(s.kernel[2] * s.cg), panels(ceil_div(s.cog, kPanel)) {
    if (kFinishes<float>) finish_in_tiles = Finish(a, cfg->finish);
    runs = s.dilation[2] == 1 ? 1 : s.kernel[2], reach = (s.kernel[2] - 1) * s.dilation[2] + 1;
    ld = ((kRun - 1) * s.stride[2] + reach) * s.cg + kPanel;
    tile = static_cast<float*>(a->scratch);
    copied = reinterpret_cast<Row*>(tile + kRun * (cfg->mc + kPanel));
  }

  /// Columns [first, first + count) of a row of an image, a group's channels of each, zeros outside.
  void copy_line(const E* row, int64_t first, int64_t count, Row* to) const {
    const int64_t lo = min_of(max_of<int64_t>(-first, 0), count), hi = max_of(lo, min_of(count, s.in[2] - first));
    const E* const from = row + (first + lo) * s.c;
    Base::copy(to, nullptr, lo * s.cg);
    if (s.groups == 1)
      Base::copy(to + lo * s.c, from, (hi - lo) * s.c);
    else
      Base::copy_all(to + lo * s.cg, s.cg, from, s.c, s.cg, hi - lo, s.cg);
    Base::copy(to + hi * s.cg, nullptr, (count - hi) * s.cg);
  }

  /// The t-th of n shares of the weights that follow `len` bytes of each line's, as many again, are on their way to L2.
  static void ask_for(const FewLine* line, int64_t lines, int64_t len, int64_t t, int64_t n) {
    for (const FewLine* l = line; l != line + lines; ++l)
      for (int64_t i = len + (t * len / n & -64); i < len + (t + 1) * len / n; i += 64) __builtin_prefetch(l->b + i, 0, 2);
  }

  /// `count` pixels of output row `row` (planes and images merged) from column ow on, channels [c0, c1) of a group.
  void run_of_row(int64_t g, int64_t row, int64_t ow, int64_t count, int64_t c0, int64_t c1) {
    constexpr int64_t kLineBytes = kPanel * sizeof(E);
    const int64_t oh = row % s.out[1], od = row / s.out[1] % s.out[0], stored = Base::stored_rows(values);
    const E* const image = x + row / s.out[1] / s.out[0] * s.in_plane * s.c + g * s.cg;
    FewLine line[AOTC_CONV_FEW_LINES];
    int64_t at[AOTC_CONV_FEW_LINES], of[AOTC_CONV_FEW_LINES], n = 0, id, ih;
    for (int64_t t = 0; t < s.kernel[0] * s.kernel[1]; ++t) {
      if (!s.source(0, od, t / s.kernel[1], &id) || !s.source(1, oh, t % s.kernel[1], &ih)) continue;
      const int64_t slot = s.dilation[1] == 1 ? t / s.kernel[1] * s.kernel[1] + ih % s.kernel[1] : t;
      const E* const from = image + (id * s.in[1] + ih) * s.in[2] * s.c;
      if (held[slot] != from) copy_line(from, ow * s.stride[2] - s.pad[2], (count - 1) * s.stride[2] + reach, copied + slot * ld);
      held[slot] = from;
      at[n] = slot * ld, of[n++] = t;
    }
    const int64_t tiles = ceil_div(count, kMaxMr), a_stride = s.stride[2] * s.cg * static_cast<int64_t>(sizeof(Row)),
                  p0 = row * s.out[2] + ow;
    const int64_t ldc = ceil_div(c1 - c0, kPanel) * kPanel, lines = n * runs, of_run = values / runs;
    // Long runs are cut, short ones go several at once: a part's weights stay near while all tiles meet them.
    const int64_t cuts = max_of<int64_t>(1, ceil_div(of_run, kMostSummed)),
                  parts = max_of<int64_t>(1, ceil_div(n * values, kMostSummed * cuts));
    for (int64_t c = c0; c < c1; c += kPanel) {
      const int64_t vecs = ceil_div(min_of(kPanel, c1 - c), W);
      for (int64_t v = 0; v < vecs; v += 2) {
        const int64_t nv = min_of<int64_t>(2, vecs - v), last = min_of<int64_t>(W, c1 - c - (v + nv - 1) * W);
        const char* const b = reinterpret_cast<const char*>(w) + v * W * P::kBytesB * P::kGroup +
                              g * s.kernel[0] * s.kernel[1] * panels * stored * kLineBytes;
        for (int64_t cut = 0; cut < cuts; ++cut) {
          const int64_t from = cut * of_run / cuts & -P::kGroup,
                        len = (cut + 1 < cuts ? (cut + 1) * of_run / cuts & -P::kGroup : of_run) - from;
          for (int64_t i = 0; i < lines; ++i) {
            const int64_t l = i / runs, tap = i % runs;
            line[i].at = (at[l] + tap * s.dilation[2] * s.cg + from) * static_cast<int64_t>(sizeof(Row));
            line[i].b = b + ((of[l] * panels + c / kPanel) * stored + tap * of_run + from) * kLineBytes;
          }
          for (int64_t part = 0; part < parts; ++part) {
            const bool first = cut + part == 0, finishes = finish_in_tiles.n && cut + 1 == cuts && part + 1 == parts;
            RowTiles each(count, tiles);
            for (int64_t t = 0; t < tiles; ++t) {
              const auto [r0, r] = each.next();
              const TileFinish fin = {&finish_in_tiles, p0 + r0, g * s.cog + c + v * W, last};
              if (cut + 1 < cuts) ask_for(line, lines, len * kLineBytes, t, tiles);
              kFewTiles<P>.fn[r - 1][nv - 1](line + part * lines / parts, line + (part + 1) * lines / parts, len / P::kGroup,
                                             len % P::kGroup != 0, reinterpret_cast<const char*>(copied) + r0 * a_stride, a_stride,
                                             kLineBytes * P::kGroup, tile + r0 * ldc + c - c0 + v * W, ldc, first,
                                             finishes ? &fin : nullptr);
            }
          }
        }
      }
    }
    if (!finish_in_tiles.n) this->finish(tile, ldc, g, p0, p0 + count, c0, c1 - c0);
  }

  void run(int64_t begin, int64_t end) {
    const int64_t rows = s.n * s.out[0] * s.out[1], co_blocks = ceil_div(s.cog, cfg->mc), blocks = ceil_div(rows * s.out[2], cfg->nc);
    for (int64_t u = begin; u < end; ++u) {
      const int64_t cb = u % co_blocks, b = u / co_blocks % blocks, g = u / co_blocks / blocks;
      const int64_t c0 = cb * panels / co_blocks * kPanel, c1 = min_of((cb + 1) * panels / co_blocks * kPanel, s.cog);
      const int64_t pieces = ceil_div(s.out[2], kRun);
      for (int64_t i = 0; c0 < c1 && i < pieces; ++i) {
        const int64_t ow = i * s.out[2] / pieces;
        for (const E*& line : held) line = nullptr;
        for (int64_t row = b * rows / blocks; row < (b + 1) * rows / blocks; ++row)
          run_of_row(g, row, ow, (i + 1) * s.out[2] / pieces - ow, c0, c1);
      }
    }
  }
};

}  // namespace
