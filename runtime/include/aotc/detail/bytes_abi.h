/* The entries of the kernel library that multiply unsigned bytes by signed ones and sum in 32 bits: a part of library_abi.h. C11 and
 * C++17. */
#ifndef AOTC_DETAIL_BYTES_ABI_H_
#define AOTC_DETAIL_BYTES_ABI_H_
#include "aotc/detail/library_abi.h"

/* ---- gemm_bytes_u8: out[b, m, n] = epilogue(sum_k A[b, m, k] * B[k, n]) -------------------------------------------------------------
 * A: u8 of any strides. B: i8, a weight without batch dims in the form of gemm_quant with bits 8. Sums are exact while they fit 32 bits.
 * ptr: by the config. size and work: as gemm's; what is said of B is unused. scratch: aotc_gemm_bytes_scratch_bytes(). */
typedef struct aotc_gemm_bytes_config {
  int32_t a_ptr, b_ptr;
  int32_t mc, nc; /* work unit, nc a multiple of AOTC_PANEL_N */
  int32_t n_segments;
  const aotc_epilogue_fn* epilogues; /* one per segment */
} aotc_gemm_bytes_config;

enum { AOTC_BYTES_SUMS = 4096 }; /* that are finished at once, unless one panel of a unit's rows has more */
/* Bytes of a copied row of k, as bytes and as pairs of 16 bits. */
static inline int64_t aotc_bytes_row_bytes(int64_t k) { return ((k + 63) / 64 * 64 + 64) * 3; }
static inline int64_t aotc_bytes_sums_bytes(int64_t rows) {
  int64_t panel = rows * AOTC_PANEL_N, least = AOTC_BYTES_SUMS;
  return (panel > least ? panel : least) * 4;
}
/* Bytes per thread; affine in k rounded up to a multiple of 64. */
static inline int64_t aotc_gemm_bytes_scratch_bytes(const aotc_gemm_bytes_config* c, int64_t k) {
  return aotc_bytes_sums_bytes(c->mc) + c->mc * aotc_bytes_row_bytes(k) + 256;
}

/* ---- conv_bytes_u8, conv_bytes_depthwise_u8: channels-last convolutions of u8 x by i8 w in 32 bits -----------------------------------
 * ptr: by the config. size: enum aotc_conv_size, then what the epilogue uses. Outside of the images x is `around`.
 * conv_bytes: an implicit product. w: for each group a matrix [(kd, kh, kw, c), Co / groups] in the form of gemm_quant with bits 8.
 *   work: groups * ceil(co / groups / mc) * ceil(n * od * oh * ow / nc).
 * conv_bytes_depthwise: a channel a group. w: one matrix [(kd, kh, kw), C] in that form. work: n * od * ceil(oh / kp): bands of kp rows;
 *   mc channels (a multiple of AOTC_PANEL_N) of nc pixels of a row at a time.
 * scratch: aotc_conv_bytes_scratch_bytes(), aotc_conv_bytes_depthwise_scratch_bytes(). */
typedef struct aotc_conv_bytes_config {
  int32_t x_ptr, w_ptr;
  int32_t kernel[3], stride[3], pad[3], dilation[3]; /* d h w; 1, 1, 0, 1 for the missing leading ones */
  int32_t groups, around;
  int32_t mc, nc, kp;
  aotc_epilogue_fn epilogue; /* batch = n, m = pixel of one image, n = output channel of all groups */
} aotc_conv_bytes_config;

/* k: C / groups * KD * KH * KW. Bytes per thread; affine in k rounded up to a multiple of 64. */
static inline int64_t aotc_conv_bytes_scratch_bytes(const aotc_conv_bytes_config* c, int64_t k) {
  return aotc_bytes_sums_bytes(c->nc) + c->nc * aotc_bytes_row_bytes(k) + 256;
}
enum { AOTC_BYTES_DEPTHWISE_TAPS = 128 };
static inline int64_t aotc_conv_bytes_depthwise_scratch_bytes(const aotc_conv_bytes_config* c, int64_t taps) {
  return (int64_t)c->mc * ((int64_t)c->nc * 4 + taps * 4 + 1) + 512;
}

#endif
