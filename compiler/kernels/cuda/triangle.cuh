// Cholesky factors and triangular systems, as library_abi.h documents them, LU and QR factors as lu_abi.h and
// qr_abi.h do. Sums in double.
#pragma once
#include "device.cuh"

// x . y of n elements each, for all lanes of a warp.
template <class T> AOTC_DI double warp_dot(const T* x, i64 x_step, const T* y, i64 y_step, i64 n) {
  double sum = 0;
  for (i64 i = threadIdx.x & 31; i < n; i += 32) sum += static_cast<double>(x[i * x_step]) * static_cast<double>(y[i * y_step]);
#pragma unroll
  for (int m = 16; m; m >>= 1) sum += shuffle_xor(sum, m);
  return sum;
}

constexpr int kCholeskyNan = 16;  // rows of a float32 matrix up to which a column below an infinite pivot is NaN

// Warps of a block (one, or all of its Threads) have a matrix: column by column, a warp a row. All know the pivot, so that a column needs one
// barrier.
template <class T, int Warps, int Threads> AOTC_DI void cholesky(const T* x, T* out, int* info, i64 count, i64 n) {
  constexpr int groups = Threads / 32 / Warps;
  const int lane = threadIdx.x & 31, group = threadIdx.x / (32 * Warps), warp = threadIdx.x / 32 % Warps;
  const double none = __longlong_as_double(0x7ff8000000000000ll);
  const auto barrier = [] {
    if constexpr (Warps > 1) __syncthreads();
    else __syncwarp();
  };
  for (i64 matrix = i64(blockIdx.x) * groups + group; matrix < count; matrix += i64(gridDim.x) * groups) {
    const T* const a = x + matrix * n * n;
    T* const l = out + matrix * n * n;
    i64 failed = 0;
    for (i64 i = warp; i < n; i += Warps)
      for (i64 j = i + 1 + lane; j < n; j += 32) l[i * n + j] = T(0);
    for (i64 j = 0; j < n; ++j) {
      const double pivot = static_cast<double>(a[j * n + j]) - warp_dot(l + j * n, 1, l + j * n, 1, j);
      if (!(pivot > 0) && failed == 0) failed = j + 1;
      const double root = pivot > 0 ? sqrt(pivot) : none;
      const bool infinite = sizeof(T) == 4 && n <= kCholeskyNan && root > 0x1.fffffffffffffp+1023;
      for (i64 i = j + 1 + warp; i < n; i += Warps) {
        const double rest = static_cast<double>(a[i * n + j]) - warp_dot(l + i * n, 1, l + j * n, 1, j);
        if (lane == 0) l[i * n + j] = infinite ? T(none) : T(rest / root);
      }
      if (warp == 0 && lane == 0) l[j * n + j] = T(root);
      barrier();
    }
    if (warp == 0 && lane == 0) info[matrix] = static_cast<int>(failed);
  }
}

// Warps of a block (one, or all of its Threads) have a matrix: all know the pivot's row, a warp a row, lanes its columns.
template <int Warps, int Threads>
AOTC_DI void lu(const double* x, double* packed, i64* order, i64* swaps, i64 count, i64 m, i64 n) {
  constexpr int groups = Threads / 32 / Warps;
  const int lane = threadIdx.x & 31, group = threadIdx.x / (32 * Warps), warp = threadIdx.x / 32 % Warps, thread = warp * 32 + lane;
  const i64 steps = m < n ? m : n;
  const auto barrier = [] {
    if constexpr (Warps > 1) __syncthreads();
    else __syncwarp();
  };
  for (i64 matrix = i64(blockIdx.x) * groups + group; matrix < count; matrix += i64(gridDim.x) * groups) {
    double* const a = packed + matrix * m * n;
    for (i64 i = thread; i < m * n; i += 32 * Warps) a[i] = x[matrix * m * n + i];
    for (i64 i = thread; i < m; i += 32 * Warps) order[matrix * m + i] = i;
    barrier();
    for (i64 k = 0; k < steps; ++k) {
      i64 p = k;
      double best = -1;
      for (i64 i = k + lane; i < m; i += 32) {
        const double value = fabs(a[i * n + k]), size = i == k && value != value ? __longlong_as_double(0x7ff0000000000000ll) : value;  // a NaN stays
        if (size > best) best = size, p = i;
      }
#pragma unroll
      for (int by = 16; by; by >>= 1) {
        const double other = shuffle_xor(best, by);
        const i64 row = shuffle_xor(p, by);
        if (other > best || (other == best && row < p)) best = other, p = row;
      }
      barrier();  // all have read the column
      if (p != k)
        for (i64 j = thread; j < n; j += 32 * Warps) {
          const double v = a[k * n + j];
          a[k * n + j] = a[p * n + j], a[p * n + j] = v;
        }
      if (thread == 0) {
        const i64 place = order[matrix * m + k];
        order[matrix * m + k] = order[matrix * m + p], order[matrix * m + p] = place;
        swaps[matrix * steps + k] = p;
      }
      barrier();
      const double pivot = a[k * n + k];
      for (i64 i = k + 1 + warp; i < m; i += Warps) {
        const double first = a[i * n + k], factor = pivot == 0 ? first : first / pivot;
        __syncwarp();  // all lanes have read what the first one changes
        if (lane == 0) a[i * n + k] = factor;
        for (i64 j = k + 1 + lane; j < n; j += 32) a[i * n + j] -= factor * a[k * n + j];
      }
      barrier();
    }
  }
}

