#pragma once
// Convolutions of channels-last tensors as implicit matrix products: the rows of the im2col matrix, the weights' panels, the work units.
#include "conv_tile.h"

namespace {

template <class G>
struct ConvLastRows {
  using E = typename G::E;
  using Acc = typename G::Acc;
  using P = typename G::Packed;
  using Row = typename G::Row;
  static constexpr int64_t kPanel = AOTC_PANEL_N;
  static constexpr int W = Vec<Acc>::kLanes;

  /// Pixels [p0, p1) (images merged) and channels [c0, c1) of a group.
  struct Unit {
    int64_t g, p0, p1, c0, c1;
    int64_t key;  ///< equal for units with the same pixels of the same group
    bool empty() const { return c0 >= c1 || p0 >= p1; }
  };

  const aotc_kargs* args;
  const aotc_conv_config* cfg;
  ConvShape s;
  const E *x, *w;  // w: natural, or (w_packed) panels

  explicit ConvLastRows(const aotc_kargs* a)
      : args(a),
        cfg(static_cast<const aotc_conv_config*>(a->config)),
        s(a->size, cfg),
        x(static_cast<const E*>(a->ptr[cfg->x_ptr])),
        w(static_cast<const E*>(a->ptr[cfg->w_ptr])) {}

  Unit at(int64_t u) const {
    const int64_t pixels = s.n * s.out_plane, co_blocks = ceil_div(s.cog, cfg->mc), px_blocks = ceil_div(pixels, cfg->nc);
    const int64_t cb = u % co_blocks, pb = u / co_blocks % px_blocks, g = u / co_blocks / px_blocks, panels = ceil_div(s.cog, kPanel);
    return {g,
            pb * pixels / px_blocks,
            (pb + 1) * pixels / px_blocks,
            min_of(cb * panels / co_blocks * kPanel, s.cog),
            min_of((cb + 1) * panels / co_blocks * kPanel, s.cog),
            g * px_blocks + pb};
  }

  /// The panels of a group's weights that are stored so.
  const E* stored_panels(int64_t g) const { return w + g * ceil_div(s.cog, kPanel) * kPanel * stored_rows(s.k); }

  static int64_t stored_rows(int64_t k) { return P::kGroup == 2 ? (k + 1) / 2 * 2 : k; }

  static auto load_all(const float* p) { return Vec<float>::load(p); }
  template <class H>
  static auto load_all(const H* p) {
    return load_half(p);
  }

  /// dst[i] = src[i], i < n; zeros where src is null. May write up to a vector beyond.
  static void copy(Row* dst, const E* src, int64_t n) {
    if constexpr (sizeof(E) <= 4 && sizeof(Row) == 4) {
      for (int64_t i = 0; i < n; i += W) {
        const int64_t left = n - i;
        Vec<float>::store(dst + i, !src ? Vec<float>::zero() : left >= W ? load_all(src + i) : load_first(src + i, left));
      }
#if defined(__AVX512F__)
    } else if constexpr (sizeof(E) == 2 && sizeof(Row) == 2) {
      for (int64_t i = 0; i < n; i += 32) {
        const __mmask32 some = n - i < 32 ? static_cast<__mmask32>((1u << (n - i)) - 1) : ~__mmask32{0};
        _mm512_mask_storeu_epi16(dst + i, some, src ? _mm512_maskz_loadu_epi16(some, src + i) : _mm512_setzero_si512());
      }
#endif
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

  /// dst[r][i] = src[r * step + i], i < n, r < count. May write up to a vector of float32 beyond n; 16-bit values stay within the `room` of
  /// each row from dst on.
  static void copy_all(Row* dst, int64_t ld, const E* src, int64_t step, int64_t n, int64_t count, [[maybe_unused]] int64_t room) {
    if constexpr (sizeof(E) == 4 && sizeof(Row) == 4) {
      if (src && n < W) {
        for (int64_t r = 0; r < count; ++r) Vec<float>::store(dst + r * ld, load_first(src + r * step, n));
        return;
      }
#if defined(__AVX512F__)
    } else if constexpr (sizeof(E) == 2 && sizeof(Row) == 2) {  // whole vectors are stored sooner than some lanes
      if (src && n <= 16 && room >= 16) {
        const auto some = static_cast<__mmask16>((1u << n) - 1);
        for (int64_t r = 0; r < count; ++r)
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + r * ld), _mm256_maskz_loadu_epi16(some, src + r * step));
        return;
      }
      if (src && n < 32 && room >= 32) {
        const auto some = static_cast<__mmask32>((1u << n) - 1);
        for (int64_t r = 0; r < count; ++r) _mm512_storeu_si512(dst + r * ld, _mm512_maskz_loadu_epi16(some, src + r * step));
        return;
      }
#endif
    }
    for (int64_t r = 0; r < count; ++r) copy(dst + r * ld, src ? src + r * step : nullptr, n);
  }

