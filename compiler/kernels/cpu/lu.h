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
static_assert(AOTC_LU_SMALL * AOTC_LU_SMALL * AOTC_LU_LANES * 8 <= AOTC_LU_SCRATCH_BYTES);

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
  static constexpr int kColumns = 8;  ///< that are factorised before the columns right of them in a panel see them
  static constexpr int kRows = 4;     ///< that are updated together
  static constexpr int kPanel = 64;   ///< columns that are factorised before those right of the panel see them, as a product
  static constexpr int kVecs = kLanes == 8 ? 4 : 2, kTile = kVecs * kLanes;  ///< columns of a product that registers hold
  double* a;
  int64_t m, n;
  int64_t *order, *swaps;
  double* above;  ///< [kPanel][kTile]: columns of a panel's rows

  double* row(int64_t i) const { return a + i * n; }

  int64_t pivot_row(int64_t k) const {
    int64_t at = k;
    double best = __builtin_fabs(row(k)[k]);  // a NaN here stays the pivot, elsewhere it is none
    for (int64_t i = k + 1; i < m; ++i) {
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
  /// R rows from i on lose what rows first to first + K - 1 times their factors have, in columns from `from` to `to` - 1.
  template <int R, int K>
  void update(int64_t i, int64_t first, int64_t from, int64_t to) const {
    double factors[R][K];
    for (int r = 0; r < R; ++r)
      for (int k = 0; k < K; ++k) factors[r][k] = row(i + r)[first + k];
    int64_t j = from;
    for (; j + kLanes <= to; j += kLanes) columns<V, U>(factors, i, first, j);
    for (; j < to; ++j) columns<double, double>(factors, i, first, j);
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
  /// Rows from `row` to `end` - 1 lose what rows first to last - 1 times their factors have, in columns from `from` to `to` - 1.
  void less(int64_t row, int64_t end, int64_t first, int64_t last, int64_t from, int64_t to) const {
    int64_t i = row;
    if (last - first == kColumns) {
      for (; i + kRows <= end; i += kRows) update<kRows, kColumns>(i, first, from, to);
      for (; i < end; ++i) update<1, kColumns>(i, first, from, to);
    }
    for (; i < end; ++i)
      for (int64_t k = first; k < last; ++k) update<1, 1>(i, k, from, to);
  }
  /// Rows first to last - 1, which are factorised, become those of U in columns from `from` to `to` - 1.
  void solve(int64_t first, int64_t last, int64_t from, int64_t to) const {
    for (int64_t i = first + 1; i < last; ++i)
      for (int64_t k = first; k < i; ++k) update<1, 1>(i, k, from, to);
  }
  /// R rows from i on lose what the panel's rows, whose columns from j on are in `above`, times their factors have.
  template <int R>
  void tile(int64_t i, int64_t first, int64_t j) const {
    static_assert(kPanel * kTile * 8 <= AOTC_LU_SCRATCH_BYTES);
    V rest[R][kVecs];
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < kVecs; ++v) rest[r][v] = *reinterpret_cast<const U*>(row(i + r) + j + v * kLanes);
    for (int k = 0; k < kPanel; ++k)
      for (int v = 0; v < kVecs; ++v) {
        const V b = *reinterpret_cast<const U*>(above + k * kTile + v * kLanes);
        for (int r = 0; r < R; ++r) rest[r][v] -= row(i + r)[first + k] * b;
      }
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < kVecs; ++v) *reinterpret_cast<U*>(row(i + r) + j + v * kLanes) = rest[r][v];
  }
  /// The same as less() for a whole panel, a tile of columns after the other.
  void product(int64_t row_begin, int64_t first, int64_t from) const {
    int64_t j = from;
    for (; j + kTile <= n; j += kTile) {
      for (int k = 0; k < kPanel; ++k) __builtin_memcpy(above + k * kTile, row(first + k) + j, sizeof(double) * kTile);
      int64_t i = row_begin;
      for (; i + kRows <= m; i += kRows) tile<kRows>(i, first, j);
      for (; i < m; ++i) tile<1>(i, first, j);
    }
    if (j < n)
      for (int64_t k = first; k < first + kPanel; k += kColumns) less(row_begin, m, k, k + kColumns, j, n);
  }
  void factorise() const {
    for (int64_t i = 0; i < m; ++i) order[i] = i;
    const int64_t steps = min_of(m, n);
    for (int64_t begin = 0; begin < steps; begin += kPanel) {
      const int64_t end = min_of(begin + kPanel, steps), stop = end < steps ? end : n;  // the last panel takes what is right of it along
      for (int64_t first = begin; first < end; first += kColumns) {
        const int64_t last = min_of(first + kColumns, end);
        panel(first, last);
        solve(first, last, last, stop);
        less(last, m, first, last, last, stop);
      }
      if (stop == n) continue;
      for (int64_t first = begin; first < end; first += kColumns) {
        solve(first, first + kColumns, end, n);
        less(first + kColumns, end, first, first + kColumns, end, n);
      }
      product(end, begin, end);
    }
  }
};

/// As many matrices as there are lanes, factorised in place.
struct LuLanes {
  Lanes* a;  ///< [m][n]
  LaneInts order[AOTC_LU_SMALL], swaps[AOTC_LU_SMALL];

  void factorise(int64_t m, int64_t n) {
    for (int64_t i = 0; i < m; ++i) order[i] = LaneInts{} + i;
    for (int64_t k = 0; k < min_of(m, n); ++k) {
      const Lanes first = a[k * n + k];
      Lanes best = first < 0.0 ? -first : first;
      LaneInts at = LaneInts{} + k;
      for (int64_t i = k + 1; i < m; ++i) {
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
      Lu{packed + c * all, m, n, order + c * m, swaps + c * steps, static_cast<double*>(args->scratch)}.factorise();
    }
    return;
  }
  LuLanes together;
  together.a = static_cast<Lanes*>(args->scratch);
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
