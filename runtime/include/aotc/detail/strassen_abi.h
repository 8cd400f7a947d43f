/* How aotc_gemm_strassen_f32 (library_abi.h) multiplies (compiler/kernels/cpu/gemm_strassen.h). C11 and C++17. */
#ifndef AOTC_DETAIL_STRASSEN_ABI_H_
#define AOTC_DETAIL_STRASSEN_ABI_H_

/* Products of halves, for eight; sums that they are added to. */
enum { AOTC_STRASSEN_PRODUCTS = 7, AOTC_STRASSEN_SUMS = 12 };
/* Values of k of a block, whose error is 1.6 times that of plain sums; of a long one, 2 to 3 % faster (sums go to memory half as often),
 * where Numerics::f32_matmul asks for less than the highest accuracy. */
enum { AOTC_STRASSEN_BLOCK = 256, AOTC_STRASSEN_LONG_BLOCK = 512 };

#endif /* AOTC_DETAIL_STRASSEN_ABI_H_ */
