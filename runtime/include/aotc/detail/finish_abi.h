/* Epilogues as data, for entries of the kernel library that carry them out on sums in registers: a part of library_abi.h. C11 and C++17. */
#ifndef AOTC_DETAIL_FINISH_ABI_H_
#define AOTC_DETAIL_FINISH_ABI_H_
#include <stdint.h>

/* What becomes of the float32 sum v at row m (of gemm's one batch element; of conv_last the pixel, counted over all images) and column n
 * (from its segment's begin; the output channel of all groups), step after step. It does what the epilogue beside it does; an entry may
 * take either. NaN stays NaN. */
enum {
  AOTC_FINISH_ADD_COLUMN = 1, /* v += (float)ptr[base + n] */
  AOTC_FINISH_MUL_COLUMN,     /* v *= (float)ptr[base + n] */
  AOTC_FINISH_ADD_F32,        /* v += ptr[base + m * pitch + n] */
  AOTC_FINISH_ADD_BF16,       /* the same of a bf16 */
  AOTC_FINISH_AT_LEAST,       /* v = max(v, limit), v where both are zeros */
  AOTC_FINISH_AT_MOST,        /* v = min(v, limit), likewise */
  AOTC_FINISH_HARD_SWISH,     /* v = v * min(max(v + 3, 0), 6) / 6 */
  AOTC_FINISH_STORE_F32,      /* ptr[base + m * pitch + n] = v */
  AOTC_FINISH_STORE_BF16,     /* the same, rounded to nearest even */
  AOTC_FINISH_MAX_STEPS = 6
};
typedef struct aotc_finish_step {
  int32_t kind; /* AOTC_FINISH_* */
  int32_t ptr;  /* which of args->ptr */
  float limit;
  int64_t base, pitch; /* in elements */
} aotc_finish_step;
typedef struct aotc_finish {
  int32_t n_steps; /* 0: there is the epilogue alone */
  aotc_finish_step steps[AOTC_FINISH_MAX_STEPS];
} aotc_finish;

#endif
