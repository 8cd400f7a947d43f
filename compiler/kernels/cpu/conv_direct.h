#pragma once
// Convolutions with few channels in a group (depthwise): AOTC_CONV_DIRECT of aotc/detail/library_abi.h.
//
// A strip of the input is copied with its borders as zeros, rows and columns split by their remainder modulo the stride. In that form each
// tap is a constant distance, so that the strip's outputs are one long vector, however short the rows are.
#include "gather.h"

namespace {

/// Output rows one by one: transposed convolutions, kernels too wide for the scratch, and integers.
template <class E, class Acc>
void conv_by_rows(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_conv_config*>(args->config);
  const ConvShape s(args->size, cfg);
  const E* x = static_cast<const E*>(args->ptr[cfg->x_ptr]);
  const E* w = static_cast<const E*>(args->ptr[cfg->w_ptr]);
  Acc* acc = static_cast<Acc*>(args->scratch);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t co = u % s.co, n = u / s.co, g = co / s.cog, j = co % s.cog;
    for (int64_t row = 0; row < s.out[0] * s.out[1]; ++row)
      for (int64_t w0 = 0; w0 < s.out[2]; w0 += cfg->nc) {
        const int64_t len = min_of<int64_t>(cfg->nc, s.out[2] - w0), od = row / s.out[1], oh = row % s.out[1];
        for (int64_t i = 0; i < len; ++i) acc[i] = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          const int64_t ch = k / s.taps, t = k % s.taps, kw = t % s.kernel[2], kh = t / s.kernel[2] % s.kernel[1],
                        kd = t / s.kernel[2] / s.kernel[1];
          int64_t id, ih;
          if (!s.source(0, od, kd, &id) || !s.source(1, oh, kh, &ih)) continue;
          const Acc f = to_acc(s.transposed ? w[((g * s.cg + ch) * s.cog + j) * s.taps + t] : w[(co * s.cg + ch) * s.taps + t]);
          const E* in = x + (n * s.c + g * s.cg + ch) * s.in_plane + (id * s.in[1] + ih) * s.in[2];
          if (s.transposed) {
            for (int64_t i = 0; i < len; ++i) {
              int64_t iw;
              if (s.source(2, w0 + i, kw, &iw)) acc[i] += f * Acc(to_acc(in[iw]));
            }
            continue;
          }
          const int64_t sw = s.stride[2], first = w0 * sw - s.pad[2] + kw * s.dilation[2];
          const int64_t lo = first < 0 ? ceil_div(-first, sw) : 0, hi = min_of(len, first >= s.in[2] ? 0 : (s.in[2] - 1 - first) / sw + 1);
          if (sw == 1)
            for (int64_t i = lo; i < hi; ++i) acc[i] += f * Acc(to_acc(in[first + i]));
          else
            for (int64_t i = lo; i < hi; ++i) acc[i] += f * Acc(to_acc(in[first + i * sw]));
        }
        cfg->epilogue(args, acc, len, n, co, 1, row * s.out[2] + w0, len);
      }
  }
}

/// One strip: output rows [oh0, oh0 + rows) x columns [ow0, ow0 + cols) of depth od.
struct Strip {
  int64_t oh0, rows, ow0, cols;
  int64_t wide, high;  // columns and rows of one phase
};

