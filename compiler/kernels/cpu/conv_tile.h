#pragma once
// What convolutions as matrix products share: the product of mc output channels with nc pixels of one group, a tile at a time.
//
// Two ways round, chosen by which wastes fewer lanes: pixels as lanes (weights broadcast, tiles of the weight panels' rows), or channels as
// lanes (pixels broadcast, the weight panels streamed; the finished tile is transposed).
#include "gather.h"
#include "panels.h"

namespace {

template <class Elem>
struct ConvPlain {
  using E = Elem;
  using Acc = Elem;
  using Packed = MulPlain<Elem>;  // channels as lanes
  static constexpr bool kPixelLanes = true, kPairs = false;
};
template <class Elem, class PackedMul>
struct ConvWiden {
  using E = Elem;
  using Acc = float;
  using Packed = PackedMul;
  static constexpr bool kPixelLanes = false, kPairs = false;  // weight panels are not f32, so they cannot be broadcast
};
#if defined(__AVX512BF16__)
struct ConvDot {
  using E = bf16;
  using Acc = float;
  using Packed = MulDot;
  static constexpr bool kPixelLanes = true, kPairs = true;
};
using ConvBf16 = ConvDot;
#else
using ConvBf16 = ConvWiden<bf16, MulBf16>;
#endif

template <class G>
struct ConvTile {
  using E = typename G::E;
  using Acc = typename G::Acc;
  using P = typename G::Packed;
  static constexpr int W = Vec<Acc>::kLanes;
  static constexpr int64_t kPanel = AOTC_PANEL_N;

  const aotc_conv_config* cfg;
  ConvShape s;
  TapMap taps;     // where the taps of s stand in the natural weight
  const E *x, *w;  // w: the natural weight, or (w_packed) the panels of the whole weight
  bool pixel_lanes = false;
  Acc *tile = nullptr, *turned = nullptr;
  E* wpack = nullptr;

  /// What one product reads and fills: channels [c0, c1) of group g, pixels [p0, p1).
  struct Part {
    int64_t g, c0, c1, p0, p1;
    const E* panels;  // of group g (w_packed)
    Acc* cols;        // im2col: min(k, kp) x pixels
    bool fresh;       // cols do not hold these pixels yet
  };

  /// Lanes computed per lane needed decide.
  void choose_lanes(int64_t pixels, int64_t k) {
    const int64_t waste_px = 64 * ceil_div(pixels, W) * W / max_of<int64_t>(pixels, 1), waste_co = 64 * ceil_div(s.cog, W) * W / s.cog;
    pixel_lanes = G::kPixelLanes && (waste_px <= waste_co + (k >= 256 ? 2 : 8));
  }
  /// Balanced blocks of pixels: the b-th of n.
  void block(int64_t pixels, int64_t b, int64_t n, int64_t* p0, int64_t* p1) const {
    const int64_t grain = pixel_lanes ? W : 1, steps = ceil_div(pixels, grain);
    *p0 = b * steps / n * grain, *p1 = min_of((b + 1) * steps / n * grain, pixels);
  }
  /// Balanced blocks of channels of a group, in whole weight panels: the b-th of n.
  void channels(int64_t b, int64_t n, int64_t* c0, int64_t* c1) const {
    const int64_t panels = ceil_div(s.cog, kPanel);
    if (panels >= n) {
      *c0 = b * panels / n * kPanel, *c1 = min_of((b + 1) * panels / n * kPanel, s.cog);
    } else {
      *c0 = min_of(b * kPanel, s.cog), *c1 = min_of(*c0 + kPanel, s.cog);
    }
  }

  static int64_t stored_rows(int64_t k) { return P::kGroup == 2 ? (k + 1) / 2 * 2 : k; }

  /// im2col of `count` pixels from p0, k values [k0, k1), into [k][ld] (pairs: [k/2][ld][2]).
  void gather_cols(int64_t g, int64_t p0, int64_t count, int64_t to, int64_t k0, int64_t k1, Acc* dst, int64_t ld) {
    Run runs[kMaxRun];
    const int n_runs = make_runs(s, p0, count, runs);
    if constexpr (!G::kPairs) {
      gather(s, x, g, runs, n_runs, count, to, k0, k1, dst, ld);
    } else {
#if defined(__AVX512BF16__)
      if (Pieces::fits(s, runs, n_runs)) return Pieces(s, runs, n_runs).run_pairs(s, x, g, k0, k1, dst, ld);
#endif
      float two[2][kMaxRun + 32];
      for (int64_t k = k0; k < k1; k += 2, dst += ld) {
        gather(s, x, g, runs, n_runs, count, to, k, k + 1, two[0], kMaxRun);
        if (k + 1 < k1)
          gather(s, x, g, runs, n_runs, count, to, k + 1, k + 2, two[1], kMaxRun);
        else
          for (float& v : two[1]) v = 0;
        // bf16 held in f32: the halves of the bits.
        for (int64_t i = 0; i < to; ++i) {
          u32 lo, hi;
          __builtin_memcpy(&lo, &two[0][i], 4);
          __builtin_memcpy(&hi, &two[1][i], 4);
          lo = lo >> 16 | (hi & 0xffff0000u);
          __builtin_memcpy(dst + i, &lo, 4);
        }
      }
    }
  }

