// Sorting and selection along lines [outer, n, inner], a block or a cluster of blocks a line. NaN is larger than all else; equal values stay in the order of their
// indices, so that results are the same for every run.
#pragma once
#include "device.cuh"

// Strictly before in the wanted order.
template <class T> AOTC_DI bool before(T a, T b, bool descending) {
  const typename compute<T>::type x = a, y = b;
  if (descending) return x > y || (x != x && y == y);
  return x < y || (y != y && x == x);
}
template <class T, class I> AOTC_DI bool before(T a, I ia, T b, I ib, bool descending) {
  return before(a, b, descending) || (!before(b, a, descending) && ia < ib);
}

// A line of values with their indices; element i at i * step.
template <class T, class I> struct Entries {
  T* value;
  I* index;
  i64 step;
  // Puts entries i and j into order.
  AOTC_DI void order(i64 i, i64 j, bool descending) const {
    const T a = value[i * step], b = value[j * step];
    const I ia = index[i * step], ib = index[j * step];
    if (before(b, ib, a, ia, descending)) {
      value[i * step] = b, index[i * step] = ib;
      value[j * step] = a, index[j * step] = ia;
    }
  }
};
// Threads that sort together: those of one block, or of the blocks of a cluster.
struct BlockTeam {
  AOTC_DI i64 first() const { return threadIdx.x; }
  AOTC_DI i64 size() const { return blockDim.x; }
  AOTC_DI void barrier() const { __syncthreads(); }
};
template <int Blocks> struct ClusterTeam {
  static constexpr int blocks = has_clusters ? Blocks : 1;
  AOTC_DI int rank() const { return blocks > 1 ? blockIdx.x % blocks : 0; }
  AOTC_DI i64 first() const { return rank() * i64(blockDim.x) + threadIdx.x; }
  AOTC_DI i64 size() const { return i64(blocks) * blockDim.x; }
  AOTC_DI void barrier() const {
    if (blocks > 1) cluster_barrier();
    else __syncthreads();
  }
};

// A run has order(i, j, descending), which puts two of its entries into order.
// A bitonic network with every comparison upwards: what would be beyond the end is where it belongs, so any n will do.
// Merges runs of `half` entries, the second of each two read backwards: the first comparisons.
template <class Run, class Team> AOTC_DI void fold_runs(const Run& x, i64 n, i64 half, bool descending, const Team& team) {
  const i64 pairs = ((n + 2 * half - 1) & -(2 * half)) / 2;
  for (i64 p = team.first(); p < pairs; p += team.size()) {
    const i64 at = p & (half - 1), from = (p - at) * 2, j = from + 2 * half - 1 - at;
    if (j < n) x.order(from + at, j, descending);
  }
  team.barrier();
}
// The others, `stride` apart, for pairs of n entries.
template <class Run, class Team> AOTC_DI void halve_runs(const Run& x, i64 n, i64 stride, bool descending, const Team& team) {
  const i64 pairs = ((n + 2 * stride - 1) & -(2 * stride)) / 2;
  for (i64 p = team.first(); p < pairs; p += team.size()) {
    const i64 at = p & (stride - 1), i = (p - at) * 2 + at;
    if (i + stride < n) x.order(i, i + stride, descending);
  }
  team.barrier();
}
// Sorts n entries in place. All threads of the team call it.
template <class Run, class Team> AOTC_DI void sort_run(const Run& x, i64 n, bool descending, const Team& team) {
  for (i64 half = 1; half < n; half *= 2) {
    fold_runs(x, n, half, descending, team);
    for (i64 stride = half / 2; stride > 0; stride /= 2) halve_runs(x, n, stride, descending, team);
  }
}

// Lines in the results, a cluster each; what happens within pieces of `piece` entries (a power of two), in dynamic shared memory: 4 bytes an
// index, then the values from a multiple of 8 on. A line that is one piece stays there.
template <class T, bool Descending, int Blocks> AOTC_DI void sort_lines(const T* x, T* values, i64* indices, i64 outer, i64 n, i64 inner, i64 piece) {
  extern __shared__ __align__(16) char shared[];
  if (!has_clusters && blockIdx.x % Blocks != 0) return;
  const ClusterTeam<Blocks> team;
  const BlockTeam block;
  for (i64 line = blockIdx.x / Blocks; line < outer * inner; line += gridDim.x / Blocks) {
    const i64 at = line / inner * n * inner + line % inner;
    const Entries<T, i64> all{values + at, indices + at, inner};
    // f(entries of a piece, how many) in shared memory; `fresh`: from x.
    auto in_pieces = [&](bool fresh, auto f) {
      for (i64 from = team.rank() * piece; from < n; from += team.blocks * piece) {
        const i64 count = imin(piece, n - from);
        const Entries<T, int> e{reinterpret_cast<T*>(shared + (4 * count + 7) / 8 * 8), reinterpret_cast<int*>(shared), 1};
        for (i64 i = threadIdx.x; i < count; i += blockDim.x) {
          const i64 place = (from + i) * inner;
          e.value[i] = fresh ? x[at + place] : all.value[place], e.index[i] = static_cast<int>(fresh ? from + i : all.index[place]);
        }
        __syncthreads();
        f(e, count);
        for (i64 i = threadIdx.x; i < count; i += blockDim.x) all.value[(from + i) * inner] = e.value[i], all.index[(from + i) * inner] = e.index[i];
        __syncthreads();
      }
      team.barrier();
    };
    in_pieces(true, [&](const Entries<T, int>& e, i64 count) { sort_run(e, count, Descending, block); });
    for (i64 half = piece; half < n; half *= 2) {
      fold_runs(all, n, half, Descending, team);
      for (i64 stride = half / 2; stride >= piece; stride /= 2) halve_runs(all, n, stride, Descending, team);
      in_pieces(false, [&](const Entries<T, int>& e, i64 count) {
        for (i64 stride = piece / 2; stride > 0; stride /= 2) halve_runs(e, count, stride, Descending, block);
      });
    }
  }
}

