// Attention on tensor cores in one pass over the keys, of float (three tf32 products, or one), f16, bf16. Scores stay in registers and shared
// memory, the row's maximum and sum are carried along, and what was summed under an older maximum is scaled down.
#pragma once
#include "attention_problem.cuh"
#include "gemm.cuh"

// Tiles of WarpsM * 16 rows; KWarps warps share a tile's rows, each with `Keys` keys of its own; Split blocks of a cluster share the keys.
// Products: of tf32, for one of float. K: what keys and values are stored as. Of bytes, which become numbers of 16 bits on their way into
// registers, a product's columns stand in another order: a query's channels in shared memory (attn_queries), and those of a result (channel()).
template <class T, int E, int V, int WarpsM, int KWarps, int Keys, int Stages, int Split, int Products, class K = T> struct AttnTile {
  typedef K Stored;
  static constexpr int rows = WarpsM * 16, warps_m = WarpsM, k_warps = KWarps, keys = Keys, stages = Stages, threads = WarpsM * KWarps * 32;
  static constexpr int products = Products;
  static constexpr int split = has_clusters ? Split : 1, parts = KWarps * split;
  static constexpr int chunk = 16 / sizeof(T), e = (E + 15) / 16 * 16, v = (V + 15) / 16 * 16, ld_e = e + chunk;
  static constexpr int stored_chunk = 16 / sizeof(K), ld_k = e + stored_chunk, ld_v = v + stored_chunk;
  static constexpr bool scaled = AttnScales<K>::scaled, mixed = sizeof(K) == 1 && sizeof(T) == 2;
  // Keys of one stage; bytes: keys, values, then their scales.
  static constexpr int step = KWarps * Keys, values_at = step * ld_k * int(sizeof(K)), scales_at = values_at + step * ld_v * int(sizeof(K));
  static constexpr int stage_bytes = scales_at + (scaled ? 8 * step : 0);
  // Weights are of T, but for integers: times the scales of values f16 might not hold them.
  typedef typename choose<scaled && same<T, f16>::value, bf16, T>::type Weight;
  // What a product with pairs of P is multiplied by (AttnBytes).
  template <class P> static AOTC_DI constexpr float unit() {
    if constexpr (mixed) return 1.0f / AttnBytes<P, K>::unit;
    else return 1.0f;
  }
  // The channel of a thread's sum o[j][2 * h + r].
  static AOTC_DI int channel(int j, int quad, int r) { return mixed ? j / 2 * 16 + quad * 4 + r * 2 + j % 2 : j * 8 + quad * 2 + r; }
  static constexpr int ld_part = v + 4, part = rows * (ld_part + 2);              // sums, then maxima, then sums of exponents
};
// One operand's rows on their way to shared memory, as gemm_stage wants to know it.
template <class K, class Tile, int Columns> struct AttnStage {
  static constexpr int threads = Tile::threads, chunk = 16 / sizeof(K), bk = Columns, ld = Columns + chunk;
};

template <class T> AOTC_DI u32 packed(float low, float high) {
  if constexpr (same<T, bf16>::value) return bf16_pair(low, high);
  else return f16_pair(low, high);
}

