#pragma once
// Dot products of rows with columns that both lie along k: a block of them runs along k in registers, by 64 bytes of sums each, which are
// added up over the lanes at the end, in one order wherever in a block they are and on all machines. Columns may be of a stored type, which
// is widened as it is read.
#include "aotc/detail/dots_abi.h"
#include "panels.h"

namespace {

// The sums over the lanes of four times 64 bytes each, on all machines in one order: first the halves, then within each quarter, then the
// quarters.
inline void add_four(__m256 x, __m256 y, float* out) {  // x: the pairs of the first two; y: of the others
  const __m256 z = _mm256_add_ps(_mm256_shuffle_ps(x, y, 0x44), _mm256_shuffle_ps(x, y, 0xee));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(z), _mm256_extractf128_ps(z, 1)));
}
inline void add_four(__m256d x, __m256d y, double* out) {
  _mm256_storeu_pd(out, _mm256_add_pd(_mm256_permute2f128_pd(x, y, 0x20), _mm256_permute2f128_pd(x, y, 0x31)));
}
#if defined(__AVX512F__)
inline void add_four(const __m512 (*v)[1], float* out) {
  const auto halves = [](__m512 a, __m512 b) { return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee)); };
  const __m512 even = halves(v[0][0], v[2][0]), odd = halves(v[1][0], v[3][0]);
  const __m512 pairs = _mm512_add_ps(_mm512_unpacklo_ps(even, odd), _mm512_unpackhi_ps(even, odd));
  add_four(_mm512_castps512_ps256(pairs), _mm512_extractf32x8_ps(pairs, 1), out);
}
inline void add_four(const __m512d (*v)[1], double* out) {
  const auto halves = [](__m512d a, __m512d b) {
    return _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x44), _mm512_shuffle_f64x2(a, b, 0xee));
  };
  const __m512d even = halves(v[0][0], v[2][0]), odd = halves(v[1][0], v[3][0]);
  const __m512d pairs = _mm512_add_pd(_mm512_unpacklo_pd(even, odd), _mm512_unpackhi_pd(even, odd));
  add_four(_mm512_castpd512_pd256(pairs), _mm512_extractf64x4_pd(pairs, 1), out);
}
#else
inline void add_four(const __m256 (*v)[2], float* out) {
  const auto pairs = [](const __m256 a[2], const __m256 b[2]) {
    const __m256 x = _mm256_add_ps(a[0], a[1]), y = _mm256_add_ps(b[0], b[1]);
    return _mm256_add_ps(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y));
  };
  add_four(pairs(v[0], v[1]), pairs(v[2], v[3]), out);
}
inline void add_four(const __m256d (*v)[2], double* out) {
  const auto pairs = [](const __m256d a[2], const __m256d b[2]) {
    const __m256d x = _mm256_add_pd(a[0], a[1]), y = _mm256_add_pd(b[0], b[1]);
    return _mm256_add_pd(_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y));
  };
  add_four(pairs(v[0], v[1]), pairs(v[2], v[3]), out);
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
  static constexpr int kVecs = 64 / sizeof(V);  ///< of a sum
  /// Rows of most blocks of one vector a sum: as many as there are registers for, beside those that widen columns.
  static constexpr int kRows = same_type<T, K> ? AOTC_DOTS_ROWS : 2;
  /// Columns of a block.
  static constexpr int columns_of(int rows) { return kVecs == 1 || rows == 1 ? 4 : rows == 2 ? 3 : 2; }
  /// What a block has loaded stays in registers, of which it has 16: GCC would read it again for each row or column.
  template <int R>
  static constexpr bool kKept = kVecs > 1 && R > 1;

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
    V sums[(R * C + 3) / 4 * 4][kVecs] = {};
    const auto step = [&](int v, auto load_row, auto load_column) __attribute__((always_inline)) {
      V column[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        column[c] = load_column(y + c * column_step);
        if (kKept<R>) __asm__("" : "+x"(column[c]));
      }
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        V row = load_row(x + r * row_step);
        if (kKept<R>) __asm__("" : "+x"(row));
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) sums[r * C + c][v] = Lanes::fma(row, column[c], sums[r * C + c][v]);
      }
    };
    const auto whole_step = [&](int v, int64_t at) __attribute__((always_inline)) {
      step(
          v, [&](const T* p) { return Lanes::load(p + at); }, [&](const K* p) { return load_wide(p + at); });
    };
    const auto last_step = [&](int v, int64_t at) __attribute__((always_inline)) {
      step(
          v, [&](const T* p) { return first_of(p + at, k - at); }, [&](const K* p) { return first_wide(p + at, k - at); });
    };
    int64_t i = 0;
    for (; i + W * kVecs <= k; i += W * kVecs)
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) whole_step(v, i + v * W);
    if (kVecs > 1 && i + W <= k) {
      whole_step(0, i);
      if (i + W < k) last_step(kVecs - 1, i + W);
    } else if (i < k) {
      last_step(0, i);
    }
    T whole[sizeof sums / sizeof sums[0]];
#pragma GCC unroll 4
    for (int s = 0; s < R * C; s += 4) add_four(sums + s, whole + s);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) out[r * ld + c] = whole[r * C + c];
  }

  /// A function of its own: among others its sums would not be kept in registers.
  template <int R>
  [[gnu::noinline]] void rows_of(const T* x, const K* y, int64_t columns, T* out, int64_t ld) const {
    int64_t c = 0;
    constexpr int kColumns = columns_of(R);
    for (; c + kColumns <= columns; c += kColumns) block<R, kColumns>(x, y + c * column_step, out + c, ld);
    for (; c < columns; ++c) block<R, 1>(x, y + c * column_step, out + c, ld);
  }

  /// out[row * ld + column]
  void run(const T* x, int64_t rows, const K* y, int64_t columns, T* out, int64_t ld) const {
    int64_t r = 0;
    const auto some = [&](auto count) {
      rows_of<count.n>(x + r * row_step, y, columns, out + r * ld, ld);
      r += count.n;
    };
    if constexpr (kVecs > 1) {
      while (rows - r > 4 || rows - r == 3) some(Count<3>());
      while (rows - r >= 2) some(Count<2>());
    } else {
      while (r + kRows <= rows) some(Count<kRows>());
      if constexpr (kRows > 2) {
        if (rows - r == 3) some(Count<3>());
        if (rows - r == 2) some(Count<2>());
      }
    }
    if (r < rows) some(Count<1>());
  }
};

}  // namespace
