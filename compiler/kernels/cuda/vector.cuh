// Matrix products of few rows: out(i, j) = finish(sum_k a(i, k) * b(k, j), i, j). A warp streams a column of b once, 16 bytes a lane, and
// multiplies it with every row of a, which stays in the cache. k is the contiguous index of both.
#pragma once
#include "device.cuh"

// Rows: of a, at most. Deep: chunks of 16 bytes of a column that a lane has under way. Early: no step writes b, so that a column's first
// chunks come before the step before has ended.
template <class T, class Acc, int Rows, int Deep, bool Early> struct VectorTile {
  typedef T Element;
  typedef Acc Sum;
  static constexpr int rows = Rows, deep = Deep, chunk = 16 / int(sizeof(T));
  static constexpr bool early = Early;
};

// The sums of one column of the warp's lane: `a` and its rows' distance, `column` of b. Whole: both can be read 16 bytes at a time. ready():
// called once, before a is read and, unless it is early, b.
template <class Tile, bool Whole, class T, class Ready>
AOTC_DI void vector_sums(typename Tile::Sum (&sum)[Tile::rows], const T* a, i64 a_row, const T* column, int m, i64 k, const Ready& ready) {
  typedef typename Tile::Sum Acc;
  constexpr int Chunk = Whole ? Tile::chunk : 1, Deep = Tile::deep;
  const int lane = threadIdx.x & 31;
  const i64 chunks = k / Chunk;
  Wide<T, Chunk> held[Deep];
  auto fetch = [&](int d, i64 c) {
    if (c >= chunks) return;
    if constexpr (Whole) held[d] = load_once<Tile::early, T, Chunk>(column + c * Chunk);  // a stays in the first cache
    else held[d] = load_wide<T, Chunk>(column + c * Chunk);
  };
  auto multiply = [&](const Wide<T, Chunk>& w, i64 c) {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const Wide<T, Chunk> x = load_wide<T, Chunk>(a + (i < m ? i : m - 1) * a_row + c * Chunk);
#pragma unroll
      for (int e = 0; e < Chunk; ++e) sum[i] += static_cast<Acc>(x.v[e]) * static_cast<Acc>(w.v[e]);
    }
  };
  if (!Tile::early) ready();
#pragma unroll
  for (int d = 0; d < Deep; ++d) fetch(d, lane + d * 32);
  if (Tile::early) ready();
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i) sum[i] = Acc(0);
  i64 begin = 0;
  for (; begin + Deep * 32 <= chunks; begin += Deep * 32)  // whole turns of the warp: no branch keeps a load from being early
#pragma unroll
    for (int d = 0; d < Deep; ++d) {
      multiply(held[d], begin + d * 32 + lane);
      fetch(d, begin + (Deep + d) * 32 + lane);
    }
#pragma unroll
  for (int d = 0; d < Deep; ++d)
    if (begin + d * 32 + lane < chunks) multiply(held[d], begin + d * 32 + lane);
  const i64 rest = chunks * Chunk + lane;
  if (rest < k)
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
      sum[i] += static_cast<Acc>(a[(i < m ? i : m - 1) * a_row + rest]) * static_cast<Acc>(column[rest]);
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
    for (int by = 16; by; by >>= 1) sum[i] += shuffle_xor(sum[i], by);
}

// A warp's column j of n. finish(sum, i, j): what becomes of one sum.
template <class Tile, class T, class Ready, class Finish>
AOTC_DI void vector_column(const T* a, i64 a_row, const T* b, i64 b_column, i64 j, i64 n, int m, i64 k, const Ready& ready, const Finish& finish) {
  if (j >= n) return ready();
  typename Tile::Sum sum[Tile::rows];
  const T* const column = b + j * b_column;
  if (aligned16(a) && aligned16(b)) vector_sums<Tile, true>(sum, a, a_row, column, m, k, ready);
  else vector_sums<Tile, false>(sum, a, a_row, column, m, k, ready);
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i)
    if (lane == i && i < m) finish(sum[i], static_cast<i64>(i), j);
}
