// Tensor-core matrix product with strided operands and a fused epilogue:
//   out(b, i, j) = Epilogue(sum_k A(b, i, k) * B(b, k, j))
// A and B are read through strides (any layout), staged in shared memory, multiplied with mma.sync (PTX ISA, "Warp-level matrix
// instructions"): bf16 and f16 m16n8k16 with f32 sums; f32 as three tf32 m16n8k8 products of the high and low parts (a = hi + lo, the
// lo*lo product is dropped). The tensor cores truncate their sums, so f32 products of 8 terms are added up by the ordinary units, which
// round: that keeps f32 accuracy for long sums (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores", 2022). Where
// TF32 is accurate enough, f32 is one tf32 product of rounded factors.
// A ring of shared stages is filled by cp.async. The k range may be divided among the warps of a block and the blocks of a cluster; the
// parts are added in a fixed order.
#pragma once
#include "device.cuh"

struct GemmView {
  i64 base, batch0, batch1, row, col;
};  // element (b0, b1, i, j) at base + b0*batch0 + b1*batch1 + i*row + j*col

template <class T>
struct MmaTraits;
template <>
struct MmaTraits<bf16> {
  static constexpr int k = 16;
};
template <>
struct MmaTraits<f16> {
  static constexpr int k = 16;
};
template <>
struct MmaTraits<float> {
  static constexpr int k = 8;
};

// v = high + low: both as tf32 (the tensor cores ignore the 13 low bits). High is rounded to nearest, by integer arithmetic, which is
// faster than cvt.rna; of low at most the last bit is lost. odd is set where v is not finite or rounds to infinity: then the parts are of
// no use.
template <int N>
AOTC_DI void tf32_parts(const float (&v)[N], u32 (&high)[N], u32 (&low)[N], bool& odd) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    high[i] = (__float_as_uint(v[i]) + 0x1000u) & 0xffffe000u;
    const float rest = v[i] - __uint_as_float(high[i]);
    low[i] = __float_as_uint(rest);
    odd |= !(fabsf(rest) < highest<float>());
  }
}
// Of any v. An infinity or NaN is low beside a high of 1 or -1, so that in the three products each meets the other factor's high part,
// which is 0 where that factor is: what comes of them is what comes of one product.
template <int N>
AOTC_DI void tf32_split(const float (&v)[N], u32 (&high)[N], u32 (&low)[N]) {
  bool odd = false;
  tf32_parts(v, high, low, odd);
  if (!odd) return;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const u32 bits = __float_as_uint(v[i]);
    if (v[i] != v[i])
      high[i] = 0x3f800000u, low[i] = 0x7fc00000u;
    else if (fabsf(v[i]) > 0x1.fffffep+127f)
      high[i] = (bits & 0x80000000u) | 0x3f800000u, low[i] = bits;
    else if (fabsf(v[i]) > 0x1.fffp+126f)
      high[i] = bits & 0xffffe000u, low[i] = __float_as_uint(v[i] - __uint_as_float(high[i]));
  }
}
// How f32 operands are taken apart: fast, which tells of odd numbers, or so that the products of these are right, too.
struct PlainNumbers {
  static constexpr bool odd = false;
};
struct OddNumbers {
  static constexpr bool odd = true;
};
// N f32 numbers of a fragment as factors of three products (high and low parts), or of one.
template <int N, int Products>
struct Tf32 {
  u32 high[N], low[N];
};
template <int N>
struct Tf32<N, 1> {
  u32 high[N];
};
template <class Numbers, int N>
AOTC_DI void tf32_take(Numbers, const float (&v)[N], Tf32<N, 3>& to, bool& odd) {
  if constexpr (Numbers::odd)
    tf32_split(v, to.high, to.low);
  else
    tf32_parts(v, to.high, to.low, odd);
}
// Rounded to nearest, but for infinities and NaN: the tensor cores ignore the low bits.
template <class Numbers, int N>
AOTC_DI void tf32_take(Numbers, const float (&v)[N], Tf32<N, 1>& to, bool&) {
#pragma unroll
  for (int i = 0; i < N; ++i) to.high[i] = __float_as_uint(v[i]) + (fabsf(v[i]) < highest<float>() ? 0x1000u : 0u);
}
AOTC_DI void tf32_multiply(float (&acc)[4], const Tf32<4, 3>& a, const Tf32<2, 3>& b) {
  float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  mma_tf32(part, a.low, b.high);
  mma_tf32(part, a.high, b.low);
  mma_tf32(part, a.high, b.high);
#pragma unroll
  for (int r = 0; r < 4; ++r) acc[r] += part[r];
}
AOTC_DI void tf32_multiply(float (&acc)[4], const Tf32<4, 1>& a, const Tf32<2, 1>& b) { mma_tf32(acc, a.high, b.high); }
AOTC_DI void mma_16(bf16, float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) { mma_bf16(c, a, b); }
AOTC_DI void mma_16(f16, float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) { mma_f16(c, a, b); }

