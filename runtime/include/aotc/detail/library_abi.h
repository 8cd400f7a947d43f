/* Kernels of the library (compiler/kernels/cpu), compiled once per instruction set when aotc is built and linked into artifacts from an
 * archive embedded in aotc. Each entry is an aotc_kernel_fn named aotc_<kernel>_<dtype>_<isa>, isa a row of AOTC_ISA_LIST, for example
 * aotc_gemm_f32_avx512. Here stand, per kernel, the order of ptr[] and size[], the work units and the config. C11 and C++17.
 * All strides and bases are in elements. */
#ifndef AOTC_DETAIL_LIBRARY_ABI_H_
#define AOTC_DETAIL_LIBRARY_ABI_H_
#include <stdint.h>

#include "aotc/detail/finish_abi.h"
#include "aotc/detail/kernel_abi.h"

/* ---- gemm: out[b, m, n] = epilogue(sum_k A[b, m, k] * B[b, k, n]) ---------------------------------------------------------------------
 * dtypes (acc): f32 (f32), f64 (f64), bf16 (f32), f16 (f32); u8, i8, i16, i32 (i32) and i64 (i64) as plain loops that never take a packed
 * B. K == 0 gives zeros. A and B may have any strides (0 and negative too), or are computed by prologues. ptr:  contraction params in their
 * order; config says which is A and which is B. size: those of enum aotc_gemm_size, then n_begin, n_end of each segment, then what the
 * prologues and epilogues use (the plan appends them). work: batch * ceil(m / mc) * sum over the segments of ceil((n_end - n_begin) / nc),
 * batch = B0 * B1; with
 * in_runs (M / mc + min(M, RUNS)) * the same sum. scratch: aotc_gemm_scratch_bytes() and, with prologues, aotc_gemm_prologue_bytes() more,
 * and AOTC_GEMM_WIDENED_BYTES more where B is packed and of 16 bits. */
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
  AOTC_GEMM_B_CS, /* B(k,j) at base + .. + k*RS + j*CS; packed: base and batch strides count elements of the panel form, RS, CS unused */
  AOTC_GEMM_RUNS,
  AOTC_GEMM_RUN_STRIDE, /* with in_runs: matrices of B, and what lies between two of them; else unused */
  AOTC_GEMM_SIZES
};
typedef struct aotc_gemm_config {
  int32_t a_ptr, b_ptr;   /* index into ptr[]; unused for an operand with a prologue, as are its base and strides */
  int32_t mr, nv;         /* largest register tile: rows, vectors */
  int32_t mc, nc, kc, kp; /* work unit mc x nc (nc a multiple of AOTC_PANEL_N); kc: k per pass; kp: k packed at once, a multiple of kc;
                             kc and kp even */
  int32_t b_packed;       /* B is a weight in panel form (below), one panel set per segment */
  int32_t pack_a;         /* copy A into scratch panels first; 0: read it in place where its layout allows */
  int32_t n_segments;
  const aotc_epilogue_fn* epilogues; /* one per segment */
  aotc_prologue_fn a_prologue;       /* rows m, columns k; NULL: A is in memory */
  aotc_prologue_fn b_prologue;       /* rows k, columns n of all segments; NULL: B is in memory. Never with b_packed */
  const aotc_finish* finishes;       /* one per segment, of one batch element; NULL: none. f32 and bf16 alone look at them */
  int32_t ordered;           /* a sum goes in the order of k within each kc, whatever the tile: rows are the same to the bit for any M */
  int32_t in_runs, ends_ptr; /* in_runs: row i of A meets matrix j of B, the first for which ends[j] > i, or the last; ends: int64 [RUNS] at
                                ptr[ends_ptr], of any values. B0 and B1 are 1, and there are no prologues. gemm alone */
} aotc_gemm_config;
/* Panel form of a weight B[k, n], the same for all instruction sets: for each segment, for each panel of AOTC_PANEL_N columns (the last
 * one zero-padded), row after row of k: f32, f64 and f16: AOTC_PANEL_N elements per k; bf16: pairs of k interleaved (VNNI-2), k padded
 * to even with a zero: [ceil(k/2)][AOTC_PANEL_N][2]. The whole is 64-byte aligned. kernels/cpu/pack.h makes it. */
