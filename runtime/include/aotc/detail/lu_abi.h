#ifndef AOTC_DETAIL_LU_ABI_H
#define AOTC_DETAIL_LU_ABI_H
/* Arguments of LU factors of the CPU kernel library; internal. The calling convention: library_abi.h. */
#include "library_abi.h"

/* ---- lu: rows of x in the order `order` are L U ----------------------------------------------------------------------------------------
 * dtype f64. ptr: x [count, m, n]; packed [count, m, n]: U, and below its diagonal L without its ones; order int64 [count, m];
 * swaps int64 [count, min(m, n)]: the row >= k that step k changes with row k, the first one of the largest absolute value in column k (row
 * k where all are NaN). A column of zeros gives zeros in L. size: count, m, n. work: count. A matrix of at most AOTC_LU_SMALL rows and
 * columns is computed beside others, at most AOTC_LU_LANES at a time, its result does not depend on them. Scratch:
 * AOTC_LU_SCRATCH_BYTES, for the small ones beside each other, or a panel's rows. isa avx2 and avx512. */
enum { AOTC_LU_LANES = 8, AOTC_LU_SMALL = 16, AOTC_LU_SCRATCH_BYTES = 16384 };

#endif