// Shared tiles keep k contiguous: A[m][k], B[n][k], rows padded by 16 bytes so that the fragment loads of a warp fall into different banks.
// Warps of WM x WN, KWarps of them for the same piece of the output, each with a part of every BK; Split blocks of a cluster share k.
// Products: of tf32, for one of f32.
template <class T, int BM, int BN, int BK, int WM, int WN, int KWarps, int Stages, int Split, int Products>
struct GemmTile {
  static constexpr int warps = (BM / WM) * (BN / WN), threads = warps * KWarps * 32;
  static constexpr int chunk = 16 / sizeof(T), ld = BK + chunk;
  static constexpr int mt = WM / 16, nt = WN / 8, step = MmaTraits<T>::k;
  static constexpr int bm = BM, bn = BN, bk = BK, wm = WM, wn = WN, k_warps = KWarps, stages = Stages, products = Products;
  static constexpr int split = has_clusters ? Split : 1;
  static constexpr bool sums_parts = KWarps > 1 || split > 1;
  static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % (MmaTraits<T>::k * KWarps) == 0 && Stages >= 2, "tile shape");
  static_assert(BM * BK % chunk == 0 && BN * BK % chunk == 0, "tile shape");
};

// Multiplies one staged tile into the warp's accumulators; k_warp: which part of the tile. odd: f32 numbers were met that want OddNumbers.
template <class T, class Tile, class Numbers>
AOTC_DI void gemm_multiply(Numbers numbers, const T* a, const T* b, float (&acc)[Tile::mt][Tile::nt][4], int k_warp, bool& odd) {
  const int lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
#pragma unroll
  for (int s = 0; s < Tile::bk / (Tile::step * Tile::k_warps); ++s) {
    const int k = (s * Tile::k_warps + k_warp) * Tile::step;
    if constexpr (same<T, float>::value) {
      Tf32<4, Tile::products> af[Tile::mt];
#pragma unroll
      for (int i = 0; i < Tile::mt; ++i) {
        const float* const at = a + (i * 16 + group) * Tile::ld + k + quad;
        const float v[4] = {at[0], at[8 * Tile::ld], at[4], at[8 * Tile::ld + 4]};
        tf32_take(numbers, v, af[i], odd);
      }
#pragma unroll
      for (int j = 0; j < Tile::nt; ++j) {
        const float* const at = b + (j * 8 + group) * Tile::ld + k + quad;
        const float v[2] = {at[0], at[4]};
        Tf32<2, Tile::products> bf;
        tf32_take(numbers, v, bf, odd);
#pragma unroll
        for (int i = 0; i < Tile::mt; ++i) tf32_multiply(acc[i][j], af[i], bf);
      }
    } else {
      u32 af[Tile::mt][4];
#pragma unroll
      for (int i = 0; i < Tile::mt; ++i) load_matrices(af[i], &a[(i * 16 + (lane & 15)) * Tile::ld + k + (lane >> 4) * 8]);
#pragma unroll
      for (int j = 0; j < Tile::nt; j += 2) {
        u32 bf[4];
        load_matrices(bf, &b[(j * 8 + (lane & 7) + (lane >> 4) * 8) * Tile::ld + k + ((lane >> 3) & 1) * 8]);
        const u32 b0[2] = {bf[0], bf[1]}, b1[2] = {bf[2], bf[3]};
#pragma unroll
        for (int i = 0; i < Tile::mt; ++i) {
          mma_16(T(), acc[i][j], af[i], b0);
          mma_16(T(), acc[i][j + 1], af[i], b1);
        }
      }
    }
  }
}