// s += rows of q times keys; both with the channels contiguous.
template <class T, class Tile> AOTC_DI void attn_scores(const T* q, const typename Tile::Stored* k, float (&s)[Tile::keys / 8][4]) {
  const int lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
  if constexpr (same<T, float>::value) {
#pragma unroll 2
    for (int c = 0; c < Tile::e; c += 8) {
      float a[4];
      Tf32<4, Tile::products> af;
      bool odd = false;
#pragma unroll
      for (int r = 0; r < 4; ++r) a[r] = q[(group + (r & 1) * 8) * Tile::ld_e + c + quad + (r >> 1) * 4];
      tf32_take(OddNumbers(), a, af, odd);
#pragma unroll
      for (int j = 0; j < Tile::keys / 8; ++j) {
        const auto* const key = k + (j * 8 + group) * Tile::ld_k + c + quad;
        const float b[2] = {static_cast<float>(key[0]), static_cast<float>(key[4])};
        Tf32<2, Tile::products> bf;
        tf32_take(OddNumbers(), b, bf, odd);
        tf32_multiply(s[j], af, bf);
      }
    }
  } else {
#pragma unroll 4
    for (int c = 0; c < Tile::e; c += 16) {
      u32 af[4];
      load_matrices(af, &q[(lane & 15) * Tile::ld_e + c + (lane >> 4) * 8]);
      if constexpr (Tile::mixed) {
#pragma unroll
        for (int j = 0; j < Tile::keys / 8; ++j) {
          u32 bf[2];
          AttnBytes<T, typename Tile::Stored>::pairs(*reinterpret_cast<const u32*>(&k[(j * 8 + group) * Tile::ld_k + c + quad * 4]), bf);
          mma_16(T(), s[j], af, bf);
        }
      } else {
#pragma unroll
        for (int j = 0; j < Tile::keys / 8; j += 2) {
          u32 bf[4];
          load_matrices(bf, &k[(j * 8 + (lane & 7) + (lane >> 4) * 8) * Tile::ld_k + c + ((lane >> 3) & 1) * 8]);
          const u32 b0[2] = {bf[0], bf[1]}, b1[2] = {bf[2], bf[3]};
          mma_16(T(), s[j], af, b0);
          mma_16(T(), s[j + 1], af, b1);
        }
      }
    }
  }
}
// o += p times values. The accumulators of the scores are fragments of p as they are; tf32 products take the keys in another order, which
// is that of both factors.
template <class T, class Tile>
AOTC_DI void attn_values(const float (&p)[Tile::keys / 8][4], const typename Tile::Stored* v, float (&o)[Tile::v / 8][4]) {
  const int lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
  if constexpr (same<T, float>::value) {
#pragma unroll
    for (int k = 0; k < Tile::keys / 8; ++k) {
      const float a[4] = {p[k][0], p[k][2], p[k][1], p[k][3]};
      Tf32<4, Tile::products> af;
      bool odd = false;
      tf32_take(OddNumbers(), a, af, odd);
#pragma unroll
      for (int j = 0; j < Tile::v / 8; ++j) {
        const auto* const value = v + (k * 8 + 2 * quad) * Tile::ld_v + j * 8 + group;
        const float b[2] = {static_cast<float>(value[0]), static_cast<float>(value[Tile::ld_v])};
        Tf32<2, Tile::products> bf;
        tf32_take(OddNumbers(), b, bf, odd);
        tf32_multiply(o[j], af, bf);
      }
    }
  } else {
#pragma unroll
    for (int k = 0; k < Tile::keys / 16; ++k) {
      typedef typename Tile::Weight W;
      const u32 af[4] = {packed<W>(p[2 * k][0], p[2 * k][1]), packed<W>(p[2 * k][2], p[2 * k][3]),
                         packed<W>(p[2 * k + 1][0], p[2 * k + 1][1]), packed<W>(p[2 * k + 1][2], p[2 * k + 1][3])};
      if constexpr (Tile::mixed) {  // in pairs of channels; a thread has two neighbours of a key
#pragma unroll
        for (int j = 0; j < Tile::v / 8; j += 4) {
          const int next = j + 2 < Tile::v / 8 ? 16 : 0;
          u32 w[4];
          load_matrices_transposed(w, &v[(k * 16 + (lane & 7) + ((lane >> 3) & 1) * 8) * Tile::ld_v + j * 8 + (lane >> 4) * next]);
#pragma unroll
          for (int h = 0; h < 2 && j + 2 * h < Tile::v / 8; ++h) {
            u32 low[2], high[2];
            AttnBytes<W, typename Tile::Stored>::pairs(w[2 * h], low);
            AttnBytes<W, typename Tile::Stored>::pairs(w[2 * h + 1], high);
            const u32 even[2] = {low[0], high[0]}, odd[2] = {low[1], high[1]};
            mma_16(W(), o[j + 2 * h], af, even);
            mma_16(W(), o[j + 2 * h + 1], af, odd);
          }
        }
        continue;
      }
#pragma unroll
      for (int j = 0; j < Tile::v / 8; j += 2) {
        u32 bf[4];
        load_matrices_transposed(bf, &v[(k * 16 + (lane & 7) + ((lane >> 3) & 1) * 8) * Tile::ld_v + j * 8 + (lane >> 4) * 8]);
        const u32 b0[2] = {bf[0], bf[1]}, b1[2] = {bf[2], bf[3]};
        mma_16(T(), o[j], af, b0);
        mma_16(T(), o[j + 1], af, b1);
      }
    }
  }
}