  /// Rows [k0, k1) of channels [c0, c1) as panels of their own.
  void pack_weights(int64_t g, int64_t c0, int64_t c1, int64_t k0, int64_t k1) {
    const int64_t step = s.w_transposed ? taps.all : s.cg * taps.all;  // from channel to channel of the natural weight
    const int64_t rows = stored_rows(k1 - k0);
    // The first channel's element of row k.
    const auto row = [&](int64_t k) {
      const int64_t ch = k / s.taps, t = taps.of(s, k % s.taps);
      return w + (g * s.cg * s.cog + (s.w_transposed ? ch * s.cog : ch)) * taps.all + t;
    };
    E* dst = wpack;
    for (int64_t j0 = c0; j0 < c1; j0 += kPanel, dst += rows * kPanel) {
      const int64_t count = min_of(kPanel, c1 - j0);
      if (!s.w_transposed && taps.whole(s)) {  // k runs through a channel's elements
        const E* from = row(k0) + j0 * step;
        if constexpr (G::kPairs) {
          pack_col_pairs(from, 1, step, k1 - k0, count, kPanel, reinterpret_cast<u32*>(dst), kPanel);
          continue;
        } else if constexpr (sizeof(E) >= 4) {
          pack_cols(from, 1, step, k1 - k0, count, kPanel, dst, kPanel);
          continue;
        }
      }
      for (int64_t k = 0; k < rows; ++k) {
        const E* from = k0 + k < k1 ? row(k0 + k) + j0 * step : nullptr;
        E* to = dst + k / P::kGroup * P::kGroup * kPanel + k % P::kGroup;
        for (int64_t j = 0; j < kPanel; ++j) to[j * P::kGroup] = from && j < count ? from[j * step] : E{};
      }
    }
  }

  /// One tile of rows x pixels, k values [k0, k0 + kn) of a chunk.
  template <class Mul>
  void micro_tile(int64_t rows, int64_t vecs, int64_t kn, const char* a, int64_t a_stride, const char* b, int64_t b_stride, Acc* c,
                  int64_t ldc, bool first, int64_t prefetch) const {
    micro_of<Mul, false>(rows, vecs, W, cfg->ordered)(ceil_div(kn, Mul::kGroup), a, a_stride, b, b_stride, c, ldc, first, b + prefetch,
                                                      prefetch ? b_stride : 0, nullptr);
  }

  template <class Done>
  void with_pixel_lanes(const Part& part, Done done) {
    const auto [g, c0, c1, p0, p1, panels_of_g, cols, fresh] = part;
    const bool whole = s.k <= cfg->kp;
    const int64_t rows = c1 - c0, panels = ceil_div(p1 - p0, kPanel), kp = min_of<int64_t>(s.k + (s.k & 1), cfg->kp);
    const int64_t group = whole ? min_of<int64_t>(panels, max_of<int64_t>(1, 8192 / (rows * kPanel))) : panels, ldc = group * kPanel;
    constexpr int64_t a_stride = kPanel * sizeof(E) * P::kGroup;
    for (int64_t ks = 0; ks < s.k; ks += cfg->kp) {
      const int64_t klen = min_of<int64_t>(cfg->kp, s.k - ks);
      if (!cfg->w_packed) pack_weights(g, c0, c1, ks, ks + klen);
      for (int64_t q0 = 0; q0 < panels; q0 += group) {
        const int64_t q1 = min_of(q0 + group, panels);
        for (int64_t q = q0; q < q1; ++q) {
          const int64_t px = p0 + q * kPanel, width = min_of(kPanel, p1 - px), vecs = ceil_div(width, W);
          Acc* panel = cols + q * kPanel * kp;
          if (fresh) gather_cols(g, px, width, vecs * W, ks, ks + klen, panel, kPanel);
          for (int64_t k0 = 0; k0 < klen; k0 += cfg->kc) {
            const int64_t kn = min_of<int64_t>(cfg->kc, klen - k0);
            const char* b0 = reinterpret_cast<const char*>(panel + k0 / P::kGroup * kPanel);
            for (int64_t c = c0; c < c1; c += kPanel) {
              const int64_t height = min_of(kPanel, c1 - c), tiles = ceil_div(height, kMaxMr);
              const E* wp = cfg->w_packed ? panels_of_g + c * stored_rows(s.k) + (ks + k0) * kPanel
                                          : wpack + (c - c0) * stored_rows(klen) + k0 * kPanel;
              for (int64_t t = 0; t < tiles; ++t) {
                const int64_t r0 = t * height / tiles, r1 = (t + 1) * height / tiles;
                const char* a0 = reinterpret_cast<const char*>(wp + r0 * P::kGroup);
                for (int64_t v = 0; v < vecs; v += kMaxNv)
                  micro_tile<P>(r1 - r0, min_of<int64_t>(kMaxNv, vecs - v), kn, a0, a_stride, b0 + v * W * sizeof(Acc),
                                kPanel * sizeof(Acc), tile + (c - c0 + r0) * ldc + (q - q0) * kPanel + v * W, ldc, ks + k0 == 0, 0);
              }
            }
          }
        }
        if (ks + klen == s.k) {
          const int64_t px = p0 + q0 * kPanel;
          done(tile, ldc, c0, rows, px, min_of(p1 - px, ldc));
        }
      }
    }
  }