// Keys that order as the values do, the largest first when Largest; equal values have equal keys.
template <class T, bool Largest> struct RadixKey {
  typedef typename compute<T>::type C;
  static constexpr bool wide = sizeof(C) == 8;
  static constexpr int bits = wide ? 64 : 32;
  static AOTC_DI u64 of(T v) {
    u64 k;
    if constexpr (is_floating<T>::value) {
      const C c = static_cast<C>(v) == C(0) ? C(0) : static_cast<C>(v);  // one zero
      if constexpr (wide) {
        const u64 b = op_bitcast<u64>(c);
        k = c != c ? ~0ull : b >> 63 ? ~b : b | 0x8000000000000000ull;
      } else {
        const u32 b = op_bitcast<u32>(c);
        k = c != c ? 0xffffffffu : b >> 31 ? ~b : b | 0x80000000u;
      }
    } else if constexpr (wide) {
      k = static_cast<u64>(v) ^ 0x8000000000000000ull;
    } else {
      k = static_cast<u32>(static_cast<int>(v)) ^ 0x80000000u;
    }
    if (!Largest) k = ~k & (wide ? ~0ull : 0xffffffffull);
    return k;
  }
};

// The sum of v over the threads before this one, and over all. All threads call it; Threads of them; warp_sums: one a warp, in shared memory.
template <int Threads> AOTC_DI int count_before(int v, int& all, int* warp_sums) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int sum = v;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const int other = static_cast<int>(__shfl_up_sync(0xffffffffu, static_cast<u32>(sum), by));
    if (lane >= by) sum += other;
  }
  __syncthreads();
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int earlier = 0;
  all = 0;
#pragma unroll
  for (int w = 0; w < Threads / 32; ++w) {
    if (w < warp) earlier += warp_sums[w];
    all += warp_sums[w];
  }
  return earlier + sum - v;
}

// Of keys [first, end) of a line, the one that is the need-th from the highest on, digit by digit; then `need` of its equals are among those.
// counts: 256 and two more.
template <class Key, int Threads, class T> AOTC_DI u64 last_key(const T* from, i64 inner, i64 first, i64 end, int& need, int* counts) {
  u64 key = 0, decided = 0;
  for (int shift = Key::bits - 8; shift >= 0; shift -= 8) {
    for (int d = threadIdx.x; d < 256; d += Threads) counts[d] = 0;
    __syncthreads();
    for (i64 i = first + threadIdx.x; i < end; i += Threads) {
      const u64 own = Key::of(from[i * inner]);
      if ((own & decided) == key) atomicAdd(&counts[static_cast<int>(own >> shift) & 255], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int d = 255, above = 0;
      for (; d > 0 && above + counts[d] < need; --d) above += counts[d];
      counts[256] = d, counts[257] = above;
    }
    __syncthreads();
    need -= counts[257];
    key |= static_cast<u64>(counts[256]) << shift, decided |= 255ull << shift;
  }
  return key;
}

// put(place, i) for each key that is better than `key`, and for the first `need` of its equals, k together.
template <class Key, int Threads, class T, class Put>
AOTC_DI void put_best(const T* from, i64 inner, i64 first, i64 end, u64 key, int need, i64 k, int* warp_sums, const Put& put) {
  int better = 0, equal = 0;
  for (i64 i0 = first; i0 < end; i0 += Threads) {
    const i64 i = i0 + threadIdx.x;
    const u64 own = i < end ? Key::of(from[i * inner]) : 0;
    const bool is_better = i < end && own > key, is_equal = i < end && own == key;
    int all_better, all_equal;
    const int b = better + count_before<Threads>(is_better, all_better, warp_sums), e = equal + count_before<Threads>(is_equal, all_equal, warp_sums);
    const i64 place = is_better ? b : is_equal && e < need ? k - need + e : -1;
    if (place >= 0) put(place, i);
    better += all_better, equal += all_equal;
  }
}

// The k best of each line, in order: the key of the last one digit by digit, then those that are better and the first of its equals.
template <class T, bool Largest, int Threads>
AOTC_DI void topk_lines(const T* x, T* values, i64* indices, i64 outer, i64 n, i64 inner, i64 k) {
  typedef RadixKey<T, Largest> Key;
  __shared__ int counts[258], warp_sums[Threads / 32];
  if (k <= 0) return;
  for (i64 line = blockIdx.x; line < outer * inner; line += gridDim.x) {
    const T* const from = x + line / inner * n * inner + line % inner;
    const i64 to = line / inner * k * inner + line % inner;
    int need = static_cast<int>(k);
    const u64 key = last_key<Key, Threads>(from, inner, 0, n, need, counts);
    put_best<Key, Threads>(from, inner, 0, n, key, need, k, warp_sums,
                           [&](i64 place, i64 i) { values[to + place * inner] = from[i * inner], indices[to + place * inner] = i; });
    __syncthreads();
    sort_run(Entries<T, i64>{values + to, indices + to, inner}, k, Largest, BlockTeam());
  }
}
