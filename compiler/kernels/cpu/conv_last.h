#pragma once
// Convolutions of channels-last tensors: AOTC_CONV_LAST of aotc/detail/library_abi.h, an implicit matrix product with channels as lanes.
//
// A work unit is nc pixels (images merged) x mc output channels of one group. The pixels' rows of the im2col matrix are copied once, in
// runs of whole channels, and kept over the units of the same pixels; the register tiles read them in place.
#include "conv_tile.h"

namespace {

template <class G>
struct ConvLast {
  using E = typename G::E;
  using Acc = typename G::Acc;
  using P = typename G::Packed;
  using Row = typename G::Row;
  static constexpr int W = Vec<Acc>::kLanes;
  static constexpr int64_t kPanel = AOTC_PANEL_N;

  const aotc_kargs* args;
  const aotc_conv_config* cfg;
  ConvShape s;
  const E *x, *w;  // w: natural, or (w_packed) panels
  int64_t kp, ld;  // of rows
  Row* rows;       // im2col: nc x kp
  Acc* tile;
  E* wpack;

  explicit ConvLast(const aotc_kargs* a)
      : args(a),
        cfg(static_cast<const aotc_conv_config*>(a->config)),
        s(a->size, cfg),
        x(static_cast<const E*>(a->ptr[cfg->x_ptr])),
        w(static_cast<const E*>(a->ptr[cfg->w_ptr])) {
    kp = min_of<int64_t>(s.k + (s.k & 1), cfg->kp), ld = kp + 16;  // rows apart in the cache
    tile = static_cast<Acc*>(a->scratch);
    Acc* rest = tile + (int64_t{cfg->nc} + 16) * (cfg->mc + kPanel);
    rows = reinterpret_cast<Row*>(rest);
    wpack = reinterpret_cast<E*>(rest + (int64_t{cfg->nc} + 1) * ld);
  }