// A power of two that brings the largest number of a matrix, where it is near an end of the range, near one; else one. For all lanes.
AOTC_DI double qr_scale(const double* x, i64 count) {
  double largest = 0;
  for (i64 i = threadIdx.x & 31; i < count; i += 32) largest = fmax(largest, fabs(x[i]));
#pragma unroll
  for (int by = 16; by; by >>= 1) largest = fmax(largest, shuffle_xor(largest, by));
  return largest > 0x1p+400 ? 0x1p-600 : largest < 0x1p-400 && largest > 0 ? 0x1p+600 : 1.0;
}
// Warps of a block (one, or all of its Threads) have a matrix: a lane a column, 32 of them at a time, the warps share the rows.
template <int Warps, int Threads> AOTC_DI void qr(const double* x, double* packed, double* tau, i64 count, i64 m, i64 n) {
  constexpr int groups = Threads / 32 / Warps;
  __shared__ double parts[Threads / 32][32];
  const int lane = threadIdx.x & 31, group = threadIdx.x / (32 * Warps), warp = threadIdx.x / 32 % Warps, thread = warp * 32 + lane;
  const i64 steps = m < n ? m : n;
  const auto barrier = [] {
    if constexpr (Warps > 1) __syncthreads();
    else __syncwarp();
  };
  for (i64 matrix = i64(blockIdx.x) * groups + group; matrix < count; matrix += i64(gridDim.x) * groups) {
    double* const a = packed + matrix * m * n;
    const double unit = qr_scale(x + matrix * m * n, m * n);
    for (i64 i = thread; i < m * n; i += 32 * Warps) a[i] = x[matrix * m * n + i] * unit;
    barrier();
    for (i64 c = 0; c < steps; ++c) {
      const double alpha = a[c * n + c];
      double factor = 0, scale = 0, beta = alpha;
      for (i64 first = c; first < n; first += 32) {  // column c is the first lane's in the first turn
        const i64 j = first + lane;
        double part = 0;
        if (j < n)
          for (i64 r = c + 1 + warp; r < m; r += Warps) part += a[r * n + c] * a[r * n + j];
        parts[group * Warps + warp][lane] = part;
        barrier();
        double sum = 0;
#pragma unroll
        for (int w = 0; w < Warps; ++w) sum += parts[group * Warps + w][lane];
        if (first == c) {
          double tail = 0;
#pragma unroll
          for (int w = 0; w < Warps; ++w) tail += parts[group * Warps + w][0];
          if (!(tail == 0)) {
            const double norm = sqrt(alpha * alpha + tail);
            beta = -copysign(norm, alpha), factor = (beta - alpha) / beta, scale = 1 / (alpha - beta);
          }
        }
        const double taken = j > c && j < n ? factor * (a[c * n + j] + scale * sum) : 0.0;
        barrier();  // all have read the sums and row c
        if (j > c && j < n) {
          for (i64 r = c + 1 + warp; r < m; r += Warps) a[r * n + j] -= a[r * n + c] * scale * taken;
          if (warp == 0) a[c * n + j] -= taken;
        }
      }
      barrier();
      for (i64 r = c + 1 + thread; r < m; r += 32 * Warps) a[r * n + c] *= scale;
      if (thread == 0) a[c * n + c] = beta, tau[matrix * steps + c] = factor;
      barrier();
    }
    if (unit != 1.0)
      for (i64 i = thread; i < steps * n; i += 32 * Warps)
        if (i % n >= i / n) a[i] /= unit;
  }
}

