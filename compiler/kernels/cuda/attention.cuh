// Attention in one pass over the keys: out[b, h, l, :] = softmax(scale * q k' + mask) v. The query heads of one key head are rows of one
// tile. Scores stay in registers and shared memory, the row's maximum and sum are carried along, and what was summed under an older maximum
// is scaled down. A row that attends nowhere gives zeros or NaN; a NaN stays one.
#pragma once
#include "gemm.cuh"

struct AttnView { i64 base, b, h, s, e; };  // strides of batch, head, position, channel; of a mask: batch, head, query, key
struct NoMask {};
// What the masks of some rows show: no key outside of [begin, end); all of [inner_begin, inner_end). whole: each row shows a range of its own.
struct AttnSeen { i64 begin, end, inner_begin, inner_end; bool whole; };

template <class T, class Acc, class M> struct AttnProblem {
  i64 batch, heads, kv_heads, q_len, kv_len, head_dim, v_dim;
  const T *pq, *pk, *pv;
  T* po;
  const M* pm;
  AttnView q, k, v, o, m;
  // By row of a bool mask: the keys that it shows lie in [from, end); -1 - end where it hides some of those, too. Null where that is not known.
  const i64 *pfrom, *pend;
  AttnView from, end;
  Acc share;    // a power of two of the scale, which queries take on their way in where their type has its range: scores leave the range later
  Acc scale;    // the rest of it
  Acc nowhere;  // what the sums of a row that attends nowhere are multiplied with: 0, or NaN

  AOTC_DI i64 rows() const { return kv_heads ? quotient(heads, kv_heads) * q_len : 0; }
  // Row r of key head `head`: its query head and position.
  AOTC_DI i64 head_of(i64 head, i64 r) const { return head * quotient(heads, kv_heads) + quotient(r, q_len); }
  AOTC_DI i64 position(i64 r) const { return rest(r, q_len); }
  AOTC_DI const T* query(i64 b, i64 head, i64 r) const { return pq + q.base + b * q.b + head_of(head, r) * q.h + position(r) * q.s; }
  AOTC_DI T* result(i64 b, i64 head, i64 r) const { return po + o.base + b * o.b + head_of(head, r) * o.h + position(r) * o.s; }
  AOTC_DI const M* mask(i64 b, i64 head, i64 r) const {
    if constexpr (same<M, NoMask>::value) return nullptr;
    else return pm + m.base + b * m.b + head_of(head, r) * m.h + position(r) * m.s;
  }
  // Position `at` of query head `head`: the keys that its mask shows.
  AOTC_DI AttnSeen seen_at(i64 b, i64 head, i64 at) const {
    const i64 first = pfrom[from.base + b * from.b + head * from.h + at * from.s], to = pend[end.base + b * end.b + head * end.h + at * end.s];
    const i64 last = to < 0 ? -1 - to : to;
    return {first, last, first, last, to >= 0};
  }
  // The same of rows [r0, r1) of key head `head`, at least one, by all lanes of a warp.
  AOTC_DI AttnSeen seen_by(i64 b, i64 head, i64 r0, i64 r1) const {
    if (pfrom == nullptr) return {0, kv_len, 0, 0, false};
    return seen_by_lanes(r1 - r0, [&](i64 r) { return seen_at(b, head_of(head, r0 + r), position(r0 + r)); });
  }
  // What all of seen(0) .. seen(n - 1) say.
  template <class F> AOTC_DI AttnSeen seen_by_lanes(i64 n, const F& seen) const {
    int begin = static_cast<int>(kv_len), end = 0, inner_begin = 0, inner_end = static_cast<int>(kv_len);
    bool whole = true;
#pragma unroll 1
    for (int r = threadIdx.x & 31; r < n; r += 32) {
      const AttnSeen x = seen(r);
      const int from = static_cast<int>(x.begin), to = static_cast<int>(x.end);
      if (from < to) begin = from < begin ? from : begin, end = to > end ? to : end;
      inner_begin = from > inner_begin ? from : inner_begin, inner_end = to < inner_end ? to : inner_end;
      whole = whole && x.whole;
    }
#pragma unroll
    for (int by = 16; by; by >>= 1) {
      const int b = __shfl_xor_sync(~0u, begin, by), e = __shfl_xor_sync(~0u, end, by), ib = __shfl_xor_sync(~0u, inner_begin, by),
                ie = __shfl_xor_sync(~0u, inner_end, by);
      begin = b < begin ? b : begin, end = e > end ? e : end, inner_begin = ib > inner_begin ? ib : inner_begin, inner_end = ie < inner_end ? ie : inner_end;
    }
    whole = __ballot_sync(~0u, whole) == ~0u;
    return {begin < end ? begin : end, end, inner_begin, inner_end, whole};
  }
  // The keys that rows [r0, r1) see at most.
  AOTC_DI i64 keys_of(i64 r0, i64 r1, bool causal) const {
    if (!causal) return kv_len;
    return imin(kv_len, quotient(r0, q_len) == quotient(r1 - 1, q_len) ? position(r1 - 1) + 1 : q_len);
  }
};

