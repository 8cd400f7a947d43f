/* Kernels of the library (compiler/kernels/cpu), compiled once per instruction set when aotc is built and linked into artifacts from an
 * archive embedded in aotc. Each entry is an aotc_kernel_fn named aotc_<kernel>_<dtype>_<isa>, isa in {avx2, avx512, avx512_bf16, amx}, for
 * example aotc_gemm_f32_avx512. Here stand, per kernel, the order of ptr[] and size[], the work units and the config. C11 and C++17.
 * All strides and bases are in elements. */
#ifndef AOTC_DETAIL_LIBRARY_ABI_H_
#define AOTC_DETAIL_LIBRARY_ABI_H_
#include <stdint.h>

#include "aotc/detail/kernel_abi.h"

/* ---- gemm: out[b, m, n] = epilogue(sum_k A[b, m, k] * B[b, k, n]) ---------------------------------------------------------------------
 * dtypes: f32, f64, bf16 (sums f32), f16 (sums f32), i64 and i32 (plain loops).
 * ptr:  contraction params in their order; config says which is A and which is B.
 * size: the 15 of enum aotc_gemm_size, then n_begin, n_end of each segment, then what the epilogues use (the plan appends them).
 * work: batch * ceil(m / mc) * ceil(n / nc) blocks; unit u = (batch, n block, m block) with the m block fastest (blocks of one n block
 *       reuse its B panels). For several segments blocks do not straddle segments: the count is the sum over the segments.
 * scratch: aotc_gemm_scratch_bytes(config, k). */
enum aotc_gemm_size {
  AOTC_GEMM_B0,
  AOTC_GEMM_B1,
  AOTC_GEMM_M,
  AOTC_GEMM_N,
  AOTC_GEMM_K,
  AOTC_GEMM_A_BASE,
  AOTC_GEMM_A_B0,
  AOTC_GEMM_A_B1,
  AOTC_GEMM_A_RS,
  AOTC_GEMM_A_CS, /* A(i,k) at base + b0*B0.. + i*RS + k*CS */
  AOTC_GEMM_B_BASE,
  AOTC_GEMM_B_B0,
  AOTC_GEMM_B_B1,
  AOTC_GEMM_B_RS,
  AOTC_GEMM_B_CS, /* B(k,j) at base + .. + k*RS + j*CS; unused when packed */
  AOTC_GEMM_SIZES
};
typedef struct aotc_gemm_config {
  int32_t a_ptr, b_ptr; /* index into ptr[] */
  int32_t mr;           /* rows of the register tile */
  int32_t nv;           /* vectors in a row of the register tile */
  int32_t mc, nc, kc;   /* block sizes, elements; nc a multiple of the panel width */
  int32_t b_packed;     /* B is a weight in panel form (below), one panel set per segment */
  int32_t pack_a;       /* copy A blocks into scratch panels first */
  int32_t n_segments;
  const aotc_epilogue_fn* epilogues; /* one per segment */
} aotc_gemm_config;
/* Panel form of a weight B[k, n], the same for all instruction sets: for each segment, for each panel of AOTC_PANEL_N columns (the last
 * one zero-padded), row after row of k: f32 and f64: AOTC_PANEL_N elements per k; bf16 and f16: pairs of k interleaved (VNNI-2), k padded
 * to even with zeros: [k/2][AOTC_PANEL_N][2]. The whole is 64-byte aligned. */
enum { AOTC_PANEL_N = 32 };

/* ---- conv: out[n, co, pixel] = epilogue(sum x * w), implicit matrix product, groups, 1 to 3 spatial dims
 * --------------------------------- ptr: config says which is x and which is w. dtypes f32, f64, bf16, f16 (sums f32). size: enum
 * aotc_conv_size (missing leading spatial dims are 1), then what the epilogue uses. work: see the kernel's header. */
