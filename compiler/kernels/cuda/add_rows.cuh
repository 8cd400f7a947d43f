// Rows of a table added to rows, each of which says where the indices of its own begin (bags of embeddings): a thread a column of a row.
#pragma once
#include "device.cuh"

// out: x [n, d], to whose row k the rows `from[begins[k]] ..` of the table [v, d] are added in order, up to where the next one's begin, or r;
// times a factor each where there are any. Indices below zero count from the end. x may be out.
template <class T, bool Factors>
AOTC_DI void add_rows(const T* x, const T* table, const i64* from, const i64* begins, const T* factors, T* out, i64 n, i64 d, i64 v, i64 r, int* fault) {
  constexpr int kAhead = 4;
  for (i64 e = blockIdx.x * i64(blockDim.x) + threadIdx.x; e < n * d; e += i64(gridDim.x) * blockDim.x) {
    const i64 row = e / d, column = e - row * d;
    i64 first = begins[row], end = row + 1 < n ? begins[row + 1] : r;
    if (first < 0 || first > end || end > r) {
      *fault = 1;
      first = end = 0;
    }
    T sum = x[e];
    const auto value = [&](i64 i, T& factor) {
      i64 pick = from[i];
      if (pick < 0) pick += v;
      const bool good = pick >= 0 && pick < v;
      if (!good) *fault = 1;
      factor = Factors ? factors[i] : T(1);
      return table[(good ? pick : 0) * d + column];
    };
    const auto add = [&](T value, T factor) { sum += Factors ? value * factor : value; };
    i64 i = first;
    for (; i + kAhead <= end; i += kAhead) {
      T values[kAhead], times[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) values[a] = value(i + a, times[a]);
#pragma unroll
      for (int a = 0; a < kAhead; ++a) add(values[a], times[a]);
    }
    for (; i < end; ++i) {
      T factor;
      const T of_row = value(i, factor);
      add(of_row, factor);
    }
    out[e] = sum;
  }
}
