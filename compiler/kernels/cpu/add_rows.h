#pragma once
// Rows added to the rows of a table that indices name, in the indices' order: what bags of embeddings and gradients of tables do. Rows that
// follow each other into the same one are summed in registers.
#include "any_vec.h"
#include "entry.h"

namespace {

/// to[i] = ((to[i] + from[i]) + from[pitch + i]) + .., `rows` of them, for N vectors.
template <class T, int N>
void add_run(T* to, const T* from, int64_t pitch, int64_t rows) {
  using V = typename AnyVec<T>::U;
  V sum[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) sum[i] = reinterpret_cast<const V*>(to)[i];
  for (int64_t r = 0; r < rows; ++r, from += pitch) {
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) sum[i] += reinterpret_cast<const V*>(from)[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) reinterpret_cast<V*>(to)[i] = sum[i];
}

template <class T>
void add_run(T* to, const T* from, int64_t pitch, int64_t rows) {
  constexpr int W = AnyVec<T>::kLanes;
  int64_t c = 0;
  for (; c + 8 * W <= pitch; c += 8 * W) add_run<T, 8>(to + c, from + c, pitch, rows);
  for (; c + W <= pitch; c += W) add_run<T, 1>(to + c, from + c, pitch, rows);
  for (; c < pitch; ++c) {
    T sum = to[c];
    for (int64_t r = 0; r < rows; ++r) sum += from[r * pitch + c];
    to[c] = sum;
  }
}

/// Row r of `rows` is added to row index[r] of the table; an index below zero counts from its end. False where one is outside: that row is
/// left out.
template <class T>
bool add_rows(T* table, int64_t extent, const int64_t* index, const T* rows, int64_t count, int64_t pitch) {
  bool good = true;
  for (int64_t r = 0, end; r < count; r = end) {
    for (end = r + 1; end < count && index[end] == index[r];) ++end;
    const int64_t pick = index[r] < 0 ? index[r] + extent : index[r];
    if (pick < 0 || pick >= extent)
      good = false;
    else
      add_run(table + pick * pitch, rows + r * pitch, pitch, end - r);
  }
  return good;
}

/// The place that an index names, which counts from the end below zero; -1: outside.
inline int64_t place_of(int64_t index, int64_t extent) {
  if (index < 0) index += extent;
  return index >= 0 && index < extent ? index : -1;
}

constexpr int64_t kRowsAhead = 8;              ///< that are asked for before they are added
constexpr int64_t kCached = int64_t{1} << 20;  ///< bytes of a table that L2 keeps: its rows are not asked for

/// Rows of a table that are picked, each times a factor where there are any. `known`: indices that may be looked at, at least as many as
/// are picked.
template <class T>
struct Picks {
  const T* table;
  int64_t extent, pitch;
  const int64_t* from;
  const T* factors;
  int64_t known;
};

/// to[i] = ((to[i] + row 0 [i]) + row 1 [i]) + .., for N vectors from a column on. False where a row is outside: it is left out. Ahead:
/// rows are asked for before they are added.
template <class T, int N, bool Factors, bool Ahead>
bool add_picked(T* to, const Picks<T>& picks, int64_t column, int64_t rows) {
  using V = typename AnyVec<T>::U;
  const T *const table = picks.table + column, *const factors = picks.factors;
  const int64_t *const from = picks.from, pitch = picks.pitch, known = picks.known;
  const uint64_t extent = static_cast<uint64_t>(picks.extent);
  bool good = true;
  V sum[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) sum[i] = reinterpret_cast<const V*>(to)[i];
  for (int64_t r = 0; r < rows; ++r) {
    uint64_t row = static_cast<uint64_t>(from[r]);
    if (__builtin_expect(row >= extent, 0)) {
      row += extent;
      if (row >= extent) {
        good = false;
        continue;
      }
    }
    if (Ahead && r + kRowsAhead < known) {
      const uint64_t next = static_cast<uint64_t>(from[r + kRowsAhead]);
      const T* const at = table + static_cast<int64_t>(next < extent ? next : 0) * pitch;
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) __builtin_prefetch(reinterpret_cast<const V*>(at) + i);
    }
    const V* const v = reinterpret_cast<const V*>(table + static_cast<int64_t>(row) * pitch);
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) sum[i] += Factors ? v[i] * factors[r] : v[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) reinterpret_cast<V*>(to)[i] = sum[i];
  return good;
}

