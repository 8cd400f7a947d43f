#ifndef AOTC_DETAIL_ATTENTION_BYTES_ABI_H
#define AOTC_DETAIL_ATTENTION_BYTES_ABI_H
/* Arguments of attention over keys and values that are stored in bytes, of the CPU kernel library; internal. The rest: library_abi.h. */
#include "library_abi.h"

/* ---- attention_kv8: as attention, with keys and values of kv_dtype; dtypes (of q, mask and out) f32, bf16, f16. ptr: of int8 also the
 * scales (f32) of rows of keys and of values: scores are multiplied by the former, exponents (after they were summed) by the latter.
 * size: enum aotc_attn_size, then this. */
enum aotc_attn_kv8_size {
  AOTC_ATTN_KS_BASE = AOTC_ATTN_SIZES, /* scales of keys; 0 without */
  AOTC_ATTN_KS_B,
  AOTC_ATTN_KS_H,
  AOTC_ATTN_KS_S,
  AOTC_ATTN_VS_BASE, /* of values */
  AOTC_ATTN_VS_B,
  AOTC_ATTN_VS_H,
  AOTC_ATTN_VS_S,
  AOTC_ATTN_KV8_SIZES
};
typedef struct aotc_attn_kv8_config {
  aotc_attn_config plain;
  int32_t kv_dtype;       /* AOTC_DTYPE_I8 or AOTC_DTYPE_F8E4M3FN */
  int32_t ks_ptr, vs_ptr; /* of int8 */
} aotc_attn_kv8_config;

#endif
