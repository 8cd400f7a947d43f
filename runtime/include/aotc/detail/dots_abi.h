/* Blocks of dot products (compiler/kernels/cpu/dots.h). C11 and C++17. */
#ifndef AOTC_DETAIL_DOTS_ABI_H_
#define AOTC_DETAIL_DOTS_ABI_H_

enum { AOTC_DOTS_ROWS = 4 }; /* that meet a block's columns at once, where both are of one type */

#endif /* AOTC_DETAIL_DOTS_ABI_H_ */