AOTC_DI float exp_of(float x) { return expf(x); }
AOTC_DI double exp_of(double x) { return exp(x); }
// Rounded before anything is subtracted from it: a score less itself is zero, whatever its size.
AOTC_DI float scaled(float score, float by) { return __fmul_rn(score, by); }
AOTC_DI double scaled(double score, double by) { return __dmul_rn(score, by); }
constexpr float kLog2e = 1.44269504088896341f;
// From here on (by base 2) the rounding of a row's maximum is seen in its exponents: differences to the maximum come first.
constexpr float kFarMaximum = 256.0f;
AOTC_DI float larger(float a, float b) { return fmaxf(a, b); }  // a NaN is not seen: it comes back through the exponent
AOTC_DI double larger(double a, double b) { return fmax(a, b); }
// What is subtracted from scores whose maximum is m: a row that has seen nothing yet has none.
template <class Acc> AOTC_DI Acc subtracted(Acc m) { return m == lowest<Acc>() ? Acc(0) : m; }

// A score after the mask; `mask`: of the row.
template <class Acc, class M> AOTC_DI Acc masked(Acc s, const M* mask, i64 at) {
  if constexpr (same<M, NoMask>::value) return s;
  else if constexpr (same<M, bool>::value) return mask[at] ? s : lowest<Acc>();
  else return s + static_cast<Acc>(mask[at]);
}

// ---- ordinary units: every type, head sizes of any length -------------------------------------------------------------------------------
struct AttnPlain { static constexpr int rows = 16, keys = 32, slice = 32, columns = 128, threads = 128; };

// Work units: batch x key heads x tiles of rows x slices of the result's channels.
template <bool Causal, class T, class Acc, class M> AOTC_DI void attention_plain(const AttnProblem<T, Acc, M>& p) {
  typedef AttnPlain P;
  __shared__ Acc qs[P::rows][P::slice + 1], ks[P::keys][P::slice + 1], ps[P::rows][P::keys + 1], down[P::rows];
  const i64 rows = p.rows(), tiles = (rows + P::rows - 1) / P::rows, slices = (p.v_dim + P::columns - 1) / P::columns;
  const int tid = threadIdx.x, row = tid / 8, lane = tid % 8;
  for (i64 unit = blockIdx.x; unit < p.batch * p.kv_heads * tiles * slices; unit += gridDim.x) {
    const i64 column = unit % slices * P::columns + tid, r0 = unit / slices % tiles * P::rows, of = unit / slices / tiles;
    const i64 b = of / p.kv_heads, head = of % p.kv_heads, r = imin(r0 + row, rows - 1), r1 = imin(r0 + P::rows, rows);
    const AttnSeen seen = p.seen_by(b, head, r0, r1);
    const i64 end = imin(p.keys_of(r0, r1, Causal), seen.end);
    const M* const mask = p.mask(b, head, r);
    const T* const key = p.pk + p.k.base + b * p.k.b + head * p.k.h;
    const T* const value = p.pv + p.v.base + b * p.v.b + head * p.v.h + (column < p.v_dim ? column : 0) * p.v.e;
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
          ks[line][e] = s0 + line < end && e0 + e < p.head_dim ? static_cast<Acc>(key[(s0 + line) * p.k.s + (e0 + e) * p.k.e]) : Acc(0);
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
        s[i] = seen ? masked(scaled(s[i], p.scale), mask, at * p.m.e) : lowest<Acc>();
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
          const Acc v = static_cast<Acc>(value[(s0 + k) * p.v.s]);
#pragma unroll
          for (int i = 0; i < P::rows; ++i) o[i] += ps[i][k] * v;
        }
      }
    }
    __syncthreads();
    if (lane == 0) down[row] = l == Acc(0) ? p.nowhere : Acc(1) / l;
    __syncthreads();
    if (column < p.v_dim)