  static Vec<float>::V load_some(const float* p, int64_t n) {
#if defined(__AVX512F__)
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
#else
    static const int32_t kMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_maskload_ps(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMask + 8 - n)));
#endif
  }
  static int64_t stored_rows(int64_t k) { return P::kGroup == 2 ? (k + 1) / 2 * 2 : k; }

  /// dst[i] = src[i], i < n; zeros where src is null. May write up to a vector beyond.
  static void copy(Row* dst, const E* src, int64_t n) {
    if constexpr (sizeof(E) == 4 && sizeof(Row) == 4) {
      for (int64_t i = 0; i < n; i += W) {
        const int64_t left = n - i;
        Vec<float>::store(dst + i, !src ? Vec<float>::zero() : left >= W ? Vec<float>::load(src + i) : load_some(src + i, left));
      }
    } else if (!src) {
      for (int64_t i = 0; i < n; ++i) dst[i] = Row{};
    } else {
      for (int64_t i = 0; i < n; ++i) G::widen(src[i], dst + i);
    }
  }

  /// A line of taps of width that an output row meets: where it begins in the image (meaningless outside).
  struct Line {
    const E* at;
    bool inside;
  };
  /// Lines of the taps [t0, t1) of depth and height, of output row (od, oh).
  void find_lines(const E* image, int64_t od, int64_t oh, int64_t t0, int64_t t1, Line* lines) const {
    for (int64_t t = t0; t < t1; ++t) {
      int64_t id, ih;
      const bool inside = s.source(0, od, t / s.kernel[1], &id) && s.source(1, oh, t % s.kernel[1], &ih);
      lines[t - t0] = {inside ? image + (id * s.in[1] + ih) * s.in[2] * s.c : image, inside};
    }
  }

  /// k values [from, to) of one line, ordered (tap of width, channel), for the output column whose first tap reads column `first`.
  Row* gather_line(const Line& line, int64_t first, int64_t from, int64_t to, Row* dst) const {
    if (!line.inside) {
      copy(dst, nullptr, to - from);
      return dst + (to - from);
    }
    if (s.groups == 1 && s.dilation[2] == 1) {  // the taps lie side by side
      const int64_t lo = min_of(max_of(from, -first * s.cg), to), hi = max_of(lo, min_of(to, (s.in[2] - first) * s.cg));
      if (lo > from) copy(dst, nullptr, lo - from);
      copy(dst + lo - from, line.at + first * s.cg + lo, hi - lo);
      if (to > hi) copy(dst + hi - from, nullptr, to - hi);
      return dst + (to - from);
    }
    for (int64_t k = from; k < to;) {
      const int64_t t = k / s.cg, n = min_of((t + 1) * s.cg, to) - k, at = first + t * s.dilation[2];
      copy(dst, at >= 0 && at < s.in[2] ? line.at + at * s.c + k - t * s.cg : nullptr, n);
      dst += n, k += n;
    }
    return dst;
  }

  /// k values [ks, ks + klen), ordered (tap, channel), of pixels [p0, p1).
  void gather_rows(int64_t g, int64_t p0, int64_t p1, int64_t ks, int64_t klen) {
    constexpr int64_t kLines = 32;
    const int64_t row_k = s.kernel[2] * s.cg, k1 = ks + klen;
    if (row_k == 0) return;
    for (int64_t t0 = ks / row_k; t0 * row_k < k1; t0 += kLines) {  // a few lines of taps at a time
      const int64_t t1 = min_of(t0 + kLines, ceil_div(k1, row_k));
      int64_t ow = p0 % s.out[2], row = p0 / s.out[2];
      for (int64_t p = p0; p < p1; ++row, ow = 0) {
        const int64_t oh = row % s.out[1], od = row / s.out[1] % s.out[0];
        const E* image = x + row / s.out[1] / s.out[0] * s.in_plane * s.c + g * s.cg;
        Line lines[kLines];
        find_lines(image, od, oh, t0, t1, lines);
        for (; ow < s.out[2] && p < p1; ++ow, ++p) {
          Row* dst = rows + (p - p0) * ld + max_of<int64_t>(t0 * row_k - ks, 0);
          for (int64_t t = t0; t < t1; ++t)
            dst = gather_line(lines[t - t0], ow * s.stride[2] - s.pad[2], max_of(ks - t * row_k, int64_t{0}), min_of(k1 - t * row_k, row_k),
                              dst);
          if (t1 * row_k >= k1 && (klen & 1)) *dst = Row{};  // products that go two by two meet a zero
        }
      }
    }
  }

  void pack_weights(int64_t g, int64_t c0, int64_t c1, int64_t k0, int64_t k1) {
    E* dst = wpack;
    for (int64_t j0 = c0; j0 < c1; j0 += kPanel)
      for (int64_t k = k0; k < k0 + stored_rows(k1 - k0); k += P::kGroup)
        for (int64_t j = 0; j < kPanel; ++j)
          for (int64_t q = 0; q < P::kGroup; ++q) {
            const int64_t at = k + q, co = j0 + j;
            *dst++ = at < k1 && co < c1 ? w[((g * s.cog + co) * s.cg + at % s.cg) * s.taps + at / s.cg] : E{};
          }
  }

  /// Finished sums, cut where an image ends.
  void finish(const Acc* acc, int64_t ldc, int64_t g, int64_t p0, int64_t p1, int64_t c, int64_t cols) {
    while (p0 < p1) {
      const int64_t n = p0 / s.out_plane, at = p0 % s.out_plane, len = min_of(p1 - p0, s.out_plane - at);
      cfg->epilogue(args, acc, ldc, n, at, len, g * s.cog + c, cols);
      acc += len * ldc, p0 += len;
    }
  }

  void unit(int64_t g, int64_t p0, int64_t p1, int64_t c0, int64_t c1, bool fresh) {
    const bool whole = s.k <= cfg->kp;
    const int64_t count = p1 - p0, tiles = ceil_div(count, kMaxMr), panels = ceil_div(c1 - c0, kPanel);
    const int64_t group = whole ? min_of<int64_t>(panels, max_of<int64_t>(1, 4096 / (count * kPanel))) : panels, ldc = group * kPanel;
    constexpr int64_t b_stride = kPanel * sizeof(E) * P::kGroup;
    const E* panels_of_g = cfg->w_packed ? w + g * ceil_div(s.cog, kPanel) * kPanel * stored_rows(s.k) : nullptr;
    const int64_t share = cfg->w_packed ? b_stride / tiles : 0;  // of the next weights that a tile prefetches a step
    for (int64_t i = 0; s.k == 0 && i < count * ldc; ++i) tile[i] = 0;
    for (int64_t ks = 0; ks < s.k || ks == 0; ks += cfg->kp) {
      const int64_t klen = min_of<int64_t>(cfg->kp, s.k - ks);
      if (!cfg->w_packed) pack_weights(g, c0, c1, ks, ks + klen);
      if (fresh) gather_rows(g, p0, p1, ks, klen);
      for (int64_t q0 = 0; q0 < panels; q0 += group) {
        const int64_t q1 = min_of(q0 + group, panels);
        for (int64_t q = q0; q < q1; ++q) {
          const int64_t c = c0 + q * kPanel, vecs = ceil_div(min_of(kPanel, c1 - c), W);
          const E* wp = cfg->w_packed ? panels_of_g + c * stored_rows(s.k) + ks * kPanel : wpack + q * kPanel * stored_rows(klen);
          Acc* out = tile + (q - q0) * kPanel;
          for (int64_t k0 = 0; k0 < klen; k0 += cfg->kc) {
            const int64_t kn = min_of<int64_t>(cfg->kc, klen - k0), steps = ceil_div(kn, P::kGroup);
            const char* b = reinterpret_cast<const char*>(wp + k0 * kPanel);
            for (int64_t v = 0; v < vecs; v += kMaxNv)
              for (int64_t t = 0; t < tiles; ++t) {
                const int64_t r0 = t * count / tiles, r = (t + 1) * count / tiles - r0;
                kMicro<P, true>.fn[r - 1][min_of<int64_t>(kMaxNv, vecs - v) - 1](
                    steps, reinterpret_cast<const char*>(rows + r0 * ld + k0), ld * sizeof(Row), b + v * W * P::kBytesB * P::kGroup,
                    b_stride, out + r0 * ldc + v * W, ldc, ks + k0 == 0, b + (share ? steps * b_stride : 0) + t * share * steps, share);
              }
          }
        }
        if (ks + klen >= s.k) finish(tile, ldc, g, p0, p1, c0 + q0 * kPanel, min_of(c0 + q1 * kPanel, c1) - c0 - q0 * kPanel);
      }
    }
  }

  void run(int64_t begin, int64_t end) {
    const int64_t pixels = s.n * s.out_plane, co_blocks = ceil_div(s.cog, cfg->mc), px_blocks = ceil_div(pixels, cfg->nc);
    int64_t held = -1;  // whose pixels are in rows
    for (int64_t u = begin; u < end; ++u) {
      const int64_t cb = u % co_blocks, pb = u / co_blocks % px_blocks, g = u / co_blocks / px_blocks, key = g * px_blocks + pb;
      const int64_t p0 = pb * pixels / px_blocks, p1 = (pb + 1) * pixels / px_blocks, panels = ceil_div(s.cog, kPanel);
      const int64_t c0 = min_of(cb * panels / co_blocks * kPanel, s.cog), c1 = min_of((cb + 1) * panels / co_blocks * kPanel, s.cog);
      if (c0 >= c1 || p0 >= p1) continue;
      unit(g, p0, p1, c0, c1, s.k > cfg->kp || held != key);
      held = key;
    }
  }
};

}  // namespace
