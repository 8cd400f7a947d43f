// Sorting along lines [outer, n, inner] of values of at most 32 bits, a block or a cluster of blocks a line: a value's key and its index are one
// word, so that equal values stay in the order of their indices. NaN is larger than all else. Lines of less than 2^32 entries.
#pragma once
#include "sort.cuh"

// Words that lie `step` apart.
struct Words {
  u64* word;
  i64 step;
  AOTC_DI void order(i64 i, i64 j, bool) const {
    const u64 a = word[i * step], b = word[j * step];
    if (b < a) word[i * step] = b, word[j * step] = a;
  }
};

// A piece of Threads * Each words: each thread has Each neighbours in registers. exchange: room for all in shared memory.
template <int Threads, int Each> struct PackedPiece {
  static constexpr int piece = Threads * Each;
  u64 own[Each];
  u64* exchange;

  // Entry i and i ^ Mask in order, the lesser one at the lesser place. All threads call it.
  template <int Mask> AOTC_DI void order() {
    constexpr int of_thread = Mask & (Each - 1), threads = Mask / Each;
    u64 other[Each];
    if constexpr (threads == 0) {
#pragma unroll
      for (int e = 0; e < Each; ++e) other[e] = own[e ^ of_thread];
    } else if constexpr (threads < 32) {
#pragma unroll
      for (int e = 0; e < Each; ++e) other[e] = shuffle_xor(own[e ^ of_thread], threads);
    } else {
      __syncthreads();
#pragma unroll
      for (int e = 0; e < Each; ++e) exchange[e * Threads + threadIdx.x] = own[e];
      __syncthreads();
#pragma unroll
      for (int e = 0; e < Each; ++e) other[e] = exchange[(e ^ of_thread) * Threads + (threadIdx.x ^ threads)];
    }
#pragma unroll
    for (int e = 0; e < Each; ++e) {
      constexpr int bit = (Mask & (Mask + 1)) == 0 ? (Mask + 1) / 2 : Mask;  // the highest: of ones, or the only one
      const bool first = ((int(threadIdx.x) * Each + e) & bit) == 0;
      const bool less = own[e] < other[e];
      own[e] = less == first ? own[e] : other[e];
    }
  }
  // Runs of 2 * Half words whose halves are in order, the second one's partners counted backwards at first.
  template <int Stride> AOTC_DI void halve() {
    if constexpr (Stride > 0) {
      order<Stride>();
      halve<Stride / 2>();
    }
  }
  template <int Half> AOTC_DI void merge() {
    if constexpr (Half < piece) {
      order<2 * Half - 1>();
      halve<Half / 2>();
      merge<2 * Half>();
    }
  }
  AOTC_DI void sort() { merge<1>(); }
  AOTC_DI void finish() { halve<piece / 2>(); }
};

// The words of lines of more than a piece lie in `indices` meanwhile.
template <class T, bool Descending, int Blocks, int Threads, int Each>
AOTC_DI void sort_packed(const T* x, T* values, i64* indices, i64 outer, i64 n, i64 inner) {
  typedef RadixKey<T, Descending> Key;
  typedef PackedPiece<Threads, Each> Piece;
  static_assert(Key::bits == 32, "a key and an index are 64 bits");
  extern __shared__ __align__(16) char shared[];
  if (!has_clusters && blockIdx.x % Blocks != 0) return;
  const ClusterTeam<Blocks> team;
  Piece p;
  p.exchange = reinterpret_cast<u64*>(shared);
  for (i64 line = blockIdx.x / Blocks; line < outer * inner; line += gridDim.x / Blocks) {
    const i64 at = line / inner * n * inner + line % inner;
    const Words all{reinterpret_cast<u64*>(indices + at), inner};
    // Pieces of the line, from x or from where they were kept; the last time results are written.
    auto in_pieces = [&](bool fresh, bool last) {
      for (i64 from = team.rank() * i64(Piece::piece); from < n; from += team.blocks * i64(Piece::piece)) {
        const i64 mine = from + threadIdx.x * Each;
#pragma unroll
        for (int e = 0; e < Each; ++e) {
          const i64 i = mine + e;
          p.own[e] = i >= n ? ~0ull : fresh ? (~Key::of(x[at + i * inner]) & 0xffffffffull) << 32 | static_cast<u64>(i) : all.word[i * inner];
        }
        if (fresh) p.sort();
        else p.finish();
#pragma unroll
        for (int e = 0; e < Each; ++e) {
          const i64 i = mine + e, index = static_cast<i64>(p.own[e] & 0xffffffffull);
          if (i >= n) continue;
          if (last) values[at + i * inner] = x[at + index * inner], indices[at + i * inner] = index;
          else all.word[i * inner] = p.own[e];
        }
      }
    };
    in_pieces(true, n <= Piece::piece);
    for (i64 half = Piece::piece; half < n; half *= 2) {
      team.barrier();
      fold_runs(all, n, half, false, team);
      for (i64 stride = half / 2; stride >= Piece::piece; stride /= 2) halve_runs(all, n, stride, false, team);
      in_pieces(false, 2 * half >= n);
    }
    __syncthreads();
  }
}