// One operand on its way to shared memory: rows [0, rows) of `lines`, elements [0, k) of each.
template <class T>
struct GemmSource {
  const T* at;  // row 0, k 0
  i64 line, step, rows;
  bool wide, words;  // k is contiguous and every row starts at a multiple of 16 bytes, of 4 bytes
};
template <class T>
AOTC_DI GemmSource<T> gemm_source(const T* at, i64 line, i64 step, i64 rows) {
  const bool wide = step == 1 && line % (16 / i64(sizeof(T))) == 0 && (reinterpret_cast<u64>(at) & 15) == 0;
  const bool words = step == 1 && line % (4 / i64(sizeof(T))) == 0 && (reinterpret_cast<u64>(at) & 3) == 0;
  return GemmSource<T>{at, line, step, rows, wide, words};
}
// Fills [Rows][BK] from column k0 on, zeros beyond the operand. KFast: k is the contiguous index, so neighbours in a warp take it.
template <class T, class Tile, int Rows, bool KFast>
AOTC_DI void gemm_stage(T* to, const GemmSource<T>& s, i64 k0, i64 k) {
  const int tid = threadIdx.x;
  if (KFast && s.wide) {
    constexpr int per_row = Tile::bk / Tile::chunk, n = Rows * per_row, times = (n + Tile::threads - 1) / Tile::threads;
    if constexpr (Tile::threads % per_row == 0) {  // a thread's chunks lie below each other; of no bytes, nothing is read
      constexpr int down = Tile::threads / per_row;
      const int row = tid / per_row, kk = tid % per_row * Tile::chunk, left = static_cast<int>(imin(s.rows, Rows)) - row;
      const int bytes = static_cast<int>(imin(imax(k - k0 - kk, 0), Tile::chunk)) * int(sizeof(T));
      const T* const from = s.at + row * s.line + k0 + kk;
      T* const into = to + row * Tile::ld + kk;
#pragma unroll
      for (int e = 0; e < times; ++e) {
        if (n % Tile::threads != 0 && tid + e * Tile::threads >= n) break;
        copy16_async(into + e * down * Tile::ld, from + e * (down * s.line), e * down < left ? bytes : 0);
      }
    } else {
#pragma unroll
      for (int e = 0; e < times; ++e) {
        const int at = tid + e * Tile::threads, row = at / per_row, kk = at % per_row * Tile::chunk;
        if (n % Tile::threads != 0 && at >= n) break;
        const i64 left = row < s.rows ? imin(imax(k - k0 - kk, 0), Tile::chunk) : 0;
        copy16_async(&to[row * Tile::ld + kk], left ? s.at + row * s.line + k0 + kk : s.at, static_cast<int>(left) * int(sizeof(T)));
      }
    }
    return;
  }
  if (sizeof(T) == 2 && KFast && s.words) {
    constexpr int per_row = Tile::bk / 2, n = Rows * per_row;
#pragma unroll 4
    for (int at = tid; at < n; at += Tile::threads) {
      const int row = at / per_row, kk = at % per_row * 2;
      const i64 left = row < s.rows ? imin(imax(k - k0 - kk, 0), 2) : 0;
      copy4_async(&to[row * Tile::ld + kk], left ? s.at + row * s.line + k0 + kk : s.at, static_cast<int>(left) * 2);
    }
    return;
  }
  constexpr int n = Rows * Tile::bk;
#pragma unroll 4
  for (int at = tid; at < n; at += Tile::threads) {
    const int row = KFast ? at / Tile::bk : at % Rows, kk = KFast ? at % Tile::bk : at / Rows;
    const bool inside = row < s.rows && k0 + kk < k;
    const T* from = inside ? s.at + row * s.line + (k0 + kk) * s.step : s.at;
    if constexpr (sizeof(T) == 4)
      copy4_async(&to[row * Tile::ld + kk], from, inside ? 4 : 0);
    else
      to[row * Tile::ld + kk] = inside ? *from : T(0.0f);
  }
}

