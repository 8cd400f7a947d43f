#pragma once
// Matrix products as dot products: aotc_gemm_dots_* of aotc/detail/library_abi.h. Both operands lie along k. Nothing is copied: a block of
// rows times columns runs along k in registers, its sums are added up over the lanes at the end.
#include "gemm_units.h"

namespace {

// The sums over the lanes of four vectors each. Floats: after two rounds each quarter has its part of all four, in order.
inline void add_four(const __m256 v[4], float* out) {
  const __m256 x = _mm256_add_ps(_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpackhi_ps(v[0], v[1]));
  const __m256 y = _mm256_add_ps(_mm256_unpacklo_ps(v[2], v[3]), _mm256_unpackhi_ps(v[2], v[3]));
  const __m256 z = _mm256_add_ps(_mm256_shuffle_ps(x, y, 0x44), _mm256_shuffle_ps(x, y, 0xee));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(z), _mm256_extractf128_ps(z, 1)));
}
inline void add_four(const __m256d v[4], double* out) {
  const __m256d x = _mm256_add_pd(_mm256_unpacklo_pd(v[0], v[1]), _mm256_unpackhi_pd(v[0], v[1]));
  const __m256d y = _mm256_add_pd(_mm256_unpacklo_pd(v[2], v[3]), _mm256_unpackhi_pd(v[2], v[3]));
  _mm256_storeu_pd(out, _mm256_add_pd(_mm256_permute2f128_pd(x, y, 0x20), _mm256_permute2f128_pd(x, y, 0x31)));
}
#if defined(__AVX512F__)
inline void add_four(const __m512 v[4], float* out) {
  const __m512 x = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
  const __m512 y = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
  const __m512 z = _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x44), _mm512_shuffle_ps(x, y, 0xee));
  const __m512 halves = _mm512_add_ps(z, _mm512_shuffle_f32x4(z, z, 0x4e));
  const __m256 half = _mm512_castps512_ps256(halves);
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
inline void add_four(const __m512d v[4], double* out) {
  __m256d half[4];
  for (int i = 0; i < 4; ++i) half[i] = _mm256_add_pd(_mm512_castpd512_pd256(v[i]), _mm512_extractf64x4_pd(v[i], 1));
  add_four(half, out);
}
#endif

/// The first n elements, fewer than a vector; the others are zeros, which are not read.
inline Vec<float>::V first_of(const float* p, int64_t n) { return load_first(p, n); }
inline Vec<double>::V first_of(const double* p, int64_t n) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p);
#else
  static const int64_t kMask[8] = {-1, -1, -1, -1};
  return _mm256_maskload_pd(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMask + 4 - n)));
#endif
}

template <class T>
struct GemmDots {
  using Lanes = Vec<T>;
  static constexpr int W = Lanes::kLanes;
  static constexpr int kRows = sizeof(typename Lanes::V) == 64 ? 4 : 2;  ///< of a block of four columns, as many as there are registers for

  const aotc_kargs* args;
  GemmUnits units;
  const T *a, *b;
  int64_t k, a_rs, b_cs;

  explicit GemmDots(const aotc_kargs* x) : args(x), units(x) {
    const int64_t* size = x->size;
    a = static_cast<const T*>(x->ptr[units.cfg->a_ptr]) + size[AOTC_GEMM_A_BASE];
    b = static_cast<const T*>(x->ptr[units.cfg->b_ptr]) + size[AOTC_GEMM_B_BASE];
    k = size[AOTC_GEMM_K], a_rs = size[AOTC_GEMM_A_RS], b_cs = size[AOTC_GEMM_B_CS];
  }

  static T sum(typename Lanes::V v) {
    T x[W];
    Lanes::store(x, v);
    for (int half = W / 2; half; half /= 2)
      for (int i = 0; i < half; ++i) x[i] += x[i + half];
    return x[0];
  }

  /// R rows of A times C columns of B.
  template <int R, int C>
  void block(const T* x, const T* y, T* out, int64_t ld) const {
    typename Lanes::V sums[R][C];
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) sums[r][c] = Lanes::zero();
    const auto step = [&](auto load) __attribute__((always_inline)) {
      typename Lanes::V column[C];
      for (int c = 0; c < C; ++c) column[c] = load(y + c * b_cs);
      for (int r = 0; r < R; ++r) {
        const typename Lanes::V row = load(x + r * a_rs);
        for (int c = 0; c < C; ++c) sums[r][c] = Lanes::fma(row, column[c], sums[r][c]);
      }
    };
    int64_t i = 0;
    for (; i + W <= k; i += W) step([&](const T* at) { return Lanes::load(at + i); });
    if (i < k) step([&](const T* at) { return first_of(at + i, k - i); });
    T whole[R * C];
    if constexpr (R * C % 4 == 0)
      for (int s = 0; s < R * C; s += 4) add_four(&sums[0][0] + s, whole + s);
    else
      for (int s = 0; s < R * C; ++s) whole[s] = sum(sums[s / C][s % C]);
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) out[r * ld + c] = whole[r * C + c];
  }

  template <int R>
  void rows(const T* x, const T* y, T* out, int64_t ld, int64_t cols) const {
    int64_t c = 0;
    for (; c + 4 <= cols; c += 4) block<R, 4>(x, y + c * b_cs, out + c, ld);
    for (; c < cols; ++c) block<R, 1>(x, y + c * b_cs, out + c, ld);
  }

  void run(int64_t begin, int64_t end) const {
    T* const tile = static_cast<T*>(args->scratch);
    const int64_t* size = args->size;
    for (int64_t number = begin; number < end; ++number) {
      const GemmUnits::Unit u = units.at(number);
      const int64_t b0 = u.batch / size[AOTC_GEMM_B1], b1 = u.batch % size[AOTC_GEMM_B1];
      const T* x = a + b0 * size[AOTC_GEMM_A_B0] + b1 * size[AOTC_GEMM_A_B1] + u.m0 * a_rs;
      const T* y = b + b0 * size[AOTC_GEMM_B_B0] + b1 * size[AOTC_GEMM_B_B1] + (units.segment_begin(u.segment) + u.n0) * b_cs;
      int64_t r = 0;
      for (; r + kRows <= u.rows(); r += kRows) rows<kRows>(x + r * a_rs, y, tile + r * u.cols(), u.cols(), u.cols());
      for (; r < u.rows(); ++r) rows<1>(x + r * a_rs, y, tile + r * u.cols(), u.cols(), u.cols());
      units.cfg->epilogues[u.segment](args, tile, u.cols(), u.batch, u.m0, u.rows(), u.n0, u.cols());
    }
  }
};

}  // namespace