  template <class Done>
  void with_channel_lanes(const Part& part, Done done) {
    const auto [g, c0, c1, p0, p1, panels_of_g, cols, fresh] = part;
    const bool whole = s.k <= cfg->kp;
    const int64_t count = p1 - p0, tiles = ceil_div(count, kMaxMr), ldc = whole ? kPanel : ceil_div(c1 - c0, kPanel) * kPanel;
    constexpr int64_t b_stride = kPanel * sizeof(E) * P::kGroup;
    const int64_t ld_turned = ceil_div(count, 8) * 8;
    for (int64_t ks = 0; ks < s.k; ks += cfg->kp) {
      // Where the products go two by two, an odd k is followed by zeros (zero times what was in the scratch may be NaN).
      const int64_t klen = min_of<int64_t>(cfg->kp, s.k - ks), krows = G::kPairs ? (klen + 1) / 2 : stored_rows(klen);
      if (!cfg->w_packed) pack_weights(g, c0, c1, ks, ks + klen);
      if (fresh)
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t r0 = t * count / tiles, r1 = (t + 1) * count / tiles;
          Acc* to = cols + r0 * krows;
          gather_cols(g, p0 + r0, r1 - r0, r1 - r0, ks, ks + klen, to, r1 - r0);
          if constexpr (!G::kPairs)
            for (int64_t i = (r1 - r0) * klen; i < (r1 - r0) * krows; ++i) to[i] = 0;
        }
      for (int64_t c = c0; c < c1; c += kPanel) {
        const int64_t width = min_of(kPanel, c1 - c), vecs = ceil_div(width, W);
        Acc* out = tile + (whole ? 0 : c - c0);
        const E* wp = cfg->w_packed ? panels_of_g + c * stored_rows(s.k) + ks * kPanel : wpack + (c - c0) * stored_rows(klen);
        for (int64_t k0 = 0; k0 < klen; k0 += cfg->kc) {
          const int64_t kn = min_of<int64_t>(cfg->kc, klen - k0);
          const char* b0 = reinterpret_cast<const char*>(wp + k0 * kPanel);
          for (int64_t v = 0; v < vecs; v += kMaxNv) {
            RowTiles each(count, tiles);
            for (int64_t t = 0; t < tiles; ++t) {
              const auto [r0, r] = each.next();
              const Acc* a0 = cols + r0 * krows + (G::kPairs ? k0 / 2 : k0) * r;
              micro_tile<P>(r, min_of<int64_t>(kMaxNv, vecs - v), kn, reinterpret_cast<const char*>(a0), r * sizeof(Acc),
                            b0 + v * W * P::kBytesB * P::kGroup, b_stride, out + r0 * ldc + v * W, ldc, ks + k0 == 0,
                            t == 0 && cfg->w_packed ? kn / P::kGroup * b_stride : 0);
            }
          }
        }
        if (ks + klen == s.k) {
          turn(out, ldc, count, width, ld_turned);
          done(turned, ld_turned, c, width, p0, count);
        }
      }
    }
  }

  /// turned[col][ld] = in[row][col].
  void turn(const Acc* in, int64_t ld_in, int64_t rows, int64_t width, int64_t ld) {
    int64_t r0 = 0;
    if constexpr (sizeof(Acc) == 4) {
      for (; r0 < rows; r0 += 8)
        for (int64_t c = 0; c < width; c += 8) {
          __m256 r[8];
          for (int64_t i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(in + min_of(r0 + i, rows - 1) * ld_in + c);
          transpose8(r);
          for (int64_t i = 0; i < 8; ++i) _mm256_storeu_ps(turned + (c + i) * ld + r0, r[i]);
        }
    }
    for (; r0 < rows; ++r0)
      for (int64_t c = 0; c < width; ++c) turned[c * ld + r0] = in[r0 * ld_in + c];
  }

  /// done(acc, ld, c, rows, p0, count): sums of `rows` channels of the group from c at pixels [p0, p0 + count), piece by piece.
  template <class Done>
  void multiply(const Part& part, Done done) {
    if (s.k == 0) {
      const int64_t ld = part.p1 - part.p0;
      for (int64_t i = 0; i < min_of(kPanel, part.c1 - part.c0) * ld; ++i) tile[i] = 0;
      for (int64_t c = part.c0; c < part.c1; c += kPanel) done(tile, ld, c, min_of(kPanel, part.c1 - c), part.p0, ld);
    } else if (pixel_lanes) {
      with_pixel_lanes(part, done);
    } else {
      with_channel_lanes(part, done);
    }
  }
};

}  // namespace