// An operand that is computed on its way: element k of line l is f(k, l), of lines [first, first + rows).
template <class F>
struct GemmComputed {
  const F& f;
  i64 first, rows;
};
template <class T, class Tile, int Rows, bool KFast, class F>
AOTC_DI void gemm_stage(T* to, const GemmComputed<F>& s, i64 k0, i64 k) {
  constexpr int n = Rows * Tile::bk;
#pragma unroll 4
  for (int at = threadIdx.x; at < n; at += Tile::threads) {
    const int row = KFast ? at / Tile::bk : at % Rows, kk = KFast ? at % Tile::bk : at / Rows;
    to[row * Tile::ld + kk] = row < s.rows && k0 + kk < k ? T(s.f(k0 + kk, s.first + row)) : T(0.0f);
  }
}

// Where a thread's warp stands in the tile of its block.
template <class Tile>
struct GemmPlace {
  int warp_m, warp_n, k_warp;
  AOTC_DI GemmPlace() {
    const int warp = threadIdx.x >> 5, place = warp % Tile::warps;
    k_warp = warp / Tile::warps;
    warp_m = (place % (Tile::bm / Tile::wm)) * Tile::wm, warp_n = (place / (Tile::bm / Tile::wm)) * Tile::wn;
  }
};

// Gives the sums of the block's tile at (m0, n0) to the epilogue, those of the warps and blocks that share k added up in their order, by
// way of the dynamic shared memory.
template <class Tile, class Epilogue>
AOTC_DI void gemm_finish(const float (&acc)[Tile::mt][Tile::nt][4], const GemmPlace<Tile>& at, i64 m0, i64 n0, i64 m, i64 n,
                         const Epilogue& epilogue) {
  extern __shared__ __align__(16) char shared[];
  const int lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
  if constexpr (!Tile::sums_parts) {
#pragma unroll
    for (int i = 0; i < Tile::mt; ++i)
#pragma unroll
      for (int j = 0; j < Tile::nt; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const i64 row = m0 + at.warp_m + i * 16 + group + (r >> 1) * 8, col = n0 + at.warp_n + j * 8 + quad * 2 + (r & 1);
          if (row < m && col < n) epilogue(acc[i][j][r], row, col);
        }
  } else {
    constexpr int ld = Tile::bn + 4, part = Tile::bm * ld;
    const int rank = Tile::split > 1 ? blockIdx.x % Tile::split : 0;
    float* const parts = reinterpret_cast<float*>(shared);
    copies_wait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Tile::mt; ++i)
#pragma unroll
      for (int j = 0; j < Tile::nt; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r)
          parts[at.k_warp * part + (at.warp_m + i * 16 + group + (r >> 1) * 8) * ld + at.warp_n + j * 8 + quad * 2 + (r & 1)] =
              acc[i][j][r];
    if (Tile::split > 1)
      cluster_barrier();
    else
      __syncthreads();
    for (int e = threadIdx.x + rank * Tile::threads; e < Tile::bm * Tile::bn; e += Tile::threads * Tile::split) {
      const int row = e / Tile::bn, col = e % Tile::bn;
      float sum = 0.0f;
#pragma unroll
      for (int s = 0; s < Tile::split; ++s)
#pragma unroll
        for (int w = 0; w < Tile::k_warps; ++w) {
          const float* p = &parts[w * part + row * ld + col];
          sum += Tile::split > 1 ? load_of_block(p, s) : *p;
        }
      if (m0 + row < m && n0 + col < n) epilogue(sum, m0 + row, n0 + col);
    }
    if (Tile::split > 1) cluster_barrier();  // the others have read this block's part
  }
}

