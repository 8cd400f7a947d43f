// Attention on the ordinary units: every type, head sizes of any length.
#pragma once
#include "attention_problem.cuh"
#include "limits.cuh"

struct AttnPlain {
  static constexpr int rows = kPlainAttentionRows, keys = kPlainAttentionKeys, slice = 32, columns = kPlainAttentionColumns, threads = kPlainAttentionThreads;
};

// Work units: batch x key heads x tiles of rows x slices of the result's channels.
template <bool Causal, class T, class Acc, class M, class K> AOTC_DI void attention_plain(const AttnProblem<T, Acc, M, K>& p) {
  typedef AttnPlain P;
  constexpr bool scaled_rows = AttnScales<K>::scaled;
  __shared__ Acc qs[P::rows][P::slice + 1], ks[P::keys][P::slice + 1], ps[P::rows][P::keys + 1], down[P::rows];
  const i64 rows = p.rows(), tiles = (rows + P::rows - 1) / P::rows, slices = (p.v_dim + P::columns - 1) / P::columns;
  const int tid = threadIdx.x, row = tid / 8, lane = tid % 8;
  for (i64 unit = blockIdx.x; unit < p.batch * p.kv_heads * tiles * slices; unit += gridDim.x) {
    const i64 column = unit % slices * P::columns + tid, r0 = unit / slices % tiles * P::rows, of = unit / slices / tiles;
    const i64 b = of / p.kv_heads, head = of % p.kv_heads, r = imin(r0 + row, rows - 1), r1 = imin(r0 + P::rows, rows);
    const AttnSeen seen = p.seen_by(b, head, r0, r1);
    const i64 end = imin(p.keys_of(r0, r1, Causal), seen.end);
    const M* const mask = p.mask(b, head, r);
    const K* const key = p.pk + p.k.base + b * p.k.b + head * p.k.h;
    const K* const value = p.pv + p.v.base + b * p.v.b + head * p.v.h + (column < p.v_dim ? column : 0) * p.v.e;
    Acc m = lowest<Acc>(), l = Acc(0), o[P::rows];
#pragma unroll
    for (int i = 0; i < P::rows; ++i) o[i] = Acc(0);
    for (i64 s0 = seen.begin / P::keys * P::keys; s0 < end; s0 += P::keys) {
      Acc s[4] = {Acc(0), Acc(0), Acc(0), Acc(0)};
      for (i64 e0 = 0; e0 < p.head_dim; e0 += P::slice) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < P::rows * P::slice / P::threads; ++i) {
          const int line = tid / P::slice + i * (P::threads / P::slice), e = tid % P::slice;
          qs[line][e] = r0 + line < rows && e0 + e < p.head_dim ? static_cast<Acc>(p.query(b, head, r0 + line)[(e0 + e) * p.q.e]) * p.share : Acc(0);
        }
#pragma unroll
        for (int i = 0; i < P::keys * P::slice / P::threads; ++i) {
          const int line = tid / P::slice + i * (P::threads / P::slice), e = tid % P::slice;
          const bool inside = s0 + line < end && e0 + e < p.head_dim;
          ks[line][e] = inside ? static_cast<Acc>(key[(s0 + line) * p.k.s + (e0 + e) * p.k.e]) : Acc(0);
          if constexpr (scaled_rows)
            if (inside) ks[line][e] *= p.of_keys(b, head)[(s0 + line) * p.ks.s];
        }
        __syncthreads();
#pragma unroll 8
        for (int e = 0; e < P::slice; ++e)
#pragma unroll
          for (int i = 0; i < 4; ++i) s[i] += qs[row][e] * ks[lane + i * 8][e];
      }
      Acc top = m;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const i64 at = s0 + lane + i * 8;
        const bool seen = at < end && !(Causal && at > p.position(r));
        s[i] = seen ? masked(scaled(s[i], p.scale), mask, at * p.m.e, p.fills) : lowest<Acc>();
        top = larger(top, s[i]);
      }
#pragma unroll
      for (int x = 1; x < 8; x *= 2) top = larger(top, shuffle_xor(top, x));
      const Acc base = subtracted(top), scale = exp_of(m - base);
      Acc sum = Acc(0);
      __syncthreads();  // the last block of keys was read
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Acc e = exp_of(s[i] - base);
        ps[row][lane + i * 8] = e;
        sum += e;
      }
#pragma unroll
      for (int x = 1; x < 8; x *= 2) sum += shuffle_xor(sum, x);
      l = l * scale + sum;
      m = top;
      if (lane == 0) down[row] = scale;
      __syncthreads();
      if (column < p.v_dim) {
#pragma unroll
        for (int i = 0; i < P::rows; ++i) o[i] *= down[i];
        const int width = static_cast<int>(imin(end - s0, P::keys));
        for (int k = 0; k < width; ++k) {
          Acc v = static_cast<Acc>(value[(s0 + k) * p.v.s]);
          if constexpr (scaled_rows) v *= p.of_values(b, head)[(s0 + k) * p.vs.s];
#pragma unroll
          for (int i = 0; i < P::rows; ++i) o[i] += ps[i][k] * v;
        }
      }
    }
    __syncthreads();
    if (lane == 0) down[row] = p.share_of(b, p.head_of(head, r), p.position(r), m, l);
    __syncthreads();
    if (column < p.v_dim)
#pragma unroll
      for (int i = 0; i < P::rows; ++i)
        if (r0 + i < rows) p.result(b, head, r0 + i)[column * p.o.e] = T(o[i] * down[i]);
    __syncthreads();
  }
}
