// Singular values and vectors, as svd_abi.h documents them: pairs of columns are rotated until all are orthogonal (Hestenes).
#pragma once
#include "device.cuh"

// The sum of all lanes' values, for all lanes.
AOTC_DI double svd_sum(double x) {
#pragma unroll
  for (int by = 16; by; by >>= 1) x += shuffle_xor(x, by);
  return x;
}
AOTC_DI double svd_dot(const double* x, const double* y, i64 step, i64 count) {
  double sum = 0;
  for (i64 i = threadIdx.x & 31; i < count; i += 32) sum += x[i * step] * y[i * step];
  return svd_sum(sum);
}
AOTC_DI void svd_rotate(double* x, double* y, i64 step, i64 count, double c, double s) {
  for (i64 i = threadIdx.x & 31; i < count; i += 32) {
    const double p = x[i * step], q = y[i * step];
    x[i * step] = c * p - s * q;
    y[i * step] = s * p + c * q;
  }
}
// Makes columns p and q of u orthogonal by a warp; whether they were not.
AOTC_DI bool svd_pair(double* u, double* v, i64 m, i64 n, i64 p, i64 q, double tolerance) {
  constexpr double smallest = 1e-200;
  const double pp = svd_dot(u + p, u + p, n, m), qq = svd_dot(u + q, u + q, n, m), pq = svd_dot(u + p, u + q, n, m);
  if (!(pp > smallest && qq > smallest && fabs(pq) > tolerance * sqrt(pp) * sqrt(qq))) return false;
  const double zeta = (qq - pp) / (2 * pq), size = 1 / (fabs(zeta) + sqrt(1 + zeta * zeta)), tangent = zeta < 0 ? -size : size;
  const double c = 1 / sqrt(1 + tangent * tangent);
  svd_rotate(u + p, u + q, n, m, c, c * tangent);
  svd_rotate(v + p, v + q, n, n, c, c * tangent);
  return true;
}
// Column j of u becomes a unit vector that is orthogonal to those before it; one warp.
AOTC_DI void svd_complete(double* u, i64 m, i64 n, i64 j) {
  const int lane = threadIdx.x & 31;
  i64 at = 0;
  double least = 2;
  for (i64 i = lane; i < m; i += 32) {
    double taken = 0;
    for (i64 k = 0; k < j; ++k) taken += u[i * n + k] * u[i * n + k];
    if (taken < least) least = taken, at = i;
  }
#pragma unroll
  for (int by = 16; by; by >>= 1) {
    const double other = shuffle_xor(least, by);
    const i64 row = shuffle_xor(at, by);
    if (other < least || (other == least && row < at)) least = other, at = row;
  }
  for (i64 i = lane; i < m; i += 32) u[i * n + j] = i == at ? 1 : 0;
  __syncwarp();
  for (int twice = 0; twice < 2; ++twice)
    for (i64 k = 0; k < j; ++k) {
      const double part = svd_dot(u + k, u + j, n, m);
      for (i64 i = lane; i < m; i += 32) u[i * n + j] -= part * u[i * n + k];
      __syncwarp();
    }
  const double length = sqrt(svd_dot(u + j, u + j, n, m));
  for (i64 i = lane; i < m; i += 32) u[i * n + j] /= length;
  __syncwarp();
}
// From orthogonal columns of u to singular values that fall, unit vectors and the signs; one warp.
AOTC_DI void svd_finish(double* u, double* s, double* v, i64 m, i64 n, double unit) {
  constexpr double smallest = 1e-200;
  const int lane = threadIdx.x & 31;
  for (i64 j = 0; j < n; ++j) {
    const double square = svd_dot(u + j, u + j, n, m);
    if (lane == 0) s[j] = square;
  }
  __syncwarp();
  for (i64 j = 0; j < n; ++j) {
    i64 from = j;
    double square = s[j];
    for (i64 k = j + 1; k < n; ++k)
      if (s[k] > square) square = s[k], from = k;
    __syncwarp();  // all have read what changes
    if (from != j) {
      for (i64 i = lane; i < m + n; i += 32) {
        double* const row = i < m ? u + i * n : v + (i - m) * n;
        const double value = row[j];
        row[j] = row[from], row[from] = value;
      }
      if (lane == 0) s[from] = s[j];
    }
    __syncwarp();
    double largest = 0, sign = 1;
    for (i64 i = 0; i < n; ++i) largest = fmax(largest, fabs(v[i * n + j]));
    for (i64 i = n; i-- > 0;)
      if (fabs(v[i * n + j]) >= 0.6 * largest) sign = v[i * n + j] < 0 ? -1 : 1;
    __syncwarp();
    const double length = square > smallest ? sqrt(square) : 0;
    if (lane == 0) s[j] = length * unit;
    for (i64 i = lane; i < n; i += 32) v[i * n + j] *= sign;
    if (length > 0)
      for (i64 i = lane; i < m; i += 32) u[i * n + j] *= sign / length;
    __syncwarp();
    if (!(length > 0)) svd_complete(u, m, n, j);
  }
}

