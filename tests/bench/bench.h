#pragma once
// What the kernel benchmarks share: memory on huge pages, a thread split, quiet medians.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "aotc/detail/library_abi.h"

namespace bench {

inline void* allocate(int64_t bytes) {
  const size_t page = 2 << 20, size = (static_cast<size_t>(bytes) + page) & ~(page - 1);
  void* p = std::aligned_alloc(page, size);
  madvise(p, size, MADV_HUGEPAGE);
  std::memset(p, 0, size);
  return p;
}

/// Numbers of magnitude 0.5 to 1 of either sign: the tile unit and the clocks of some processors are a quarter faster on zeros.
/// pattern: the bits of 0.5 in the type, with `mantissa` bits below that are drawn.
template <class T>
void fill(void* data, int64_t bytes, T pattern, int mantissa) {
  uint64_t state = 1;
  for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(T)); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    static_cast<T*>(data)[i] = static_cast<T>(pattern | (state >> (64 - mantissa)) | (state >> 11 & 1) << (8 * sizeof(T) - 1));
  }
}

inline double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Median and best of 25 rounds: seconds of one call of fn over `work` units on `threads` threads.
struct Timing {
  double median, best;
};
inline Timing time_kernel(aotc_kernel_fn fn, aotc_kargs args, int64_t work, int64_t scratch_bytes, int threads, double guess_seconds) {
  std::vector<void*> scratch;
  for (int i = 0; i < threads; ++i) scratch.push_back(allocate(scratch_bytes));
  const int reps = static_cast<int>(std::clamp(0.002 / guess_seconds, 1.0, 5000.0));
  std::vector<double> times;
  for (int round = 0; round < 25; ++round) {
    std::vector<std::thread> pool;
    auto body = [&](int i) {
      aotc_kargs mine = args;
      mine.scratch = scratch[static_cast<size_t>(i)];
      mine.thread = i;
      mine.threads = threads;
      for (int r = 0; r < reps; ++r) fn(&mine, work * i / threads, work * (i + 1) / threads);
    };
    const double t0 = now();
    for (int i = 1; i < threads; ++i) pool.emplace_back(body, i);
    body(0);
    for (auto& t : pool) t.join();
    times.push_back((now() - t0) / reps);
  }
  for (void* p : scratch) std::free(p);
  std::sort(times.begin(), times.end());
  return {times[12], times[0]};
}

}  // namespace bench
