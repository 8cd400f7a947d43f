#pragma once
// solve_triangular of aotc/detail/library_abi.h.
#include "any_vec.h"
#include "simd.h"

namespace {

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
  int64_t first;  ///< of the columns; read with cfg.below alone

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
  void solve(const aotc_solve_triangular_config& cfg) const {
    const bool upper = cfg.upper;
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = upper ? n - 1 - step : step;
      double values[C];
      for (int c = 0; c < C; ++c) values[c] = static_cast<double>(b[i * k + c]);
      Row row = *reinterpret_cast<const Memory*>(values);
      reduce(row, i, upper ? i + 1 : 0, upper ? n : i);
      if (!cfg.unit) row /= static_cast<double>(a[i * n + i]);
      double* const kept = solved + i * C;
      *reinterpret_cast<Memory*>(kept) = row;
      if (cfg.below)
        for (int64_t c = max_of<int64_t>(i - first, 0); c < C; ++c) kept[c] = values[c];
      for (int c = 0; c < C; ++c) x[i * k + c] = static_cast<T>(kept[c]);
    }
  }
};

/// Columns from `first` to `end`, C at a time while there are as many, the rest by halves of C. b, x: of column 0.
template <int C, class T>
void solve_columns(const T* a, const T* b, T* x, int64_t n, int64_t k, int64_t first, int64_t end, double* solved,
                   const aotc_solve_triangular_config& cfg) {
  for (; first + C <= end; first += C) TriangularSystem<C, T>{a, b + first, x + first, n, k, solved, first}.solve(cfg);
  if constexpr (C > 1)
    if (first < end) solve_columns<C / 2>(a, b, x, n, k, first, end, solved, cfg);
}

template <class T>
void solve_triangular(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_solve_triangular_config*>(args->config);
  const int64_t n = args->size[1], k = args->size[2], blocks = ceil_div(k, AOTC_TRIANGLE_COLUMNS);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t m = unit / blocks, first = unit % blocks * AOTC_TRIANGLE_COLUMNS;
    solve_columns<AnyVec<double>::kLanes>(static_cast<const T*>(args->ptr[0]) + m * n * n, static_cast<const T*>(args->ptr[1]) + m * n * k,
                                          static_cast<T*>(args->ptr[2]) + m * n * k, n, k, first,
                                          min_of<int64_t>(k, first + AOTC_TRIANGLE_COLUMNS), static_cast<double*>(args->scratch), *cfg);
  }
}

}  // namespace
