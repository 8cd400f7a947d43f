// A recurrent layer in one direction over all steps. A cluster of blocks has some rows of the batch for all steps; each block computes some
// units of the state, with all their gates, and reads the whole state of the step before from global scratch. Dynamic shared memory: shared_bytes. Tensors as library_abi.h
// documents them: w [width, gates * hidden]; x, rows of gates * hidden, and out, of width, [steps, batch] or [batch, steps].
#pragma once
#include "device.cuh"

enum { kCellLstm, kCellGru, kCellTanh, kCellRelu };

template <class T, int Cell, bool Reverse, bool Projected, int Rows, int Blocks> struct Recurrence {
  typedef typename compute<T>::type A;
  static constexpr int gates = Cell == kCellLstm ? 4 : Cell == kCellGru ? 3 : 1;
  static constexpr int threads = 512, units = 32, parts = threads / units;  // parts: of the sum over the state
  static constexpr int blocks = has_clusters ? Blocks : 1;
  static constexpr int shared_bytes = (parts - 1) * gates * Rows * units * static_cast<int>(sizeof(A));
  const T *x, *w, *h0, *c0, *bias, *w_hr;
  T *out, *h, *c;
  i64 steps, batch, hidden, width, step_rows, batch_rows;
  char* scratch;  // bytes() for every cluster

  AOTC_DI i64 row_of(i64 t, i64 b) const { return t * step_rows + b * batch_rows; }  // in x and out
  AOTC_DI i64 widest() const { return imax(hidden, width); }
  // Two states, the cells, the state before its projection; for Rows rows.
  AOTC_DI A* space(i64 cluster, int which) const { return reinterpret_cast<A*>(scratch) + (cluster * 4 + which) * Rows * widest(); }

  AOTC_DI void barrier() const {
    if (blocks > 1) cluster_barrier();
    else __syncthreads();
  }

  // sums[g][r] = sum_k state[r][k] * m[k][g * n + unit], k divided among the threads of a unit; complete in those of part 0.
  template <int G> AOTC_DI void product(const A* state, i64 state_ld, i64 depth, const T* m, i64 ld, i64 n, i64 unit, A (&sums)[G][Rows]) const {
    extern __shared__ __align__(16) char shared[];
    A(*const part_sums)[G * Rows][units] = reinterpret_cast<A(*)[G * Rows][units]>(shared);
    const int part = threadIdx.x / units, lane = threadIdx.x % units;
#pragma unroll
    for (int g = 0; g < G; ++g)
#pragma unroll
      for (int r = 0; r < Rows; ++r) sums[g][r] = A(0);
    if (unit < n) {
      const i64 first = depth * part / parts, last = depth * (part + 1) / parts;
#pragma unroll 4
      for (i64 k = first; k < last; ++k) {
        A s[Rows];
#pragma unroll
        for (int r = 0; r < Rows; ++r) s[r] = state[r * state_ld + k];
#pragma unroll
        for (int g = 0; g < G; ++g) {
          const A v = static_cast<A>(m[k * ld + g * n + unit]);
#pragma unroll
          for (int r = 0; r < Rows; ++r) sums[g][r] += s[r] * v;
        }
      }
    }
    if (part > 0) {
#pragma unroll
      for (int g = 0; g < G; ++g)
#pragma unroll
        for (int r = 0; r < Rows; ++r) part_sums[part - 1][g * Rows + r][lane] = sums[g][r];
    }
    __syncthreads();
    if (part == 0) {
      for (int p = 0; p < parts - 1; ++p)
#pragma unroll
        for (int g = 0; g < G; ++g)
#pragma unroll
          for (int r = 0; r < Rows; ++r) sums[g][r] += part_sums[p][g * Rows + r][lane];
    }
    __syncthreads();
  }

  // One unit of one row. g: the state's part of the gates.
  AOTC_DI A cell(const A (&g)[gates], const T* from, i64 unit, A old, A* cell_state) const {
    const A in = static_cast<A>(from[unit]);
    if constexpr (Cell == kCellLstm) {
      const A i = op_sigmoid(in + g[0]), f = op_sigmoid(static_cast<A>(from[hidden + unit]) + g[1]);
      const A v = op_tanh(static_cast<A>(from[2 * hidden + unit]) + g[2]), o = op_sigmoid(static_cast<A>(from[3 * hidden + unit]) + g[3]);
      const A next = f * *cell_state + i * v;
      *cell_state = next;
      return o * op_tanh(next);
    } else if constexpr (Cell == kCellGru) {
      const A reset = op_sigmoid(in + g[0] + static_cast<A>(bias[unit]));
      const A update = op_sigmoid(static_cast<A>(from[hidden + unit]) + g[1] + static_cast<A>(bias[hidden + unit]));
      const A fresh = op_tanh(static_cast<A>(from[2 * hidden + unit]) + reset * (g[2] + static_cast<A>(bias[2 * hidden + unit])));
      return update * (old - fresh) + fresh;
    } else if constexpr (Cell == kCellTanh) {
      return op_tanh(in + g[0]);
    } else {
      return op_relu(in + g[0]);
    }
  }

  AOTC_DI void run() const {
    const i64 cluster = blockIdx.x / Blocks, b0 = cluster * Rows;
    const int rank = blocks > 1 ? blockIdx.x % Blocks : 0;
    if (blocks == 1 && Blocks > 1 && blockIdx.x % Blocks != 0) return;
    const int rows = static_cast<int>(imin(batch - b0, Rows)), lane = threadIdx.x % units;
    const bool leads = threadIdx.x < units;
    A* const cells = space(cluster, 2);
    for (i64 i = rank * threads + threadIdx.x; i < Rows * width; i += blocks * threads)
      space(cluster, 0)[i] = i / width < rows ? static_cast<A>(h0[b0 * width + i]) : A(0);
    if (Cell == kCellLstm)
      for (i64 i = rank * threads + threadIdx.x; i < Rows * hidden; i += blocks * threads)
        cells[i] = i / hidden < rows ? static_cast<A>(c0[b0 * hidden + i]) : A(0);
    barrier();
    for (i64 k = 0; k < steps; ++k) {
      const i64 t = Reverse ? steps - 1 - k : k;
      const A* const state = space(cluster, static_cast<int>(k & 1));
      A* const next = space(cluster, static_cast<int>(k + 1 & 1));
      A* const to = Projected ? space(cluster, 3) : next;
      for (i64 u0 = i64(rank) * units; u0 < hidden; u0 += blocks * units) {
        const i64 unit = u0 + lane;
        A sums[gates][Rows];
        product<gates>(state, width, width, w, gates * hidden, hidden, unit, sums);
        if (leads && unit < hidden)
#pragma unroll
          for (int r = 0; r < Rows; ++r) {
            if (r >= rows) continue;
            A g[gates];
#pragma unroll
            for (int i = 0; i < gates; ++i) g[i] = sums[i][r];
            const A v = cell(g, x + row_of(t, b0 + r) * gates * hidden, unit, Cell == kCellGru ? state[r * width + unit] : A(0),
                             cells + r * hidden + unit);
            to[r * hidden + unit] = v;
            if (!Projected) out[row_of(t, b0 + r) * width + unit] = T(v);
          }
      }
      if (Projected) {
        barrier();
        for (i64 u0 = i64(rank) * units; u0 < width; u0 += blocks * units) {
          const i64 unit = u0 + lane;
          A sums[1][Rows];
          product<1>(to, hidden, hidden, w_hr, width, width, unit, sums);
          if (leads && unit < width)
#pragma unroll
            for (int r = 0; r < Rows; ++r) {
              if (r >= rows) continue;
              next[r * width + unit] = sums[0][r];
              out[row_of(t, b0 + r) * width + unit] = T(sums[0][r]);
            }
        }
      }
      barrier();
    }
    const A* const state = space(cluster, static_cast<int>(steps & 1));
    for (i64 i = rank * threads + threadIdx.x; i < rows * width; i += blocks * threads) h[b0 * width + i] = T(state[i]);
    if (Cell == kCellLstm)
      for (i64 i = rank * threads + threadIdx.x; i < rows * hidden; i += blocks * threads) c[b0 * hidden + i] = T(cells[i]);
  }
};