enum { AOTC_PANEL_N = 32 };

/* k is the largest K that occurs; acc_bytes 4 (f32, bf16, f16, ints) or 8. Bytes per thread. */
static inline int64_t aotc_gemm_scratch_bytes(const aotc_gemm_config* c, int64_t k, int64_t acc_bytes) {
  int64_t kp = k < c->kp ? k + (k & 1) : c->kp;
  int64_t a = (c->mc + 16) * kp, b = c->b_packed ? 0 : c->nc * kp, tile = (int64_t)c->mc * c->nc;
  return (a + b + tile) * acc_bytes + 256;
}
/* What a packed B of 16 bits needs beyond that, whether the instruction set widens it or not: 256 values of k of two vectors of floats. */
enum { AOTC_GEMM_WIDENED_BYTES = 256 * 2 * 64 };
/* What prologues need beyond that: room for the elements before they are packed. */
static inline int64_t aotc_gemm_prologue_bytes(const aotc_gemm_config* c, int64_t k, int64_t acc_bytes, int has_a, int has_b) {
  int64_t kp = k < c->kp ? k + (k & 1) : c->kp;
  return ((has_a ? (c->mc + 1) * (kp + 32) : 0) + (has_b ? AOTC_PANEL_N * kp + c->nc : 0)) * acc_bytes + 256;
}

/* ---- gemm_tiles: the same products, units and config with bf16 in tile registers; isa amx. All of k at once: mr, nv, kc and kp mean
 * nothing to it, and are there for gemm, which stands in with the same weights where a process may not use the tiles. pack_a: 0: A is read
 * in place where k is contiguous and a multiple of 32. scratch: the larger of gemm's (with what prologues need) and
 * aotc_gemm_tiles_scratch_bytes(). */
enum { AOTC_GEMM_TILES_SUMS = 1024, AOTC_GEMM_TILES_MADE_ROWS = 128 };

/* k is the largest K that occurs. Bytes per thread; affine in k rounded up to a multiple of 64. */
static inline int64_t aotc_gemm_tiles_scratch_bytes(const aotc_gemm_config* c, int64_t k) {
  int64_t steps = (k + 63) / 64 * 2, rows = (c->mc + 15) / 16 * 16;
  int64_t a = rows * (steps + 1) * 64, b = c->b_packed ? 2048 : c->nc / AOTC_PANEL_N * steps * 2048;
  return 2 * (int64_t)AOTC_GEMM_TILES_SUMS * 4 + (int64_t)AOTC_GEMM_TILES_MADE_ROWS * AOTC_PANEL_N * 2 + a + b;
}
/* ---- gemm_strassen_f32: the same products, units and config with seven multiplications for eight; b_packed always, K even. kc: k of a
 * block, whose halves are multiplied. Panels go in pairs, those of a unit from its first on; one without a partner is multiplied by four
 * halves. nv, kp and pack_a mean nothing to it. What overflows or is no number in a row reaches the row that goes with it, and so do
 * columns. scratch: aotc_gemm_strassen_scratch_bytes() and, with a prologue, aotc_gemm_strassen_prologue_bytes() more. */
