// Matrix products of few rows: out(i, j) = finish(sum_k a(i, k) * b(k, j), i, j). A warp, or several that share its k, streams a column of b
// once, 16 bytes a lane, and multiplies it with every row of a, which stays in the cache. k is the contiguous index of both. Twins are
// several such products of one a: a column of each is summed together. Mates are two columns of one b that are finished together.
#pragma once
#include "device.cuh"
#include "limits.cuh"

// Rows: of a, at most. Deep: chunks of 16 bytes of a column that a lane has under way. Early: no step writes b, so that a column's first
// chunks come before the step before has ended. Split: neighbouring warps that share a column.
template <class T, class Acc, int Rows, int Deep, bool Early, int Warps, int Split, int Twins> struct VectorTile {
  static_assert(Rows <= kVectorRows, "rows are in registers");
  typedef T Element;
  typedef Acc Sum;
  static constexpr int rows = Rows, deep = Deep, chunk = 16 / int(sizeof(T)), warps = Warps, split = Split, columns = Warps / Split, twins = Twins;
  static constexpr bool early = Early;
};

// The sums over the warp's part of k of one column of each twin, in every lane: `a` and its rows' distance, `column` of b. Whole: all can be
// read 16 bytes at a time. ready(): called once, before a is read and, unless it is early, b.
template <class Tile, bool Whole, class T, class Ready>
AOTC_DI void vector_sums(typename Tile::Sum (&sum)[Tile::twins][Tile::rows], const T* a, i64 a_row, const T* const (&column)[Tile::twins], int m,
                         i64 k, const Ready& ready) {
  typedef typename Tile::Sum Acc;
  constexpr int Chunk = Whole ? Tile::chunk : 1, Deep = Tile::deep, Step = 32 * Chunk;  // elements from one chunk of a lane to its next
  const int lane = threadIdx.x & 31, part = Tile::split > 1 ? (threadIdx.x >> 5) % Tile::split : 0;
  // Parts are equal where they can be: their size is then as constant as k.
  const i64 all = k / Chunk, share = all / Tile::split, first = part * share;
  const i64 chunks = all % Tile::split == 0 || part + 1 < Tile::split ? share : all - first;
  const i64 turns = chunks / (Deep * 32);
  const int left = static_cast<int>(chunks % (Deep * 32)) - lane;  // the lane has chunks d * 32 < left after those turns
  const T *x = a + (first + lane) * Chunk, *w[Tile::twins];
#pragma unroll
  for (int t = 0; t < Tile::twins; ++t) w[t] = column[t] + (first + lane) * Chunk;
  Wide<T, Chunk> held[Deep][Tile::twins];
  auto fetch = [&](int d, int at) {
#pragma unroll
    for (int t = 0; t < Tile::twins; ++t)
      if constexpr (Whole) held[d][t] = load_once<Tile::early, T, Chunk>(w[t] + at * Step);  // a stays in the first cache
      else held[d][t] = load_wide<T, Chunk>(w[t] + at * Step);
  };
  auto multiply = [&](int d) {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const Wide<T, Chunk> y = load_wide<T, Chunk>(x + (i < m ? i : m - 1) * a_row + d * Step);
#pragma unroll
      for (int t = 0; t < Tile::twins; ++t)
#pragma unroll
        for (int e = 0; e < Chunk; ++e) sum[t][i] += static_cast<Acc>(y.v[e]) * static_cast<Acc>(held[d][t].v[e]);
    }
  };
  if (!Tile::early) ready();
#pragma unroll
  for (int d = 0; d < Deep; ++d)
    if (turns > 0 || d * 32 < left) fetch(d, d);
  if (Tile::early) ready();
#pragma unroll
  for (int t = 0; t < Tile::twins; ++t)
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) sum[t][i] = Acc(0);
  for (i64 turn = 1; turn <= turns; ++turn) {
#pragma unroll
    for (int d = 0; d < Deep; ++d) {
      if (Tile::rows > 2) __syncwarp();  // a chunk's rows are loaded after the one before: together they would not fit in registers
      multiply(d);
      if (turn < turns || d * 32 < left) fetch(d, Deep + d);
    }
    x += Deep * Step;
#pragma unroll
    for (int t = 0; t < Tile::twins; ++t) w[t] += Deep * Step;
  }
