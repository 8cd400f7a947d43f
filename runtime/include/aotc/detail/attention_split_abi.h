/* Contract of the attention whose keys the threads divide. C11 and C++17. */
#ifndef AOTC_DETAIL_ATTENTION_SPLIT_ABI_H_
#define AOTC_DETAIL_ATTENTION_SPLIT_ABI_H_
#include "attention_bytes_abi.h"
#include "team_abi.h"

/* ---- attention_split: attention (library_abi.h) of few query rows over long keys -----------------------------------------------------
 * dtypes f32, f64, bf16, f16. ptr, size and config as attention; q_block: at least all query rows of a key head; key_part: keys of an item,
 * a multiple of kv_block. work: batch * hkv * aotc_attn_parts() items, which the threads take from each other: a call computes all that no
 * other call of the step does, whatever its units are. scratch: aotc_attn_split_shared_bytes() of thread 0, for all threads, before
 * aotc_attn_scratch_bytes() of its own. Results do not depend on the number of threads. attention_split_kv8: the same of keys and values of
 * 8 bits, config as attention_kv8. isa avx2, avx512. */
enum { AOTC_ATTN_SPLIT_ROWS = 32 }; /* query rows of a key head, at most: the forms' limit, for the sake of the scratch */
static inline int64_t aotc_attn_parts(int64_t keys, int64_t key_part) { return keys > key_part ? (keys + key_part - 1) / key_part : 1; }
/* rows: query rows of a key head. A multiple of 64. */
static inline int64_t aotc_attn_split_shared_bytes(int64_t items, int64_t rows, int64_t ev, int64_t acc_bytes) {
  int64_t evp = (ev + AOTC_PANEL_N - 1) / AOTC_PANEL_N * AOTC_PANEL_N;
  return items * rows * (evp + AOTC_PANEL_N) * acc_bytes;
}

#endif