// Queries of rows [r0, r0 + rows) to shared memory, zeros beyond.
template <class T, class Tile, class Problem> AOTC_DI void attn_queries(T* to, const Problem& p, i64 b, i64 head, i64 r0) {
  constexpr int per_row = Tile::e / Tile::chunk, chunks = Tile::rows * per_row;
  const int left = static_cast<int>(imin(p.rows() - r0, Tile::rows));
  const i64 group = quotient(p.heads, p.kv_heads);
  const T* const first = p.pq + p.q.base + b * p.q.b + head * group * p.q.h;
  auto keep = [&](int row, int c, Wide<T, Tile::chunk> w) {
    if constexpr (!same<T, f16>::value) {
#pragma unroll
      for (int i = 0; i < Tile::chunk; ++i) w.v[i] = T(static_cast<float>(w.v[i]) * p.share);
    }
    if constexpr (Tile::mixed) {  // in the order in which a thread takes four bytes of a key: of four channels the even ones, then the odd ones
      T* const at = to + row * Tile::ld_e + c / 16 * 16 + c % 16 / 2;
      keep_wide(at, Wide<T, 4>{w.v[0], w.v[2], w.v[4], w.v[6]});
      keep_wide(at + 8, Wide<T, 4>{w.v[1], w.v[3], w.v[5], w.v[7]});
    } else {
      *reinterpret_cast<Wide<T, Tile::chunk>*>(to + row * Tile::ld_e + c) = w;
    }
  };
  if constexpr (Tile::threads % per_row == 0 && chunks % Tile::threads == 0) {
    const bool wide = p.q.e == 1 && p.head_dim == Tile::e && aligned16(first) && (group == 1 || p.q.h % Tile::chunk == 0) &&
                      (p.q_len == 1 || p.q.s % Tile::chunk == 0);
    if (wide) {  // a thread's chunks lie below each other; several are under way at once
      constexpr int down = Tile::threads / per_row, times = chunks / Tile::threads, together = times < 4 ? times : 4;
      const int row = threadIdx.x / per_row, c = threadIdx.x % per_row * Tile::chunk;
      const i64 heads_down = quotient(down, p.q_len), positions_down = down - heads_down * p.q_len;
      i64 h = quotient(r0 + row, p.q_len), at = r0 + row - h * p.q_len;
#pragma unroll 1
      for (int begin = 0; begin < times; begin += together) {
        Wide<T, Tile::chunk> w[together];
#pragma unroll
        for (int i = 0; i < together; ++i) {
          w[i] = {};
          if (row + (begin + i) * down < left) w[i] = load_wide<T, Tile::chunk>(first + h * p.q.h + at * p.q.s + c);
          h += heads_down, at += positions_down;
          if (at >= p.q_len) at -= p.q_len, ++h;
        }
#pragma unroll
        for (int i = 0; i < together; ++i) keep(row + (begin + i) * down, c, w[i]);
      }
      return;
    }
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < chunks; i += Tile::threads) {
    const int row = i / per_row, c = i % per_row * Tile::chunk;
    Wide<T, Tile::chunk> w{};
    if (row < left) {
      const T* const from = p.query(b, head, r0 + row);
      if (p.q.e == 1 && c + Tile::chunk <= p.head_dim && aligned16(from + c)) {
        w = load_wide<T, Tile::chunk>(from + c);
      } else {
#pragma unroll
        for (int e = 0; e < Tile::chunk; ++e)
          if (c + e < p.head_dim) w.v[e] = from[(c + e) * p.q.e];
      }
    }
    keep(row, c, w);
  }
}