// What is solved: a's triangle, whether its diagonal counts as ones, whether x is b but left of its own diagonal.
template <bool Upper_, bool Unit_, bool Below_> struct System {
  static constexpr bool Upper = Upper_, Unit = Unit_, Below = Below_;
};

// A warp a column.
template <class T, class S, int Threads> AOTC_DI void solve_triangular(const T* a, const T* b, T* x, i64 count, i64 n, i64 k) {
  constexpr int warps = Threads / 32;
  for (i64 column = i64(blockIdx.x) * warps + threadIdx.x / 32; column < count * k; column += i64(gridDim.x) * warps) {
    const i64 matrix = column / k, at = matrix * n * k + column % k;
    const T* const m = a + matrix * n * n;
    for (i64 step = 0; step < n; ++step) {
      const i64 i = S::Upper ? n - 1 - step : step, from = S::Upper ? i + 1 : 0, known = step;
      const double rest = static_cast<double>(b[at + i * k]) - warp_dot(m + i * n + from, 1, x + at + from * k, k, known);
      if ((threadIdx.x & 31) == 0) {
        if (S::Below && column % k >= i)
          x[at + i * k] = b[at + i * k];
        else
          x[at + i * k] = T(S::Unit ? rest : rest / static_cast<double>(m[i * n + i]));
      }
      __syncwarp();
    }
  }
}

// A thread a column, a block `Threads` columns of one matrix, kTogether rows at a time. shared: n * (pitch + Threads) doubles, pitch being n
// rounded up to kTogether and 2 more, so that what a warp stores lies in different banks: a's triangle, then x. Steps count rows in the order in which they are solved: of step t what it takes of each
// later one lies together.
constexpr int kTogether = 4;
template <class T, class S, int Threads>
AOTC_DI void solve_triangular_lanes(const T* a, const T* b, T* x, i64 count, i64 n, i64 k, double* shared) {
  struct alignas(16) Pair {
    double v[2];
  };
  const i64 pitch = (n + kTogether - 1) / kTogether * kTogether + 2, groups = (k + Threads - 1) / Threads;
  double* const taken = shared;
  double* const solved = shared + n * pitch + threadIdx.x;
  const auto row_of = [&](i64 step) { return S::Upper ? n - 1 - step : step; };
  for (i64 unit = blockIdx.x; unit < count * groups; unit += gridDim.x) {
    const i64 matrix = unit / groups, column = unit % groups * Threads + threadIdx.x, at = matrix * n * k + column;
    for (i64 row = threadIdx.x / 32; row < n; row += Threads / 32)
      for (i64 c = threadIdx.x & 31; c < n; c += 32) {
        const i64 step = row_of(row), of = row_of(c);
        if (of <= step) taken[of * pitch + step] = static_cast<double>(a[(matrix * n + row) * n + c]);
      }
    __syncthreads();
    for (i64 step = 0; column < k && step < n; step += kTogether) {
      double right[kTogether], sum[kTogether] = {}, made[kTogether];
#pragma unroll
      for (int r = 0; r < kTogether; ++r) right[r] = step + r < n ? static_cast<double>(b[at + row_of(step + r) * k]) : 0.0;
#pragma unroll 4
      for (i64 t = 0; t < step; ++t) {
        const double v = solved[t * Threads];
#pragma unroll
        for (int r = 0; r < kTogether; r += 2) {
          const Pair two = *reinterpret_cast<const Pair*>(taken + t * pitch + step + r);
          sum[r] += two.v[0] * v, sum[r + 1] += two.v[1] * v;
        }
      }
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        if (step + r >= n) break;
        const i64 row = row_of(step + r);
        double rest = right[r] - sum[r];
#pragma unroll
        for (int q = 0; q < r; ++q) rest -= taken[(step + q) * pitch + step + r] * made[q];
        if (!S::Unit) rest /= taken[(step + r) * pitch + step + r];
        if (S::Below && column >= row) rest = right[r];
        made[r] = rest;
        solved[(step + r) * Threads] = rest;
        x[at + row * k] = T(rest);
      }
    }
    __syncthreads();
  }
}