#pragma unroll
  for (int d = 0; d < Deep; ++d)
    if (d * 32 < left) multiply(d);
  const i64 rest = all * Chunk + lane;
  if (part + 1 == Tile::split && rest < k)
#pragma unroll
    for (int t = 0; t < Tile::twins; ++t)
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i)
        sum[t][i] += static_cast<Acc>(a[(i < m ? i : m - 1) * a_row + rest]) * static_cast<Acc>(column[t][rest]);
#pragma unroll
  for (int t = 0; t < Tile::twins; ++t)
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
      for (int by = 16; by; by >>= 1) sum[t][i] += shuffle_xor(sum[t][i], by);
}

// Columns [j, j + Tile::columns) of n, all threads of the block. finish(sums, i, j): what becomes of one sum of each twin. Mates (then the
// tile's twins are those): n counts pairs, of columns j and j + Mates where j / Mates is even; finish is told of each, its own sum first.
// ahead(i, j): what finish takes beside the sums, called after ready() and before the products, by the thread that finishes.
template <class Tile, int Mates, class T, class Ready, class Ahead, class Finish>
AOTC_DI void vector_columns(const T* a, i64 a_row, const T* const (&b)[Tile::twins], const i64 (&b_column)[Tile::twins], i64 j, i64 n, int m, i64 k,
                            const Ready& ready, const Ahead& ahead, const Finish& finish) {
  typedef typename Tile::Sum Acc;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  j += warp / Tile::split;
  const bool here = j < n;
  if constexpr (Mates > 0) j += j / Mates * Mates;
  const int row = lane & 15, mate = lane >> 4;  // that the lane finishes; 8 rows at most
  const bool finishes = here && row < m && mate < (Mates ? 2 : 1) && warp % Tile::split == 0;
  auto held = decltype(ahead(i64(0), i64(0)))();
  auto before = [&] {
    ready();
    if (finishes) held = ahead(row, j + mate * Mates);
  };
  Acc sum[Tile::twins][Tile::rows];
  if (here) {
    const T* column[Tile::twins];
    bool whole = aligned16(a);
#pragma unroll
    for (int t = 0; t < Tile::twins; ++t) column[t] = b[t] + (j + (Mates ? t * Mates : 0)) * b_column[t], whole = whole && aligned16(b[t]);
    if (whole) vector_sums<Tile, true>(sum, a, a_row, column, m, k, before);
    else vector_sums<Tile, false>(sum, a, a_row, column, m, k, before);
  } else {
    ready();
  }
  if constexpr (Tile::split > 1) {
    __shared__ Acc parts[Tile::warps][Tile::twins][Tile::rows];
    if (here && lane == 0)
#pragma unroll
      for (int t = 0; t < Tile::twins; ++t)
#pragma unroll
        for (int i = 0; i < Tile::rows; ++i) parts[warp][t][i] = sum[t][i];
    __syncthreads();
    if (finishes) {
      Acc all[Tile::twins];
#pragma unroll
      for (int t = 0; t < Tile::twins; ++t) {
        const int from = Mates ? t ^ mate : t;
        all[t] = parts[warp][from][row];
#pragma unroll
        for (int p = 1; p < Tile::split; ++p) all[t] += parts[warp + p][from][row];
      }
      finish(all, held, static_cast<i64>(row), j + mate * Mates);
    }
    __syncthreads();  // the parts have been read
  } else if (finishes) {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
      if (row == i) {
        Acc own[Tile::twins];
#pragma unroll
        for (int t = 0; t < Tile::twins; ++t) own[t] = Mates && mate ? sum[Tile::twins - 1 - t][i] : sum[t][i];
        finish(own, held, static_cast<i64>(i), j + mate * Mates);
      }
  }
}