typedef struct aotc_gemm_strassen_rooms { /* in scratch, one after another, in floats */
  int64_t left, quarters, right, sums;    /* and what a prologue computes */
} aotc_gemm_strassen_rooms;
static inline aotc_gemm_strassen_rooms aotc_gemm_strassen_rooms_of(const aotc_gemm_config* c, int64_t k) {
  aotc_gemm_strassen_rooms r;
  int64_t kc = k < c->kc ? k : c->kc, even = c->mc + (c->mc & 1);
  r.left = (7 * (k / 2) * (even / 2) + 15) / 16 * 16;
  r.quarters = 4 * ((kc / 2 * c->mr + 31) / 16 * 16);
  r.right = kc / 2 * AOTC_PANEL_N;
  r.sums = even * 2 * AOTC_PANEL_N;
  return r;
}
/* k is the largest K that occurs. Bytes per thread. */
static inline int64_t aotc_gemm_strassen_scratch_bytes(const aotc_gemm_config* c, int64_t k) {
  const aotc_gemm_strassen_rooms r = aotc_gemm_strassen_rooms_of(c, k);
  return (r.left + r.quarters + r.right + r.sums) * 4 + 256;
}
/* Room for what a prologue computes, before it is packed. */
static inline int64_t aotc_gemm_strassen_prologue_bytes(const aotc_gemm_config* c, int64_t k) { return 2 * (int64_t)c->mr * (k + 32) * 4; }
/* ---- gemm_bf16w_f32: gemm of float32 rows with a bf16 weight in panel form; b_packed always. */
/* ---- gemm_quant_f32: the same for float32 rows A and one weight B of integers with scales, B[k, j] = values[k, j] * scales[k / group, j]
 * + offsets[k / group, j]
 * ------------------------------------------------------------------------------------------------------------------ ptr: by the config.
 * scales, offsets: bf16, dense [ceil(K / group), N]. values: for each segment, for each AOTC_QUANT_LANES of its columns (an even number of
 * times, zero-padded) for each AOTC_QUANT_BLOCK of k (the last zero-padded): bits 8: signed bytes [AOTC_QUANT_BLOCK /
 * 4][AOTC_QUANT_LANES][4]; bits 4: unsigned, the first half of these in the low, the second in the high four bits. size: as gemm's; what is
 * said of B is unused, B0 and B1 are the batch dims of A. work: as gemm's. A may have any strides or a prologue. Every row is rounded to 24
 * bits of the largest value of each AOTC_QUANT_BLOCK of k; the sum is as accurate as one of float32. */
enum { AOTC_QUANT_BLOCK = 32, AOTC_QUANT_LANES = 16, AOTC_QUANT_BLOCK_BYTES = 144 };
typedef struct aotc_gemm_quant_config {
  int32_t a_ptr;                               /* unused with a prologue */
  int32_t values_ptr, scales_ptr, offsets_ptr; /* offsets_ptr -1: none */
  int32_t bits;                                /* 8 or 4; quant_abi.h */
  int32_t group;                               /* a multiple of AOTC_QUANT_BLOCK, or at least K */
  int32_t mc, nc;                              /* work unit (nc a multiple of AOTC_PANEL_N) */
  int32_t n_segments;
  const aotc_epilogue_fn* epilogues; /* one per segment */
  aotc_prologue_fn a_prologue;       /* rows m, columns k; NULL: A is in memory */
} aotc_gemm_quant_config;
/* Bytes per thread. */
static inline int64_t aotc_gemm_quant_scratch_bytes(const aotc_gemm_quant_config* c, int64_t k) {
  int64_t blocks = (k + AOTC_QUANT_BLOCK - 1) / AOTC_QUANT_BLOCK;
  return c->mc * blocks * AOTC_QUANT_BLOCK_BYTES + (blocks * AOTC_QUANT_BLOCK + (int64_t)c->mc * c->nc) * 4 + 256;
}

/* ---- gemm_int8_f32: gemm_quant with bits 8, a scale a column (group at least K) and no offsets, K at most AOTC_INT8_MAX_K, and the same
 * weights: every row of A is rounded to 8 bits between its smallest and its largest value, the products are sums of bytes. A row with an
 * infinity or a NaN gives NaN. Sums are the same on every instruction set. scratch: aotc_gemm_int8_scratch_bytes(). */
