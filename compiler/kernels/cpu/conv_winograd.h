#pragma once
// kd x 3 x 3 convolutions of stride 1 (but along depth) of channels-last tensors by Winograd's minimal filtering F(m x m, 3 x 3) in the
// planes of height and width, summed over those of depth, m 2 or 4: AOTC_CONV_WINOGRAD of
// aotc/detail/library_abi.h. Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015); for m = 4 the points are 0,
// +-3/2, +-11/16, infinity: a third of the error of 0, +-1, +-2 at the same cost, 0.95 of that of 0, +-sqrt(2), +-1/sqrt(2), whose
// coefficients are no floats. The transforms are float32's; those of bf16 (m = 2) are rounded once before they are multiplied.
//
// A work unit is nc tiles of m x m pixels (images and output planes merged) x mc output channels. The tiles' transforms, a matrix
// [tile][plane, channel] for each of the (m + 2)^2 points, are kept over the units of the same tiles and stay in L2. Planes outside of an
// image are not multiplied.
#include "conv_tile.h"

namespace {

/// The transforms along one dim.
template <int M>
struct Winograd;
template <>
struct Winograd<2> {
  using F = Vec<float>;
  using V = F::V;
  static __attribute__((always_inline)) void in(const V* d, V* o) {
    o[0] = d[0] - d[2], o[1] = d[1] + d[2], o[2] = d[2] - d[1], o[3] = d[3] - d[1];
  }
  static __attribute__((always_inline)) void out(const V* m, V* o) {
    o[0] = m[0] + m[1] + m[2];
    o[1] = m[1] - m[2] + m[3];
  }
};
template <>
struct Winograd<4> {
  using F = Vec<float>;
  using V = F::V;
  static constexpr float kA = 1.5f, kB = 0.6875f, kA2 = kA * kA, kB2 = kB * kB;  // so are all products and sums of them: exact
  static __attribute__((always_inline)) V fma(float a, V b, V c) { return F::fma(F::set1(a), b, c); }
  static __attribute__((always_inline)) void in(const V* d, V* o) {
    const V e = fma(-kB2, d[2], d[4]), f = fma(-kB2, d[1], d[3]), g = fma(-kA2, d[2], d[4]), h = fma(-kA2, d[1], d[3]);
    o[0] = fma(-kA2 - kB2, d[2], fma(kA2 * kB2, d[0], d[4]));
    o[1] = fma(kA, f, e), o[2] = fma(-kA, f, e), o[3] = fma(kB, h, g), o[4] = fma(-kB, h, g);
    o[5] = fma(-kA2 - kB2, d[3], fma(kA2 * kB2, d[1], d[5]));
  }
  static __attribute__((always_inline)) void out(const V* m, V* o) {
    const V p = m[1] + m[2], n = m[1] - m[2], q = m[3] + m[4], r = m[3] - m[4];
    o[0] = m[0] + p + q;
    o[1] = fma(kA, n, F::set1(kB) * r);
    o[2] = fma(kA2, p, F::set1(kB2) * q);
    o[3] = fma(kA * kA2, n, fma(kB * kB2, r, m[5]));
  }
};

template <int M, class G>
struct ConvWinograd {
  using E = typename G::E;
  using Row = typename G::Row;
  using P = typename G::Packed;
  using F = Vec<float>;
  using V = F::V;
  static constexpr int A = M + 2, W = F::kLanes;
  static constexpr int64_t kPanel = AOTC_PANEL_N, kRun = AOTC_WINOGRAD_RUN;

  const aotc_kargs* args;
  const aotc_conv_config* cfg;
  ConvShape s;
  const E *x, *u;
  int64_t across, down;  // tiles of a plane
  int64_t deep, ld;      // channels of all planes that a tile reads; elements between the tiles of a point
  Row* points;
  float *sums, *done;
  E* zeros;