#pragma unroll
      for (int i = 0; i < P::rows; ++i)
        if (r0 + i < rows) p.result(b, head, r0 + i)[column * p.o.e] = T(o[i] * down[i]);
    __syncthreads();
  }
}

// ---- tensor cores: float (three tf32 products, or one), f16, bf16 ------------------------------------------------------------------------
// Tiles of WarpsM * 16 rows; KWarps warps share a tile's rows, each with `Keys` keys of its own; Split blocks of a cluster share the keys.
// Products: of tf32, for one of float.
template <class T, int E, int V, int WarpsM, int KWarps, int Keys, int Stages, int Split, int Products> struct AttnTile {
  static constexpr int rows = WarpsM * 16, warps_m = WarpsM, k_warps = KWarps, keys = Keys, stages = Stages, threads = WarpsM * KWarps * 32;
  static constexpr int products = Products;
  static constexpr int split = has_clusters ? Split : 1, parts = KWarps * split;
  static constexpr int chunk = 16 / sizeof(T), e = (E + 15) / 16 * 16, v = (V + 15) / 16 * 16, ld_e = e + chunk, ld_v = v + chunk;
  static constexpr int step = KWarps * Keys, stage_elems = step * (ld_e + ld_v);  // keys of one stage
  static constexpr int ld_part = v + 4, part = rows * (ld_part + 2);              // sums, then maxima, then sums of exponents
};
// One operand's rows on their way to shared memory, as gemm_stage wants to know it.
template <class T, class Tile, int Columns> struct AttnStage {
  static constexpr int threads = Tile::threads, chunk = Tile::chunk, bk = Columns, ld = Columns + chunk;
};

template <class T> AOTC_DI u32 packed(float low, float high) {
  if constexpr (same<T, bf16>::value) return bf16_pair(low, high);
  else return f16_pair(low, high);
}

