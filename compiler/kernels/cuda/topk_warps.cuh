// Selection along short lines [outer, n, inner], a warp a line: each thread holds Held of its entries in registers, the best of all is taken
// k times. NaN is larger than all else; of equal values the first comes first.
#pragma once
#include "sort.cuh"

template <class T, bool Largest, int Held> AOTC_DI void topk_warps(const T* x, T* values, i64* indices, i64 outer, i64 n, i64 inner, i64 k) {
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