  explicit ConvWinograd(const aotc_kargs* a)
      : args(a),
        cfg(static_cast<const aotc_conv_config*>(a->config)),
        s(a->size, cfg),
        x(static_cast<const E*>(a->ptr[cfg->x_ptr])),
        u(static_cast<const E*>(a->ptr[cfg->w_ptr])) {
    across = ceil_div(s.out[2], M), down = ceil_div(s.out[1], M);
    deep = s.kernel[0] * s.c, ld = deep + 64 / static_cast<int64_t>(sizeof(Row));
    points = static_cast<Row*>(a->scratch);
    sums = static_cast<float*>(a->scratch) + A * A * cfg->nc * (deep + 16);
    done = sums + A * A * cfg->nc * kPanel;
    zeros = reinterpret_cast<E*>(done + M * M * kRun * kPanel);
    for (int64_t i = 0; i < s.c; ++i) zeros[i] = E{};
  }

  static V load(const E* p) {
    if constexpr (sizeof(E) == 2)
      return load_half(p);
    else
      return F::load(p);
  }
  static void store(Row* p, V v) {
#if defined(__AVX512BF16__)
    if constexpr (sizeof(Row) == 2)
      return _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(v));
    else
#endif
      F::store(p, v);
  }

  /// Tiles [t0, t0 + n) into points[A * A][n][ld].
  void transform(int64_t t0, int64_t n) {
    for (int64_t t = 0; t < n; ++t) {
      const int64_t at = t0 + t, plane = at / (across * down), h0 = at / across % down * M - s.pad[1], w0 = at % across * M - s.pad[2];
      for (int64_t d = 0; d < s.kernel[0]; ++d) {
        int64_t id;
        const bool inside = s.source(0, plane % s.out[0], d, &id);
        const E* const image = x + (plane / s.out[0] * s.in[0] + id) * s.in[1] * s.in[2] * s.c;
        const E* src[A][A];
        for (int64_t i = 0; i < A; ++i)
          for (int64_t j = 0; j < A; ++j) {
            const int64_t h = h0 + i, c = w0 + j;
            src[i][j] = inside && h >= 0 && h < s.in[1] && c >= 0 && c < s.in[2] ? image + (h * s.in[2] + c) * s.c : zeros;
          }
        transform_tile(src, points + t * ld + d * s.c, n * ld);
      }
    }
  }
  void transform_tile(const E* const (&src)[A][A], Row* to, int64_t apart) const {
    for (int64_t c = 0; c < s.c; c += W) {
      V d[A], half[A][A], o[A];
#pragma GCC unroll 6
      for (int j = 0; j < A; ++j) {
#pragma GCC unroll 6
        for (int i = 0; i < A; ++i) d[i] = load(src[i][j] + c);
        Winograd<M>::in(d, o);
#pragma GCC unroll 6
        for (int i = 0; i < A; ++i) half[i][j] = o[i];
      }
#pragma GCC unroll 6
      for (int i = 0; i < A; ++i) {
        Winograd<M>::in(half[i], o);
#pragma GCC unroll 6
        for (int j = 0; j < A; ++j) store(to + (i * A + j) * apart + c, o[j]);
      }
    }
  }

  /// The channels [begin, end) of a tile's planes that lie inside for some of the tiles [t0, t0 + n); never none.
  struct Range {
    int64_t begin, end;
  };
  Range inside(int64_t t0, int64_t n) const {
    if (s.kernel[0] == 1) return {0, deep};
    int64_t lo = s.kernel[0], hi = 0, id;
    for (int64_t p = t0 / (across * down); p <= (t0 + n - 1) / (across * down); ++p)
      for (int64_t d = 0; d < s.kernel[0]; ++d)
        if (s.source(0, p % s.out[0], d, &id)) lo = min_of(lo, d), hi = max_of(hi, d + 1);
    return lo < hi ? Range{lo * s.c, hi * s.c} : Range{0, s.c};
  }

