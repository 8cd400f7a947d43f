#pragma once
// Convolutions with few channels in a group (depthwise): AOTC_CONV_DIRECT of aotc/detail/library_abi.h.
//
// A strip of the input is copied with its borders as zeros, rows and columns split by their remainder modulo the stride. In that form each
// tap is a constant distance, so that the strip's outputs are one long vector, however short the rows are.
#include "gather.h"

namespace {

/// Output rows one by one: transposed convolutions, and kernels too wide for the scratch.
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
inline void copy_phase(const float* __restrict src, int64_t first, int64_t step, int64_t width, int64_t count, float* __restrict dst) {
  if (step > 2) return copy_phase<float, float>(src, first, step, width, count, dst);
  for (int64_t i = 0; i < count; i += Vec<float>::kLanes) {
    const int64_t from = first + i * step;
    Vec<float>::store(dst + i, Pieces::pick(src + from, Pieces::between(-from, width - from), static_cast<int>(step)));
  }
}

constexpr int64_t kMaxDirectTaps = 128;  // kernel[1] * kernel[2]

/// acc[q] (+)= sum over taps of weight[t] * patch[q + distance[t]], q < count rounded up to vectors.
template <class Acc>
void sum_taps(const Acc* patch, const int64_t* distance, const Acc* weight, int64_t taps, int64_t count, bool first, Acc* acc) {
  using V = Vec<Acc>;
  constexpr int W = V::kLanes, kWide = 4;
  int64_t q = 0;
  for (; q + (kWide - 1) * W < count; q += kWide * W) {
    typename V::V a[kWide];
    for (int i = 0; i < kWide; ++i) a[i] = first ? V::zero() : V::load(acc + q + i * W);
    for (int64_t t = 0; t < taps; ++t) {
      const typename V::V w = V::set1(weight[t]);
      const Acc* p = patch + q + distance[t];
      for (int i = 0; i < kWide; ++i) a[i] = V::fma(w, V::load(p + i * W), a[i]);
    }
    for (int i = 0; i < kWide; ++i) V::store(acc + q + i * W, a[i]);
  }
  for (; q < count; q += W) {
    typename V::V a = first ? V::zero() : V::load(acc + q);
    for (int64_t t = 0; t < taps; ++t) a = V::fma(V::set1(weight[t]), V::load(patch + q + distance[t]), a);
    V::store(acc + q, a);
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
  // Rows and columns of a strip, such that patch and sums fit into what the plan gave.
  auto wide_of = [&](int64_t cols) { return cols + reach_w / sw; };
  auto high_of = [&](int64_t rows) { return rows + reach_h / sh; };
  auto fits = [&](int64_t rows, int64_t cols) {
    return high_of(rows) * wide_of(cols) * sh * sw <= cfg->kp && rows * wide_of(cols) <= cfg->nc;
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
          const int64_t wide = wide_of(c), high = high_of(r), phase = wide * high, count = (r - 1) * wide + c;
          for (int64_t t = 0; t < plane_taps && (distance_of[0] != phase || distance_of[1] != wide); ++t) {
            const int64_t dh = t / s.kernel[2] * s.dilation[1], dw = t % s.kernel[2] * s.dilation[2];
            distance[t] = (dh % sh * sw + dw % sw) * phase + dh / sh * wide + dw / sw;
          }
          distance_of[0] = phase, distance_of[1] = wide;
          bool first = true;
          for (int64_t ch = 0; ch < s.cg; ++ch)
            for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
              int64_t id;
              if (!s.source(0, od, kd, &id)) continue;
              const E* in = x + (n * s.c + g * s.cg + ch) * s.in_plane + id * s.in[1] * s.in[2];
              // Phases and rows in rising order: what a vector leaves beyond its row is overwritten by the next.
              for (int64_t ph = 0; ph < min_of(sh, reach_h + 1); ++ph)
                for (int64_t pw = 0; pw < min_of(sw, reach_w + 1); ++pw)
                  for (int64_t i = 0; i < high; ++i) {
                    const int64_t ih = (oh0 + i) * sh - s.pad[1] + ph;
                    const bool inside = ih >= 0 && ih < s.in[1];
                    copy_phase(in + (inside ? ih * s.in[2] : 0), ow0 * sw - s.pad[2] + pw, sw, inside ? s.in[2] : 0, wide,
                               patch + (ph * sw + pw) * phase + i * wide);
                  }
              const E* taps = w + ((co * s.cg + ch) * s.kernel[0] + kd) * plane_taps;
              for (int64_t t = 0; t < plane_taps; ++t) weight[t] = Acc(to_acc(taps[t]));
              sum_taps(patch, distance, weight, plane_taps, count, first, acc);
              first = false;
            }
          if (first)
            for (int64_t i = 0; i < count; ++i) acc[i] = Acc(0);
          Acc* out = acc;
          if (wide != c && r > 1) {
            out = dense;
            for (int64_t i = 0; i < r; ++i)
              for (int64_t j = 0; j < c; ++j) dense[i * c + j] = acc[i * wide + j];
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