// What one warp has of its 16 rows: rows lane / 4 and 8 below that.
template <class Tile> struct AttnSums {
  float o[Tile::v / 8][4], m[2], l[2];
};

// One block computes rows [r0, r0 + rows) of key head (b, head); the blocks of a cluster share the keys.
template <class Tile, bool Causal, class T, class M, class K>
AOTC_DI void attn_block(const AttnProblem<T, float, M, K>& p, i64 b, i64 head, i64 r0, int rank) {
  extern __shared__ __align__(16) char shared[];
  T* const qs = reinterpret_cast<T*>(shared);
  char* const ring = reinterpret_cast<char*>(qs + Tile::rows * Tile::ld_e);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int warp_m = warp % Tile::warps_m * 16, k_warp = warp / Tile::warps_m;
  const i64 rows = p.rows(), r1 = imin(r0 + Tile::rows, rows);
  const AttnSeen seen = p.seen_by(b, head, r0, r1);
  const i64 end = imin(p.keys_of(r0, r1, Causal), seen.end);
  const int begin = static_cast<int>(imin(seen.begin, end) / Tile::step), tiles = static_cast<int>((end + Tile::step - 1) / Tile::step) - begin;
  const int first = begin + static_cast<int>(i64(tiles) * rank / Tile::split), last = begin + static_cast<int>(i64(tiles) * (rank + 1) / Tile::split);
  const K* const pk = p.pk + p.k.base + b * p.k.b + head * p.k.h;
  const K* const pv = p.pv + p.v.base + b * p.v.b + head * p.v.h;
  auto issue = [&](int tile) {
    if (tile < last) {
      char* const stage = ring + (tile - first) % Tile::stages * Tile::stage_bytes;
      const i64 s0 = i64(tile) * Tile::step;
      gemm_stage<K, AttnStage<K, Tile, Tile::e>, Tile::step, true>(reinterpret_cast<K*>(stage), gemm_source(pk + s0 * p.k.s, p.k.s, p.k.e, end - s0), 0,
                                                                  p.head_dim);
      gemm_stage<K, AttnStage<K, Tile, Tile::v>, Tile::step, true>(reinterpret_cast<K*>(stage + Tile::values_at),
                                                                  gemm_source(pv + s0 * p.v.s, p.v.s, p.v.e, end - s0), 0, p.v_dim);
      if constexpr (Tile::scaled) {  // one row of scales each
        typedef AttnStage<float, Tile, Tile::step> Row;
        float* const scales = reinterpret_cast<float*>(stage + Tile::scales_at);
        gemm_stage<float, Row, 1, true>(scales, gemm_source(p.of_keys(b, head) + s0 * p.ks.s, 0, p.ks.s, 1), 0, end - s0);
        gemm_stage<float, Row, 1, true>(scales + Tile::step, gemm_source(p.of_values(b, head) + s0 * p.vs.s, 0, p.vs.s, 1), 0, end - s0);
      }
    }
    copies_commit();
  };
  __syncthreads();  // what used the memory before is done
  attn_queries<T, Tile>(qs, p, b, head, r0);
  for (int s = 0; s < Tile::stages - 1; ++s) issue(first + s);

  i64 row[2], from[2], to[2];  // the keys that a row sees where that is a range
  const M* mask[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    row[h] = imin(r0 + warp_m + group + h * 8, rows - 1);
    mask[h] = p.mask(b, head, row[h]);
    from[h] = 0, to[h] = Causal ? imin(end, p.position(row[h]) + 1) : end;
    if (!seen.whole) continue;
    const AttnSeen own = p.seen_at(b, p.head_of(head, row[h]), p.position(row[h]));
    from[h] = own.begin, to[h] = imin(to[h], own.end);
  }
  AttnSums<Tile> sums;
  clear(sums.o);
#pragma unroll
  for (int h = 0; h < 2; ++h) sums.m[h] = lowest<float>(), sums.l[h] = 0.0f;

  for (int tile = first; tile < last; ++tile) {
    if (Tile::stages > 1) {
      copies_wait<(Tile::stages > 1 ? Tile::stages - 2 : 0)>();
      __syncthreads();
      issue(tile + Tile::stages - 1);
    } else {
      issue(tile);
      copies_wait<0>();
      __syncthreads();
    }
    const char* const stage = ring + (tile - first) % Tile::stages * Tile::stage_bytes;
    // The thread's scales: of keys; of values.
    const float* const scales = reinterpret_cast<const float*>(stage + Tile::scales_at) + k_warp * Tile::keys + quad * 2;
    auto scale_by = [&](float (&x)[Tile::keys / 8][4], const float* of, float unit) {
#pragma unroll
      for (int j = 0; j < Tile::keys / 8; ++j) {
        const Wide<float, 2> by = load_wide<float, 2>(of + j * 8);
#pragma unroll
        for (int r = 0; r < 4; ++r) x[j][r] *= by.v[r & 1] * unit;
      }
    };
    float s[Tile::keys / 8][4];
    clear(s);
    attn_scores<T, Tile>(qs + warp_m * Tile::ld_e, reinterpret_cast<const K*>(stage) + k_warp * Tile::keys * Tile::ld_k, s);
    if constexpr (Tile::scaled) scale_by(s, scales, Tile::template unit<T>());
    // Keys of this thread that a row sees: those at j * 8 + (0, 1) below its limit.
    const i64 s0 = i64(tile) * Tile::step + k_warp * Tile::keys + quad * 2;
    int limit[2], low[2];
#pragma unroll
    for (int h = 0; h < 2; ++h)
      limit[h] = static_cast<int>(imax(imin(to[h] - s0, Tile::keys), 0)), low[h] = static_cast<int>(imin(from[h] - s0, Tile::keys));
    // With a positive scale the maximum is that of the raw scores, which are scaled with their exponent.
    const bool raw = (same<M, NoMask>::value || seen.whole) && p.scale > 0.0f;
    if (!raw) {
#pragma unroll
      for (int j = 0; j < Tile::keys / 8; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          s[j][r] *= p.scale;
          if (!seen.whole && j * 8 + (r & 1) < limit[r >> 1]) s[j][r] = masked(s[j][r], mask[r >> 1], (s0 + j * 8 + (r & 1)) * p.m.e, p.fills);
        }
    }
    if (limit[0] < Tile::keys || limit[1] < Tile::keys || low[0] > 0 || low[1] > 0) {
#pragma unroll
      for (int j = 0; j < Tile::keys / 8; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r)
          if (j * 8 + (r & 1) >= limit[r >> 1] || j * 8 + (r & 1) < low[r >> 1]) s[j][r] = lowest<float>();
    }
    float top[2] = {lowest<float>(), lowest<float>()};
#pragma unroll
    for (int j = 0; j < Tile::keys / 8; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) top[r >> 1] = larger(top[r >> 1], s[j][r]);
    const float by = raw ? p.scale : 1.0f;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      top[h] = larger(top[h], shuffle_xor(top[h], 1));
      top[h] = larger(sums.m[h], scaled(larger(top[h], shuffle_xor(top[h], 2)), by));
      // By base 2 in one multiply-add a score.
      const float limit_e = subtracted(top[h]);
      float factor = by * kLog2e, base = __fmul_rn(limit_e, kLog2e), down = exp2_fast(__fmul_rn(sums.m[h], kLog2e) - base);
      if (!(fabsf(base) < kFarMaximum)) {
        down = exp2_fast((sums.m[h] - limit_e) * kLog2e);
#pragma unroll
        for (int j = 0; j < Tile::keys / 8; ++j)
#pragma unroll
          for (int r = 2 * h; r < 2 * h + 2; ++r) s[j][r] = scaled(s[j][r], by) - limit_e;
        factor = kLog2e, base = 0.0f;
      }
      sums.l[h] *= down;
      sums.m[h] = top[h];
#pragma unroll
      for (int j = 0; j < Tile::keys / 8; ++j)
#pragma unroll
        for (int r = 2 * h; r < 2 * h + 2; ++r) {
          s[j][r] = exp2_fast(s[j][r] * factor - base);
          sums.l[h] += s[j][r];
        }
#pragma unroll
      for (int j = 0; j < Tile::v / 8; ++j) sums.o[j][2 * h] *= down, sums.o[j][2 * h + 1] *= down;
    }
    if constexpr (Tile::scaled) scale_by(s, scales + Tile::step, Tile::template unit<typename Tile::Weight>());
    attn_values<T, Tile>(s, reinterpret_cast<const K*>(stage + Tile::values_at) + k_warp * Tile::keys * Tile::ld_v, sums.o);
    if (Tile::stages == 1) __syncthreads();
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sums.l[h] += shuffle_xor(sums.l[h], 1);
    sums.l[h] += shuffle_xor(sums.l[h], 2);
  }
  copies_wait<0>();

  if constexpr (Tile::parts == 1) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (r0 + warp_m + group + h * 8 >= rows) continue;
      T* const to = p.result(b, head, row[h]);
      const float by = p.share_of(b, p.head_of(head, row[h]), p.position(row[h]), sums.m[h], sums.l[h]);
