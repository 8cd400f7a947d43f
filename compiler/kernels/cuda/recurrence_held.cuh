// A recurrent layer in one direction over all steps, whose weights stay in the registers of a cluster of blocks. A cluster has `Rows` rows of
// the batch; each block computes `units` units of the state with all their gates and has the whole state of the step before in shared
// memory. What a block computes goes straight to the shared memory of the others, whose barriers count its bytes: no other memory is
// between two steps. Dynamic shared memory: shared_bytes. Tensors as library_abi.h documents them.
#pragma once
#include "device.cuh"
#include "hopper_ptx.cuh"
#include "recurrence.cuh"

template <class V> AOTC_DI V shuffle_from(V v, int lane) {
  return by_words(v, [&](u32 w) { return __shfl_sync(0xffffffffu, w, lane); });
}

// A logistic function or, as_tanh, the hyperbolic tangent, within three units in the last place of 1; both take the same instructions.
AOTC_DI float squash(float v, bool as_tanh) {
  const float r = reciprocal_fast(1.0f + exp2_fast(v * (as_tanh ? -2.88539008f : -1.44269504f)));
  const float s = v * v;
  float near = fmaf(s, -6.19866652e-3f, 2.10205112e-2f);
  near = fmaf(s, near, -5.38405143e-2f);
  near = fmaf(s, near, 1.33324802e-1f);
  near = fmaf(s, near, -3.33333150e-1f);
  if (!as_tanh) return r;
  return s < 0.3f ? fmaf(v * s, near, v) : fmaf(2.0f, r, -1.0f);
}
AOTC_DI double squash(double v, bool as_tanh) { return as_tanh ? op_tanh(v) : op_sigmoid(v); }

// A unit's gates (cells of one gate: four units) are four columns of `Parts` neighbouring threads, which share the sum over the state and,
// when that is added up, the columns and rows. Threads: a multiple of 32; those of a block.
template <class T, int Cell, bool Reverse, int Hidden, int Rows, int Blocks, int Parts, int Threads> struct HeldRecurrence {
  typedef typename compute<T>::type A;
  static constexpr int gates = Cell == kCellLstm ? 4 : Cell == kCellGru ? 3 : 1, columns = gates == 1 ? 4 : gates;
  static constexpr int units_each = gates == 1 ? 4 : 1, units = Threads / Parts * units_each;
  static constexpr int run = 16 / static_cast<int>(sizeof(A)), runs = (Hidden + run * Parts - 1) / (run * Parts);
  static constexpr int depth = runs * run * Parts;  // of a row of the state
  static constexpr int fourth = Parts / 4;          // threads of a column
  static constexpr int shared_rows = Rows < fourth ? Rows : fourth, own_rows = Rows / shared_rows, copies = fourth / shared_rows;
  static constexpr int state_bytes = Rows * depth * static_cast<int>(sizeof(A)), shared_bytes = 2 * state_bytes + 16;
  static constexpr int ahead = 2;  // steps of x that are asked for early
  const T *x, *w, *h0, *c0, *bias;
  T *out, *h, *c;
  i64 steps, batch, step_rows, batch_rows;

  AOTC_DI static A* state_of(int which) {
    extern __shared__ __align__(16) char shared[];
    return reinterpret_cast<A*>(shared + which * state_bytes);
  }
  AOTC_DI static u32 barrier_of(int which) { return shared_address(state_of(2)) + which * 8; }

  // Places of this thread.
  int part, column, q, row0;
  i64 b0, unit, n;  // unit: of the thread; where there are four, the first
  bool speaks;      // for its rows, and where a cell has one gate for its unit
  AOTC_DI i64 own_unit() const { return gates == 1 ? unit + column : unit; }

  AOTC_DI void load_weights(A (&held)[columns][runs * run]) const {
#pragma unroll
    for (int j = 0; j < runs; ++j)
#pragma unroll
      for (int e = 0; e < run; ++e)
#pragma unroll
        for (int i = 0; i < columns; ++i) {
          const int k = (j * Parts + part) * run + e;
          const i64 u = gates == 1 ? unit + i : unit;
          held[i][j * run + e] = k < Hidden && u < Hidden ? static_cast<A>(w[k * n + (gates == 1 ? u : i * Hidden + u)]) : A(0);
        }
  }

  AOTC_DI void begin_state(int rank) const {
    for (int i = threadIdx.x; i < 2 * Rows * depth; i += Threads) {
      const int r = i / depth, k = i % depth;
      state_of(0)[i] = r < Rows && k < Hidden && b0 + r < batch ? static_cast<A>(h0[(b0 + r) * Hidden + k]) : A(0);
    }
    if constexpr (Blocks > 1) {
      if (threadIdx.x == 0) {
        barrier_init(barrier_of(0), 1), barrier_init(barrier_of(1), 1);
        barriers_are_made();
        barrier_expect(barrier_of(0), Hidden * Rows * static_cast<int>(sizeof(A)));
        barrier_expect(barrier_of(1), Hidden * Rows * static_cast<int>(sizeof(A)));
      }
      __syncthreads();
      cluster_arrive();
      cluster_wait();
    } else {
      __syncthreads();
    }
  }

  // The state's part of this thread's column and rows, complete.
  AOTC_DI void product(const A (&held)[columns][runs * run], const A* state, A (&mine)[own_rows]) const {
    A s[4][Rows];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int r = 0; r < Rows; ++r) s[i][r] = A(0);
#pragma unroll
    for (int j = 0; j < runs; ++j)
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        const Wide<A, run> v = load_wide<A, run>(state + r * depth + (j * Parts + part) * run);
#pragma unroll
        for (int e = 0; e < run; ++e)
#pragma unroll
          for (int i = 0; i < columns; ++i) s[i][r] += v.v[e] * held[i][j * run + e];
      }
    A t[2][Rows];
    const bool upper = part & 2 * fourth, odd = part & fourth;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      t[0][r] = (upper ? s[2][r] : s[0][r]) + shuffle_xor(upper ? s[0][r] : s[2][r], 2 * fourth);
      t[1][r] = (upper ? s[3][r] : s[1][r]) + shuffle_xor(upper ? s[1][r] : s[3][r], 2 * fourth);
    }
    A all[Rows];