// s += rows of q times keys; both with the channels contiguous.
template <class T, class Tile> AOTC_DI void attn_scores(const T* q, const T* k, float (&s)[Tile::keys / 8][4]) {
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
        const float* const key = k + (j * 8 + group) * Tile::ld_e + c + quad;
        const float b[2] = {key[0], key[4]};
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
#pragma unroll
      for (int j = 0; j < Tile::keys / 8; j += 2) {
        u32 bf[4];
        load_matrices(bf, &k[(j * 8 + (lane & 7) + (lane >> 4) * 8) * Tile::ld_e + c + ((lane >> 3) & 1) * 8]);
        const u32 b0[2] = {bf[0], bf[1]}, b1[2] = {bf[2], bf[3]};
        mma_16(T(), s[j], af, b0);
        mma_16(T(), s[j + 1], af, b1);
      }
    }
  }
}
// o += p times values. The accumulators of the scores are fragments of p as they are; tf32 products take the keys in another order, which
// is that of both factors.
template <class T, class Tile> AOTC_DI void attn_values(const float (&p)[Tile::keys / 8][4], const T* v, float (&o)[Tile::v / 8][4]) {
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
        const float* const value = v + (k * 8 + 2 * quad) * Tile::ld_v + j * 8 + group;
        const float b[2] = {value[0], value[Tile::ld_v]};
        Tf32<2, Tile::products> bf;
        tf32_take(OddNumbers(), b, bf, odd);
        tf32_multiply(o[j], af, bf);
      }
    }
  } else {
#pragma unroll
    for (int k = 0; k < Tile::keys / 16; ++k) {
      const u32 af[4] = {packed<T>(p[2 * k][0], p[2 * k][1]), packed<T>(p[2 * k][2], p[2 * k][3]),
                         packed<T>(p[2 * k + 1][0], p[2 * k + 1][1]), packed<T>(p[2 * k + 1][2], p[2 * k + 1][3])};
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
template <class T, class Tile, class M> AOTC_DI void attn_queries(T* to, const AttnProblem<T, float, M>& p, i64 b, i64 head, i64 r0) {
  constexpr int per_row = Tile::e / Tile::chunk, chunks = Tile::rows * per_row;
  const int left = static_cast<int>(imin(p.rows() - r0, Tile::rows));
  const i64 group = quotient(p.heads, p.kv_heads);
  const T* const first = p.pq + p.q.base + b * p.q.b + head * group * p.q.h;
  auto keep = [&](int row, int c, Wide<T, Tile::chunk> w) {
    if constexpr (!same<T, f16>::value) {
#pragma unroll
      for (int i = 0; i < Tile::chunk; ++i) w.v[i] = T(static_cast<float>(w.v[i]) * p.share);
    }
    *reinterpret_cast<Wide<T, Tile::chunk>*>(to + row * Tile::ld_e + c) = w;
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
template <class Tile, bool Causal, class T, class M> AOTC_DI void attn_block(const AttnProblem<T, float, M>& p, i64 b, i64 head, i64 r0, int rank) {
  extern __shared__ __align__(16) char shared[];
  T* const qs = reinterpret_cast<T*>(shared);
  T* const ring = qs + Tile::rows * Tile::ld_e;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
  const int warp_m = warp % Tile::warps_m * 16, k_warp = warp / Tile::warps_m;
  const i64 rows = p.rows(), r1 = imin(r0 + Tile::rows, rows);
  const AttnSeen seen = p.seen_by(b, head, r0, r1);
  const i64 end = imin(p.keys_of(r0, r1, Causal), seen.end);
  const int begin = static_cast<int>(imin(seen.begin, end) / Tile::step), tiles = static_cast<int>((end + Tile::step - 1) / Tile::step) - begin;
  const int first = begin + static_cast<int>(i64(tiles) * rank / Tile::split), last = begin + static_cast<int>(i64(tiles) * (rank + 1) / Tile::split);
  const T* const pk = p.pk + p.k.base + b * p.k.b + head * p.k.h;
  const T* const pv = p.pv + p.v.base + b * p.v.b + head * p.v.h;
  auto issue = [&](int tile) {
    if (tile < last) {
      T* const stage = ring + (tile - first) % Tile::stages * Tile::stage_elems;
      const i64 s0 = i64(tile) * Tile::step;
      gemm_stage<T, AttnStage<T, Tile, Tile::e>, Tile::step, true>(stage, gemm_source(pk + s0 * p.k.s, p.k.s, p.k.e, end - s0), 0, p.head_dim);
      gemm_stage<T, AttnStage<T, Tile, Tile::v>, Tile::step, true>(stage + Tile::step * Tile::ld_e,
                                                                  gemm_source(pv + s0 * p.v.s, p.v.s, p.v.e, end - s0), 0, p.v_dim);
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
#pragma unroll
  for (int j = 0; j < Tile::v / 8; ++j)
#pragma unroll
    for (int r = 0; r < 4; ++r) sums.o[j][r] = 0.0f;
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
    const T* const stage = ring + (tile - first) % Tile::stages * Tile::stage_elems;
    float s[Tile::keys / 8][4];
#pragma unroll
    for (int j = 0; j < Tile::keys / 8; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) s[j][r] = 0.0f;
    attn_scores<T, Tile>(qs + warp_m * Tile::ld_e, stage + k_warp * Tile::keys * Tile::ld_e, s);
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
          if (!seen.whole && j * 8 + (r & 1) < limit[r >> 1]) s[j][r] = masked(s[j][r], mask[r >> 1], (s0 + j * 8 + (r & 1)) * p.m.e);
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
    attn_values<T, Tile>(s, stage + Tile::step * Tile::ld_e + k_warp * Tile::keys * Tile::ld_v, sums.o);
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
      const float by = sums.l[h] == 0.0f ? p.nowhere : 1.0f / sums.l[h];
#pragma unroll
      for (int j = 0; j < Tile::v / 8; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int c = j * 8 + quad * 2 + r;
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
        for (int i = 0; i < 2; ++i) own[r * Tile::ld_part + j * 8 + quad * 2 + i] = sums.o[j][2 * h + i];
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
      const float scale = l == 0.0f ? p.nowhere : 1.0f / l;
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
template <class Tile, bool Causal, class T, class M> AOTC_DI void attention_tensor(const AttnProblem<T, float, M>& p, int grid_split) {
  if (grid_split > Tile::split && blockIdx.x % grid_split != 0) return;
  const i64 tiles = (p.rows() + Tile::rows - 1) / Tile::rows;
  for (i64 unit = blockIdx.x / grid_split; unit < p.batch * p.kv_heads * tiles; unit += gridDim.x / grid_split) {
    const i64 of = quotient(unit, tiles);
    attn_block<Tile, Causal>(p, quotient(of, p.kv_heads), rest(of, p.kv_heads), rest(unit, tiles) * Tile::rows, Tile::split > 1 ? blockIdx.x % Tile::split : 0);
  }
}