// Warps of a block (one, or all of its Threads) have a matrix: the pairs of a round have no column in common, a warp a pair.
template <int Warps, int Threads>
AOTC_DI void svd(const double* x, double* left, double* values, double* right, i64 count, i64 m, i64 n) {
  constexpr int groups = Threads / 32 / Warps, sweeps = 40;
  const int lane = threadIdx.x & 31, group = threadIdx.x / (32 * Warps), warp = threadIdx.x / 32 % Warps, thread = warp * 32 + lane;
  const i64 columns = n + (n & 1);
  const double tolerance = 2.220446049250313e-16 * sqrt(static_cast<double>(m)), infinity = __longlong_as_double(0x7ff0000000000000ll);
  for (i64 matrix = i64(blockIdx.x) * groups + group; matrix < count; matrix += i64(gridDim.x) * groups) {
    const double* const a = x + matrix * m * n;
    double* const u = left + matrix * m * n;
    double* const s = values + matrix * n;
    double* const v = right + matrix * n * n;
    double largest = 0;
    for (i64 i = lane; i < m * n; i += 32) {
      const double size = fabs(a[i]);
      largest = size < infinity ? fmax(largest, size) : infinity;
      if (!(largest < infinity)) break;
    }
#pragma unroll
    for (int by = 16; by; by >>= 1) largest = fmax(largest, shuffle_xor(largest, by));
    const bool finite = largest < infinity;
    // The largest power of two that is at most `largest`; 1 for 0.
    const i64 exponent = __double_as_longlong(largest) & 0x7ff0000000000000ll;
    const double unit = largest == 0 ? 1 : __longlong_as_double(exponent ? exponent : 0x0010000000000000ll);
    const double none = finite ? 0 : __longlong_as_double(0x7ff8000000000000ll);
    for (i64 i = thread; i < m * n; i += 32 * Warps) u[i] = finite ? a[i] / unit : none;
    for (i64 i = thread; i < n * n; i += 32 * Warps) v[i] = finite ? (i / n == i % n ? 1 : 0) : none;
    if (!finite)
      for (i64 i = thread; i < n; i += 32 * Warps) s[i] = none;
    if constexpr (Warps > 1) __syncthreads();
    else __syncwarp();
    bool turned = finite;
    for (int sweep = 0; sweep < sweeps && turned; ++sweep) {
      turned = false;
      for (i64 round = 0; round + 1 < columns; ++round) {  // all but the last column move on by one from round to round
        for (i64 pair = warp; pair < columns / 2; pair += Warps) {
          const i64 one = pair == 0 ? columns - 1 : (round + pair) % (columns - 1), other = (round + columns - 1 - pair) % (columns - 1);
          const i64 p = one < other ? one : other, q = one < other ? other : one;
          if (q < n) turned |= svd_pair(u, v, m, n, p, q, tolerance);
        }
        if constexpr (Warps > 1) __syncthreads();
        else __syncwarp();
      }
      if constexpr (Warps > 1) turned = __syncthreads_or(turned);
    }
    if (finite && warp == 0) svd_finish(u, s, v, m, n, unit);
  }
}
