#ifndef AOTC_DETAIL_SVD_ABI_H
#define AOTC_DETAIL_SVD_ABI_H
/* Arguments of singular values and vectors of the CPU kernel library; internal. The calling convention: library_abi.h. */
#include "library_abi.h"

/* ---- svd: x = u diag(s) v^T with orthonormal columns, s falls ---------------------------------------------------------------------------
 * dtype f64. ptr: x [count, m, n], m >= n; u [count, m, n]; s [count, n]; v [count, n, n]. Of each column of v the first value of at least
 * AOTC_SVD_SIGNED_PART of its largest size is positive. Singular values of less than 1e-100 of x's largest value are zeros. A matrix with
 * NaN or infinity gives NaN. size: count, m, n. work: count. Scratch: aotc_svd_scratch_bytes. A matrix of at most AOTC_SVD_SMALL rows is
 * computed beside others (Jacobi's rotations), in work units of a multiple of AOTC_SVD_LANES best, its result does not depend on them. isa
 * avx2 and avx512. */
enum { AOTC_SVD_LANES = 8, AOTC_SVD_SMALL = 16, AOTC_SVD_SWEEPS = 40 };
#define AOTC_SVD_SIGNED_PART 0.6
#define AOTC_SVD_SMALLEST 1e-100 /* singular value, of a matrix whose largest value is from 1 to 2 */
#define AOTC_SVD_SMALLEST_SQUARE 1e-200

typedef struct aotc_svd_config {
  int32_t vectors; /* 0: nobody reads u and v, which may be left as they are */
} aotc_svd_config;

/* Rows of both sides' vectors, 16 numbers apart at most from their lengths, and what the rotations of AOTC_SVD_SWEEPS_KEPT sweeps take. Or
 * the columns of AOTC_SVD_LANES small matrices, and of their v. */
enum { AOTC_SVD_SWEEPS_KEPT = 4 };
static inline int64_t aotc_svd_scratch_bytes(int64_t m, int64_t n) {
  const int64_t kept = AOTC_SVD_SWEEPS_KEPT;
  const int64_t large = (n + 2) * (m + 16) + n * (n + 16) + 6 * n + 4 * kept * (n + 2 * kept);
  const int64_t small = m > AOTC_SVD_SMALL ? 0 : (m * n + n * n) * AOTC_SVD_LANES;
  return (large > small ? large : small) * 8;
}

#endif