enum aotc_conv_size {
  AOTC_CONV_N,
  AOTC_CONV_C,
  AOTC_CONV_D,
  AOTC_CONV_H,
  AOTC_CONV_W,
  AOTC_CONV_CO,
  AOTC_CONV_OD,
  AOTC_CONV_OH,
  AOTC_CONV_OW,
  AOTC_CONV_SIZES
};
typedef struct aotc_conv_config {
  int32_t x_ptr, w_ptr;
  int32_t kernel[3], stride[3], pad[3], dilation[3]; /* d h w */
  int32_t groups, transposed;
  int32_t mr, nv, kc, nc;
  int32_t w_packed;          /* weight in row-panel form: per group, for each panel of AOTC_PANEL_M output channels (zero-padded), k =
                                C/groups*KD*KH*KW          rows of AOTC_PANEL_M elements; bf16 and f16 in pairs of k as above */
  aotc_epilogue_fn epilogue; /* batch = n, m = output channel, n = pixel */
} aotc_conv_config;
enum { AOTC_PANEL_M = 8 };

/* ---- attention: out[b, h, l, :] = softmax(scale * q k' + mask) v, one pass (flash), f32 sums
 * --------------------------------------------- ptr: q, k, v, out, mask (when has_mask) by the config. size: enum aotc_attn_size. dtypes
 * f32, bf16, f16, f64. work: batch * heads * ceil(q_len / q_block). */
enum aotc_attn_size {
  AOTC_ATTN_B,
  AOTC_ATTN_H,
  AOTC_ATTN_HKV,
  AOTC_ATTN_L,
  AOTC_ATTN_S,
  AOTC_ATTN_E,
  AOTC_ATTN_EV,
  AOTC_ATTN_Q_BASE,
  AOTC_ATTN_Q_B,
  AOTC_ATTN_Q_H,
  AOTC_ATTN_Q_S,
  AOTC_ATTN_Q_E,
  AOTC_ATTN_K_BASE,
  AOTC_ATTN_K_B,
  AOTC_ATTN_K_H,
  AOTC_ATTN_K_S,
  AOTC_ATTN_K_E,
  AOTC_ATTN_V_BASE,
  AOTC_ATTN_V_B,
  AOTC_ATTN_V_H,
  AOTC_ATTN_V_S,
  AOTC_ATTN_V_E,
  AOTC_ATTN_O_BASE,
  AOTC_ATTN_O_B,
  AOTC_ATTN_O_H,
  AOTC_ATTN_O_S,
  AOTC_ATTN_O_E,
  AOTC_ATTN_M_BASE,
  AOTC_ATTN_M_B,
  AOTC_ATTN_M_H,
  AOTC_ATTN_M_S,
  AOTC_ATTN_M_E,
  AOTC_ATTN_SIZES
};
typedef struct aotc_attn_config {
  int32_t q_ptr, k_ptr, v_ptr, out_ptr, mask_ptr; /* mask_ptr -1: none */
  int32_t mask_dtype;                             /* AOTC_DTYPE_BOOL or the dtype of q */
  int32_t causal;                                 /* key position <= query position (both from 0) */
  int32_t q_block, kv_block;
  double scale;
} aotc_attn_config;

/* ---- whole-tensor algorithms; x is seen as [outer, n, inner] around the dim -----------------------------------------------------------
 * sort_<dtype>:  ptr x, values, indices(i64). size outer, n, inner. work outer*inner rows. Stable; NaN is largest.
 * topk_<dtype>:  ptr x, values, indices(i64). size outer, n, inner, k. work outer*inner rows.
 * scatter_<dtype>: ptr x, index(i64), src, out. size rank, then dims of x (rank), dims of index (rank), dims of src (rank). work 1
 *                (order of updates is the index's row-major order, so results are deterministic); out starts as a copy of x.
 * index_put_<dtype>: ptr x, values (dense, result dims), out, index1.. . size rank_x, dims of x, n_index, dims indexed.., rank_index, dims
 * of the index tensors, out_pos. work 1. */
typedef struct aotc_sort_config {
  int32_t descending, sorted, largest;
} aotc_sort_config; /* topk uses largest and sorted */
enum { AOTC_SCATTER_NONE = 0, AOTC_SCATTER_SUM, AOTC_SCATTER_PROD, AOTC_SCATTER_AMAX, AOTC_SCATTER_AMIN, AOTC_SCATTER_MEAN };
typedef struct aotc_scatter_config {
  int32_t dim, reduce, include_self, accumulate;
} aotc_scatter_config;

#endif