#pragma unroll
    for (int r = 0; r < Rows; ++r) all[r] = (odd ? t[1][r] : t[0][r]) + shuffle_xor(odd ? t[0][r] : t[1][r], fourth);
    add_rows<Rows, fourth / 2>(all);
#pragma unroll
    for (int r = 0; r < own_rows; ++r) mine[r] = all[r];
  }
  // Sums over the threads of a column: those that differ in Mask keep half of N rows each while there are as many.
  template <int N, int Mask> AOTC_DI void add_rows(A (&all)[Rows]) const {
    if constexpr (Mask > 0) {
      if constexpr (N > 1) {
        const bool upper = part & Mask;
#pragma unroll
        for (int r = 0; r < N / 2; ++r)
          all[r] = (upper ? all[r + N / 2] : all[r]) + shuffle_xor(upper ? all[r] : all[r + N / 2], Mask);
        add_rows<N / 2, Mask / 2>(all);
      } else {
        all[0] += shuffle_xor(all[0], Mask);
        add_rows<1, Mask / 2>(all);
      }
    }
  }

  // The state of a unit and row from the sum of this thread's gate; in: the input's part of it.
  AOTC_DI A cell(A sum, A in, A extra, A old, A& cell_state) const {
    const int first = (threadIdx.x & 31) - part + q;
    if constexpr (Cell == kCellLstm) {
      const A g = squash(in + sum, column == 2);
      const A i = shuffle_from(g, first), f = shuffle_from(g, first + fourth), v = shuffle_from(g, first + 2 * fourth);
      const A o = shuffle_from(g, first + 3 * fourth);
      cell_state = f * cell_state + i * v;
      return o * squash(cell_state, true);
    } else if constexpr (Cell == kCellGru) {
      const A g = sum + extra;
      const A gate = squash(in + g, false);
      const A reset = shuffle_from(gate, first), update = shuffle_from(gate, first + fourth);
      const A fresh = shuffle_from(squash(in + reset * g, true), first + 2 * fourth);
      return update * (old - fresh) + fresh;
    } else if constexpr (Cell == kCellTanh) {
      return squash(in + sum, true);
    } else {
      return op_relu(in + sum);
    }
  }

  // A number of the next state to all blocks of the cluster.
  AOTC_DI void tell(int which, int row, A v) const {
    constexpr int tellers = gates == 1 ? copies : 4 * copies;
    A* const at = state_of(which) + row * depth + own_unit();
    const int me = (gates == 1 ? 0 : column * copies) + q % copies;
    if (own_unit() >= Hidden) return;
    if constexpr (Blocks > 1) {
#pragma unroll
      for (int to = 0; to < Blocks; to += tellers)
        if (to + me < Blocks) store_to_block(to + me, shared_address(at), v, barrier_of(which));
    } else {
      if (me == 0) *at = v;
    }
  }

  AOTC_DI void run_layer() {
    const int rank = Blocks > 1 ? blockIdx.x % Blocks : 0, lane_group = threadIdx.x / Parts;
    part = threadIdx.x % Parts, column = part / fourth, q = part % fourth, row0 = q / copies * own_rows;
    b0 = i64(blockIdx.x / Blocks) * Rows, unit = i64(rank) * units + lane_group * units_each, n = i64(gates) * Hidden;
    speaks = q % copies == 0 && (gates == 1 || column == 0) && own_unit() < Hidden;
    A held[columns][runs * run];
    load_weights(held);
    begin_state(rank);
    const i64 warps_first = i64(rank) * units + (threadIdx.x & ~31) / Parts * units_each;
    if (Blocks > 1 && warps_first >= Hidden) return;  // a warp that nobody hears
    A cells[own_rows] = {}, old[own_rows] = {}, extra = A(0);
    T coming[ahead][own_rows];
    const bool reads = own_unit() < Hidden && column < columns;
    const i64 x0 = gates == 1 ? own_unit() : column * Hidden + unit, stride = step_rows * n;
    if (Cell == kCellGru && reads) extra = static_cast<A>(bias[x0]);
    const T* from = x + x0 + (Reverse ? (steps - 1) * stride : 0);
    const auto ask = [&](T (&to)[own_rows], i64 k) {
#pragma unroll
      for (int r = 0; r < own_rows; ++r) {
        to[r] = T(0.0f);
        if (reads && k < steps && b0 + row0 + r < batch) to[r] = from[(b0 + row0 + r) * batch_rows * n];
      }
      from += Reverse ? -stride : stride;
    };
#pragma unroll
    for (int r = 0; r < own_rows; ++r) {
      if (own_unit() < Hidden && b0 + row0 + r < batch) {
        const i64 at = (b0 + row0 + r) * Hidden + own_unit();
        old[r] = static_cast<A>(h0[at]);
        if (Cell == kCellLstm) cells[r] = static_cast<A>(c0[at]);
      }
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) ask(coming[i], i);
    T* to = out + own_unit() + (Reverse ? (steps - 1) * step_rows * Hidden : 0);
    for (i64 k = 0; k < steps; ++k) {
      const int which = static_cast<int>(k & 1);
      if constexpr (Blocks > 1) {
        if (k > 0) {
          barrier_wait(barrier_of(which), static_cast<u32>(k - 1 >> 1 & 1));
          if (threadIdx.x == 0) barrier_expect(barrier_of(which), Hidden * Rows * static_cast<int>(sizeof(A)));
        }
      }
      A sums[own_rows];
      product(held, state_of(which), sums);
#pragma unroll
      for (int r = 0; r < own_rows; ++r) {
        old[r] = cell(sums[r], static_cast<A>(coming[0][r]), extra, old[r], cells[r]);
        if (k + 1 < steps) tell(which ^ 1, row0 + r, old[r]);
      }
      if constexpr (Blocks == 1) __syncthreads();
#pragma unroll
      for (int r = 0; r < own_rows; ++r)
        if (speaks && b0 + row0 + r < batch) to[(b0 + row0 + r) * batch_rows * Hidden] = T(old[r]);
      to += (Reverse ? -step_rows : step_rows) * Hidden;
#pragma unroll
      for (int i = 0; i + 1 < ahead; ++i)
#pragma unroll
        for (int r = 0; r < own_rows; ++r) coming[i][r] = coming[i + 1][r];
      ask(coming[ahead - 1], k + ahead);
    }
#pragma unroll
    for (int r = 0; r < own_rows; ++r) {
      const i64 at = (b0 + row0 + r) * Hidden + own_unit();
      if (!speaks || b0 + row0 + r >= batch) continue;
      h[at] = T(old[r]);
      if (Cell == kCellLstm) c[at] = T(cells[r]);
    }
  }
};
