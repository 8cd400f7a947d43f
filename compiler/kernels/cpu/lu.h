#pragma once
// lu of aotc/detail/lu_abi.h: small matrices are lanes of vectors, of others columns are factorised a few at a time.
#include "any_vec.h"
#include "aotc/detail/lu_abi.h"
#include "simd.h"

namespace {

typedef AnyVec<double>::V Lanes;
typedef AnyVec<int64_t>::V LaneInts;
constexpr int kLuLanes = AnyVec<double>::kLanes;
static_assert(AOTC_LU_LANES % kLuLanes == 0);

inline void swap_values(double* a, double* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const double v = a[i];
    a[i] = b[i], b[i] = v;
  }
}

/// A matrix, factorised in place.
struct Lu {
  using V = AnyVec<double>::V;
  using U = AnyVec<double>::U;
  static constexpr int kLanes = AnyVec<double>::kLanes;
  static constexpr int kColumns = 8;  ///< that are factorised before the columns right of them see them
  static constexpr int kRows = 4;     ///< that are updated together
  double* a;
  int64_t m, n;
  int64_t *order, *swaps;

  double* row(int64_t i) const { return a + i * n; }

  int64_t pivot_row(int64_t k) const {
    int64_t at = k;
    double best = -1;
    for (int64_t i = k; i < m; ++i) {
      const double size = __builtin_fabs(row(i)[k]);
      if (size > best) best = size, at = i;
    }
    return at;
  }
  void swap_rows(int64_t k, int64_t p) const {
    swaps[k] = p;
    if (p == k) return;
    swap_values(row(k), row(p), n);
    const int64_t place = order[k];
    order[k] = order[p], order[p] = place;
  }
  /// Columns first to last - 1 of all rows from `first` on.
  void panel(int64_t first, int64_t last) const {
    for (int64_t k = first; k < last; ++k) {
      swap_rows(k, pivot_row(k));
      const double pivot = row(k)[k];
      for (int64_t i = k + 1; i < m; ++i) {
        const double factor = pivot == 0 ? row(i)[k] : row(i)[k] / pivot;
        row(i)[k] = factor;
        for (int64_t j = k + 1; j < last; ++j) row(i)[j] -= factor * row(k)[j];
      }
    }
  }
  /// R rows from i on lose what rows first to first + K - 1 times their factors have, from column `from` on.
  template <int R, int K>
  void update(int64_t i, int64_t first, int64_t from) const {
    double factors[R][K];
    for (int r = 0; r < R; ++r)
      for (int k = 0; k < K; ++k) factors[r][k] = row(i + r)[first + k];
    int64_t j = from;
    for (; j + kLanes <= n; j += kLanes) columns<V, U>(factors, i, first, j);
    for (; j < n; ++j) columns<double, double>(factors, i, first, j);
  }
  template <class Value, class Memory, int R, int K>
  void columns(const double (&factors)[R][K], int64_t i, int64_t first, int64_t j) const {
    Value above[K];
    for (int k = 0; k < K; ++k) above[k] = *reinterpret_cast<const Memory*>(row(first + k) + j);
    for (int r = 0; r < R; ++r) {
      Memory* const at = reinterpret_cast<Memory*>(row(i + r) + j);
      Value rest = *at;
      for (int k = 0; k < K; ++k) rest -= factors[r][k] * above[k];
      *at = rest;
    }
  }
  void factorise() const {
    for (int64_t i = 0; i < m; ++i) order[i] = i;
    const int64_t steps = min_of(m, n);
    for (int64_t first = 0; first < steps; first += kColumns) {
      const int64_t last = min_of(first + kColumns, steps);
      panel(first, last);
      if (last == n) return;
      for (int64_t i = first + 1; i < last; ++i)
        for (int64_t k = first; k < i; ++k) update<1, 1>(i, k, last);
      int64_t i = last;
      if (last - first == kColumns) {
        for (; i + kRows <= m; i += kRows) update<kRows, kColumns>(i, first, last);
        for (; i < m; ++i) update<1, kColumns>(i, first, last);
      }
      for (; i < m; ++i)
        for (int64_t k = first; k < last; ++k) update<1, 1>(i, k, last);
    }
  }
};

/// As many matrices as there are lanes, factorised in place.
struct LuLanes {
  Lanes a[AOTC_LU_SMALL * AOTC_LU_SMALL];
  LaneInts order[AOTC_LU_SMALL], swaps[AOTC_LU_SMALL];

  void factorise(int64_t m, int64_t n) {
    for (int64_t i = 0; i < m; ++i) order[i] = LaneInts{} + i;
    for (int64_t k = 0; k < min_of(m, n); ++k) {
      Lanes best = Lanes{} - 1.0;
      LaneInts at = LaneInts{} + k;
      for (int64_t i = k; i < m; ++i) {
        const Lanes v = a[i * n + k], size = v < 0.0 ? -v : v;
        const LaneInts larger = size > best;
        best = larger ? size : best;
        at = larger ? LaneInts{} + i : at;
      }
      swaps[k] = at;
      for (int64_t i = k + 1; i < m; ++i) {  // a row changes places with row k where it has the lane's pivot
        const LaneInts here = at == i, place = order[i];
        order[i] = here ? order[k] : place;
        order[k] = here ? place : order[k];
        for (int64_t j = 0; j < n; ++j) {
          const Lanes v = a[i * n + j];
          a[i * n + j] = here ? a[k * n + j] : v;
          a[k * n + j] = here ? v : a[k * n + j];
        }
      }
      const Lanes pivot = a[k * n + k], divisor = pivot == 0.0 ? Lanes{} + 1.0 : pivot;
      for (int64_t i = k + 1; i < m; ++i) {
        const Lanes factor = a[i * n + k] / divisor;
        a[i * n + k] = factor;
        for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      }
    }
  }
};

inline void lu(const aotc_kargs* args, int64_t begin, int64_t end) {
  const int64_t m = args->size[1], n = args->size[2], all = m * n, steps = min_of(m, n);
  const double* const x = static_cast<const double*>(args->ptr[0]);
  double* const packed = static_cast<double*>(args->ptr[1]);
  int64_t* const order = static_cast<int64_t*>(args->ptr[2]);
  int64_t* const swaps = static_cast<int64_t*>(args->ptr[3]);
  if (max_of(m, n) > AOTC_LU_SMALL) {
    for (int64_t c = begin; c < end; ++c) {
      __builtin_memcpy(packed + c * all, x + c * all, static_cast<size_t>(all) * sizeof(double));
      Lu{packed + c * all, m, n, order + c * m, swaps + c * steps}.factorise();
    }
    return;
  }
  LuLanes together;
  for (int64_t first = begin; first < end; first += kLuLanes) {
    const int64_t here = min_of<int64_t>(kLuLanes, end - first);
    for (int64_t lane = 0; lane < kLuLanes; ++lane) {  // lanes that nobody needs repeat the last matrix
      const double* const from = x + (first + min_of(lane, here - 1)) * all;
      for (int64_t i = 0; i < all; ++i) together.a[i][lane] = from[i];
    }
    together.factorise(m, n);
    for (int64_t lane = 0; lane < here; ++lane) {
      const int64_t c = first + lane;
      for (int64_t i = 0; i < all; ++i) packed[c * all + i] = together.a[i][lane];
      for (int64_t i = 0; i < m; ++i) order[c * m + i] = together.order[i][lane];
      for (int64_t k = 0; k < steps; ++k) swaps[c * steps + k] = together.swaps[k][lane];
    }
  }
}

}  // namespace
