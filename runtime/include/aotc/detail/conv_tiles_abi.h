/* Convolutions in tile registers: a part of library_abi.h. C11 and C++17. */
#ifndef AOTC_DETAIL_CONV_TILES_ABI_H_
#define AOTC_DETAIL_CONV_TILES_ABI_H_
#include "aotc/detail/library_abi.h"

/* ---- aotc_conv_config::line_steps of conv_last_tiles
 * ------------------------------------------------------------------------------------- One group: steps of 32 values of k that a line of
 * taps, KW * C values, or so many lines together, is multiplied in. More groups, of an even number of channels below 32: KW, each tap is a
 * step of its C / groups values. In all no more than AOTC_CONV_MOST_LINE_STEPS times the steps of copied rows: those take as long to copy.
 */

enum { AOTC_CONV_MOST_TOGETHER = 16, AOTC_CONV_MOST_LINE_STEPS = 3 };
/* Lines of taps (a depth and a height) that are multiplied as one, a column's values of all of them beside each other: where there is one
 * channel all of the kernel or all of a depth, if those are no more than AOTC_CONV_MOST_TOGETHER; else 1. */
static inline int64_t aotc_conv_lines_together(int64_t channels, int64_t kd, int64_t kh) {
  if (channels != 1) return 1;
  if (kd * kh <= AOTC_CONV_MOST_TOGETHER) return kd * kh;
  return kh <= AOTC_CONV_MOST_TOGETHER ? kh : 1;
}
#endif /* AOTC_DETAIL_CONV_TILES_ABI_H_ */
