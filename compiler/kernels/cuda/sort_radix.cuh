// Sorting along lines [outer, n, inner] digit by digit of the keys, the least digit first, a block or a cluster of blocks a line: every pass has the
// whole line in registers, key and index as one word, and deals it out to the shared memory of all its blocks. Stable, so equal values stay in
// the order of their indices. NaN is larger than all else. Lines of at most Blocks * Threads * Each entries, values of at most 32 bits.
// Satish, Harris, Garland: Designing efficient sorting algorithms for manycore GPUs, IPDPS 2009 (ranks within a block from ballots).
#pragma once
#include "sort.cuh"

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
// Shared memory of a block: its part of the line, then, 4 bytes each, how often every warp has each digit, the same of the block, where the block's
// first of each goes, and the sums of warps.
constexpr int sort_radix_bytes(int threads, int each) { return 8 * threads * each + 4 * ((threads / 32 + 2) * kDigits + 32); }

// The lowest bit in which keys (RadixKey) of values of a type may differ.
template <class T> struct LowestKeyBit { static constexpr int value = 0; };
template <> struct LowestKeyBit<f16> { static constexpr int value = 13; };
template <> struct LowestKeyBit<bf16> { static constexpr int value = 16; };

// The lanes of the warp that have the same digit.
AOTC_DI u32 lanes_with(u32 digit) {
  u32 same = 0xffffffffu;
#pragma unroll
  for (int b = 0; b < kDigitBits; ++b) {
    const bool one = (digit >> b & 1) != 0;
    const u32 ones = __ballot_sync(0xffffffffu, one);
    same &= one ? ones : ~ones;
  }
  return same;
}

template <class T, bool Descending, int Blocks, int Threads, int Each>
AOTC_DI void sort_radix(const T* x, T* values, i64* indices, i64 outer, i64 n, i64 inner) {
  typedef RadixKey<T, Descending> Key;
  static_assert(Key::bits == 32, "a key and an index are 64 bits");
  static_assert(Threads >= kDigits, "a thread a digit");
  constexpr int warps = Threads / 32, piece = Threads * Each;
  extern __shared__ __align__(16) char shared[];
  u64* const words = reinterpret_cast<u64*>(shared);
  u32* const of_warps = reinterpret_cast<u32*>(words + piece);
  u32 *const of_block = of_warps + warps * kDigits, *const starts = of_block + kDigits;
  int* const warp_sums = reinterpret_cast<int*>(starts + kDigits);
  if (!has_clusters && blockIdx.x % Blocks != 0) return;
  const ClusterTeam<Blocks> team;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u32* const mine = of_warps + warp * kDigits;
  const int first = warp * 32 * Each + lane;  // of this thread's entries of the piece, which are 32 apart
  const i64 from = team.rank() * i64(piece);
  for (i64 line = blockIdx.x / Blocks; line < outer * inner; line += gridDim.x / Blocks) {
    const i64 at = line / inner * n * inner + line % inner;
    u64 own[Each];
#pragma unroll
    for (int e = 0; e < Each; ++e) {
      const i64 i = from + first + e * 32;
      own[e] = i < n ? (~Key::of(x[at + i * inner]) & 0xffffffffull) << 32 | static_cast<u64>(i) : ~0ull;  // what fills the line up stays behind it
    }
    for (int shift = LowestKeyBit<T>::value; shift < Key::bits; shift += kDigitBits) {
      const auto digit = [&](u64 word) { return static_cast<u32>(word >> 32) >> shift & (kDigits - 1); };
      for (int d = threadIdx.x; d < warps * kDigits; d += Threads) of_warps[d] = 0;
      u32 rank[Each];  // the lanes that have the same digit, then how many of the warp's equals come before
#pragma unroll
      for (int e = 0; e < Each; ++e) rank[e] = lanes_with(digit(own[e]));
      __syncthreads();
#pragma unroll
      for (int e = 0; e < Each; ++e) {
        const u32 d = digit(own[e]), same = rank[e];
        rank[e] = mine[d] + __popc(same & ((1u << lane) - 1));
        __syncwarp();
        if (same >> lane == 1) mine[d] = rank[e] + 1;  // the last of them
        __syncwarp();
      }
      __syncthreads();
      if (threadIdx.x < kDigits) {
        u32 sum = 0;
#pragma unroll 8
        for (int w = 0; w < warps; ++w) {
          const u32 c = of_warps[w * kDigits + threadIdx.x];
          of_warps[w * kDigits + threadIdx.x] = sum;
          sum += c;
        }
        of_block[threadIdx.x] = sum;
      }
      team.barrier();
      u32 before = 0, all = 0;  // of this thread's digit: in the blocks before this one, and in all
      if (threadIdx.x < kDigits) {
#pragma unroll
        for (int b = 0; b < team.blocks; ++b) {
          const u32 c = team.blocks > 1 ? op_bitcast<u32>(load_of_block(reinterpret_cast<const float*>(of_block) + threadIdx.x, b))
                                        : of_block[threadIdx.x];
          before += b < team.rank() ? c : 0;
          all += c;
        }
      }
      int total;
      const int lesser = count_before<Threads>(static_cast<int>(all), total, warp_sums);
      if (threadIdx.x < kDigits) starts[threadIdx.x] = static_cast<u32>(lesser) + before;
      __syncthreads();
      for (int d = threadIdx.x; d < warps * kDigits; d += Threads) of_warps[d] += starts[d % kDigits];
      __syncthreads();
#pragma unroll
      for (int e = 0; e < Each; ++e) {
        const u32 place = mine[digit(own[e])] + rank[e];
        if (team.blocks > 1) store_to_block(words + place % piece, static_cast<int>(place / piece), own[e]);
        else words[place] = own[e];
      }
      team.barrier();  // all have been dealt out, and all blocks' counts are read
#pragma unroll
      for (int e = 0; e < Each; ++e) own[e] = words[first + e * 32];
    }
#pragma unroll
    for (int e = 0; e < Each; ++e) {
      const i64 place = from + first + e * 32, index = static_cast<i64>(own[e] & 0xffffffffull);
      if (place < n) values[at + place * inner] = x[at + index * inner], indices[at + place * inner] = index;
    }
  }
}