#pragma unroll
      for (int j = 0; j < Tile::v / 8; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int c = Tile::channel(j, quad, r);
          if (c < p.v_dim) to[c * p.o.e] = T(sums.o[j][2 * h + r] * by);
        }
    }
  } else {
    float* const parts = reinterpret_cast<float*>(shared);
    float* const own = parts + k_warp * Tile::part;
    __syncthreads();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = warp_m + group + h * 8;
#pragma unroll
      for (int j = 0; j < Tile::v / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) own[r * Tile::ld_part + Tile::channel(j, quad, i)] = sums.o[j][2 * h + i];
      if (quad == 0) own[Tile::rows * Tile::ld_part + r] = sums.m[h], own[Tile::rows * (Tile::ld_part + 1) + r] = sums.l[h];
    }
    if (Tile::split > 1) cluster_barrier();
    else __syncthreads();
    auto part = [&](int n, int at) {
      const float* const from = parts + n % Tile::k_warps * Tile::part + at;
      return Tile::split > 1 ? load_of_block(from, n / Tile::k_warps) : *from;
    };
    // Of the rows that there are, each block of the cluster finishes a share, four channels by `lanes` threads at a time.
    constexpr int quads = Tile::v / 4, room = Tile::threads * Tile::split / (Tile::rows * quads);
    constexpr int lanes = room >= 8 && Tile::parts >= 8 ? 8 : room >= 4 && Tile::parts >= 4 ? 4 : room >= 2 ? 2 : 1;
    constexpr int row_lanes = Tile::parts < 32 ? Tile::parts : 32;
    const int items = static_cast<int>(imin(rows - r0, Tile::rows)) * quads, from_item = items * rank / Tile::split,
              to_item = items * (rank + 1) / Tile::split;
    // How much of each part a row takes: by a lane a part.
    __shared__ float share[Tile::rows * Tile::parts];
