// Sorting along lines [outer, n, inner] digit by digit of the keys, the least digit first, by all processors: a block has a piece of a line, which it
// reads from memory and deals out there. A digit takes two launches: one counts how often each digit is in every piece, the next deals. Stable, so
// equal values stay in the order of their indices. NaN is larger than all else. Values of at most 32 bits, lines below 2^32 entries.
// Satish, Harris, Garland: Designing efficient sorting algorithms for manycore GPUs, IPDPS 2009 (counts of blocks, then places).
#pragma once
#include "sort_radix.cuh"

// Scratch: the entries of all lines twice, a key and an index as one word, then the counts of all pieces (sort_dealt_bytes in forms/cuda/sort_dealt.cpp).
template <class T, bool Descending, int Threads, int Each> struct SortDealt {
  typedef RadixKey<T, Descending> Key;
  static_assert(Key::bits == 32, "a key and an index are 64 bits");
  static_assert(Threads % kDigits == 0, "threads share the pieces of a digit");
  static constexpr int warps = Threads / 32, piece = Threads * Each, shares = Threads / kDigits;
  static constexpr int passes = (Key::bits - LowestKeyBit<T>::value + kDigitBits - 1) / kDigitBits;
  const T* x;
  T* values;
  i64* indices;
  i64 outer, n, inner;
  u64* scratch;

  AOTC_DI i64 pieces() const { return (n + piece - 1) / piece; }
  AOTC_DI u64* words(int pass) const { return scratch + (pass & 1) * outer * inner * n; }
  AOTC_DI u32* counts() const { return reinterpret_cast<u32*>(scratch + 2 * outer * inner * n); }
  static AOTC_DI u32 digit(u64 word, int pass) {
    return static_cast<u32>(word >> 32) >> (LowestKeyBit<T>::value + pass * kDigitBits) & (kDigits - 1);
  }

  // Launch 2 p counts the digits of pass p, launch 2 p + 1 deals by them. All threads call it.
  AOTC_DI void launch(int number) const {
    const i64 all = outer * inner * pieces();
    for (i64 block = blockIdx.x; block < all; block += gridDim.x) {
      if (number & 1) deal(block, number / 2);
      else count(block, number / 2);
      __syncthreads();
    }
  }

 private:
  // This thread's entries of a piece, which are 32 apart in its warp's; what is beyond the line is behind all else.
  AOTC_DI static int first_entry() { return (threadIdx.x >> 5) * 32 * Each + (threadIdx.x & 31); }
  AOTC_DI void entries(i64 block, int pass, u64 (&own)[Each]) const {
    const i64 line = block / pieces(), from = block % pieces() * piece, at = line / inner * n * inner + line % inner;
    const u64* const before = words(pass + 1) + line * n;
#pragma unroll
    for (int e = 0; e < Each; ++e) {
      const i64 i = from + first_entry() + e * 32;
      if (i >= n) own[e] = ~0ull;
      else if (pass == 0) own[e] = (~Key::of(x[at + i * inner]) & 0xffffffffull) << 32 | static_cast<u64>(i);
      else own[e] = before[i];
    }
  }

  AOTC_DI void count(i64 block, int pass) const {
    __shared__ int of_digit[kDigits];
    for (int d = threadIdx.x; d < kDigits; d += Threads) of_digit[d] = 0;
    u64 own[Each];
    entries(block, pass, own);
    __syncthreads();
    const i64 from = block % pieces() * piece;
#pragma unroll
    for (int e = 0; e < Each; ++e)
      if (from + first_entry() + e * 32 < n) atomicAdd(&of_digit[digit(own[e], pass)], 1);
    __syncthreads();
    for (int d = threadIdx.x; d < kDigits; d += Threads) counts()[block * kDigits + d] = static_cast<u32>(of_digit[d]);
  }

  AOTC_DI void deal(i64 block, int pass) const {
    __shared__ u32 of_warps[warps * kDigits], earlier[shares * kDigits], any[shares * kDigits];
    __shared__ int warp_sums[warps];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, d = threadIdx.x % kDigits, share = threadIdx.x / kDigits;
    const i64 line = block / pieces(), mine = block % pieces(), at = line / inner * n * inner + line % inner;
    u32* const of_warp = of_warps + warp * kDigits;
    for (int i = threadIdx.x; i < warps * kDigits; i += Threads) of_warps[i] = 0;
    u64 own[Each];
    entries(block, pass, own);
    u32 rank[Each];  // the lanes that have the same digit, then how many of the warp's equals come before
#pragma unroll
    for (int e = 0; e < Each; ++e) rank[e] = lanes_with(digit(own[e], pass));
    u32 lesser = 0, all = 0;  // of the digit: in the pieces before this one, and in all
    const u32* const of_line = counts() + line * pieces() * kDigits;
#pragma unroll 8
    for (i64 p = share; p < pieces(); p += shares) {
      const u32 c = of_line[p * kDigits + d];
      lesser += p < mine ? c : 0;
      all += c;
    }
    earlier[threadIdx.x] = lesser, any[threadIdx.x] = all;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < Each; ++e) {
      const u32 of = digit(own[e], pass), same = rank[e];
      rank[e] = of_warp[of] + __popc(same & ((1u << lane) - 1));
      __syncwarp();
      if (same >> lane == 1) of_warp[of] = rank[e] + 1;  // the last of them
      __syncwarp();
    }
    if (share == 0) {
#pragma unroll
      for (int s = 1; s < shares; ++s) lesser += earlier[s * kDigits + d], all += any[s * kDigits + d];
    }
    int total;
    const int start = count_before<Threads>(share == 0 ? static_cast<int>(all) : 0, total, warp_sums) + static_cast<int>(lesser);
    __syncthreads();
    if (share == 0) {
      u32 sum = static_cast<u32>(start);
#pragma unroll 8
      for (int w = 0; w < warps; ++w) {
        const u32 c = of_warps[w * kDigits + d];
        of_warps[w * kDigits + d] = sum;
        sum += c;
      }
    }
    __syncthreads();
    u64* const to = words(pass) + line * n;
#pragma unroll
    for (int e = 0; e < Each; ++e) {
      if (mine * piece + first_entry() + e * 32 >= n) continue;
      const i64 place = of_warp[digit(own[e], pass)] + rank[e];
      if (pass + 1 < passes) {
        to[place] = own[e];
      } else {
        const i64 index = static_cast<i64>(own[e] & 0xffffffffull);
        values[at + place * inner] = x[at + index * inner], indices[at + place * inner] = index;
      }
    }
  }
};