enum { AOTC_INT8_ROW_BYTES = 12, AOTC_INT8_MAX_K = 131072 };
/* Bytes per thread; affine in k rounded up to a multiple of 64. */
static inline int64_t aotc_gemm_int8_scratch_bytes(const aotc_gemm_quant_config* c, int64_t k) {
  int64_t depth = (k + 63) / 64 * 64;
  return c->mc * (depth * 2 + 64 + AOTC_INT8_ROW_BYTES + (int64_t)c->nc * 4) + depth * 4 + AOTC_PANEL_N * 4 + 256;
}

/* ---- gemm_int8_tiles_f32: the same in tile registers, with the same bits; isa amx. As gemm_tiles is to gemm. scratch: the larger of
 * both. */
/* Bytes per thread; affine in k rounded up to a multiple of 64. */
static inline int64_t aotc_gemm_int8_tiles_scratch_bytes(const aotc_gemm_quant_config* c, int64_t k) {
  int64_t steps = (k + 63) / 64, rows = (c->mc + 15) / 16 * 16;
  return 2 * (int64_t)AOTC_GEMM_TILES_SUMS * 4 + 2048 + rows * (steps + 1) * 64 + steps * 256 + (int64_t)c->nc * 16 +
         c->mc * AOTC_INT8_ROW_BYTES + 256;
}

/* ---- gemm_dots: the same products, units and config as sums along k, for A whose columns and B whose rows are next to each other
 * (A_CS == B_RS == 1). f32, f64; no prologues, no packed B; mr, nv, kc, kp and pack_a mean nothing to it. scratch: mc * nc sums. */

/* ---- conv: out[n, co, pixel] = epilogue(sum x * w), groups, 1 to 3 spatial dims, any stride, dilation and low padding (high padding is
 * implied by the output's dims), transposed or not ------------------------------------------------------------------------------------
 * ptr:  config says which is x (dense [N, C, D, H, W]) and which is w. dtypes f32, f64, bf16, f16 (acc f32, f64 for f64); integers
 *       (acc as gemm's) only as AOTC_CONV_DIRECT.
 * size: enum aotc_conv_size (missing leading spatial dims are 1), then what the epilogue uses.
 * work: AOTC_CONV_GEMM:   groups * ceil(co / groups / mc) * ceil(n * od * oh * ow / nc): implicit matrix product, images merged
 *       AOTC_CONV_DIRECT: n * co: for few channels in a group (depthwise). kp: elements of the copied strip, nc: of its sums.
 *       AOTC_CONV_PHASES: only transposed: a product for each phase of the stride, nc pixels of each phase along width:
 *                         groups * ceil(co / groups / mc) * sd * sh * ceil(n * ceil(od / sd) * ceil(oh / sh) * ceil(ow / sw) / nc)
 * scratch: aotc_conv_scratch_bytes().
 *
 * conv_last_<dtype>, the same for x dense [N, D, H, W, C], never transposed; f32, f64, bf16, f16. The epilogue's m is a pixel of one image,
 * its n an output channel of all groups. Panels of w_packed: k = (kd, kh, kw, c).
 * work: AOTC_CONV_LAST: as AOTC_CONV_GEMM. AOTC_CONV_LAST_DEPTHWISE (C / groups = Co / groups = 1, or 2, 4, 8 but for f64; at most
 *       AOTC_CONV_DEPTHWISE_TAPS weights a channel, more than one tap):
 *       n * od * ceil(oh / kp) * ceil(ow / nc): bands of kp output rows, in them mc channels (a multiple of AOTC_PANEL_N) of nc pixels at
 *       a time. w_packed: one matrix B[(taps, C / groups), Co].
 *       AOTC_CONV_WINOGRAD (f32, bf16; KD x 3 x 3 of stride and dilation 1 but along d, one group, C a multiple of 16, w_packed): nc tiles
 *       of kp x kp pixels, kp 2 or (f32) 4: ceil(n * od * ceil(oh / kp) * ceil(ow / kp) / nc) * ceil(co / mc). w: for each panel of
 *       AOTC_PANEL_N channels [(kp + 2)^2][KD, C][AOTC_PANEL_N], the filters' transforms (plan/weights.h), bf16's rows in pairs. */
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
enum { AOTC_CONV_GEMM = 0, AOTC_CONV_DIRECT, AOTC_CONV_PHASES, AOTC_CONV_LAST, AOTC_CONV_LAST_DEPTHWISE, AOTC_CONV_WINOGRAD };
enum { AOTC_CONV_DEPTHWISE_TAPS = 128, AOTC_WINOGRAD_RUN = 8 };
typedef struct aotc_conv_config {
  int32_t x_ptr, w_ptr;
  int32_t kernel[3], stride[3], pad[3], dilation[3]; /* d h w; 1, 1, 0, 1 for the missing leading ones */
  int32_t groups, transposed;
  int32_t algo;              /* AOTC_CONV_* */
  int32_t mc, nc, kc, kp;    /* work unit mc channels x nc pixels; kc: k per pass; kp: k gathered at once, a multiple of kc; both even */
  int32_t w_packed;          /* w is in the panel form of gemm: per group a matrix B[k, co / groups], k = (c, kd, kh, kw) row-major with
                                c < C/groups. AOTC_CONV_PHASES: per group and phase (vd, vh, vw) row-major, v < stride, a matrix of its
                                taps, those with tap * dilation % stride == v, along each dim the last tap first; phases without taps
                                have no rows. Else (and always for AOTC_CONV_DIRECT) the natural [Co, C/groups, K..], or
                                [C, Co/groups, K..] when transposed */
  aotc_epilogue_fn epilogue; /* batch = n, m = output channel (of all groups), n = pixel of one image */
  const aotc_finish* finish; /* NULL: none. conv_last_f32 and conv_last_bf16 alone look at it, and not by minimal filtering */
  int32_t line_steps; /* conv_last_tiles, w_packed, no dilation of width: how windows of channels that are no whole steps of 32 are read
                         in place (conv_tiles_abi.h); 0: they are copied */
  int32_t ordered;    /* a sum goes in the order of k within each kc, whatever the tile: pixels are the same to the bit for any N */
} aotc_conv_config;

