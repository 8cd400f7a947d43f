// Reductions and scans over a row that the blocks of a cluster share, each a run of neighbours, in the order of their ranks. Every warp stores its part
// into the shared memory of all blocks, so that one barrier of the cluster is enough. All threads of the cluster must call them.
#pragma once
#include "gemm.cuh"

// What is handed on, in dynamic shared memory: a value of each warp. Two calls after each other take two such places; a third may take the first's again.
constexpr int kHandedBytes = 16;  // of one, the largest reducer's
template <class R, int Threads, int Blocks> struct HandedOn {
  typedef typename R::V V;
  static constexpr int warps = Threads / 32, all = warps * Blocks, words = (sizeof(V) + 7) / 8;
  static_assert(sizeof(V) <= kHandedBytes, "a value has its place");
  u64* values;

  AOTC_DI static int of_warp() { return static_cast<int>(blockIdx.x % Blocks) * warps + static_cast<int>(threadIdx.x >> 5); }
  AOTC_DI V at(int i) const {
    V v;
    memcpy(&v, values + i * words, sizeof v);
    return v;
  }
  // The warp's value, which each of its lanes has, to all blocks.
  AOTC_DI void put(V v) const {
    u64 w[words] = {};
    memcpy(w, &v, sizeof v);
    const int to = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < words; ++i)
      if (to < Blocks) store_to_block(values + of_warp() * words + i, to, w[i]);
    cluster_barrier();
  }
};

// Every thread of the cluster gets the result.
template <class R, int Threads, int Blocks> AOTC_DI typename R::V row_reduce(void* place, typename R::V v) {
  const HandedOn<R, Threads, Blocks> of{static_cast<u64*>(place)};
  of.put(of_lanes<R>(v));
  v = R::init();
#pragma unroll
  for (int from = 0; from < of.all; from += 32)
    if (const int i = from + static_cast<int>(threadIdx.x & 31); i < of.all) v = R::combine(v, of.at(i));
  return of_lanes<R>(v);
}

// The running reduction of the values of the threads of the cluster before this one.
template <class R, int Threads, int Blocks> AOTC_DI typename R::V row_scan_before(void* place, typename R::V v) {
  typedef typename R::V V;
  const HandedOn<R, Threads, Blocks> of{static_cast<u64*>(place)};
  constexpr int each = (of.all + 31) / 32;  // warps of a lane
  const int lane = threadIdx.x & 31, mine = of.of_warp();
  v = scan_of_lanes<R>(v, 32);
  const V earlier_lanes = shuffle_up(v, 1);
  of.put(shuffle_of(v, 31));
  V sums = R::init();
#pragma unroll
  for (int i = 0; i < each; ++i)
    if (lane * each + i < of.all) sums = R::combine(sums, of.at(lane * each + i));
  sums = scan_of_lanes<R>(sums, 32);
  const int owner = mine / each;
  const V earlier = shuffle_of(sums, owner > 0 ? owner - 1 : 0);
  V before = owner > 0 ? earlier : R::init();
  for (int i = owner * each; i < mine; ++i) before = R::combine(before, of.at(i));
  return lane > 0 ? R::combine(before, earlier_lanes) : before;
}
