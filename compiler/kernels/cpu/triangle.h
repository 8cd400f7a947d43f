#pragma once
// cholesky and solve_triangular of aotc/detail/library_abi.h.
#include "any_vec.h"
#include "simd.h"

namespace {

/// sums[r] = x[r * ld] . y of n elements each, in double.
template <int R, class T>
void dots(const T* x, int64_t ld, const T* y, int64_t n, double (&sums)[R]) {
  constexpr int kLanes = 8;
  double part[R][kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int r = 0; r < R; ++r)
      for (int l = 0; l < kLanes; ++l) part[r][l] += static_cast<double>(x[r * ld + i + l]) * static_cast<double>(y[i + l]);
  for (int r = 0; r < R; ++r) {
    double s = 0;
    for (int64_t k = i; k < n; ++k) s += static_cast<double>(x[r * ld + k]) * static_cast<double>(y[k]);
    for (int half = kLanes / 2; half; half /= 2)
      for (int l = 0; l < half; ++l) part[r][l] += part[r][l + half];
    sums[r] = s + part[r][0];
  }
}

/// Row by row; kRows rows share what they read of those above them.
template <class T>
struct Cholesky {
  static constexpr int kRows = 4;
  const T* x;
  T* out;
  int64_t n;

  /// Columns from `begin` to `end` of R rows, all left of the diagonal.
  template <int R>
  void left(int64_t row, int64_t begin, int64_t end) const {
    for (int64_t j = begin; j < end; ++j) {
      double sums[R];
      dots<R>(out + row * n, n, out + j * n, j, sums);
      for (int r = 0; r < R; ++r) {
        const int64_t at = (row + r) * n + j;
        out[at] = static_cast<T>((static_cast<double>(x[at]) - sums[r]) / static_cast<double>(out[j * n + j]));
      }
    }
  }

  /// The order of the first leading minor that is not positive, or 0.
  int32_t factorise() const {
    int32_t info = 0;
    for (int64_t row = 0; row < n; row += kRows) {
      const int64_t rows = min_of<int64_t>(kRows, n - row);
      if (rows == kRows) left<kRows>(row, 0, row);
      for (int64_t i = row; i < row + rows; ++i) {
        left<1>(i, rows == kRows ? row : 0, i);
        double sum[1];
        dots<1>(out + i * n, n, out + i * n, i, sum);
        const double pivot = static_cast<double>(x[i * n + i]) - sum[0];
        if (!(pivot > 0) && info == 0) info = static_cast<int32_t>(i + 1);
        out[i * n + i] = static_cast<T>(pivot > 0 ? __builtin_sqrt(pivot) : __builtin_nan(""));
        for (int64_t j = i + 1; j < n; ++j) out[i * n + j] = T(0);
      }
    }
    return info;
  }
};

template <class T>
void cholesky(const aotc_kargs* args, int64_t begin, int64_t end) {
  const int64_t n = args->size[1];
  for (int64_t m = begin; m < end; ++m) {
    const Cholesky<T> c{static_cast<const T*>(args->ptr[0]) + m * n * n, static_cast<T*>(args->ptr[1]) + m * n * n, n};
    static_cast<int32_t*>(args->ptr[2])[m] = c.factorise();
  }
}

/// Columns of a system, in double in the scratch (n * C) until all are known.
template <int C, class T>
struct TriangularSystem {
  typedef double Row __attribute__((vector_size(8 * C)));
  typedef double Memory __attribute__((vector_size(8 * C), aligned(8), may_alias));
  static constexpr int kParts = C == 1 ? 8 : 4;  ///< sums that do not wait for each other
  const T* a;
  const T* b;
  T* x;
  int64_t n, k;  ///< k: from a row of b and x to the next
  double* solved;

  void add_product(Row& sum, int64_t i, int64_t j) const {
    sum += static_cast<double>(a[i * n + j]) * *reinterpret_cast<const Memory*>(solved + j * C);
  }
  /// row loses what the solved rows from `from` to `to` - 1 times a's row i have together.
  void reduce(Row& row, int64_t i, int64_t from, int64_t to) const {
    Row parts[kParts] = {};
    int64_t j = from;
    for (; j + kParts <= to; j += kParts)
      for (int p = 0; p < kParts; ++p) add_product(parts[p], i, j + p);
    for (; j < to; ++j) add_product(parts[0], i, j);
    for (int half = kParts / 2; half; half /= 2)
      for (int p = 0; p < half; ++p) parts[p] += parts[p + half];
    row -= parts[0];
  }
  void solve(bool upper, bool unit) const {
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = upper ? n - 1 - step : step;
      double values[C];
      for (int c = 0; c < C; ++c) values[c] = static_cast<double>(b[i * k + c]);
      Row row = *reinterpret_cast<const Memory*>(values);
      reduce(row, i, upper ? i + 1 : 0, upper ? n : i);
      if (!unit) row /= static_cast<double>(a[i * n + i]);
      double* const kept = solved + i * C;
      *reinterpret_cast<Memory*>(kept) = row;
      for (int c = 0; c < C; ++c) x[i * k + c] = static_cast<T>(kept[c]);
    }
  }
};

/// Columns C at a time while there are as many, the rest by halves of C.
template <int C, class T>
void solve_columns(const T* a, const T* b, T* x, int64_t n, int64_t k, int64_t columns, double* solved,
                   const aotc_solve_triangular_config& cfg) {
  int64_t first = 0;
  for (; first + C <= columns; first += C) TriangularSystem<C, T>{a, b + first, x + first, n, k, solved}.solve(cfg.upper, cfg.unit);
  if constexpr (C > 1)
    if (first < columns) solve_columns<C / 2>(a, b + first, x + first, n, k, columns - first, solved, cfg);
}

template <class T>
void solve_triangular(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_solve_triangular_config*>(args->config);
  const int64_t n = args->size[1], k = args->size[2], blocks = ceil_div(k, AOTC_TRIANGLE_COLUMNS);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t m = unit / blocks, first = unit % blocks * AOTC_TRIANGLE_COLUMNS, at = m * n * k + first;
    solve_columns<AnyVec<double>::kLanes>(static_cast<const T*>(args->ptr[0]) + m * n * n, static_cast<const T*>(args->ptr[1]) + at,
                                          static_cast<T*>(args->ptr[2]) + at, n, k, min_of<int64_t>(AOTC_TRIANGLE_COLUMNS, k - first),
                                          static_cast<double*>(args->scratch), *cfg);
  }
}

}  // namespace
