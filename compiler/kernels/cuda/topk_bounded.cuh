// Selection of the k best of long lines [outer, n, inner], a block or the blocks of a cluster a line: of the best that each thread has seen, the
// kth bounds the line's kth; what reaches it is sorted. NaN is larger than all else; of equal values the first comes first.
#pragma once
#include "limits.cuh"
#include "sort.cuh"

constexpr int kTopkRoom = kTopkSorted;
constexpr int kTopkBytes = kTopkSharedBytes;

// Keys (RadixKey) with their indices: the largest first, of equal keys the first.
struct KeyRun {
  u64* key;
  i64* index;
  AOTC_DI void order(i64 i, i64 j, bool) const {
    const u64 a = key[i], b = key[j];
    const i64 ia = index[i], ib = index[j];
    if (b > a || (b == a && ib < ia)) key[i] = b, index[i] = ib, key[j] = a, index[j] = ia;
  }
};
struct BareKeys {
  u64* key;
  AOTC_DI void order(i64 i, i64 j, bool) const {
    const u64 a = key[i], b = key[j];
    if (b > a) key[i] = b, key[j] = a;
  }
};

// How many the first b blocks have of the best of a line of n, each of which has `each` of its entries and keeps k.
AOTC_DI i64 n_kept(i64 n, i64 k, i64 each, int b) {
  i64 kept = 0;
  for (int i = 0; i < b; ++i) kept += imin(k, imin(n, (i + 1) * each) - imin(n, i * each));
  return kept;
}

// Blocks: of a cluster; k * Blocks is at most kTopkRoom.
template <class T, bool Largest, int Threads, int Blocks>
AOTC_DI void topk_bounded(const T* x, T* values, i64* indices, i64 outer, i64 n, i64 inner, i64 k) {
  typedef RadixKey<T, Largest> Key;
  extern __shared__ __align__(16) char shared[];
  u64* const keys = reinterpret_cast<u64*>(shared);
  i64* const places = reinterpret_cast<i64*>(keys + kTopkRoom);
  int *const counts = reinterpret_cast<int*>(places + kTopkRoom), *const warp_sums = counts + 258;
  int& count = warp_sums[32];
  constexpr int blocks = has_clusters ? Blocks : 1;
  if (k <= 0 || (!has_clusters && blockIdx.x % Blocks != 0)) return;
  const int rank = blocks > 1 ? blockIdx.x % blocks : 0;
  const BlockTeam team;
  const KeyRun run{keys, places};
  for (i64 line = blockIdx.x / Blocks; line < outer * inner; line += gridDim.x / Blocks) {
    const T* const from = x + line / inner * n * inner + line % inner;
    const i64 each = (n + blocks - 1) / blocks, first = imin(n, rank * each), end = imin(n, first + each);
    const i64 want = imin(k, end - first);
    u64 best = 0;
#pragma unroll 4
    for (i64 i = first + threadIdx.x; i < end; i += Threads) {
      const u64 own = Key::of(from[i * inner]);
      best = own > best ? own : best;
    }
    keys[threadIdx.x] = best;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (want > 0 && want <= Threads) sort_run(BareKeys{keys}, Threads, true, team);
    const u64 bound = want > 0 && want <= Threads ? keys[want - 1] : 0;
    __syncthreads();
#pragma unroll 4
    for (i64 i = first + threadIdx.x; i < end; i += Threads) {
      const u64 own = Key::of(from[i * inner]);
      if (own < bound) continue;
      const int at = atomicAdd(&count, 1);
      if (at < kTopkRoom) keys[at] = own, places[at] = i;
    }
    __syncthreads();
    int n_best = count;
    if (n_best > kTopkRoom) {  // many equals: the key of the last one digit by digit, then what is better, and the first of its equals
      int need = static_cast<int>(want);
      const u64 key = last_key<Key, Threads>(from, inner, first, end, need, counts);
      put_best<Key, Threads>(from, inner, first, end, key, need, want, warp_sums, [&](i64 place, i64 i) { keys[place] = Key::of(from[i * inner]), places[place] = i; });
      n_best = static_cast<int>(want);
      __syncthreads();
    }
    sort_run(run, n_best, true, team);
    if (blocks > 1) {
      cluster_barrier();
      if (rank == 0)
        for (int b = 1; b < blocks; ++b) {
          const i64 theirs = imin(n, b * each), had = imin(k, imin(n, theirs + each) - theirs);
          for (i64 i = threadIdx.x; i < had; i += Threads) {
            const float* const key = reinterpret_cast<const float*>(keys + i);
            const float* const place = reinterpret_cast<const float*>(places + i);
            const u64 low = op_bitcast<u32>(load_of_block(key, b)), high = op_bitcast<u32>(load_of_block(key + 1, b));
            const u64 place_low = op_bitcast<u32>(load_of_block(place, b)), place_high = op_bitcast<u32>(load_of_block(place + 1, b));
            keys[n_kept(n, k, each, b) + i] = high << 32 | low;
            places[n_kept(n, k, each, b) + i] = static_cast<i64>(place_high << 32 | place_low);
          }
        }
      cluster_barrier();  // what the others have has been read
      if (rank == 0) sort_run(run, n_kept(n, k, each, blocks), true, team);
    }
    if (rank == 0) {
      const i64 to = line / inner * k * inner + line % inner;
      for (i64 i = threadIdx.x; i < k; i += Threads) values[to + i * inner] = from[places[i] * inner], indices[to + i * inner] = places[i];
    }
    __syncthreads();
  }
}