/* k: C/groups*KD*KH*KW. acc_bytes as for gemm. Bytes per thread. */
static inline int64_t aotc_conv_scratch_bytes(const aotc_conv_config* c, int64_t k, int64_t acc_bytes) {
  int64_t kp, nc = c->nc + 64;
  if (c->algo == AOTC_CONV_DIRECT) return ((int64_t)c->kp + 2 * (int64_t)c->nc + 512) * acc_bytes;
  if (c->algo == AOTC_CONV_PHASES) {
    int64_t sw = c->stride[2], p = AOTC_PANEL_N, rows = k + sw + 1, ld = (c->nc + p - 1) / p * p;
    kp = rows < c->kp ? rows : c->kp;
    return (kp * nc + (p + 48) * nc + p * (2 * sw * ld + 16) + (c->w_packed ? 0 : 2 * p * kp)) * acc_bytes + 512;
  }
  if (c->algo == AOTC_CONV_LAST_DEPTHWISE) return ((int64_t)c->nc * c->mc + 64) * acc_bytes;
  if (c->algo == AOTC_CONV_WINOGRAD) {
    int64_t points = (c->kp + 2) * (c->kp + 2), channels = k / 9;
    return (points * c->nc * (channels + 16 + AOTC_PANEL_N) + c->kp * c->kp * AOTC_WINOGRAD_RUN * AOTC_PANEL_N + channels + 64) * 4;
  }
  kp = k < c->kp ? k + (k & 1) : c->kp;
  if (c->algo == AOTC_CONV_LAST)
    return ((c->nc + 16) * (int64_t)(c->mc + AOTC_PANEL_N) + (c->nc + 1) * (kp + 16) + (c->w_packed ? 0 : (c->mc + AOTC_PANEL_N) * kp)) *
               acc_bytes +
           512;
  return (kp * nc + (c->mc + 32) * nc + nc * 48 + (c->w_packed ? 0 : (c->mc + 32) * kp)) * acc_bytes + 512;
}