#pragma unroll 1
    for (int top = from_item / quads; top * quads < to_item; top += Tile::threads / row_lanes) {
      const int r = top + threadIdx.x / row_lanes, first_part = threadIdx.x % row_lanes;
      const bool has = r * quads < to_item;
      float own_m[Tile::parts / row_lanes], own_l[Tile::parts / row_lanes], m = lowest<float>(), l = 0.0f;
#pragma unroll
      for (int i = 0; i < Tile::parts / row_lanes; ++i) {
        own_m[i] = has ? part(first_part + i * row_lanes, Tile::rows * Tile::ld_part + r) : lowest<float>();
        own_l[i] = has ? part(first_part + i * row_lanes, Tile::rows * (Tile::ld_part + 1) + r) : 0.0f;
        m = larger(m, own_m[i]);
      }
#pragma unroll
      for (int by = row_lanes / 2; by; by >>= 1) m = larger(m, shuffle_xor(m, by));
#pragma unroll
      for (int i = 0; i < Tile::parts / row_lanes; ++i) {
        own_m[i] = exp_of(own_m[i] - subtracted(m));
        l += own_m[i] * own_l[i];
      }
#pragma unroll
      for (int by = row_lanes / 2; by; by >>= 1) l += shuffle_xor(l, by);
      const i64 of_row = r0 + (has ? r : 0);
      const float scale = p.share_of(b, p.head_of(head, of_row), p.position(of_row), m, l);
#pragma unroll
      for (int i = 0; i < Tile::parts / row_lanes; ++i)
        if (has) share[r * Tile::parts + first_part + i * row_lanes] = own_m[i] * scale;
    }
    __syncthreads();
