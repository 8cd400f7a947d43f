#pragma once
// im2col: the input elements that a run of output pixels meets at one tap of a convolution's kernel, for any stride, dilation, padding.
#include "simd.h"

namespace {

/// Geometry of a convolution as the kernels use it; dims d h w.
struct ConvShape {
  int64_t n, c, co, groups, cg, cog;  // cg, cog: channels of one group
  int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  int64_t in_plane, out_plane, taps, k;
  bool transposed;

  ConvShape(const int64_t* size, const aotc_conv_config* cfg) {
    n = size[AOTC_CONV_N], c = size[AOTC_CONV_C], co = size[AOTC_CONV_CO];
    groups = cfg->groups, cg = c / groups, cog = co / groups;
    transposed = cfg->transposed;
    for (int i = 0; i < 3; ++i) {
      in[i] = size[AOTC_CONV_D + i], out[i] = size[AOTC_CONV_OD + i];
      kernel[i] = cfg->kernel[i], stride[i] = cfg->stride[i], pad[i] = cfg->pad[i], dilation[i] = cfg->dilation[i];
    }
    in_plane = in[0] * in[1] * in[2], out_plane = out[0] * out[1] * out[2];
    taps = kernel[0] * kernel[1] * kernel[2];
    k = cg * taps;
    bool pointwise = taps == 1 && in_plane == out_plane;
    for (int i = 0; i < 3; ++i) pointwise = pointwise && stride[i] == 1 && pad[i] == 0 && in[i] == out[i];
    if (pointwise) {  // one long row
      in[2] = in_plane, out[2] = out_plane;
      in[0] = in[1] = out[0] = out[1] = 1;
    }
  }

  /// The input position along one dim for output position o at tap t; false: outside, or between the steps of a transposed one.
  bool source(int dim, int64_t o, int64_t t, int64_t* at) const {
    int64_t i;
    if (transposed) {
      i = o + pad[dim] - t * dilation[dim];
      if (i < 0 || i % stride[dim]) return false;
      i /= stride[dim];
    } else {
      i = o * stride[dim] - pad[dim] + t * dilation[dim];
    }
    *at = i;
    return i >= 0 && i < in[dim];
  }
};

/// Consecutive output pixels of one output row.
struct Run {
  int64_t at, len;  // columns of the panel
  int64_t n, od, oh, ow;
};
constexpr int kMaxRun = 32;

/// Splits pixels [p0, p0 + count) (over n, od, oh, ow) into runs; count <= kMaxRun. Returns how many.
inline int make_runs(const ConvShape& s, int64_t p0, int64_t count, Run* runs) {
  int64_t ow = p0 % s.out[2], rest = p0 / s.out[2], oh = rest % s.out[1];
  rest /= s.out[1];
  int64_t od = rest % s.out[0], n = rest / s.out[0], at = 0;
  int used = 0;
  while (at < count) {
    const int64_t len = min_of(count - at, s.out[2] - ow);
    runs[used++] = {at, len, n, od, oh, ow};
    at += len;
    ow = 0;
    if (++oh == s.out[1]) {
      oh = 0;
      if (++od == s.out[0]) od = 0, ++n;
    }
  }
  return used;
}

/// dst[i] = row[i0 + i*step] for 0 <= i < len where that lies in [0, width), else 0. dst may be written up to 16 elements beyond len.
template <class E, class T>
inline void copy_run(const E* row, int64_t i0, int64_t step, int64_t width, int64_t len, T* dst) {
  for (int64_t i = 0; i < len; ++i) {
    const int64_t at = i0 + i * step;
    dst[i] = at >= 0 && at < width ? T(to_acc(row[at])) : T(0);
  }
}
#if defined(__AVX512F__)
inline u32 lanes_between(int64_t lo, int64_t hi) {  // lanes lo <= i < hi of 32
  lo = lo < 0 ? 0 : lo > 32 ? 32 : lo;
  hi = hi < 0 ? 0 : hi > 32 ? 32 : hi;
  return static_cast<u32>(_bzhi_u64(~0ull, static_cast<u32>(hi)) & ~_bzhi_u64(~0ull, static_cast<u32>(lo)));
}
inline void copy_run(const float* row, int64_t i0, int64_t step, int64_t width, int64_t len, float* dst) {
  const float* src = row + i0;
  if (step == 1) {
    const u32 m = lanes_between(-i0, min_of(len, width - i0));
    _mm512_storeu_ps(dst, _mm512_maskz_loadu_ps(static_cast<__mmask16>(m), src));
    if (len > 16) _mm512_storeu_ps(dst + 16, _mm512_maskz_loadu_ps(static_cast<__mmask16>(m >> 16), src + 16));
  } else if (step == 2) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    for (int64_t i = 0; i < len; i += 16) {
      const u32 m = lanes_between(-i0 - 2 * i, min_of(2 * (len - i), width - i0 - 2 * i));
      const __m512 a = _mm512_maskz_loadu_ps(static_cast<__mmask16>(m), src + 2 * i);
      const __m512 b = _mm512_maskz_loadu_ps(static_cast<__mmask16>(m >> 16), src + 2 * i + 16);
      _mm512_storeu_ps(dst + i, _mm512_permutex2var_ps(a, even, b));
    }
  } else {
    for (int64_t i = 0; i < len; ++i) {
      const int64_t at = i0 + i * step;
      dst[i] = at >= 0 && at < width ? row[at] : 0.0f;
    }
  }
}
#else
inline void copy_run(const float* row, int64_t i0, int64_t step, int64_t width, int64_t len, float* dst) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (int64_t i = 0; i < len; i += 8) {
    if (step == 1) {
      const int64_t lo = max_of<int64_t>(-i0 - i, 0), hi = max_of<int64_t>(min_of(len - i, width - i0 - i), 0);
      const __m256i from = _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(static_cast<int>(min_of<int64_t>(lo, 8)) - 1));
      const __m256i to = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(min_of<int64_t>(hi, 8))), lane);
      _mm256_storeu_ps(dst + i, _mm256_maskload_ps(row + i0 + i, _mm256_and_si256(from, to)));
    } else {
      for (int64_t j = i; j < min_of(len, i + 8); ++j) {
        const int64_t at = i0 + j * step;
        dst[j] = at >= 0 && at < width ? row[at] : 0.0f;
      }
    }
  }
}
#endif

