// Which of a row stay, as exclude_abi.h documents it.
#pragma once
#include "device.cuh"

// A block has a matrix: one after another they take out what follows.
template <int Threads> AOTC_DI void exclude(const bool* x, bool* out, i64 count, i64 n) {
  for (i64 matrix = blockIdx.x; matrix < count; matrix += gridDim.x) {
    const bool* const rows = x + matrix * n * n;
    bool* const stays = out + matrix * n;
    for (i64 i = threadIdx.x; i < n; i += Threads) stays[i] = true;
    __syncthreads();
    for (i64 i = 0; i < n; ++i) {
      if (!stays[i]) continue;  // the same for all: no later one changes it
      for (i64 j = i + 1 + threadIdx.x; j < n; j += Threads)
        if (rows[i * n + j]) stays[j] = false;
      __syncthreads();
    }
  }
}
