#pragma once
// im2col: the input elements that a run of output pixels meets at one tap of a convolution's kernel, for any stride, dilation, padding.
#include "simd.h"

namespace {

/// Geometry of a convolution as the kernels use it; dims d h w.
struct ConvShape {
  int64_t n, c, co, groups, cg, cog;  // cg, cog: channels of one group
  int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  int64_t in_plane, out_plane, taps, k;
  bool transposed, w_transposed;  // w_transposed: the natural weight is [C, Co/groups, K..]

  ConvShape(const int64_t* size, const aotc_conv_config* cfg) {
    n = size[AOTC_CONV_N], c = size[AOTC_CONV_C], co = size[AOTC_CONV_CO];
    groups = cfg->groups, cg = c / groups, cog = co / groups;
    transposed = w_transposed = cfg->transposed;
    for (int i = 0; i < 3; ++i) {
      in[i] = size[AOTC_CONV_D + i], out[i] = size[AOTC_CONV_OD + i];
      kernel[i] = cfg->kernel[i], stride[i] = cfg->stride[i], pad[i] = cfg->pad[i], dilation[i] = cfg->dilation[i];
    }
    derive();
  }

  /// The rest from dims and kernel.
  void derive() {
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

/// Which taps of a kernel a product takes: tap j along dim i is first[i] + j * step[i].
struct TapMap {
  int64_t all, kernel[3], first[3], step[3];

  explicit TapMap(const ConvShape& s) : all(s.taps), kernel{s.kernel[0], s.kernel[1], s.kernel[2]}, first{0, 0, 0}, step{1, 1, 1} {}
  /// The tap of the whole kernel for tap t of the shape s of the product.
  int64_t of(const ConvShape& s, int64_t t) const {
    const int64_t w = first[2] + t % s.kernel[2] * step[2], h = first[1] + t / s.kernel[2] % s.kernel[1] * step[1];
    const int64_t d = first[0] + t / s.kernel[2] / s.kernel[1] * step[0];
    return (d * kernel[1] + h) * kernel[2] + w;
  }
  /// Whether t is its own tap.
  bool whole(const ConvShape& s) const {
    bool same = true;
    for (int i = 0; i < 3; ++i) same = same && first[i] == 0 && (step[i] == 1 || kernel[i] == 1) && s.kernel[i] == kernel[i];
    return same;
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

/// The plan of a gather of f32 along rows: vector-sized pieces of the runs, and per tap where they lie and which source elements exist.
/// For any step, and for transposed convolutions. Worked out once a panel, used for every channel. Tables lie on the stack.
struct Pieces {
  static constexpr int W = Vec<float>::kLanes, kMax = kMaxRun;  // a piece has a column at least
  static constexpr int64_t kMaxPlaces = 1024, kMaxWide = 768;   // pieces times taps: of depth and height together, of width
  int64_t n = 0;
  int step;
  int32_t at[kMax];
  int64_t image[kMax];         // where a piece's image begins
  int32_t offset[kMaxPlaces];  // [kd, kh][n]: from there and the channel's plane to the source of lane 0 at kw = 0
  int8_t row[kMaxPlaces];      // [kd, kh][n]: all ones where the row exists
  int32_t start[kMaxWide];     // [kw][n], transposed: added to the offset
  u32 lanes[kMaxWide];         // [kw][n]: step 1, 2: source elements inside the row; else lanes that have one (transposed: a row of them)

  /// Whether the tables have room for these runs, and their numbers for the image.
  static bool fits(const ConvShape& s, const Run* runs, int n_runs) {
    constexpr int64_t kFar = int64_t{1} << 30;
    const int64_t reach = (s.out[2] + W) * s.stride[2] + s.pad[2] + s.kernel[2] * s.dilation[2];
    if (s.stride[2] >= 4096 || s.in_plane >= kFar || reach >= kFar) return false;
    int64_t pieces = 0;
    for (int r = 0; r < n_runs; ++r) pieces += ceil_div(runs[r].len, int64_t{W});
    return pieces * s.kernel[0] * s.kernel[1] <= kMaxPlaces && pieces * s.kernel[2] <= kMaxWide;
  }

  Pieces(const ConvShape& s, const Run* runs, int n_runs) : step(s.transposed ? 0 : static_cast<int>(s.stride[2])) {
    for (int r = 0; r < n_runs; ++r) n += ceil_div(runs[r].len, int64_t{W});
    int64_t p = 0;
    for (int r = 0; r < n_runs; ++r)
      for (int64_t i = 0; i < runs[r].len; i += W, ++p) {
        const Run& run = runs[r];
        const int64_t first = s.transposed ? 0 : (run.ow + i) * step - s.pad[2], count = min_of<int64_t>(W, run.len - i);
        at[p] = static_cast<int32_t>(run.at + i);
        image[p] = run.n * s.c * s.in_plane;
        for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
          u32& here = lanes[kw * n + p];
          here = 0;
          if (s.transposed) {
            start[kw * n + p] = 0;
            for (int64_t j = count - 1; j >= 0; --j) {
              int64_t iw;
              if (!s.source(2, run.ow + i + j, kw, &iw)) continue;
              here |= 1u << j;
              start[kw * n + p] = static_cast<int32_t>(iw);
            }
          } else {
            const int64_t from = first + kw * s.dilation[2];  // elements [from, from + step*count) are wanted, [0, width) exist
            here = step <= 2 ? between(-from, min_of(step * count, s.in[2] - from))
                             : between(ceil_div(max_of<int64_t>(-from, 0), step),
                                       min_of(count, ceil_div(max_of<int64_t>(s.in[2] - from, 0), step)));
          }
        }
        for (int64_t kd = 0; kd < s.kernel[0]; ++kd)
          for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
            int64_t id, ih;
            const bool in = s.source(0, run.od, kd, &id) & s.source(1, run.oh, kh, &ih);
            const int64_t place = (kd * s.kernel[1] + kh) * n + p;
            row[place] = in ? -1 : 0;
            offset[place] = in ? static_cast<int32_t>((id * s.in[1] + ih) * s.in[2] + first) : 0;
          }
      }
  }

  /// Bits lo <= i < hi.
  static u32 between(int64_t lo, int64_t hi) {
    lo = lo < 0 ? 0 : lo > 32 ? 32 : lo;
    hi = hi < 0 ? 0 : hi > 32 ? 32 : hi;
    return static_cast<u32>(_bzhi_u64(~0ull, static_cast<u32>(hi)) & ~_bzhi_u64(~0ull, static_cast<u32>(lo)));
  }

  /// The lanes of m from elements of any type, one by one.
  template <class E>
  static Vec<float>::V pick_slowly(const E* src, u32 m, int step) {
    float lane[W];
    if (step == 0)
      for (int i = 0; i < W; ++i) lane[i] = m >> i & 1 ? to_acc(*src++) : 0.0f;
    else
      for (int i = 0; i < W; ++i) lane[i] = m >> (step == 2 ? 2 * i : i) & 1 ? to_acc(src[i * step]) : 0.0f;
    return Vec<float>::load(lane);
  }
#if defined(__AVX512F__)
  static __m512 pick(const float* src, u32 m, int step) {
    if (step == 0) {
      const u32 count = static_cast<u32>(__builtin_popcount(m));
      return _mm512_maskz_expand_ps(static_cast<__mmask16>(m), _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), src));
    }
    if (step > 2) {
      const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const __m512i at = _mm512_mullo_epi32(lane, _mm512_set1_epi32(step));
      return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), static_cast<__mmask16>(m), at, src, 4);
    }
    const __m512 a = _mm512_maskz_loadu_ps(static_cast<__mmask16>(m), src);
    if (step == 1) return a;
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, even, _mm512_maskz_loadu_ps(static_cast<__mmask16>(m >> 16), src + 16));
  }
  static __m512 pick(const bf16* src, u32 m, int step) {
    if (step == 1)
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(m), src)), 16));
    if (step == 2) return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_maskz_loadu_epi16(m, src), 16));
    return pick_slowly(src, m, step);
  }
  static __m512 pick(const f16* src, u32 m, int step) {
    if (step == 1) return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(m), src));
    if (step == 2) return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_maskz_loadu_epi16(m, src)));
    return pick_slowly(src, m, step);
  }
