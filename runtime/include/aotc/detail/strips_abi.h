/* The entry of the kernel library that calls others of its entries: a part of library_abi.h. C11 and C++17. */
#ifndef AOTC_DETAIL_STRIPS_ABI_H_
#define AOTC_DETAIL_STRIPS_ABI_H_
#include "aotc/detail/library_abi.h"

/* ---- strips: channels-last convolutions and products of their pixels, one after another, over strips of rows of the last one's result -
 * Each stage is an entry of this library, conv_last (not by minimal filtering) or gemm, called on some rows as if they were an image of
 * their own. Of what a stage hands to the next one a few rows are kept in scratch; those that two strips of a thread meet stay there.
 * ptr:  the stages' arguments, by their configs.
 * size: images, then rows and columns of the first stage's input and of each stage's result, then the sizes of each stage.
 * work: images * ceil(rows of the last result / config.rows). isa avx2.
 * scratch: scratch_bytes, then of the result of each stage but the last the rows that a strip meets (aotc_strip_rows), 64 bytes more. */
enum { AOTC_STRIP_MAX_STAGES = 16, AOTC_STRIP_MAX_ARGS = 24, AOTC_STRIP_MAX_SIZES = 64 };
enum { AOTC_STRIP_BEFORE = -1, AOTC_STRIP_OWN = -2 }; /* in place of a pointer: the result of the stage before, that of the stage itself */
typedef struct aotc_strip_arg {
  int32_t ptr;         /* of args->ptr, or AOTC_STRIP_* */
  int64_t pixel_bytes; /* how far it moves with a pixel of the grid that it lies on: x on that of the input, all else on the result's */
  int64_t image_bytes; /* and with an image, beyond what its pixels make */
} aotc_strip_arg;
typedef struct aotc_strip_stage {
  aotc_kernel_fn fn;
  const void* config;                        /* aotc_conv_config, or of a product aotc_gemm_config: one segment, no prologues */
  int32_t product;                           /* not 0: A is a row a pixel */
  int32_t kernel, stride, padding, dilation; /* of rows; 1, 1, 0, 1 for products */
  int32_t n_sizes, n_args;
  int32_t x;           /* which of args is the input */
  int64_t pixel_bytes; /* of its result */
  const aotc_strip_arg* args;
} aotc_strip_stage;
typedef struct aotc_strips_config {
  int32_t n_stages, rows; /* rows: the most of the last result that are computed at once */
  int64_t scratch_bytes;  /* the most that a stage needs, a multiple of 64 */
  const aotc_strip_stage* stages;
} aotc_strips_config;

/* Rows of a stage's input that `rows` rows of its result meet. */
static inline int64_t aotc_strip_rows(int64_t kernel, int64_t stride, int64_t dilation, int64_t rows) {
  return (rows - 1) * stride + (kernel - 1) * dilation + 1;
}

#endif
