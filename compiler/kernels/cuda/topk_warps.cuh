// Selection along short lines [outer, n, inner], a warp a line: each thread holds Held of its entries in registers, the best of all is taken
// k times. NaN is larger than all else; of equal values the first comes first.
#pragma once
#include "limits.cuh"
#include "sort.cuh"

template <class T, bool Largest, int Held> AOTC_DI void topk_warps(const T* x, T* values, i64* indices, i64 outer, i64 n, i64 inner, i64 k) {
  static_assert(Held <= kTopkWarpHeld, "a bit each");
  const int lane = threadIdx.x & 31, warps = blockDim.x / 32;
  for (i64 line = i64(blockIdx.x) * warps + threadIdx.x / 32; line < outer * inner; line += i64(gridDim.x) * warps) {
    const T* const from = x + line / inner * n * inner + line % inner;
    const i64 to = line / inner * k * inner + line % inner;
    T held[Held];
    u32 left = 0;  // bit h: entry h * 32 + lane is not taken yet
#pragma unroll
    for (int h = 0; h < Held; ++h) {
      const i64 i = h * 32 + lane;
      held[h] = i < n ? from[i * inner] : T();
      left |= static_cast<u32>(i < n) << h;
    }
    for (i64 taken = 0; taken < k; ++taken) {
      T best = T();
      int at = -1;
      const auto better = [&](T v, int i) { return i >= 0 && (at < 0 || before(v, i, best, at, Largest)); };
#pragma unroll
      for (int h = 0; h < Held; ++h)
        if (left >> h & 1 && better(held[h], h * 32 + lane)) best = held[h], at = h * 32 + lane;
#pragma unroll
      for (int m = 16; m; m >>= 1) {
        const T v = shuffle_xor(best, m);
        const int i = shuffle_xor(at, m);
        if (better(v, i)) best = v, at = i;
      }
      if (at % 32 == lane) left &= ~(1u << at / 32);
      if (lane == 0) values[to + taken * inner] = best, indices[to + taken * inner] = at;
    }
  }
}

// The k best of a line by a warp, k at most kTopkWarpPicked: the kth of the best that each lane has seen is a bound; what is better, and the first of its
// equals, are sorted. Where too many are better, the best that is left is looked for k times.
template <class T, bool Largest, int Threads> AOTC_DI void topk_warps_bounded(const T* x, T* values, i64* indices, i64 outer, i64 n, i64 inner, i64 k) {
  typedef RadixKey<T, Largest> Key;
  constexpr int kRoom = 64;  // a lane has two of them
  __shared__ u64 keys[Threads / 32][kRoom];
  __shared__ int places[Threads / 32][kRoom];
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = Threads / 32;
  for (i64 line = i64(blockIdx.x) * warps + warp; line < outer * inner; line += i64(gridDim.x) * warps) {
    const T* const from = x + line / inner * n * inner + line % inner;
    const i64 to = line / inner * k * inner + line % inner;
    // The order of candidates: the larger key, of equal keys the lesser place; -1 is no candidate.
    const auto sooner = [](u64 a, int ia, u64 b, int ib) { return ib < 0 || (ia >= 0 && (a > b || (a == b && ia < ib))); };
    u64 best = 0;
    int seen = -1;
#pragma unroll 4
    for (i64 i = lane; i < n; i += 32) {
      const u64 own = Key::of(from[i * inner]);
      if (own > best || seen < 0) best = own, seen = static_cast<int>(i);
    }
    // The lanes' bests in order, the first one first.
    u64 sorted = best;
    int of = seen;
    for (int half = 1; half < 32; half *= 2)
      for (int mask = 2 * half - 1, first = 1; mask > 0; mask = first ? half / 2 : mask / 2, first = 0) {
        const u64 other = shuffle_xor(sorted, mask);
        const int other_of = shuffle_xor(of, mask);
        const bool lower = (lane ^ mask) > lane;
        if (sooner(other, other_of, sorted, of) == lower) sorted = other, of = other_of;
      }
    const int wanted = static_cast<int>(k);
    const bool bounded = __shfl_sync(0xffffffffu, static_cast<u32>(of), wanted - 1) != 0xffffffffu;
    const u64 bound = bounded ? shuffle_of(sorted, wanted - 1) : 0;
    int n_better = 0, n_equal = 0;  // better ones from the front, equals from the back
    for (i64 base = 0; base < n; base += 32) {
      const i64 i = base + lane;
      const u64 own = i < n ? Key::of(from[i * inner]) : 0;
      const u32 better = __ballot_sync(0xffffffffu, i < n && own > bound), equal = __ballot_sync(0xffffffffu, i < n && own == bound);
      const u32 before = (1u << lane) - 1;
      if (better >> lane & 1) {
        const int at = n_better + __popc(better & before);
        if (at < 32) keys[warp][at] = own, places[warp][at] = static_cast<int>(i);
      }
      if (equal >> lane & 1) {
        const int at = n_equal + __popc(equal & before);
        if (at < 32) keys[warp][kRoom - 1 - at] = own, places[warp][kRoom - 1 - at] = static_cast<int>(i);
      }
      n_better += __popc(better), n_equal += __popc(equal);
    }
    __syncwarp();
    if (n_better <= 32) {
      // Two runs: the better ones, to be sorted, and equals, which are in order.
      u64 key = lane < n_better ? keys[warp][lane] : 0;
      int place = lane < n_better ? places[warp][lane] : -1;
      for (int half = 1; half < 32; half *= 2)
        for (int mask = 2 * half - 1, first = 1; mask > 0; mask = first ? half / 2 : mask / 2, first = 0) {
          const u64 other = shuffle_xor(key, mask);
          const int other_place = shuffle_xor(place, mask);
          const bool lower = (lane ^ mask) > lane;
          if (sooner(other, other_place, key, place) == lower) key = other, place = other_place;
        }
      if (lane < wanted) {
        if (lane >= n_better) place = places[warp][kRoom - 1 - (lane - n_better)];
        values[to + lane * inner] = from[place * inner], indices[to + lane * inner] = place;
      }
    } else {
      u64 last = 0;
      int last_place = -1;  // the one taken before
      for (int taken = 0; taken < wanted; ++taken) {
        u64 own_best = 0;
        int own_place = -1;
        for (i64 i = lane; i < n; i += 32) {
          const u64 own = Key::of(from[i * inner]);
          const int at = static_cast<int>(i);
          if (taken > 0 && !sooner(last, last_place, own, at)) continue;
          if (sooner(own, at, own_best, own_place)) own_best = own, own_place = at;
        }
#pragma unroll
        for (int m = 16; m; m >>= 1) {
          const u64 other = shuffle_xor(own_best, m);
          const int other_place = shuffle_xor(own_place, m);
          if (sooner(other, other_place, own_best, own_place)) own_best = other, own_place = other_place;
        }
        last = own_best, last_place = own_place;
        if (lane == 0) values[to + taken * inner] = from[last_place * inner], indices[to + taken * inner] = last_place;
      }
    }
    __syncwarp();
  }
}