#else
  static __m256 load(const float* src, u32 m) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_maskload_ps(src, _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(m)), bit), bit));
  }
  static __m256 pick(const float* src, u32 m, int step) {
    if (step == 0 || step > 2) return pick_slowly(src, m, step);
    const __m256 a = load(src, m);
    if (step == 1) return a;
    const __m256 even = _mm256_shuffle_ps(a, load(src + 8, m >> 8), 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
  }
  template <class E>
  static __m256 pick(const E* src, u32 m, int step) {
    return step == 1 && m == 0xff ? load_half(src) : pick_slowly(src, m, step);
  }
#endif

  /// A row of the im2col matrix, walked in order.
  template <class E>
  struct Cursor {
    const ConvShape* s;
    const E* plane;
    int64_t kw, kdh;
    Cursor(const ConvShape& shape, const E* x, int64_t g, int64_t k) : s(&shape) {
      const int64_t t = k % s->taps;
      kw = t % s->kernel[2], kdh = t / s->kernel[2];
      plane = x + (g * s->cg + k / s->taps) * s->in_plane;
    }
    void next() {
      if (++kw < s->kernel[2]) return;
      kw = 0;
      if (++kdh < s->kernel[0] * s->kernel[1]) return;
      kdh = 0;
      plane += s->in_plane;
    }
  };
  /// What the pieces read at the cursor. kStep: the step, 0 for transposed, 3 for any other.
  template <int kStep, class E>
  struct Line {
    const E* plane;
    const int64_t* image;
    const int32_t *offset, *start;
    const int8_t* row;
    const u32* lanes;

    Line(const Pieces& of, const ConvShape& s, const Cursor<E>& c)
        : plane(kStep == 0 ? c.plane : c.plane + c.kw * s.dilation[2]),
          image(of.image),
          offset(of.offset + c.kdh * of.n),
          start(of.start + (kStep == 0 ? c.kw * of.n : 0)),
          row(of.row + c.kdh * of.n),
          lanes(of.lanes + c.kw * of.n) {}
    Vec<float>::V piece(int64_t p, int kind) const {
      const E* const from = plane + image[p] + offset[p];
      return pick(kStep == 0 ? from + start[p] : from, static_cast<u32>(int32_t{row[p]}) & lanes[p], kind);
    }
  };

  template <int kStep, class E>
  void run(const ConvShape& s, const E* x, int64_t g, int64_t k0, int64_t k1, float* dst, int64_t ld) const {
    Cursor<E> c(s, x, g, k0);
    const int64_t count = n;
    const int kind = kStep > 2 ? step : kStep;
    for (int64_t k = k0; k < k1; ++k, dst += ld, c.next()) {
      const Line<kStep, E> line(*this, s, c);
      for (int64_t p = 0; p < count; ++p) Vec<float>::store(dst + at[p], line.piece(p, kind));
    }
  }
  template <class E>
  void run(const ConvShape& s, const E* x, int64_t g, int64_t k0, int64_t k1, float* dst, int64_t ld) const {
    if (s.transposed)
      run<0>(s, x, g, k0, k1, dst, ld);
    else if (step == 1)
      run<1>(s, x, g, k0, k1, dst, ld);
    else if (step == 2)
      run<2>(s, x, g, k0, k1, dst, ld);
    else
      run<3>(s, x, g, k0, k1, dst, ld);
  }

#if defined(__AVX512F__)
  /// Pairs of rows of bf16: [ceil((k1 - k0) / 2)][ld] of two elements.
  template <int kStep>
  void run_pairs(const ConvShape& s, const bf16* x, int64_t g, int64_t k0, int64_t k1, float* dst, int64_t ld) const {
    Cursor<bf16> c(s, x, g, k0);
    const int64_t count = n;
    const int kind = kStep > 2 ? step : kStep;
    for (int64_t k = k0; k < k1; k += 2, dst += ld) {
      Cursor<bf16> odd = c;
      odd.next();
      const bool both = k + 1 < k1;
      const Line<kStep, bf16> low(*this, s, c), high(*this, s, both ? odd : c);
      for (int64_t p = 0; p < count; ++p) {
        const __m512i lo = _mm512_srli_epi32(_mm512_castps_si512(low.piece(p, kind)), 16);
        const __m512i hi = both ? _mm512_castps_si512(high.piece(p, kind)) : _mm512_setzero_si512();
        _mm512_storeu_si512(dst + at[p], _mm512_or_si512(lo, hi));
      }
      c = odd;
      c.next();
    }
  }
  void run_pairs(const ConvShape& s, const bf16* x, int64_t g, int64_t k0, int64_t k1, float* dst, int64_t ld) const {
    if (s.transposed)
      run_pairs<0>(s, x, g, k0, k1, dst, ld);
    else if (step == 1)
      run_pairs<1>(s, x, g, k0, k1, dst, ld);
    else if (step == 2)
      run_pairs<2>(s, x, g, k0, k1, dst, ld);
    else
      run_pairs<3>(s, x, g, k0, k1, dst, ld);
  }
#endif
};

/// dst[k1 - k0][ld]: rows k (channel and tap of group g) of the im2col matrix at the given runs; `count` columns; those up to `to` are
/// unspecified. Written in rising order, up to 16 elements beyond a row's end.
template <class E, class T>
void gather(const ConvShape& s, const E* x, int64_t g, const Run* runs, int n_runs, int64_t count, int64_t to, int64_t k0, int64_t k1,
            T* dst, int64_t ld) {
  if constexpr (sizeof(T) == 4) {
    if (Pieces::fits(s, runs, n_runs)) return Pieces(s, runs, n_runs).run(s, x, g, k0, k1, dst, ld);
  }
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
