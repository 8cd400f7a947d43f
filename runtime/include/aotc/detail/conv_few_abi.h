/* Convolutions of few channels: a part of library_abi.h. C11 and C++17. */
#ifndef AOTC_DETAIL_CONV_FEW_ABI_H_
#define AOTC_DETAIL_CONV_FEW_ABI_H_
#include "aotc/detail/library_abi.h"

/* ---- conv_few_<f32, bf16>: channels-last convolutions of few channels a group, not transposed
 * -------------------------------------------- Windows are read where they lie in copies of the lines (a depth and a height) that a run of
 * an output row meets, with their borders. ptr, size, config, epilogue: as AOTC_CONV_LAST of conv_last. The kernel has at most
 * AOTC_CONV_FEW_LINES runs: lines of taps where the dilation of width is 1, else taps; a run of 16-bit values has an even number of them
 * then. w: w_packed; for each group a matrix for each line (kd, kh) of the kernel in order, B[(kw, c of the group), Co of the group]. work:
 * units as those of AOTC_CONV_LAST, each so many whole rows of the output. scratch: aotc_conv_few_scratch_bytes. */
enum { AOTC_CONV_FEW_LINES = 64, AOTC_CONV_FEW_RUN = 112 }; /* RUN: the most output pixels whose lines are copied at once */
static inline int64_t aotc_conv_few_scratch_bytes(const aotc_conv_config* c, int64_t group_channels) {
  int64_t line = ((AOTC_CONV_FEW_RUN - 1) * c->stride[2] + (c->kernel[2] - 1) * c->dilation[2] + 1) * group_channels + AOTC_PANEL_N;
  return (c->kernel[0] * c->kernel[1] * line + AOTC_CONV_FEW_RUN * ((int64_t)c->mc + AOTC_PANEL_N)) * 4 + 512;
}
#endif /* AOTC_DETAIL_CONV_FEW_ABI_H_ */