/* ---- conv_last_tiles: AOTC_CONV_LAST of bf16 in tile registers; isa amx. As gemm_tiles is to gemm: all of k at once, kc and kp are those
 * of conv_last, which stands in. scratch: the larger of both. */
static inline int64_t aotc_conv_last_tiles_scratch_bytes(const aotc_conv_config* c, int64_t k) {
  int64_t steps = (k + 63) / 64 * 2, pixels = (c->nc + 15) / 16 * 16;
  int64_t w = (c->mc + AOTC_PANEL_N) / AOTC_PANEL_N * (c->w_packed ? (int64_t)c->kernel[0] * c->kernel[1] * c->line_steps : steps) * 2048;
  return 2 * (int64_t)AOTC_GEMM_TILES_SUMS * 4 + 2048 + pixels * (steps + 1) * 64 + w;
}

/* ---- attention: out[b, h, l, :] = softmax(scale * q k' + mask) v, one pass (flash), f32 sums (f64 for f64)
 * ------------------------------- ptr:  q, k, v, out, mask and sinks (when there are) by the config. dtypes f32, bf16, f16, f64. Any
 * strides; query head h uses key head h / (H / HKV). size: enum aotc_attn_size. A row that attends nowhere gives zeros. work: batch * HKV *
 * ceil(H / HKV * L / q_block): the query heads of one key head are rows of one block. scratch: aotc_attn_scratch_bytes(). */
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
  AOTC_ATTN_M_BASE, /* the mask's are 0 where it broadcasts */
  AOTC_ATTN_M_B,
  AOTC_ATTN_M_H,
  AOTC_ATTN_M_S,
  AOTC_ATTN_M_E,
  AOTC_ATTN_SINK_BASE, /* the sinks' too */
  AOTC_ATTN_SINK_B,
  AOTC_ATTN_SINK_H,
  AOTC_ATTN_SINK_S,
  AOTC_ATTN_SIZES
};
#define AOTC_ATTN_HIDDEN -1e30
typedef struct aotc_attn_config {
  int32_t q_ptr, k_ptr, v_ptr, out_ptr, mask_ptr; /* mask_ptr -1: none */
  int32_t mask_dtype;                             /* AOTC_DTYPE_BOOL (true: attends), AOTC_DTYPE_F32 or the dtype of q (added) */
  int32_t causal;                                 /* key position <= query position (both from 0) */
  int32_t q_block, kv_block;                      /* kv_block a multiple of AOTC_PANEL_N */
  double scale;
  int32_t nan_rows;   /* a row whose every score is -inf: 0: zeros, 1: NaN */
  int32_t mask_fills; /* 1: elements of a float mask of AOTC_ATTN_HIDDEN and less take the score's place */
  int32_t sink_ptr;   /* of the type of the sums: a row's sink, a score of no key; -1: none */
  int32_t key_part;   /* of attention_split (attention_split_abi.h): keys of an item */
} aotc_attn_config;

/* Up to so many rows take their scores as dot products, which read keys where they lie; more rows share a copy of the keys in panels. Sums
 * over the lanes cost less of a long head. */
static inline int64_t aotc_attn_few_rows(int64_t e, int64_t lanes) { return e < 4 * lanes ? 4 : e > 8 * lanes ? 8 : e / lanes; }

