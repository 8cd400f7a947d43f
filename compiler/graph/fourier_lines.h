#pragma once
// Fourier transforms of lines that lie in the shared memory of a block of a GPU (kernels/cuda/fourier.cuh): which there are, for the pass
// that chooses between them and products, and for their form.
#include <algorithm>
#include <cstdint>

namespace aotc {

/// Largest prime factor, bytes of shared memory.
inline constexpr int64_t kFourierMostPrime = 31, kFourierSharedBytes = 200 << 10;

/// The points of a transform of n numbers; halved: real lines, of which neighbours are the parts of a point where n is even.
inline int64_t fourier_points(int64_t n, bool halved) { return halved && n % 2 == 0 ? n / 2 : n; }

/// What a line takes of shared memory: two buffers with a gap behind 32 numbers. odd: one number more.
inline int64_t fourier_line_bytes(int64_t points, int64_t element_bytes, bool odd) {
  return 2 * (2 * (points + points / 32 + 1) + odd) * element_bytes;
}

/// The passes over this many points and the largest of their factors (at least 8); no passes where a prime factor is too large.
struct FourierFactors {
  int passes = 0;
  int64_t largest = 8;
};
inline FourierFactors fourier_factors(int64_t points) {
  FourierFactors f;
  for (int64_t p = 3; p <= kFourierMostPrime; p += 2)
    for (; points % p == 0; points /= p) ++f.passes, f.largest = std::max(f.largest, p);
  int twos = 0;
  for (; points % 2 == 0; points /= 2) ++twos;
  if (points > 1) return {};
  f.passes += (twos + 2) / 3;
  return f;
}

inline bool fourier_in_blocks(int64_t n, bool halved, int64_t element_bytes) {
  const int64_t points = fourier_points(n, halved);
  return fourier_factors(points).passes > 0 && fourier_line_bytes(points, element_bytes, true) <= kFourierSharedBytes;
}

}  // namespace aotc
