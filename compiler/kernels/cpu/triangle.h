#pragma once
// cholesky and solve_triangular of aotc/detail/library_abi.h.
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

/// Rows of the solution stand in double in the scratch until all are known.
template <class T>
void solve_triangular(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_solve_triangular_config*>(args->config);
  const int64_t n = args->size[1], k = args->size[2], blocks = ceil_div(k, AOTC_TRIANGLE_COLUMNS);
  double* const solved = static_cast<double*>(args->scratch);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t m = unit / blocks, first = unit % blocks * AOTC_TRIANGLE_COLUMNS,
                  columns = min_of<int64_t>(AOTC_TRIANGLE_COLUMNS, k - first);
    const T* a = static_cast<const T*>(args->ptr[0]) + m * n * n;
    const T* b = static_cast<const T*>(args->ptr[1]) + m * n * k + first;
    T* x = static_cast<T*>(args->ptr[2]) + m * n * k + first;
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = cfg->upper ? n - 1 - step : step, from = cfg->upper ? i + 1 : 0, to = cfg->upper ? n : i;
      double* const row = solved + i * columns;
      for (int64_t c = 0; c < columns; ++c) row[c] = static_cast<double>(b[i * k + c]);
      for (int64_t j = from; j < to; ++j) {
        const double factor = static_cast<double>(a[i * n + j]);
        const double* const known = solved + j * columns;
        for (int64_t c = 0; c < columns; ++c) row[c] -= factor * known[c];
      }
      if (!cfg->unit)
        for (int64_t c = 0; c < columns; ++c) row[c] /= static_cast<double>(a[i * n + i]);
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < columns; ++c) x[i * k + c] = static_cast<T>(solved[i * columns + c]);
  }
}

}  // namespace