/// dst[k1 - k0][ld]: rows k (channel and tap of group g) of the im2col matrix at the given runs; `count` columns, zeros up to `to`.
/// Written in rising order, up to 16 elements beyond a row's end.
template <class E, class T>
void gather(const ConvShape& s, const E* x, int64_t g, const Run* runs, int n_runs, int64_t count, int64_t to, int64_t k0, int64_t k1,
            T* dst, int64_t ld) {
  int64_t t = k0 % s.taps, ch = k0 / s.taps;
  int64_t kw = t % s.kernel[2], kh = t / s.kernel[2] % s.kernel[1], kd = t / s.kernel[2] / s.kernel[1];
  for (int64_t k = k0; k < k1; ++k, dst += ld) {
    const E* plane = x + (g * s.cg + ch) * s.in_plane;
    for (int r = 0; r < n_runs; ++r) {
      const Run& run = runs[r];
      T* out = dst + run.at;
      int64_t id, ih;
      if (!s.source(0, run.od, kd, &id) || !s.source(1, run.oh, kh, &ih)) {
        for (int64_t i = 0; i < run.len; ++i) out[i] = T(0);
        continue;
      }
      const E* row = plane + run.n * s.c * s.in_plane + (id * s.in[1] + ih) * s.in[2];
      if (!s.transposed) {
        copy_run(row, run.ow * s.stride[2] - s.pad[2] + kw * s.dilation[2], s.stride[2], s.in[2], run.len, out);
      } else {
        for (int64_t i = 0; i < run.len; ++i) {
          int64_t iw;
          out[i] = s.source(2, run.ow + i, kw, &iw) ? T(to_acc(row[iw])) : T(0);
        }
      }
    }
    for (int64_t i = count; i < to; ++i) dst[i] = T(0);
    if (++kw == s.kernel[2]) {
      kw = 0;
      if (++kh == s.kernel[1]) {
        kh = 0;
        if (++kd == s.kernel[0]) kd = 0, ++ch;
      }
    }
  }
}

}  // namespace
