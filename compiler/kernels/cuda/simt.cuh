// Products on the ordinary units, for every type: out(i, j) = sum_k A(i, k) * B(k, j). An operand is an object that finds its elements:
//
//     typedef .. Line;                    what belongs to one row of A or one column of B
//     Line line(i64 i) const;             inside the operand
//     Acc at(const Line&, i64 k) const;   element k of it
//
// so that strided memory, prologues and the windows of convolutions are one to the kernel. A thread keeps the lines of its elements.
#pragma once
#include "device.cuh"

// A strided operand: line i at base + i * line_step, element k at k * step.
template <class T, class Acc> struct StridedOperand {
  const T* base;
  i64 line_step, step;
  typedef const T* Line;
  AOTC_DI Line line(i64 i) const { return base + i * line_step; }
  AOTC_DI Acc at(Line l, i64 k) const { return static_cast<Acc>(l[k * step]); }
};

// One that is computed: f(line, k).
template <class Acc, class F> struct ComputedOperand {
  F f;
  typedef i64 Line;
  AOTC_DI Line line(i64 i) const { return i; }
  AOTC_DI Acc at(Line l, i64 k) const { return static_cast<Acc>(f(l, k)); }
};
template <class Acc, class F> AOTC_DI ComputedOperand<Acc, F> computed_operand(const F& f) { return {f}; }

template <class A, int BM, int BN, int BK, int TM, int TN> struct SimtTile {
  typedef A Acc;
  static constexpr int bm = BM, bn = BN, bk = BK, tm = TM, tn = TN, threads = (BM / TM) * (BN / TN);
  static_assert(BM * BK % threads == 0 && BN * BK % threads == 0, "tile shape");
};

// The elements of one staged tile [Lines][bk] that a thread brings. KFast: neighbours in a warp take neighbouring k.
template <class Tile, int Lines, bool KFast, class Operand> struct SimtStage {
  typedef typename Tile::Acc Acc;
  static constexpr int each = Lines * Tile::bk / Tile::threads;
  typename Operand::Line lines[each];
  bool inside[each];
  Acc held[each];

  static AOTC_DI int place(int e) { return threadIdx.x + e * Tile::threads; }
  static AOTC_DI int line_of(int e) { return KFast ? place(e) / Tile::bk : place(e) % Lines; }
  static AOTC_DI int k_of(int e) { return KFast ? place(e) % Tile::bk : place(e) / Lines; }

  AOTC_DI void start(const Operand& o, i64 first, i64 end) {
#pragma unroll
    for (int e = 0; e < each; ++e) {
      inside[e] = first + line_of(e) < end;
      lines[e] = o.line(inside[e] ? first + line_of(e) : first);
    }
  }
  AOTC_DI void load(const Operand& o, i64 k0, i64 k) {
#pragma unroll
    for (int e = 0; e < each; ++e) held[e] = inside[e] && k0 + k_of(e) < k ? o.at(lines[e], k0 + k_of(e)) : Acc(0);
  }
  AOTC_DI void put(Acc (&to)[Tile::bk][Lines + 4]) const {
#pragma unroll
    for (int e = 0; e < each; ++e) to[k_of(e)][line_of(e)] = held[e];
  }
};

// One block computes rows [m0, m0 + bm) x columns [n0, n0 + bn). Every sum runs over k in order. Out: void operator()(Acc, i64 i, i64 j).
// All threads call it; it may be called again. m0 < m and n0 < n.
template <class Tile, bool AKFast, bool BKFast, class OpA, class OpB, class Out>
AOTC_DI void simt_block(const OpA& a, const OpB& b, i64 m0, i64 n0, i64 m, i64 n, i64 k, Out out) {
  typedef typename Tile::Acc Acc;
  __shared__ Acc as[Tile::bk][Tile::bm + 4];
  __shared__ Acc bs[Tile::bk][Tile::bn + 4];
  SimtStage<Tile, Tile::bm, AKFast, OpA> sa;
  SimtStage<Tile, Tile::bn, BKFast, OpB> sb;
  sa.start(a, m0, m), sb.start(b, n0, n);
  constexpr int across = Tile::bn / Tile::tn, down = Tile::bm / Tile::tm;
  const int column = threadIdx.x % across, row = threadIdx.x / across;
  Acc acc[Tile::tm][Tile::tn];
#pragma unroll
  for (int i = 0; i < Tile::tm; ++i)
#pragma unroll
    for (int j = 0; j < Tile::tn; ++j) acc[i][j] = Acc(0);
  sa.load(a, 0, k), sb.load(b, 0, k);
  for (i64 k0 = 0; k0 < k; k0 += Tile::bk) {
    __syncthreads();
    sa.put(as), sb.put(bs);
    __syncthreads();
    if (k0 + Tile::bk < k) sa.load(a, k0 + Tile::bk, k), sb.load(b, k0 + Tile::bk, k);
#pragma unroll
    for (int kk = 0; kk < Tile::bk; ++kk) {
      Acc x[Tile::tm], y[Tile::tn];
#pragma unroll
      for (int i = 0; i < Tile::tm; ++i) x[i] = as[kk][row + i * down];
#pragma unroll
      for (int j = 0; j < Tile::tn; ++j) y[j] = bs[kk][column + j * across];
#pragma unroll
      for (int i = 0; i < Tile::tm; ++i)
#pragma unroll
        for (int j = 0; j < Tile::tn; ++j) acc[i][j] += x[i] * y[j];
    }
  }
#pragma unroll
  for (int i = 0; i < Tile::tm; ++i)
#pragma unroll
    for (int j = 0; j < Tile::tn; ++j) {
      const i64 r = m0 + row + i * down, c = n0 + column + j * across;
      if (r < m && c < n) out(acc[i][j], r, c);
    }
}
