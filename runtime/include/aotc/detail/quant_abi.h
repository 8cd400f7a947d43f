#ifndef AOTC_DETAIL_QUANT_ABI_H
#define AOTC_DETAIL_QUANT_ABI_H
#include "aotc/detail/library_abi.h"
/* What is added to the bits of an aotc_gemm_quant_config whose scales and offsets are float32 in place of bf16. */
enum { AOTC_QUANT_WIDE_SCALES = 64 };

/* ---- gemm_unpack_f32: the products of gemm_quant_f32 as sums of floats: the panels of B that gemm reads are made of the weight, once for
 * all rows of a unit, or in registers where these are few. product: b_packed, b_ptr: the values; kc and kp multiples of AOTC_QUANT_BLOCK.
 * size, ptr, work: as gemm_bf16w's. Rows and scales beyond 2^112 may overflow. scratch: gemm's of K rounded up to whole blocks, with what
 * prologues need, and aotc_gemm_unpack_bytes(). */
enum { AOTC_GEMM_UNPACK_ROWS = 32 }; /* of units that may unpack in registers */
enum { AOTC_GEMM_UNPACK_K = 320 };   /* values of k that are unpacked at once, at most */
typedef struct aotc_gemm_unpack_config {
  aotc_gemm_config product;
  int32_t scales_ptr, offsets_ptr, bits, group; /* as in aotc_gemm_quant_config */
  int32_t register_rows; /* units of so many rows and fewer unpack in registers, each tile for itself (4 bits: where there is AVX-512); at
                            most AOTC_GEMM_UNPACK_ROWS */
} aotc_gemm_unpack_config;
/* k is the largest K that occurs, rounded up to whole blocks. Bytes per thread. */
static inline int64_t aotc_gemm_unpack_bytes(const aotc_gemm_config* c, int64_t k) {
  return AOTC_GEMM_UNPACK_K * 2 * 64 + AOTC_GEMM_UNPACK_ROWS * ((k < c->kp ? k : c->kp) / AOTC_QUANT_BLOCK + 1) * 4;
}
#endif