#pragma unroll 1
    for (int top = from_item; top < to_item; top += Tile::threads / lanes) {
      const int item = top + threadIdx.x / lanes, r = item / quads, c = item % quads * 4;
      float o[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      if (item < to_item) {
#pragma unroll 8
        for (int n = threadIdx.x % lanes; n < Tile::parts; n += lanes) {
          const float* const at = parts + n % Tile::k_warps * Tile::part + r * Tile::ld_part + c;
          Wide<float, 4> of;
          if constexpr (Tile::split > 1) load_four_of_block(at, n / Tile::k_warps, of.v);
          else of = load_wide<float, 4>(at);
#pragma unroll
          for (int i = 0; i < 4; ++i) o[i] += share[r * Tile::parts + n] * of.v[i];
        }
      }
#pragma unroll
      for (int by = lanes / 2; by; by >>= 1)
#pragma unroll
        for (int i = 0; i < 4; ++i) o[i] += shuffle_xor(o[i], by);
      if (item >= to_item || threadIdx.x % lanes != 0) continue;
      T* const to = p.result(b, head, r0 + r);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (c + i < p.v_dim) to[(c + i) * p.o.e] = T(o[i]);
    }
    if (Tile::split > 1) cluster_barrier();  // the others have read this block's part
  }
}

// Work units: batch x key heads x tiles of rows, `split` blocks each.
template <class Tile, bool Causal, class T, class M, class K> AOTC_DI void attention_tensor(const AttnProblem<T, float, M, K>& p, int grid_split) {
  if (grid_split > Tile::split && blockIdx.x % grid_split != 0) return;
  const i64 tiles = (p.rows() + Tile::rows - 1) / Tile::rows;
  for (i64 unit = blockIdx.x / grid_split; unit < p.batch * p.kv_heads * tiles; unit += gridDim.x / grid_split) {
    const i64 of = quotient(unit, tiles);
    attn_block<Tile, Causal>(p, quotient(of, p.kv_heads), rest(of, p.kv_heads), rest(unit, tiles) * Tile::rows, Tile::split > 1 ? blockIdx.x % Tile::split : 0);
  }
}