/* e, ev: head dims. acc_bytes 4, or 8 for f64. */
static inline int64_t aotc_attn_scratch_bytes(const aotc_attn_config* c, int64_t e, int64_t ev, int64_t acc_bytes) {
  int64_t q = c->q_block + 16, kv = c->kv_block, evp = (ev + AOTC_PANEL_N - 1) / AOTC_PANEL_N * AOTC_PANEL_N;
  return (2 * q * e + kv * e + kv * evp + 2 * q * kv + q * evp + 4 * q) * acc_bytes + 1024;
}

/* ---- attention_tiles: the same with bf16 in tile registers; isa amx. As gemm_tiles is to gemm. scratch: the larger of both. */
static inline int64_t aotc_attn_tiles_scratch_bytes(const aotc_attn_config* c, int64_t e, int64_t ev) {
  int64_t q = (c->q_block + 15) / 16 * 16, kv = c->kv_block, ev_panels = (ev + AOTC_PANEL_N - 1) / AOTC_PANEL_N;
  int64_t e_steps = (e + 31) / 32, kv_steps = kv / 32;
  int64_t panels = (kv / AOTC_PANEL_N * e_steps + ev_panels * kv_steps) * 2048, rows = q * (e_steps + kv_steps + 2) * 64;
  return 2 * (int64_t)AOTC_GEMM_TILES_SUMS * 4 + panels + rows + q * (kv + ev_panels * AOTC_PANEL_N + 3) * 4 + 1024;
}

/* ---- whole-tensor algorithms; x is seen as [outer, n, inner] around the dim -----------------------------------------------------------
 * All for every dtype of dtype.h up to f64 (bool too; scatter with a reduction and index_put with accumulate are not defined for bool's
 * arithmetic beyond "or"/"and"), only in isa avx2.
 * sort_<dtype>:  ptr x, values, indices(i64). size outer, n, inner. work outer*inner rows. Stable; NaN is largest.
 * topk_<dtype>:  ptr x, values, indices(i64). size outer, n, inner, k. work outer*inner rows. NaN is largest.
 *                scratch of both: aotc_sort_scratch_bytes().
 * scatter_<dtype>: ptr x, index(i64), src, out. size rank, then dims of x (rank), dims of index (rank), dims of src (rank).
 *                work: the places of x's dims before `dim`; updates of one keep the index's row-major order, so results are deterministic.
 *                out starts as a copy of x, which may be out itself. Scratch: 8 bytes per element of x's dims from `dim` on when reduce is
 *                mean or include_self is 0, else 0.
 * index_put_<dtype>: ptr x, values (dense, result dims), out, index1(i64).. . size rank_x, dims of x, n_index, dims indexed (ascending),
 *                rank_index, dims of the index tensors (all alike), out_pos: where the index dims stand in values' dims, the dims of x that
 *                are not indexed standing around them in order. Negative indices count from the end. config scatter's accumulate.
 *                work: the places of x's dims before the first indexed one.
 * add_rows_<dtype> (f32, f64; avx512 too): ptr x [n, d], table [v, d], from [r], to [r] (i64), with factors those [r], out [n, d]. size n,
 *                d, v, r, begins, factors. out: x, to whose row to[i] the table's row from[i] (times its factor) is added, in order of i;
 *                negative indices count from the end. x may be out itself. work: blocks of AOTC_ADD_ROWS_COLUMNS columns. begins 1: to [n]
 *                instead: those of row k stand from to[k] to to[k + 1], or r, no negative ones; 2: and the largest is taken. work: n.
 */
#define AOTC_ADD_ROWS_COLUMNS 64
typedef struct aotc_sort_config {
  int32_t descending, sorted, largest;
} aotc_sort_config; /* topk uses largest and sorted */
static inline int64_t aotc_sort_scratch_bytes(int64_t n, int64_t elem_bytes) { return 2 * n * (elem_bytes + 8) + 256; }
enum { AOTC_SCATTER_NONE = 0, AOTC_SCATTER_SUM, AOTC_SCATTER_PROD, AOTC_SCATTER_AMAX, AOTC_SCATTER_AMIN, AOTC_SCATTER_MEAN };
typedef struct aotc_scatter_config {
  int32_t dim, reduce, include_self, accumulate;
} aotc_scatter_config;

