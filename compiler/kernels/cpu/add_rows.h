#pragma once
// Rows added to the rows of a table that indices name, in the indices' order: what bags of embeddings and gradients of tables do. Rows that
// follow each other into the same one are summed in registers.
#include "entry.h"

namespace {

/// One vector of 32 bytes, at any element.
template <class T>
struct RowVec {
  typedef T V __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
  static constexpr int kLanes = 32 / sizeof(T);
};

/// to[i] = ((to[i] + from[i]) + from[pitch + i]) + .., `rows` of them, for N vectors.
template <class T, int N>
void add_run(T* to, const T* from, int64_t pitch, int64_t rows) {
  using V = typename RowVec<T>::V;
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
  constexpr int W = RowVec<T>::kLanes;
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

}  // namespace
