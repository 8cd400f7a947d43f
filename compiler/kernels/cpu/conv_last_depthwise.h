#pragma once
// Convolutions of channels-last tensors with few channels a group, as many out as in (depthwise: one): AOTC_CONV_LAST_DEPTHWISE of
// aotc/detail/library_abi.h. Output channels are the lanes; neighbouring output columns share what they load. With more than one channel a
// group each of them is spread over its group's lanes in turn.
#include "conv_tile.h"

namespace {

template <class G>
struct DepthwiseLast {
  using E = typename G::E;
  using Acc = typename G::Acc;
  using V = typename Vec<Acc>::V;
  static constexpr int W = Vec<Acc>::kLanes;
  static constexpr int64_t kPanel = AOTC_PANEL_N, kMaxTaps = AOTC_CONV_DEPTHWISE_TAPS, kMaxGroup = 8;

  /// A line of the input that an output row meets: where its first element lies in the image, and its taps.
  struct Line {
    int64_t at, tap;
  };

  const aotc_kargs* args;
  const aotc_conv_config* cfg;
  ConvShape s;
  const E *x, *w;
  Line lines[kMaxTaps];
  int64_t n_lines = 0;
  const Acc* taps = nullptr;  // of the channels at hand, tap_step apart
  int64_t tap_step = W;
  Acc unpacked[kMaxTaps * W];
  int32_t of_group[kMaxGroup][W];  // see spread
  int64_t k;                       // weights of an output channel: taps x channels of a group, the channel fastest

  explicit DepthwiseLast(const aotc_kargs* a)
      : args(a),
        cfg(static_cast<const aotc_conv_config*>(a->config)),
        s(a->size, cfg),
        x(static_cast<const E*>(a->ptr[cfg->x_ptr])),
        w(static_cast<const E*>(a->ptr[cfg->w_ptr])),
        k(s.taps * s.cg) {
    for (int j = 0; j < kMaxGroup && j < s.cg; ++j)
      for (int i = 0; i < W; ++i) of_group[j][i] = static_cast<int32_t>(i / s.cg * s.cg + j);
  }

  /// Lane i of the result: the channel `j` of lane i's group.
  V spread(V v, int64_t j) const {
    if constexpr (sizeof(Acc) == 4) {
#if defined(__AVX512F__)
      return _mm512_permutexvar_ps(_mm512_loadu_si512(of_group[j]), v);
#else
      return _mm256_permutevar8x32_ps(v, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(of_group[j])));
#endif
    }
    return v;
  }

  static V load_all(const float* p) { return Vec<float>::load(p); }
  static V load_all(const double* p) { return Vec<double>::load(p); }
  static V load_all(const f16* p) { return load_half(p); }
  static V load_all(const bf16* p) { return load_half(p); }
  /// `count` elements; lanes beyond are zeros, nothing is read there.
  template <bool kWhole>
  static V load(const E* p, int64_t count) {
    if constexpr (kWhole) return load_all(p);
    E part[W] = {};
    for (int64_t i = 0; i < count; ++i) part[i] = p[i];
    return load_all(part);
  }

  void load_taps(int64_t c, int64_t count) {
    const int64_t panel = c / kPanel * kPanel, lane = c % kPanel;
    if constexpr (sizeof(E) == sizeof(Acc)) {
      if (cfg->w_packed) {
        taps = w + panel * k + lane, tap_step = kPanel;
        return;
      }
    }
    taps = unpacked, tap_step = W;
    for (int64_t r = 0; r < k; ++r)
      for (int64_t i = 0; i < W; ++i) {
        if (i >= count)
          unpacked[r * W + i] = 0;
        else if (!cfg->w_packed)
          unpacked[r * W + i] = to_acc(w[(c + i) * k + r % s.cg * s.taps + r / s.cg]);
        else if (G::kPairPanels)
          unpacked[r * W + i] = to_acc(w[panel * ((k + 1) & ~int64_t{1}) + r / 2 * 2 * kPanel + (lane + i) * 2 + r % 2]);
        else
          unpacked[r * W + i] = to_acc(w[panel * k + r * kPanel + lane + i]);
      }
  }

  void find_lines(int64_t od, int64_t oh) {
    n_lines = 0;
    for (int64_t kd = 0; kd < s.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
        int64_t id, ih;
        if (!s.source(0, od, kd, &id) || !s.source(1, oh, kh, &ih)) continue;
        lines[n_lines++] = {(id * s.in[1] + ih) * s.in[2] * s.c, (kd * s.kernel[1] + kh) * s.kernel[2] * s.cg};
      }
  }