/// Columns [column, column + cols) of the picked rows.
template <class T, bool Factors, bool Ahead>
bool add_picked(T* to, const Picks<T>& p, int64_t column, int64_t cols, int64_t rows) {
  constexpr int W = AnyVec<T>::kLanes, kMost = AOTC_ADD_ROWS_COLUMNS * static_cast<int>(sizeof(T)) / kAnyVecBytes,
                N = kMost < 8 ? kMost : 8;
  bool good = true;
  int64_t c = 0;
  for (; c + N * W <= cols; c += N * W) good &= add_picked<T, N, Factors, Ahead>(to + c, p, column + c, rows);
  for (; c + W <= cols; c += W) good &= add_picked<T, 1, Factors, Ahead>(to + c, p, column + c, rows);
  for (; c < cols; ++c)
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = place_of(p.from[r], p.extent);
      good = good && row >= 0;
      if (row >= 0) to[c] += p.table[row * p.pitch + column + c] * (Factors ? p.factors[r] : T(1));
    }
  return good;
}
template <class T>
bool add_picked(T* to, const Picks<T>& p, int64_t column, int64_t cols, int64_t rows) {
  const bool ahead = p.extent * p.pitch * static_cast<int64_t>(sizeof(T)) > kCached;
  if (p.factors)
    return ahead ? add_picked<T, true, true>(to, p, column, cols, rows) : add_picked<T, true, false>(to, p, column, cols, rows);
  return ahead ? add_picked<T, false, true>(to, p, column, cols, rows) : add_picked<T, false, false>(to, p, column, cols, rows);
}

/// The picks from index i on.
template <class T>
Picks<T> picks_of(const aotc_kargs* args, int64_t i) {
  const auto* factors = args->size[5] ? static_cast<const T*>(args->ptr[4]) : nullptr;
  return {static_cast<const T*>(args->ptr[1]), args->size[2],    args->size[1], static_cast<const int64_t*>(args->ptr[2]) + i,
          factors ? factors + i : nullptr,     args->size[3] - i};
}

/// The largest of the picked rows, at least one: a NaN stays where it comes first and is passed over elsewhere.
template <class T>
bool largest_picked(T* to, const Picks<T>& p, int64_t rows) {
  bool good = true, any = false;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = place_of(p.from[r], p.extent);
    good = good && row >= 0;
    if (row < 0) continue;
    const T* const v = p.table + row * p.pitch;
    if (!any)
      for (int64_t c = 0; c < p.pitch; ++c) to[c] = v[c];
    else
      for (int64_t c = 0; c < p.pitch; ++c) to[c] = v[c] > to[c] ? v[c] : to[c];
    any = true;
  }
  return good;
}

/// Rows [begin, end) of the result: those of row k are named from begins[k] to begins[k + 1], of the last one to `count`.
template <class T>
void add_table_runs(const aotc_kargs* args, int64_t begin, int64_t end) {
  const int64_t n = args->size[0], d = args->size[1], count = args->size[3];
  const T* x = static_cast<const T*>(args->ptr[0]);
  const auto* begins = static_cast<const int64_t*>(args->ptr[3]);
  T* out = static_cast<T*>(args->ptr[args->size[5] ? 5 : 4]);
  for (int64_t k = begin; k < end; ++k) {
    const int64_t first = begins[k], last = k + 1 < n ? begins[k + 1] : count;
    T* to = out + k * d;
    if (out != x)
      for (int64_t c = 0; c < d; ++c) to[c] = x[k * d + c];
    const bool good = first >= 0 && first <= last && last <= count;
    const auto make = [&](const Picks<T>& picks) {
      return args->size[4] == 2 ? largest_picked(to, picks, last - first) : add_picked(to, picks, 0, d, last - first);
    };
    if (!good || !make(picks_of<T>(args, first))) *args->fault = AOTC_FAULT_INDEX;
  }
}

template <class T>
void add_table_rows(const aotc_kargs* args, int64_t begin, int64_t end) {
  const int64_t n = args->size[0], d = args->size[1], count = args->size[3];
  const T* x = static_cast<const T*>(args->ptr[0]);
  const auto* to = static_cast<const int64_t*>(args->ptr[3]);
  T* out = static_cast<T*>(args->ptr[args->size[5] ? 5 : 4]);
  if (args->size[4]) return add_table_runs<T>(args, begin, end);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t c0 = unit * AOTC_ADD_ROWS_COLUMNS, cols = d - c0 < AOTC_ADD_ROWS_COLUMNS ? d - c0 : AOTC_ADD_ROWS_COLUMNS;
    if (out != x)
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = c0; c < c0 + cols; ++c) out[r * d + c] = x[r * d + c];
    for (int64_t r = 0, last; r < count; r = last) {
      for (last = r + 1; last < count && to[last] == to[r];) ++last;
      const int64_t row = place_of(to[r], n);
      if (row < 0 || !add_picked(out + row * d + c0, picks_of<T>(args, r), c0, cols, last - r)) *args->fault = AOTC_FAULT_INDEX;
    }
  }
}

}  // namespace
