// Products of a warpgroup on Hopper's tensor cores: how operands lie in shared memory.
#pragma once
#include "gemm.cuh"
#include "hopper_ptx.cuh"

template <int N> struct constant { static constexpr int value = N; };

// An operand in shared memory, as copies with a swizzle of 128 bytes write it: rows of 128 bytes, groups of 8 rows, at a multiple of 1024.
// Along k: a row is 128 bytes of k of one line. Across k: a row is 64 lines at one k, the next 64 lines follow next_lines bytes later (after 64
// rows, unless said otherwise).
AOTC_DI u64 operand_along_k(u32 at) { return u64((at & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62); }
AOTC_DI u64 operand_across_k(u32 at, int next_lines = 8192) {
  return u64((at & 0x3ffff) >> 4) | (u64(next_lines >> 4) << 16) | (64ull << 32) | (1ull << 62);
}
template <bool AlongK> AOTC_DI u64 operand_at(u32 at) { return AlongK ? operand_along_k(at) : operand_across_k(at); }
template <bool AlongK> constexpr u64 kOperandStep = AlongK ? 32 >> 4 : 16 * 128 >> 4;  // to the k of the next instruction
constexpr u64 kOperandLines = 64 * 128 >> 4;                                           // to the next 64 lines

struct WgmmaRing { u32 stages, full, empty, ready; };  // of products: addresses of shared memory; ready: of what is taken apart
