// Sizes of kernels that the compiler's forms read, too. No CUDA: C++17. Enumerators, for constants have a place in each cubin.
#pragma once

// Of CUDA: threads of a block, registers of a thread, bytes of one access, at most.
enum : int { kBlockThreadsMost = 1024, kThreadRegistersMost = 255, kAccessBytes = 16 };

// attention_plain.cuh: a block's rows and columns of the result, keys of a step.
enum : int { kPlainAttentionThreads = 128, kPlainAttentionRows = 16, kPlainAttentionColumns = 128, kPlainAttentionKeys = 32 };

// vector.cuh: rows of the left operand.
enum : int { kVectorRows = 8 };

// wgmma.cuh: 8-bit products are summed up stage by stage, in sets of sums beside a thread's of its tile: two where it has at most so many;
// one up to the second.
enum : int { kWgmmaTwoSets = 64, kWgmmaOneSet = 96 };

// topk_bounded.cuh: entries that a block sorts; bytes of shared memory; entries that are picked at most, one a thread.
enum : int { kTopkSorted = 2048, kTopkSharedBytes = kTopkSorted * 16 + 256 * 4 + 35 * 4, kTopkPicked = kBlockThreadsMost };
// topk_warps.cuh: entries that a warp picks by a bound, one a lane; entries of a lane, a bit each of those that are left.
enum : int { kTopkWarpPicked = 32, kTopkWarpHeld = 32 };