  /// sums[A * A][n][32] of `cols` output channels, those of one panel, of tiles [t0, t0 + n).
  void multiply(const E* panel, int64_t t0, int64_t n, int64_t cols) {
    constexpr int64_t b_stride = kPanel * P::kBytesB * P::kGroup;
    const int64_t tiles = ceil_div(n, kMaxMr), share = b_stride / tiles, vecs = ceil_div(cols, W);
    for (int64_t p = 0; p < A * A; ++p)
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r0 = t * n / tiles, r = (t + 1) * n / tiles - r0;
        const Range k = inside(t0 + r0, r);
        for (int64_t k0 = k.begin; k0 < k.end; k0 += cfg->kc) {
          const int64_t steps = min_of<int64_t>(cfg->kc, k.end - k0) / P::kGroup;
          const char* b = reinterpret_cast<const char*>(panel + (p * deep + k0) * kPanel);
          const char* next = b + deep * kPanel * P::kBytesB + t * share * steps;
          for (int64_t v = 0; v < vecs; v += kMaxNv)
            micro_of<P, true>(r, min_of<int64_t>(kMaxNv, vecs - v), W, cfg->ordered)(
                steps, reinterpret_cast<const char*>(points + (p * n + r0) * ld + k0), ld * sizeof(Row), b + v * W * P::kBytesB * P::kGroup,
                b_stride, sums + (p * n + r0) * kPanel + v * W, kPanel, k0 == k.begin, next, share, nullptr);
        }
      }
  }

  /// The pixels of tiles [t, t + n), neighbours in one row of tiles, of n_all: channels [c, c + cols).
  void finish(int64_t t0, int64_t t, int64_t n, int64_t n_all, int64_t c, int64_t cols) {
    const int64_t at = t0 + t, plane = at / (across * down), h0 = at / across % down * M, w0 = at % across * M;
    const int64_t width = min_of<int64_t>(n * M, s.out[2] - w0);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t v = 0; v < cols; v += W) {
        V m[A], half[M][A], o[M];
#pragma GCC unroll 6
        for (int j = 0; j < A; ++j) {
#pragma GCC unroll 6
          for (int k = 0; k < A; ++k) m[k] = F::load(sums + ((k * A + j) * n_all + t + i) * kPanel + v);
          Winograd<M>::out(m, o);
#pragma GCC unroll 4
          for (int k = 0; k < M; ++k) half[k][j] = o[k];
        }
#pragma GCC unroll 4
        for (int k = 0; k < M; ++k) {
          Winograd<M>::out(half[k], o);
#pragma GCC unroll 4
          for (int j = 0; j < M; ++j) F::store(done + ((k * kRun + i) * M + j) * kPanel + v, o[j]);
        }
      }
    for (int64_t k = 0; k < M && h0 + k < s.out[1]; ++k)
      cfg->epilogue(args, done + k * kRun * M * kPanel, kPanel, plane / s.out[0], (plane % s.out[0] * s.out[1] + h0 + k) * s.out[2] + w0,
                    width, c, cols);
  }

  void run(int64_t begin, int64_t end) {
    const int64_t tiles = s.n * s.out[0] * across * down, panels = ceil_div(s.co, kPanel), blocks = ceil_div(tiles, cfg->nc);
    const int64_t co_blocks = ceil_div(s.co, cfg->mc);
    int64_t held = held_key(args);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t cb = i % co_blocks, tb = i / co_blocks, t0 = tb * tiles / blocks, n = (tb + 1) * tiles / blocks - t0;
      if (n <= 0) continue;
      if (held != tb) transform(t0, n);
      held = tb;
      for (int64_t q = cb * panels / co_blocks; q < (cb + 1) * panels / co_blocks; ++q) {
        const int64_t cols = min_of(kPanel, s.co - q * kPanel);
        multiply(u + q * A * A * deep * kPanel, t0, n, cols);
        for (int64_t t = 0; t < n;) {
          const int64_t run = min_of(min_of(n - t, across - (t0 + t) % across), kRun);
          finish(t0, t, run, n, q * kPanel, cols);
          t += run;
        }
      }
    }
    hold_key(args, held);
  }
};

}  // namespace
