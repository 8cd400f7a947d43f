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

  static constexpr int kLines = 256, kRows = 64;
  static constexpr int kU = 7;  // output columns at once: the sums and a line's weights are the registers of AVX2

  /// A line of the input that an output row meets: where its first element lies in the image, and its taps.
  struct Line {
    int64_t at, tap;
  };

  const aotc_kargs* args;
  const aotc_conv_config* cfg;
  ConvShape s;
  const E *x, *w;
  Line line[kLines];          // of the output rows at hand, row after row
  int32_t row_end[kRows];     // behind the last line of each
  const E outside[W] = {};    // what lies beyond a line's ends
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
    if constexpr (kWhole) {
      return load_all(p);
    } else if constexpr (sizeof(E) <= 4) {
      return load_first(p, count);
    } else {
      E part[W] = {};
      for (int64_t i = 0; i < count; ++i) part[i] = p[i];
      return load_all(part);
    }
  }

  /// Whether the weights of any vector of channels are read where they are.
  bool reads_panels() const { return sizeof(E) == sizeof(Acc) && cfg->w_packed; }
  const E* taps_in_panel(int64_t c) const { return w + c / kPanel * kPanel * k + c % kPanel; }

  void load_taps(int64_t c, int64_t count) {
    const int64_t panel = c / kPanel * kPanel, lane = c % kPanel;
    if constexpr (sizeof(E) == sizeof(Acc)) {
      if (reads_panels()) {
        taps = taps_in_panel(c), tap_step = kPanel;
        return;
      }
    }
    taps = unpacked, tap_step = W;
    if constexpr (sizeof(E) == 2) {
      if (cfg->w_packed) return unpack_halves(panel, lane);
    }
    for (int64_t r = 0; r < k; ++r)
      for (int64_t i = 0; i < W; ++i) {
        if (i >= count)
          unpacked[r * W + i] = 0;
        else
          unpacked[r * W + i] = to_acc(w[(c + i) * k + r % s.cg * s.taps + r / s.cg]);
      }
  }

  /// The taps of a vector of channels of a panel of 16-bit floats, which holds zeros beyond the last channel.
  void unpack_halves(int64_t panel, int64_t lane) {
    if constexpr (G::kPairPanels) {
      const E* p = w + panel * ((k + 1) & ~int64_t{1}) + lane * 2;
      for (int64_t r = 0; r < k; r += 2) {
        const auto pair = MulBf16::load(reinterpret_cast<const char*>(p + r * kPanel));
        Vec<Acc>::store(unpacked + r * W, pair.even);
        if (r + 1 < k) Vec<Acc>::store(unpacked + (r + 1) * W, pair.odd);
      }
    } else {
      for (int64_t r = 0; r < k; ++r) Vec<Acc>::store(unpacked + r * W, load_half(w + panel * k + r * kPanel + lane));
    }
  }

  /// Lines of `rows` output rows from oh.
  void find_lines(int64_t od, int64_t oh, int64_t rows) {
    int32_t n = 0;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t kd = 0; kd < s.kernel[0]; ++kd)
        for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
          int64_t id, ih;
          if (!s.source(0, od, kd, &id) || !s.source(1, oh + r, kh, &ih)) continue;
          line[n++] = {(id * s.in[1] + ih) * s.in[2] * s.c, (kd * s.kernel[1] + kh) * s.kernel[2] * s.cg};
        }
      row_end[r] = n;
    }
  }

  /// Output columns of a row for `vecs` vectors of channels, one after another.
  struct Row {
    const E* image;  // at the first of the channels
    const Line *begin, *end;
    int64_t count, vecs, channel;  // channels of a vector; the first one
    const Acc* taps;               // of the first vector; of more than one they are in panels
  };
  /// The vector after `row`'s first.
  Row next_vector(const Row& row) const {
    Row next = row;
    next.image += W, next.channel += W;
    if constexpr (sizeof(E) == sizeof(Acc)) next.taps = taps_in_panel(next.channel);
    return next;
  }
  /// Where the sums of a run of columns go: ld apart, or with a finish to row and column of its results.
  struct Sums {
    Acc* acc;
    int64_t ld;
    TileFinish fin;
    Sums next_vector() const { return {acc + W, ld, {fin.finish, fin.row, fin.column + W, fin.last}}; }
    template <int N>
    __attribute__((always_inline)) void put(V (&sum)[N][1], int64_t at) const {
      if constexpr (kFinishes<Acc>) {
        if (fin.finish) {
          finish_tile<0>(sum, {fin.finish, fin.row + at, fin.column, fin.last});
          return;
        }
      }
#pragma GCC unroll 8
      for (int u = 0; u < N; ++u) Vec<Acc>::store(acc + (at + u) * ld, sum[u][0]);
    }
  };

  /// Columns [j, j + kU), whose input columns lie inside, or with kBorder at most KW / 2 of them beyond either end.
  template <int KW, int S, bool kWhole, bool kGroups, bool kBorder>
  void block(const Row& row, int64_t j, const Sums& to, int64_t at_sum) const {
    constexpr int kColumns = (kU - 1) * S + KW;
    V sum[kU][1];
#pragma GCC unroll 8
    for (int u = 0; u < kU; ++u) sum[u][0] = Vec<Acc>::zero();
    const int64_t channels = kGroups ? s.cg : 1, step = channels * tap_step, first = j * S - s.pad[2], pitch = s.c, width = s.in[2];
    for (int64_t ch = 0; ch < channels; ++ch)
      for (const Line* l = row.begin; l != row.end; ++l) {
        const E* p = row.image + l->at + first * pitch;
        const Acc* t = row.taps + (l->tap + ch) * tap_step;
        V w_of[KW];
#pragma GCC unroll 8
        for (int i = 0; i < KW; ++i) w_of[i] = Vec<Acc>::load(t + i * step);
#pragma GCC unroll 32
        for (int col = 0; col < kColumns; ++col) {
          const E* at = p + col * pitch;
          if constexpr (kBorder) {
            if (col < KW / 2 && first + col < 0) at = outside;
            if (col >= kColumns - KW / 2 && first + col >= width) at = outside;
          }
          V v = load<kWhole>(at, row.count);
          if constexpr (kGroups) v = spread(v, ch);
          asm("" : "+v"(v));  // loaded once, not with every product
#pragma GCC unroll 8
          for (int u = 0; u < kU; ++u)
            if (col - u * S >= 0 && col - u * S < KW) sum[u][0] = Vec<Acc>::fma(v, w_of[col - u * S], sum[u][0]);
        }
      }
    to.put(sum, at_sum);
  }

  /// Any one column.
  template <bool kWhole, bool kGroups>
  void column(const Row& row, int64_t j, const Sums& to, int64_t at_sum) const {
    const int64_t first = j * s.stride[2] - s.pad[2], d = s.dilation[2];
    const int64_t lo = first < 0 ? ceil_div(-first, d) : 0, hi = min_of(s.kernel[2], first < s.in[2] ? ceil_div(s.in[2] - first, d) : 0);
    V sum[1][1] = {{Vec<Acc>::zero()}};
    for (const Line* l = row.begin; l != row.end; ++l)
      for (int64_t kw = lo; kw < hi; ++kw) {
        const V v = load<kWhole>(row.image + l->at + (first + kw * d) * s.c, row.count);
        for (int64_t ch = 0; ch < (kGroups ? s.cg : 1); ++ch)
          sum[0][0] =
              Vec<Acc>::fma(kGroups ? spread(v, ch) : v, Vec<Acc>::load(row.taps + (l->tap + kw * s.cg + ch) * tap_step), sum[0][0]);
      }
    to.put(sum, at_sum);
  }

  /// Columns [j, j + kU) that share no loads, all taps of which lie inside.
  template <bool kWhole, bool kGroups>
  void apart(const Row& row, int64_t j, const Sums& to, int64_t at_sum) const {
    V sum[kU][1];
#pragma GCC unroll 8
    for (int u = 0; u < kU; ++u) sum[u][0] = Vec<Acc>::zero();
    const int64_t channels = kGroups ? s.cg : 1, next = s.stride[2] * s.c, first = j * s.stride[2] - s.pad[2];
    for (int64_t ch = 0; ch < channels; ++ch)
      for (const Line* l = row.begin; l != row.end; ++l)
        for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
          const V w_of = Vec<Acc>::load(row.taps + (l->tap + kw * channels + ch) * tap_step);
          const E* p = row.image + l->at + (first + kw * s.dilation[2]) * s.c;
#pragma GCC unroll 8
          for (int u = 0; u < kU; ++u) {
            V v = load<kWhole>(p + u * next, row.count);
            if constexpr (kGroups) v = spread(v, ch);
            sum[u][0] = Vec<Acc>::fma(v, w_of, sum[u][0]);
          }
        }
    to.put(sum, at_sum);
  }

  /// Columns [j0, j1): in blocks, the last of which may begin before its predecessor ends. KW 0: any kernel. All vectors of a block, one
  /// after another: a pixel's lines are read while they are near, and in the order of memory.
  template <int KW, int S, bool kWhole, bool kGroups>
  void columns(const Row& row, int64_t j0, int64_t j1, const Sums& to) const {
    const int64_t stride = KW ? S : s.stride[2], reach = (kU - 1) * stride + (s.kernel[2] - 1) * s.dilation[2];
    for (int64_t j = j0; j < j1; j += kU) {
      if (j > j0) j = max_of(j0, min_of(j, j1 - kU));
      const int64_t first = j * stride - s.pad[2], last = first + reach, beyond = KW / 2, j_end = min_of(j + kU, j1);
      const bool whole = j + kU <= j1, inside = whole && first >= 0 && last < s.in[2];
      const bool border = KW > 0 && whole && first >= -beyond && last < s.in[2] + beyond;
      Row of = row;
      Sums sums = to;
      for (int64_t v = 0; v < row.vecs; ++v) {
        if (v) of = next_vector(of), sums = sums.next_vector();
        if (inside) {
          if constexpr (KW > 0)
            block<KW, S, kWhole, kGroups, false>(of, j, sums, j - j0);
          else
            apart<kWhole, kGroups>(of, j, sums, j - j0);
        } else if (border) {
          if constexpr (KW > 0) block<KW, S, kWhole, kGroups, true>(of, j, sums, j - j0);
        } else {
          for (int64_t i = j; i < j_end; ++i) column<kWhole, kGroups>(of, i, sums, i - j0);
        }
      }
    }
  }
  using Columns = void (DepthwiseLast::*)(const Row&, int64_t, int64_t, const Sums&) const;
  template <bool kWhole, bool kGroups>
  Columns columns_for() const {
    struct {
      int64_t kw, sw;
      Columns run;
    } const table[] = {
        {3, 1, &DepthwiseLast::columns<3, 1, kWhole, kGroups>}, {3, 2, &DepthwiseLast::columns<3, 2, kWhole, kGroups>},
        {5, 1, &DepthwiseLast::columns<5, 1, kWhole, kGroups>}, {5, 2, &DepthwiseLast::columns<5, 2, kWhole, kGroups>},
        {7, 1, &DepthwiseLast::columns<7, 1, kWhole, kGroups>},
    };
    for (const auto& t : table)
      if (s.dilation[2] == 1 && t.kw == s.kernel[2] && t.sw == s.stride[2]) return t.run;
    return &DepthwiseLast::columns<0, 0, kWhole, kGroups>;
  }

  void run(int64_t begin, int64_t end) {
    Acc* tile = static_cast<Acc*>(args->scratch);
    const int64_t pieces = ceil_div(s.out[2], cfg->nc), bands = ceil_div(s.out[1], cfg->kp), ld = cfg->mc;
    const int64_t of_lines = min_of<int64_t>(kRows, kLines / (s.kernel[0] * s.kernel[1]));
    const int64_t together = pieces > 1 ? 1 : max_of<int64_t>(1, min_of(of_lines, cfg->nc / max_of<int64_t>(s.out[2], 1)));
    const Finish finish = kFinishes<Acc> ? Finish(args, cfg->finish) : Finish();
    Columns whole = columns_for<true, false>(), part = columns_for<false, false>();
    if constexpr (sizeof(Acc) == 4)
      if (s.cg > 1) whole = columns_for<true, true>(), part = columns_for<false, true>();
    for (int64_t u = begin; u < end; ++u) {
      const int64_t piece = u % pieces, band = u / pieces % bands, plane = u / pieces / bands, od = plane % s.out[0], n = plane / s.out[0];
      const int64_t j0 = piece * s.out[2] / pieces, j1 = (piece + 1) * s.out[2] / pieces, h1 = (band + 1) * s.out[1] / bands;
      if (j0 >= j1) continue;
      const E* image = x + n * s.in_plane * s.c;
      for (int64_t c0 = 0; c0 < s.c; c0 += cfg->mc) {  // few channels over many rows: lines that rows share stay in L1
        const int64_t c1 = min_of<int64_t>(c0 + cfg->mc, s.c);
        for (int64_t h = band * s.out[1] / bands; h < h1; h += together) {
          const int64_t rows = min_of(together, h1 - h), len = j1 - j0;
          find_lines(od, h, rows);
          for (int64_t c = c0, vecs = 1; c < c1; c += vecs * W) {
            const int64_t count = min_of<int64_t>(W, s.c - c);
            vecs = reads_panels() && count == W ? (min_of<int64_t>(c1, s.c) - c) / W : 1;
            load_taps(c, count);
            for (int64_t r = 0; r < rows; ++r) {
              const Row row{image + c, line + (r ? row_end[r - 1] : 0), line + row_end[r], count, vecs, c, taps};
              const int64_t pixel = (plane * s.out[1] + h + r) * s.out[2] + j0;
              const Sums to = {tile + r * len * ld + c - c0, ld, {finish.n ? &finish : nullptr, pixel, c, count}};
              (this->*(count == W ? whole : part))(row, j0, j1, to);
            }
          }
          if (finish.n) continue;
          cfg->epilogue(args, tile, ld, n, (od * s.out[1] + h) * s.out[2] + j0, rows * len, c0, c1 - c0);
        }
      }
    }
  }
};

}  // namespace
