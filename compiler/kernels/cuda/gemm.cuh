// Tensor-core matrix product with strided operands and a fused epilogue:
//   out(b, i, j) = Epilogue(sum_k A(b, i, k) * B(b, k, j))
// A and B are read through strides (any layout), staged in shared memory, multiplied with mma.sync (PTX ISA, "Warp-level matrix
// instructions"): bf16 and f16 m16n8k16 with f32 sums; f32 as three tf32 m16n8k8 products of the high and low parts (a = hi + lo, the
// lo*lo product is dropped), which keeps f32 accuracy. Two shared stages: the next tile is loaded to registers while this one multiplies.
#pragma once
#include "device.cuh"

struct GemmView { i64 base, batch0, batch1, row, col; };  // element (b0, b1, i, j) at base + b0*batch0 + b1*batch1 + i*row + j*col

template <class T> struct MmaTraits;
template <> struct MmaTraits<bf16> { static constexpr int k = 16; };
template <> struct MmaTraits<f16> { static constexpr int k = 16; };
template <> struct MmaTraits<float> { static constexpr int k = 8; };

AOTC_DI u32 tf32_round(float f) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(f));
  return r;
}
AOTC_DI void mma_tf32(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
AOTC_DI void mma_16(bf16, float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
AOTC_DI void mma_16(f16, float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Shared tiles keep k contiguous: A[m][k], B[n][k], rows padded so that the fragment loads of a warp fall into different banks.
template <class T, int BM, int BN, int BK, int WM, int WN>
struct GemmTile {
  static constexpr int threads = (BM / WM) * (BN / WN) * 32;
  static constexpr int pad = 16 / sizeof(T);
  static constexpr int ld = BK + pad;
  static constexpr int a_elems = BM * BK / threads, b_elems = BN * BK / threads;
  static constexpr int mt = WM / 16, nt = WN / 8;
  static_assert(BM * BK % threads == 0 && BN * BK % threads == 0 && WM % 16 == 0 && WN % 8 == 0 && BK % MmaTraits<T>::k == 0, "tile shape");
  T a[2][BM * ld];
  T b[2][BN * ld];
};

// Multiplies one staged tile into the warp's accumulators.
template <class T, class Tile>
AOTC_DI void gemm_multiply(const T* a, const T* b, float (&acc)[Tile::mt][Tile::nt][4], int bk) {
  const int lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
  if constexpr (same<T, float>::value) {
    for (int k = 0; k < bk; k += 8) {
      u32 ah[Tile::mt][4], al[Tile::mt][4];
#pragma unroll
      for (int i = 0; i < Tile::mt; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float v = a[(i * 16 + group + (r & 1) * 8) * Tile::ld + k + quad + (r >> 1) * 4];
          ah[i][r] = tf32_round(v);
          al[i][r] = tf32_round(v - __uint_as_float(ah[i][r]));
        }
#pragma unroll
      for (int j = 0; j < Tile::nt; ++j) {
        u32 bh[2], bl[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float v = b[(j * 8 + group) * Tile::ld + k + quad + r * 4];
          bh[r] = tf32_round(v);
          bl[r] = tf32_round(v - __uint_as_float(bh[r]));
        }
#pragma unroll
        for (int i = 0; i < Tile::mt; ++i) {
          mma_tf32(acc[i][j], al[i], bh);
          mma_tf32(acc[i][j], ah[i], bl);
          mma_tf32(acc[i][j], ah[i], bh);
        }
      }
    }
  } else {
    for (int k = 0; k < bk; k += 16) {
      u32 af[Tile::mt][4];
#pragma unroll
      for (int i = 0; i < Tile::mt; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r)
          memcpy(&af[i][r], &a[(i * 16 + group + (r & 1) * 8) * Tile::ld + k + quad * 2 + (r >> 1) * 8], 4);
#pragma unroll
      for (int j = 0; j < Tile::nt; ++j) {
        u32 bf[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) memcpy(&bf[r], &b[(j * 8 + group) * Tile::ld + k + quad * 2 + r * 8], 4);
#pragma unroll
        for (int i = 0; i < Tile::mt; ++i) mma_16(T(), acc[i][j], af[i], bf);
      }
    }
  }
}

// One block computes rows [m0, m0+BM) x columns [n0, n0+BN) of the segment [n_begin, n_end) of product (b0, b1).
// Epilogue: void operator()(float acc, i64 row, i64 column_in_segment). AColFast/BColFast: which index of the operand is contiguous, so
// that the threads of a warp read neighbours.
template <class T, int BM, int BN, int BK, int WM, int WN, bool AColFast, bool BColFast, class Epilogue>
AOTC_DI void gemm_block(const T* pa, const T* pb, GemmView av, GemmView bv, i64 b0, i64 b1, i64 m, i64 k, i64 m0, i64 n0, i64 n_begin,
                        i64 n_end, Epilogue epilogue) {
  typedef GemmTile<T, BM, BN, BK, WM, WN> Tile;
  __shared__ alignas(16) Tile tile;
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int warp_m = (warp % (BM / WM)) * WM, warp_n = (warp / (BM / WM)) * WN;
  const T* a = pa + av.base + b0 * av.batch0 + b1 * av.batch1;
  const T* b = pb + bv.base + b0 * bv.batch0 + b1 * bv.batch1;
  const i64 n = n_end - n_begin;

  float acc[Tile::mt][Tile::nt][4];
#pragma unroll
  for (int i = 0; i < Tile::mt; ++i)
#pragma unroll
    for (int j = 0; j < Tile::nt; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) acc[i][j][r] = 0.0f;

  T ra[Tile::a_elems], rb[Tile::b_elems];
  auto fetch = [&](i64 k0) {
#pragma unroll
    for (int e = 0; e < Tile::a_elems; ++e) {
      const int at = tid + e * Tile::threads, i = AColFast ? at / BK : at % BM, kk = AColFast ? at % BK : at / BM;
      ra[e] = m0 + i < m && k0 + kk < k ? a[(m0 + i) * av.row + (k0 + kk) * av.col] : T(0.0f);
    }
#pragma unroll
    for (int e = 0; e < Tile::b_elems; ++e) {
      const int at = tid + e * Tile::threads, j = BColFast ? at % BN : at / BK, kk = BColFast ? at / BN : at % BK;
      rb[e] = n0 + j < n && k0 + kk < k ? b[(k0 + kk) * bv.row + (n_begin + n0 + j) * bv.col] : T(0.0f);
    }
  };
  auto put = [&](int stage) {
#pragma unroll
    for (int e = 0; e < Tile::a_elems; ++e) {
      const int at = tid + e * Tile::threads, i = AColFast ? at / BK : at % BM, kk = AColFast ? at % BK : at / BM;
      tile.a[stage][i * Tile::ld + kk] = ra[e];
    }
#pragma unroll
    for (int e = 0; e < Tile::b_elems; ++e) {
      const int at = tid + e * Tile::threads, j = BColFast ? at % BN : at / BK, kk = BColFast ? at / BN : at % BK;
      tile.b[stage][j * Tile::ld + kk] = rb[e];
    }
  };

  int stage = 0;
  fetch(0);
  put(0);
  __syncthreads();
  for (i64 k0 = 0; k0 < k; k0 += BK) {
    const bool more = k0 + BK < k;
    if (more) fetch(k0 + BK);
    gemm_multiply<T, Tile>(&tile.a[stage][warp_m * Tile::ld], &tile.b[stage][warp_n * Tile::ld], acc, BK);
    if (more) put(stage ^ 1);
    __syncthreads();
    stage ^= 1;
  }

  const int group = lane >> 2, quad = lane & 3;
#pragma unroll
  for (int i = 0; i < Tile::mt; ++i)
#pragma unroll
    for (int j = 0; j < Tile::nt; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const i64 row = m0 + warp_m + i * 16 + group + (r >> 1) * 8, col = n0 + warp_n + j * 8 + quad * 2 + (r & 1);
        if (row < m && col < n) epilogue(acc[i][j][r], row, col);
      }
}
