#ifndef AOTC_DETAIL_QR_ABI_H
#define AOTC_DETAIL_QR_ABI_H
/* Arguments of QR factors of the CPU kernel library; internal. The calling convention: library_abi.h. */
#include "library_abi.h"

/* ---- qr: reflections I - tau v v^T whose product is Q ----------------------------------------------------------------------------------
 * dtype f64. ptr: x [count, m, n]; packed [count, m, n]: R on and above the diagonal, below it what each v has below its one; tau
 * [count, min(m, n)]. A column that is zero below its diagonal has tau 0 and keeps its sign, R's other diagonal values have the sign that
 * the column did not have there (LAPACK's). Numbers near the ends of the type's range are scaled first. size: count, m, n. work: count.
 * Scratch: aotc_qr_scratch_bytes(). isa avx2 and avx512. */
enum { AOTC_QR_PANEL = 32 }; /* columns that are factorised before those right of them see them */
static inline int64_t aotc_qr_scratch_bytes(int64_t m) { return (m + 2 * AOTC_QR_PANEL) * AOTC_QR_PANEL * 8; }

#endif
