// Rows in runs, of which each is multiplied by a matrix of its own (loop::Runs): row i has the matrix of the first run whose end is beyond
// i, or the last one. `ends`, of any values, are written by a step before. All threads of a warp call these together.
#pragma once
#include "device.cuh"

// The rows [begin, end) of one run that a block computes; begin == end: none.
struct RunRows {
  i64 matrix, begin, end;
};

AOTC_DI i64 run_of_row(const i64* ends, i64 runs, i64 row) {
  const int lane = threadIdx.x & 31;
  for (i64 first = 0; first + 1 < runs; first += 32) {
    const u32 beyond = __ballot_sync(0xffffffffu, first + lane + 1 < runs && ends[first + lane] > row);
    if (beyond) return first + __ffs(static_cast<int>(beyond)) - 1;
  }
  return runs - 1;
}

// Block number `block` of those of `Rows` rows each that the runs of m rows are cut into, run after run: at most m / Rows + min(m, runs).
template <int Rows>
AOTC_DI RunRows run_rows(const i64* ends, i64 runs, i64 m, i64 block) {
  const int lane = threadIdx.x & 31;
  i64 begin = 0;
  for (i64 first = 0; first < runs; first += 32) {
    const i64 run = first + lane;
    i64 end = run + 1 < runs ? imin(imax(ends[run], begin), m) : m;
    end = scan_of_lanes<ReduceMax<i64>>(end, 32);
    const i64 before = shuffle_up(end, 1), from = lane ? before : begin;
    const i64 own = (end - from + Rows - 1) / Rows, blocks = scan_of_lanes<ReduceSum<i64>>(own, 32);  // of this run and those before it
    const u32 here = __ballot_sync(0xffffffffu, block < blocks);
    if (here) {
      const int of = __ffs(static_cast<int>(here)) - 1;
      const i64 at = shuffle_of(from, of) + (block - shuffle_of(blocks - own, of)) * Rows;
      return {first + of, at, imin(at + Rows, shuffle_of(end, of))};
    }
    block -= shuffle_of(blocks, 31), begin = shuffle_of(end, 31);
  }
  return {0, m, m};
}

// The same found once by a block of at most 1024 threads, for many blocks of rows: of the first Runs - 1 runs where they end, and for each
// how many blocks those before it have. In shared memory.
template <int Runs>
struct RunTable {
  int ends[Runs], blocks[Runs + 1];

  // All threads; they wait for each other at the end.
  template <int Rows>
  AOTC_DI void fill(const i64* run_ends, int m) {
    const int lane = threadIdx.x & 31;
    if (threadIdx.x < 32) {
      int begin = 0, before = 0;
      for (int first = 0; first < Runs; first += 32) {
        const int run = first + lane;
        int end = run + 1 < Runs ? static_cast<int>(imin(imax(run_ends[run], begin), m)) : m;
        end = scan_of_lanes<ReduceMax<int>>(end, 32);
        const int last = shuffle_up(end, 1), sum = scan_of_lanes<ReduceSum<int>>((end - (lane ? last : begin) + Rows - 1) / Rows, 32);
        if (run < Runs) ends[run] = end, blocks[run + 1] = before + sum;
        before += shuffle_of(sum, 31), begin = shuffle_of(end, 31);
      }
      if (lane == 0) blocks[0] = 0;
    }
    __syncthreads();
  }
  AOTC_DI int all() const { return blocks[Runs]; }
  // Of block number `block` < all(): its run, its first row and where the run ends.
  AOTC_DI void find(int block, int rows, int& run, int& row, int& end) const {
    int low = 0;
    for (int high = Runs; high - low > 1;) {
      const int middle = (low + high) / 2;
      if (blocks[middle] <= block) low = middle;
      else high = middle;
    }
    run = low, row = (low ? ends[low - 1] : 0) + (block - blocks[low]) * rows, end = ends[low];
  }
};
