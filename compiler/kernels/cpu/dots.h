#pragma once
// Dot products of rows with columns that both lie along k: a block of them runs along k in registers, its sums are added up over the lanes
// at the end, in one order wherever in a block they are. Columns may be of a stored type, which is widened as it is read.
#include "panels.h"

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
inline typename Vec<T>::V load_wide(const T* p) {
  return Vec<T>::load(p);
}
inline Vec<float>::V load_wide(const f16* p) { return load_half(p); }
inline Vec<float>::V load_wide(const bf16* p) { return load_half(p); }

/// T: of rows and sums, K: of columns.
template <class T, class K = T>
struct Dots {
  using Lanes = Vec<T>;
  using V = typename Lanes::V;
  static constexpr int W = Lanes::kLanes;
  /// Rows of a block of four columns: as many as there are registers for, beside those that widen columns.
  static constexpr int kRows = sizeof(V) == 64 && same_type<T, K> ? 4 : 2;

  template <int N>
  struct Count {
    static constexpr int n = N;
  };

  int64_t k, row_step, column_step;

  static V first_wide(const K* p, int64_t n) {
    if constexpr (same_type<T, K>) {
      return first_of(p, n);
    } else {
      T some[W] = {};
      for (int64_t i = 0; i < n; ++i) some[i] = to_acc(p[i]);
      return Lanes::load(some);
    }
  }

  /// R rows times C columns.
  template <int R, int C>
  void block(const T* x, const K* y, T* out, int64_t ld) const {
    V sums[(R * C + 3) / 4 * 4];
#pragma GCC unroll 16
    for (V& sum : sums) sum = Lanes::zero();
    const auto step = [&](auto load_row, auto load_column) __attribute__((always_inline)) {
      V column[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) column[c] = load_column(y + c * column_step);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const V row = load_row(x + r * row_step);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) sums[r * C + c] = Lanes::fma(row, column[c], sums[r * C + c]);
      }
    };
    int64_t i = 0;
    for (; i + W <= k; i += W) step([&](const T* at) { return Lanes::load(at + i); }, [&](const K* at) { return load_wide(at + i); });
    if (i < k) step([&](const T* at) { return first_of(at + i, k - i); }, [&](const K* at) { return first_wide(at + i, k - i); });
    T whole[sizeof sums / sizeof sums[0]];
#pragma GCC unroll 4
    for (int s = 0; s < R * C; s += 4) add_four(sums + s, whole + s);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) out[r * ld + c] = whole[r * C + c];
  }

  template <int R>
  void rows_of(const T* x, const K* y, int64_t columns, T* out, int64_t ld) const {
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) block<R, 4>(x, y + c * column_step, out + c, ld);
    for (; c < columns; ++c) block<R, 1>(x, y + c * column_step, out + c, ld);
  }

  /// out[row * ld + column]
  void run(const T* x, int64_t rows, const K* y, int64_t columns, T* out, int64_t ld) const {
    int64_t r = 0;
    const auto some = [&](auto count) {
      rows_of<count.n>(x + r * row_step, y, columns, out + r * ld, ld);
      r += count.n;
    };
    while (r + kRows <= rows) some(Count<kRows>());
    if constexpr (kRows > 2) {
      if (rows - r == 3) some(Count<3>());
      if (rows - r == 2) some(Count<2>());
    }
    if (r < rows) some(Count<1>());
  }
};

}  // namespace