/// dst[i] = src[first + i*step] for 0 <= i < count where that lies in [0, width), else 0.
template <class E, class Acc>
inline void copy_phase(const E* __restrict src, int64_t first, int64_t step, int64_t width, int64_t count, Acc* __restrict dst) {
  const int64_t up = step == 1 ? -first : step == 2 ? (1 - first) >> 1 : ceil_div(-first, step);                     // ceil(-first / step)
  const int64_t last = width - first, down = step == 1 ? last : step == 2 ? (last + 1) >> 1 : ceil_div(last, step);  // ceil(last / step)
  const int64_t lo = min_of(count, first < 0 ? up : 0), hi = max_of(lo, min_of(count, last <= 0 ? 0 : down));
  for (int64_t i = 0; i < lo; ++i) dst[i] = Acc(0);
  if (step == 1)
    for (int64_t i = lo; i < hi; ++i) dst[i] = Acc(to_acc(src[first + i]));
  else if (step == 2)
    for (int64_t i = lo; i < hi; ++i) dst[i] = Acc(to_acc(src[first + 2 * i]));
  else
    for (int64_t i = lo; i < hi; ++i) dst[i] = Acc(to_acc(src[first + i * step]));
  for (int64_t i = hi; i < count; ++i) dst[i] = Acc(0);
}
#if defined(__AVX512F__)
constexpr bool kPicks16 = true;  // elements of 16 bits are picked a vector at a time
#else
constexpr bool kPicks16 = false;
#endif
template <class E>
inline void pick_phase(const E* src, int64_t first, int64_t step, int64_t width, int64_t count, float* dst) {
  for (int64_t i = 0; i < count; i += Vec<float>::kLanes) {
    const int64_t from = first + i * step;
    Vec<float>::store(dst + i, Pieces::pick(src + from, Pieces::between(-from, width - from), static_cast<int>(step)));
  }
}
/// The same for both phases of step 2: dst[i] from first + 2*i, odd[i] from first + 2*i + 1.
inline void pick_both(const float* src, int64_t first, int64_t width, int64_t count, float* dst, float* odd) {
#if defined(__AVX512F__)
  const __m512i even_lanes = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd_lanes = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  for (int64_t i = 0; i < count; i += 16) {
    const int64_t from = first + 2 * i;
    const u32 m = Pieces::between(-from, width - from);
    const __m512 a = _mm512_maskz_loadu_ps(static_cast<__mmask16>(m), src + from);
    const __m512 b = _mm512_maskz_loadu_ps(static_cast<__mmask16>(m >> 16), src + from + 16);
    _mm512_storeu_ps(dst + i, _mm512_permutex2var_ps(a, even_lanes, b));
    _mm512_storeu_ps(odd + i, _mm512_permutex2var_ps(a, odd_lanes, b));
  }
#else
  for (int64_t i = 0; i < count; i += 8) {
    const int64_t from = first + 2 * i;
    const u32 m = Pieces::between(-from, width - from);
    const __m256 a = Pieces::load(src + from, m), b = Pieces::load(src + from + 8, m >> 8);
    auto order = [](__m256 v) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8)); };
    _mm256_storeu_ps(dst + i, order(_mm256_shuffle_ps(a, b, 0x88)));
    _mm256_storeu_ps(odd + i, order(_mm256_shuffle_ps(a, b, 0xdd)));
  }
#endif
}

/// Row `ih` of a plane as the phases of width of a strip: phase pw at dst + pw * phase, `wide` elements and up to a vector beyond.
template <class E, class Acc>
__attribute__((always_inline)) inline void copy_row(const ConvShape& s, const E* in, int64_t ih, int64_t first, int64_t phases,
                                                    int64_t wide, int64_t phase, Acc* dst) {
  const int64_t sw = s.stride[2];
  const E* row = in + ih * s.in[2];
  if (ih < 0 || ih >= s.in[1]) {
    for (int64_t pw = 0; pw < phases; ++pw)
      for (int64_t i = 0; i < wide; i += Vec<Acc>::kLanes) Vec<Acc>::store(dst + pw * phase + i, Vec<Acc>::zero());
    return;
  }
  if constexpr (sizeof(E) == 4) {
    if (sw == 2 && phases == 2) return pick_both(row, first, s.in[2], wide, dst, dst + phase);
  }
  for (int64_t pw = 0; pw < phases; ++pw) {
    if constexpr (sizeof(E) == 4 || (sizeof(E) == 2 && kPicks16)) {
      if (sw <= 2) {
        pick_phase(row, first + pw, sw, s.in[2], wide, dst + pw * phase);
        continue;
      }
    }
    copy_phase(row, first + pw, sw, s.in[2], wide, dst + pw * phase);
  }
}

constexpr int64_t kMaxClasses = 4;
constexpr int64_t kMaxDirectTaps = 128;  // kernel[1] * kernel[2]