  /// Output columns [j, j + U) of the row at hand, all of whose taps of width lie inside: acc rows ld apart.
  template <int KW, int S, int U, bool kWhole, bool kGroups>
  void inner_columns(const E* image, int64_t j, int64_t count, Acc* acc, int64_t ld) const {
    V sum[U];
    for (V& v : sum) v = Vec<Acc>::zero();
    const int64_t channels = kGroups ? s.cg : 1, step = channels * tap_step;
    for (int64_t ch = 0; ch < channels; ++ch)
      for (int64_t l = 0; l < n_lines; ++l) {
        const E* p = image + lines[l].at + (j * s.stride[2] - s.pad[2]) * s.c;
        const Acc* t = taps + (lines[l].tap + ch) * tap_step;
        const auto input = [&](const E* at) __attribute__((always_inline)) {
          const V v = load<kWhole>(at, count);
          return kGroups ? spread(v, ch) : v;
        };
        if constexpr (KW > 0) {
          V w_of[KW];
#pragma GCC unroll 8
          for (int i = 0; i < KW; ++i) w_of[i] = Vec<Acc>::load(t + i * step);
#pragma GCC unroll 32
          for (int col = 0; col < (U - 1) * S + KW; ++col) {
            const V v = input(p + col * s.c);
#pragma GCC unroll 8
            for (int u = 0; u < U; ++u)
              if (col - u * S >= 0 && col - u * S < KW) sum[u] = Vec<Acc>::fma(v, w_of[col - u * S], sum[u]);
          }
        } else {
          for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
            const V w_of = Vec<Acc>::load(t + kw * step);
#pragma GCC unroll 8
            for (int u = 0; u < U; ++u) sum[u] = Vec<Acc>::fma(input(p + (u * s.stride[2] + kw * s.dilation[2]) * s.c), w_of, sum[u]);
          }
        }
      }
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) Vec<Acc>::store(acc + u * ld, sum[u]);
  }

  /// One output column at a border.
  template <bool kWhole, bool kGroups>
  void border_column(const E* image, int64_t j, int64_t count, Acc* acc) const {
    V sum = Vec<Acc>::zero();
    for (int64_t l = 0; l < n_lines; ++l)
      for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
        int64_t iw;
        if (!s.source(2, j, kw, &iw)) continue;
        const V v = load<kWhole>(image + lines[l].at + iw * s.c, count);
        for (int64_t ch = 0; ch < (kGroups ? s.cg : 1); ++ch)
          sum = Vec<Acc>::fma(kGroups ? spread(v, ch) : v, Vec<Acc>::load(taps + (lines[l].tap + kw * s.cg + ch) * tap_step), sum);
      }
    Vec<Acc>::store(acc, sum);
  }

  template <int KW, int S, bool kWhole, bool kGroups>
  void columns(const E* image, int64_t j0, int64_t j1, int64_t count, Acc* acc, int64_t ld) const {
    constexpr int U = KW == 0 || S == 1 ? 6 : 4;
    const int64_t sw = s.stride[2], reach = (s.kernel[2] - 1) * s.dilation[2];
    const int64_t lo = min_of(max_of(j0, ceil_div(s.pad[2], sw)), j1);
    const int64_t room = s.in[2] - 1 - reach + s.pad[2], hi = max_of(lo, min_of(j1, room < 0 ? 0 : room / sw + 1));
    int64_t j = j0;
    for (; j < lo; ++j) border_column<kWhole, kGroups>(image, j, count, acc + (j - j0) * ld);
    for (; j + U <= hi; j += U) inner_columns<KW, S, U, kWhole, kGroups>(image, j, count, acc + (j - j0) * ld, ld);
    for (; j < hi; ++j) inner_columns<KW, S, 1, kWhole, kGroups>(image, j, count, acc + (j - j0) * ld, ld);
    for (; j < j1; ++j) border_column<kWhole, kGroups>(image, j, count, acc + (j - j0) * ld);
  }
  template <bool kWhole, bool kGroups>
  void columns(const E* image, int64_t j0, int64_t j1, int64_t count, Acc* acc, int64_t ld) const {
    auto run = [&](auto f) { (this->*f)(image, j0, j1, count, acc, ld); };
    const int64_t kw = s.kernel[2], sw = s.stride[2];
    if (s.dilation[2] == 1 && sw == 1 && kw == 3) return run(&DepthwiseLast::columns<3, 1, kWhole, kGroups>);
    if (s.dilation[2] == 1 && sw == 2 && kw == 3) return run(&DepthwiseLast::columns<3, 2, kWhole, kGroups>);
    if (s.dilation[2] == 1 && sw == 1 && kw == 5) return run(&DepthwiseLast::columns<5, 1, kWhole, kGroups>);
    if (s.dilation[2] == 1 && sw == 2 && kw == 5) return run(&DepthwiseLast::columns<5, 2, kWhole, kGroups>);
    if (s.dilation[2] == 1 && sw == 1 && kw == 7) return run(&DepthwiseLast::columns<7, 1, kWhole, kGroups>);
    return run(&DepthwiseLast::columns<0, 0, kWhole, kGroups>);
  }
  template <bool kGroups>
  void columns(const E* image, int64_t j0, int64_t j1, int64_t count, Acc* acc, int64_t ld) const {
    if (count == W)
      columns<true, kGroups>(image, j0, j1, count, acc, ld);
    else
      columns<false, kGroups>(image, j0, j1, count, acc, ld);
  }

  void run(int64_t begin, int64_t end) {
    Acc* tile = static_cast<Acc*>(args->scratch);
    const int64_t pieces = ceil_div(s.out[2], cfg->nc), rows = s.out[0] * s.out[1], ld = cfg->mc;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t piece = u % pieces, row = u / pieces % rows, n = u / pieces / rows, od = row / s.out[1], oh = row % s.out[1];
      const int64_t j0 = piece * s.out[2] / pieces, j1 = (piece + 1) * s.out[2] / pieces;
      if (j0 >= j1) continue;
      const E* image = x + n * s.in_plane * s.c;
      find_lines(od, oh);
      for (int64_t c0 = 0; c0 < s.c; c0 += cfg->mc) {
        const int64_t c1 = min_of<int64_t>(c0 + cfg->mc, s.c);
        for (int64_t c = c0; c < c1; c += W) {
          const int64_t count = min_of<int64_t>(W, s.c - c);
          load_taps(c, count);
          if (s.cg == 1)
            columns<false>(image + c, j0, j1, count, tile + c - c0, ld);
          else if constexpr (sizeof(Acc) == 4)
            columns<true>(image + c, j0, j1, count, tile + c - c0, ld);
        }
        cfg->epilogue(args, tile, ld, n, row * s.out[2] + j0, j1 - j0, c0, c1 - c0);
      }
    }
  }
};

}  // namespace