  /// gather_line of `count` output columns, all taps inside, to rows ld apart in `rows`: runs of `run` values lie side by side.
  Row* copy_runs(const Line& line, int64_t first, int64_t from, int64_t to, int64_t run, int64_t count, Row* dst, int64_t ld,
                 const Row* rows) const {
    const int64_t apart = s.dilation[2] * s.c;
    for (int64_t k = from; k < to;) {
      const int64_t t = k / run, n = min_of((t + 1) * run, to) - k;
      copy_all(dst, ld, line.inside ? line.at + first * s.c + t * apart + k - t * run : nullptr, s.stride[2] * s.c, n, count,
               ld - (dst - rows) % ld);
      dst += n, k += n;
    }
    return dst;
  }

  /// k values [ks, ks + klen), ordered (tap, channel), of pixels [p0, p1) to rows ld apart.
  void gather_rows(int64_t g, int64_t p0, int64_t p1, int64_t ks, int64_t klen, Row* rows, int64_t ld) const {
    constexpr int64_t kLines = 32;
    const int64_t row_k = s.kernel[2] * s.cg, k1 = ks + klen, reach = (s.kernel[2] - 1) * s.dilation[2] + 1;
    const bool beside = s.groups == 1 && s.dilation[2] == 1;  // the taps of a line lie side by side
    if (row_k == 0) return;
    for (int64_t t0 = ks / row_k; t0 * row_k < k1; t0 += kLines) {  // a few lines of taps at a time
      const int64_t t1 = min_of(t0 + kLines, ceil_div(k1, row_k));
      int64_t ow = p0 % s.out[2], row = p0 / s.out[2];
      for (int64_t p = p0; p < p1; ++row, ow = 0) {
        const int64_t oh = row % s.out[1], od = row / s.out[1] % s.out[0];
        const E* image = x + row / s.out[1] / s.out[0] * s.in_plane * s.c + g * s.cg;
        Line lines[kLines];
        find_lines(image, od, oh, t0, t1, lines);
        for (int64_t count; ow < s.out[2] && p < p1; ow += count, p += count) {
          const int64_t first = ow * s.stride[2] - s.pad[2], room = s.in[2] - reach - first;
          const bool inner = first >= 0 && room >= 0;  // all taps lie inside
          count = inner ? min_of(room / s.stride[2] + 1, min_of(s.out[2] - ow, p1 - p)) : 1;
          Row* dst = rows + (p - p0) * ld + max_of<int64_t>(t0 * row_k - ks, 0);
          for (int64_t t = t0; t < t1; ++t) {
            const int64_t from = max_of(ks - t * row_k, int64_t{0}), to = min_of(k1 - t * row_k, row_k);
            const Line& line = lines[t - t0];
            if (inner)
              dst = copy_runs(line, first, from, to, beside ? row_k : s.cg, count, dst, ld, rows);
            else
              dst = gather_line(line, first, from, to, dst);
          }
          for (int64_t r = 0; t1 * row_k >= k1 && (klen & 1) && r < count; ++r) dst[r * ld] = Row{};  // where products go two by two
        }
      }
    }
  }

  /// Panels of other weights: channels [c0, c1), k values [k0, k1).
  void pack_weights(int64_t g, int64_t c0, int64_t c1, int64_t k0, int64_t k1, E* dst) const {
    for (int64_t j0 = c0; j0 < c1; j0 += kPanel)
      for (int64_t k = k0; k < k0 + stored_rows(k1 - k0); k += P::kGroup)
        for (int64_t j = 0; j < kPanel; ++j)
          for (int64_t q = 0; q < P::kGroup; ++q) {
            const int64_t at = k + q, co = j0 + j;
            *dst++ = at < k1 && co < c1 ? w[((g * s.cog + co) * s.cg + at % s.cg) * s.taps + at / s.cg] : E{};
          }
  }

  /// Finished sums, cut where an image ends.
  void finish(const Acc* acc, int64_t ldc, int64_t g, int64_t p0, int64_t p1, int64_t c, int64_t cols) const {
    while (p0 < p1) {
      const int64_t n = p0 / s.out_plane, at = p0 % s.out_plane, len = min_of(p1 - p0, s.out_plane - at);
      cfg->epilogue(args, acc, ldc, n, at, len, g * s.cog + c, cols);
      acc += len * ldc, p0 += len;
    }
  }
};

}  // namespace