/* ---- recurrence: a recurrent layer in one direction over all steps -------------------------------------------------------------------
 * dtypes f32, f64, bf16, f16 (state and sums in f32, or f64). All tensors dense. n = gates * hidden, gates in PyTorch's order (LSTM: input,
 * forget, cell, output; GRU: reset, update, new). width: of the state, hidden unless projected.
 * ptr:  x, rows of n, the input's part of every gate with all biases that can be added beforehand; w [width, n];
 *       h0 [batch, width]; LSTM: c0 [batch, hidden]; GRU: bias [n] of the state's part; projected: w_hr [hidden, width];
 *       out, rows of width; h [batch, width]; LSTM: c [batch, hidden]. Row t * s + b * r of x and out is of step t and row b of the batch.
 * size: steps, batch, hidden, width, s, r. work: ceil(batch / AOTC_RECURRENCE_ROWS). scratch: aotc_recurrence_scratch_bytes().
 * recurrence_bf16w_f32: the same of f32 with w of bf16; not projected. isa avx2 and avx512. */
enum { AOTC_CELL_LSTM = 0, AOTC_CELL_GRU, AOTC_CELL_TANH, AOTC_CELL_RELU };
enum { AOTC_RECURRENCE_ROWS = 6 };
typedef struct aotc_recurrence_config {
  int32_t cell;      /* AOTC_CELL_* */
  int32_t reverse;   /* the last step first */
  int32_t projected; /* LSTM: the state is o * tanh(c) times w_hr */
} aotc_recurrence_config;
static inline int64_t aotc_recurrence_gates(int32_t cell) { return cell == AOTC_CELL_LSTM ? 4 : cell == AOTC_CELL_GRU ? 3 : 1; }
static inline int64_t aotc_recurrence_scratch_bytes(int32_t cell, int64_t hidden, int64_t width, int64_t acc_bytes) {
  int64_t n = hidden > width ? hidden : width;
  return AOTC_RECURRENCE_ROWS * (aotc_recurrence_gates(cell) * hidden + 3 * n + 64) * acc_bytes + 256;
}

/* ---- cholesky: L of L L^T = x, of the lower triangle of x -----------------------------------------------------------------------------
 * dtypes f32, f64 (sums in f64). ptr: x [count, n, n], out [count, n, n], info int32 [count]: 0, or the order of the first leading minor
 * that is not positive; the columns of out are NaN from there. Above the diagonal out is 0. size: count, n, n. work: count. scratch:
 * aotc_cholesky_scratch_bytes(). isa avx2 and avx512. */
enum { AOTC_CHOLESKY_COLUMNS = 32 };
static inline int64_t aotc_cholesky_scratch_bytes(int64_t n) { return n * AOTC_CHOLESKY_COLUMNS * 8; }

/* ---- solve_triangular: x of a x = b ----------------------------------------------------------------------------------------------------
 * dtypes f32, f64 (computed in f64). ptr: a [count, n, n], b [count, n, k], x [count, n, k]. size: count, n, k.
 * work: count * ceil(k / AOTC_TRIANGLE_COLUMNS). scratch: aotc_solve_triangular_scratch_bytes(). isa avx2 and avx512. */
enum { AOTC_TRIANGLE_COLUMNS = 32 };
typedef struct aotc_solve_triangular_config {
  int32_t upper; /* which triangle of a is read */
  int32_t unit;  /* its diagonal counts as ones */
  int32_t below; /* k == n, not upper: x is solved left of its diagonal, elsewhere it is b */
} aotc_solve_triangular_config;
static inline int64_t aotc_solve_triangular_scratch_bytes(int64_t n, int64_t k) {
  const int64_t columns = AOTC_TRIANGLE_COLUMNS;
  return n * (k < columns ? k : columns) * 8;
}

#endif
