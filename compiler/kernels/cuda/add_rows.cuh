// Rows of a table added to rows, each of which says where the indices of its own begin (bags of embeddings), or the largest of them. Threads
// that have the same columns of a row share its indices; what each has summed is added in their order.
#pragma once
#include "device.cuh"

// out: x [n, d], to whose row k the rows `from[begins[k]] ..` of the table [v, d] are added, up to where the next one's begin, or r; times a
// factor each where there are any. Largest: where it has any, row k is the largest of them instead; a NaN stays where it comes first and is
// passed over elsewhere. Indices below zero count from the end. x may be out. A block takes Columns columns of a row.
template <class T, bool Factors, bool Largest, int Columns, int Threads, class Table>
AOTC_DI void add_rows(const T* x, const Table* table, const i64* from, const i64* begins, const T* factors, T* out, i64 n, i64 d, i64 v, i64 r, int* fault) {
  constexpr int kAhead = 4, kSharers = Threads / Columns;
  __shared__ T sums[Threads];
  const int column_of_block = threadIdx.x % Columns, sharer = threadIdx.x / Columns;
  const i64 parts = (d + Columns - 1) / Columns;
  for (i64 part = blockIdx.x; part < n * parts; part += gridDim.x) {
    const i64 row = part / parts, column = part % parts * Columns + column_of_block;
    i64 first = begins[row], end = row + 1 < n ? begins[row + 1] : r;
    if (first < 0 || first > end || end > r) {
      *fault = 1;
      first = end = 0;
    }
    const auto value = [&](i64 i, T& factor) {
      i64 pick = from[i];
      if (pick < 0) pick += v;
      const bool good = pick >= 0 && pick < v;
      if (!good) *fault = 1;
      factor = Factors ? factors[i] : T(1);
      return static_cast<T>(table[(good ? pick : 0) * d + column]);
    };
    T sum = Largest ? lowest<T>() : T(0);
    const auto add = [&](T value, T factor) {
      if (Largest) sum = value > sum ? value : sum;
      else sum += Factors ? value * factor : value;
    };
    i64 i = column < d ? first + sharer : end;
    if (Largest && sharer == 0 && i < end) {
      T factor;
      sum = value(i, factor);
    }
    for (; i + (kAhead - 1) * kSharers < end; i += kAhead * kSharers) {
      T values[kAhead], times[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) values[a] = value(i + a * kSharers, times[a]);
#pragma unroll
      for (int a = 0; a < kAhead; ++a) add(values[a], times[a]);
    }
    for (; i < end; i += kSharers) {
      T factor;
      const T of_row = value(i, factor);
      add(of_row, factor);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (sharer == 0 && column < d) {
      T all = x[row * d + column];
      if (Largest && first < end) all = sums[column_of_block];
      for (int s = Largest ? 1 : 0; s < kSharers && (!Largest || first < end); ++s) {
        const T other = sums[s * Columns + column_of_block];
        all = !Largest ? all + other : other > all ? other : all;
      }
      out[row * d + column] = all;
    }
    __syncthreads();
  }
}