/// NV vectors of sum_taps, in so many chains.
template <class Acc, int NV, int kChains>
void sum_block(const Acc* patch, const int64_t* distance, const Acc* weight, int64_t taps, bool first, Acc* acc) {
  using V = Vec<Acc>;
  constexpr int W = V::kLanes;
  typename V::V a[kChains][NV];
  for (int c = 0; c < kChains; ++c)
    for (int i = 0; i < NV; ++i) a[c][i] = first || c > 0 ? V::zero() : V::load(acc + i * W);
  auto step = [&](typename V::V(&sum)[NV], int64_t t) __attribute__((always_inline)) {
    const typename V::V w = V::set1(weight[t]);
    const Acc* p = patch + distance[t];
    for (int i = 0; i < NV; ++i) sum[i] = V::fma(w, V::load(p + i * W), sum[i]);
  };
  int64_t t = 0;
  for (; t + kChains <= taps; t += kChains)
    for (int c = 0; c < kChains; ++c) step(a[c], t + c);
  for (; t < taps; ++t) step(a[0], t);
  for (int c = 1; c < kChains; ++c)
    for (int i = 0; i < NV; ++i) a[0][i] = V::add(a[0][i], a[c][i]);
  for (int i = 0; i < NV; ++i) V::store(acc + i * W, a[0][i]);
}

/// acc[q] (+)= sum over taps of weight[t] * patch[q + distance[t]], q < count rounded up to vectors. Few vectors sum in several chains,
/// which hides the latency of fma, unless they are to be ordered.
template <class Acc>
void sum_taps(const Acc* patch, const int64_t* distance, const Acc* weight, int64_t taps, int64_t count, bool first, bool ordered,
              Acc* acc) {
  constexpr int W = Vec<Acc>::kLanes;
  int64_t left = ceil_div(count, W);
  for (; left > 8; left -= 6, patch += 6 * W, acc += 6 * W) sum_block<Acc, 6, 1>(patch, distance, weight, taps, first, acc);
  const auto few = [&](auto in_order, auto in_chains) {
    return (ordered ? in_order : in_chains)(patch, distance, weight, taps, first, acc);
  };
  switch (left) {
    case 1: return few(sum_block<Acc, 1, 1>, sum_block<Acc, 1, 4>);
    case 2: return few(sum_block<Acc, 2, 1>, sum_block<Acc, 2, 2>);
    case 3: return few(sum_block<Acc, 3, 1>, sum_block<Acc, 3, 2>);
    case 4: return sum_block<Acc, 4, 1>(patch, distance, weight, taps, first, acc);
    case 5: return sum_block<Acc, 5, 1>(patch, distance, weight, taps, first, acc);
    case 6: return sum_block<Acc, 6, 1>(patch, distance, weight, taps, first, acc);
    case 7: return sum_block<Acc, 7, 1>(patch, distance, weight, taps, first, acc);
    default: return sum_block<Acc, 8, 1>(patch, distance, weight, taps, first, acc);
  }
}