// gemm_block with a source of B: a GemmSource or a GemmComputed, of the columns from n0 on.
template <class T, class Tile, bool AColFast, bool BColFast, class Source, class Epilogue>
AOTC_DI void gemm_block_of(const T* pa, const Source& b, GemmView av, i64 b0, i64 b1, i64 m, i64 k, i64 m0, i64 n0, i64 n,
                           const Epilogue& epilogue) {
  extern __shared__ __align__(16) char shared[];
  constexpr int a_elems = Tile::bm * Tile::ld, stage_elems = a_elems + Tile::bn * Tile::ld;
  T* const ring = reinterpret_cast<T*>(shared);
  const GemmPlace<Tile> place;
  const int rank = Tile::split > 1 ? blockIdx.x % Tile::split : 0;
  const GemmSource<T> a = gemm_source(pa + av.base + b0 * av.batch0 + b1 * av.batch1 + m0 * av.row, av.row, av.col, m - m0);

  float acc[Tile::mt][Tile::nt][4];
  const int tiles = static_cast<int>((k + Tile::bk - 1) / Tile::bk);
  const int first = static_cast<int>(i64(tiles) * rank / Tile::split), last = static_cast<int>(i64(tiles) * (rank + 1) / Tile::split);
  auto issue = [&](int tile) {
    if (tile < last) {
      T* const stage = ring + (tile - first) % Tile::stages * stage_elems;
      gemm_stage<T, Tile, Tile::bm, AColFast>(stage, a, i64(tile) * Tile::bk, k);
      gemm_stage<T, Tile, Tile::bn, !BColFast>(stage + a_elems, b, i64(tile) * Tile::bk, k);
    }
    copies_commit();
  };
  auto sums = [&](auto numbers) {
    bool odd = false;
    clear(acc);
    __syncthreads();  // what used the memory before is done
    for (int s = 0; s < Tile::stages - 1; ++s) issue(first + s);
    for (int tile = first; tile < last; ++tile) {
      copies_wait<Tile::stages - 2>();
      __syncthreads();
      issue(tile + Tile::stages - 1);
      const T* const stage = ring + (tile - first) % Tile::stages * stage_elems;
      gemm_multiply<T, Tile>(numbers, stage + place.warp_m * Tile::ld, stage + a_elems + place.warp_n * Tile::ld, acc, place.k_warp, odd);
    }
    return odd;
  };
  const bool odd = sums(PlainNumbers());
  if constexpr (same<T, float>::value && Tile::products > 1)
    if (__syncthreads_or(odd)) sums(OddNumbers());
  gemm_finish<Tile>(acc, place, m0, n0, m, n, epilogue);
}

// One block computes rows [m0, m0+BM) x columns [n0, n0+BN) of the segment [n_begin, n_end) of product (b0, b1); with Split > 1 the blocks
// of a cluster compute it together. Epilogue: void operator()(float acc, i64 row, i64 column_in_segment). AColFast: A's k is contiguous;
// BColFast: B's n is. Dynamic shared memory: see emit/cuda/launch.cpp. All threads call it; it may be called again.
template <class T, class Tile, bool AColFast, bool BColFast, class Epilogue>
AOTC_DI void gemm_block(const T* pa, const T* pb, GemmView av, GemmView bv, i64 b0, i64 b1, i64 m, i64 k, i64 m0, i64 n0, i64 n_begin,
                        i64 n_end, Epilogue epilogue) {
  const GemmSource<T> b =
      gemm_source(pb + bv.base + b0 * bv.batch0 + b1 * bv.batch1 + (n_begin + n0) * bv.col, bv.col, bv.row, n_end - n_begin - n0);
  gemm_block_of<T, Tile, AColFast, BColFast>(pa, b, av, b0, b1, m, k, m0, n0, n_end - n_begin, epilogue);
}

// The same where element (k, j) of B is f(k, j), j counted from column 0 of the product.
template <class T, class Tile, bool AColFast, class F, class Epilogue>
AOTC_DI void gemm_block_computed(const T* pa, const F& f, GemmView av, i64 b0, i64 b1, i64 m, i64 k, i64 m0, i64 n0, i64 n_begin, i64 n_end,
                                 Epilogue epilogue) {
  const GemmComputed<F> b{f, n_begin + n0, n_end - n_begin - n0};
  gemm_block_of<T, Tile, AColFast, false>(pa, b, av, b0, b1, m, k, m0, n0, n_end - n_begin, epilogue);
}