#if defined(__AVX512F__)
/// Half a vector, for rows of up to 8.
struct HalfVec {
  using V = __m256;
  static constexpr int kLanes = 8;
  static V zero() { return _mm256_setzero_ps(); }
  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static V set1(float x) { return _mm256_set1_ps(x); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
};
constexpr int64_t narrow_lanes(const float*) { return HalfVec::kLanes; }
#else
using HalfVec = Vec<float>;
constexpr int64_t narrow_lanes(const float*) { return 0; }
#endif
constexpr int64_t narrow_lanes(const double*) { return 0; }

/// Taps of height that lie rows one apart in the same phase, for all taps of width: the outputs of a tile share what they load.
/// weight: [kw][J]; at[kw]: distance of the first of them. a: [R][NV vectors], rows ld apart.
template <class V, class Acc, int R, int NV, int J>
__attribute__((noinline)) void row_tile(const Acc* patch, int64_t wide, const int64_t* at, const Acc* weight, int64_t taps_w, bool first,
                                        Acc* acc, int64_t ld) {
  constexpr int W = V::kLanes;
  typename V::V a[R][NV];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < NV; ++i) a[r][i] = first ? V::zero() : V::load(acc + r * ld + i * W);
  for (int64_t kw = 0; kw < taps_w; ++kw, weight += J) {
    const Acc* row = patch + at[kw];
    typename V::V w[J];
#pragma GCC unroll 8
    for (int j = 0; j < J; ++j) w[j] = V::set1(weight[j]);
#pragma GCC unroll 16
    for (int y = 0; y < R + J - 1; ++y, row += wide) {
      typename V::V x[NV];
#pragma GCC unroll 4
      for (int i = 0; i < NV; ++i) x[i] = V::load(row + i * W);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        if (y - r >= 0 && y - r < J)
#pragma GCC unroll 4
          for (int i = 0; i < NV; ++i) a[r][i] = V::fma(w[y - r], x[i], a[r][i]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < NV; ++i) V::store(acc + r * ld + i * W, a[r][i]);
}

/// All tiles of a strip for J taps of height.
template <class V, class Acc, int J>
void row_tiles(const Acc* patch, int64_t wide, const int64_t* at, const Acc* weight, int64_t taps_w, bool first, int64_t rows, int64_t vecs,
               Acc* acc, int64_t ld) {
  constexpr int W = V::kLanes, kWide = sizeof(typename V::V) == 64 ? 4 : 2;
  for (int64_t v = 0; v < vecs;) {
    const int64_t nv = vecs - v >= kWide ? kWide : vecs - v >= 2 ? 2 : 1;
    for (int64_t r = 0; r < rows;) {
      // A tile may reach beyond the last row as far as the scratch goes.
      auto takes = [&](int64_t tile) {
        return rows - r >= tile || (rows - r > tile / 2 && (tile - rows + r) * max_of(wide, ld) <= 4 * Vec<Acc>::kLanes);
      };
      const int64_t tile = nv == 1 && takes(8) ? 8 : takes(4) ? 4 : rows - r >= 2 ? 2 : 1;
      const Acc* from = patch + r * wide + v * W;
      Acc* to = acc + r * ld + v * W;
      auto run = [&](auto fn) { fn(from, wide, at, weight, taps_w, first, to, ld); };
      if (tile == 8)
        run(row_tile<V, Acc, 8, 1, J>);
      else if (tile == 4)
        run(nv == 1 ? row_tile<V, Acc, 4, 1, J> : nv == 2 ? row_tile<V, Acc, 4, 2, J> : row_tile<V, Acc, 4, kWide, J>);
      else if (tile == 2)
        run(nv == 1 ? row_tile<V, Acc, 2, 1, J> : nv == 2 ? row_tile<V, Acc, 2, 2, J> : row_tile<V, Acc, 2, kWide, J>);
      else
        run(nv == 1 ? row_tile<V, Acc, 1, 1, J> : nv == 2 ? row_tile<V, Acc, 1, 2, J> : row_tile<V, Acc, 1, kWide, J>);
      r += tile;
    }
    v += nv;
  }
}

constexpr int64_t kMaxRowTaps = 7;
template <class V, class Acc>
void row_tiles(int64_t taps_h, const Acc* patch, int64_t wide, const int64_t* at, const Acc* weight, int64_t taps_w, bool first,
               int64_t rows, int64_t vecs, Acc* acc, int64_t ld) {
  auto run = [&](auto fn) { fn(patch, wide, at, weight, taps_w, first, rows, vecs, acc, ld); };
  switch (taps_h) {
    case 1: return run(row_tiles<V, Acc, 1>);
    case 2: return run(row_tiles<V, Acc, 2>);
    case 3: return run(row_tiles<V, Acc, 3>);
    case 4: return run(row_tiles<V, Acc, 4>);
    case 5: return run(row_tiles<V, Acc, 5>);
    case 6: return run(row_tiles<V, Acc, 6>);
    default: return run(row_tiles<V, Acc, 7>);
  }
}

template <class E, class Acc>
void conv_direct(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_conv_config*>(args->config);
  const ConvShape s(args->size, cfg);
  constexpr int64_t W = Vec<Acc>::kLanes;
  const int64_t sh = s.stride[1], sw = s.stride[2], reach_h = (s.kernel[1] - 1) * s.dilation[1],
                reach_w = (s.kernel[2] - 1) * s.dilation[2];
  const int64_t plane_taps = s.kernel[1] * s.kernel[2];
  // The order of taps: as they stand, or for tiles of rows by class (taps of height in one phase, rows one apart), width, height.
  int32_t order[kMaxDirectTaps];
  int64_t classes = 0, class_taps[kMaxClasses], class_at[kMaxClasses], first_of[kMaxDirectTaps];
  constexpr int64_t narrow = narrow_lanes(static_cast<const Acc*>(nullptr));
  // By which of two ways taps are added in two orders: the same one on all machines where that is to be ordered.
  const int64_t lanes = cfg->ordered ? 64 / static_cast<int64_t>(sizeof(Acc)) : W, half = cfg->ordered && sizeof(Acc) == 4 ? 8 : narrow;
  const int64_t reach_cols = reach_w / sw, vectors = ceil_div((s.out[1] - 1) * (s.out[2] + reach_cols) + s.out[2], lanes);
  // A vector across rows loads as often as it multiplies; unaligned, that takes twice the time.
  const int64_t row_cost = s.out[2] <= half ? 1 : 2 * ceil_div(s.out[2], lanes);
  bool by_rows = 5 * ceil_div(s.out[1], 4) * 4 * row_cost <= 16 * vectors && s.out[1] > 1 && plane_taps <= kMaxDirectTaps &&
                 s.kernel[1] > 1 && sh % s.dilation[1] == 0 && sh / s.dilation[1] <= kMaxClasses;
  if (by_rows) {
    const int64_t apart = sh / s.dilation[1];  // taps of one phase
    int64_t used = 0;
    for (int64_t q = 0; q < min_of(apart, s.kernel[1]); ++q, ++classes) {
      class_taps[q] = (s.kernel[1] - 1 - q) / apart + 1, class_at[q] = used;
      by_rows = by_rows && class_taps[q] <= kMaxRowTaps;
      for (int64_t kw = 0; kw < s.kernel[2]; ++kw)
        for (int64_t j = 0; j < class_taps[q]; ++j) order[used++] = static_cast<int32_t>((q + j * apart) * s.kernel[2] + kw);
    }
  }
  if (!by_rows)
    for (int64_t t = 0; t < min_of(plane_taps, kMaxDirectTaps); ++t) order[t] = static_cast<int32_t>(t);
  // Rows and columns of a strip, such that patch and sums fit into what the plan gave.
  auto wide_of = [&](int64_t cols) { return by_rows ? ceil_div(cols + reach_cols, W) * W : cols + reach_cols; };
  auto high_of = [&](int64_t rows) { return rows + reach_h / sh; };
  auto phase_of = [&](int64_t rows, int64_t cols) {  // rows of several phases are written in turns: none may reach into the next phase
    return high_of(rows) * wide_of(cols) + (sh * sw > 1 ? W : 0);
  };
  auto fits = [&](int64_t rows, int64_t cols) {
    return phase_of(rows, cols) * sh * sw <= cfg->kp && rows * max_of(wide_of(cols), ceil_div(cols, W) * W) <= cfg->nc;
  };
  int64_t rows = s.out[1], cols = s.out[2];
  while (cols > 1 && !fits(1, cols)) cols = (cols + 1) / 2;
  if (s.transposed || plane_taps > kMaxDirectTaps || !fits(1, cols)) return conv_by_rows<E, Acc>(args, begin, end);
  while (rows > 1 && !fits(rows, cols)) rows = (rows + 1) / 2;

  const E* x = static_cast<const E*>(args->ptr[cfg->x_ptr]);
  const E* w = static_cast<const E*>(args->ptr[cfg->w_ptr]);
  Acc* patch = static_cast<Acc*>(args->scratch);  // [row phase][column phase][high][wide]
  Acc* acc = patch + cfg->kp + 8 * W;             // vectors read beyond the last phase
  Acc* dense = acc + cfg->nc + W;
  int64_t distance[kMaxDirectTaps], distance_of[2] = {-1, -1};  // of which phase size and width
  Acc weight[kMaxDirectTaps];
  for (int64_t u = begin; u < end; ++u) {
    const int64_t co = u % s.co, n = u / s.co, g = co / s.cog;
    for (int64_t od = 0; od < s.out[0]; ++od)
      for (int64_t oh0 = 0; oh0 < s.out[1]; oh0 += rows)
        for (int64_t ow0 = 0; ow0 < s.out[2]; ow0 += cols) {
          const int64_t r = min_of(rows, s.out[1] - oh0), c = min_of(cols, s.out[2] - ow0);
          const int64_t wide = wide_of(c), high = high_of(r), phase = phase_of(r, c), count = (r - 1) * wide + c;
          const int64_t vecs = ceil_div(c, W), ld = !by_rows ? wide : c <= narrow ? narrow : vecs * W;  // ld: a row of the sums
          for (int64_t i = 0; i < plane_taps && (distance_of[0] != phase || distance_of[1] != wide); ++i) {
            const int64_t dh = order[i] / s.kernel[2] * s.dilation[1], dw = order[i] % s.kernel[2] * s.dilation[2];
            distance[i] = (dh % sh * sw + dw % sw) * phase + dh / sh * wide + dw / sw;
          }
          if (by_rows)
            for (int64_t q = 0; q < classes; ++q)
              for (int64_t kw = 0; kw < s.kernel[2]; ++kw) first_of[q * s.kernel[2] + kw] = distance[class_at[q] + kw * class_taps[q]];
          distance_of[0] = phase, distance_of[1] = wide;
          bool first = true;
          for (int64_t ch = 0; ch < s.cg; ++ch)
            for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
              int64_t id;
              if (!s.source(0, od, kd, &id)) continue;
              const E* in = x + (n * s.c + g * s.cg + ch) * s.in_plane + id * s.in[1] * s.in[2];
              // Rows in rising order: what a vector leaves beyond its row is overwritten by the next.
              for (int64_t ph = 0; ph < min_of(sh, reach_h + 1); ++ph)
                for (int64_t i = 0; i < high; ++i)
                  copy_row(s, in, (oh0 + i) * sh - s.pad[1] + ph, ow0 * sw - s.pad[2], min_of(sw, reach_w + 1), wide, phase,
                           patch + ph * sw * phase + i * wide);
              const E* taps = w + ((co * s.cg + ch) * s.kernel[0] + kd) * plane_taps;
              if (by_rows)
                for (int64_t t = 0; t < plane_taps; ++t) weight[t] = Acc(to_acc(taps[order[t]]));
              else
                for (int64_t t = 0; t < plane_taps; ++t) weight[t] = Acc(to_acc(taps[t]));
              if (by_rows)
                for (int64_t q = 0; q < classes; ++q, first = false) {
                  auto tiles = [&](auto fn) {
                    fn(class_taps[q], patch, wide, first_of + q * s.kernel[2], weight + class_at[q], s.kernel[2], first, r, vecs, acc, ld);
                  };
                  if constexpr (sizeof(Acc) == 4) {
                    if (c <= narrow) {
                      tiles(row_tiles<HalfVec, Acc>);
                      continue;
                    }
                  }
                  tiles(row_tiles<Vec<Acc>, Acc>);
                }
              else
                sum_taps(patch, distance, weight, plane_taps, count, first, cfg->ordered != 0, acc);
              first = false;
            }
          if (first)
            for (int64_t i = 0; i < (r - 1) * ld + c; ++i) acc[i] = Acc(0);
          Acc* out = acc;
          if (ld != c && r > 1) {
            out = dense;
            for (int64_t i = 0; i < r; ++i)
              for (int64_t j = 0; j < c; j += W) Vec<Acc>::store(dense + i * c + j, Vec<Acc>::load(acc + i * ld + j));
          }
          const int64_t at = (od * s.out[1] + oh0) * s.out[2] + ow0;
          if (c == s.out[2])
            cfg->epilogue(args, out, r * c, n, co, 1, at, r * c);
          else
            for (int64_t i = 0; i < r; ++i) cfg->epilogue(args, out + i * c, c, n, co, 1, at + i * s.out[2], c);
        }
  }
}

}  // namespace
