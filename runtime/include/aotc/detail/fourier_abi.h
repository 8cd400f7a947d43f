#ifndef AOTC_DETAIL_FOURIER_ABI_H
#define AOTC_DETAIL_FOURIER_ABI_H
/* Arguments of discrete Fourier transforms of the CPU kernel library; internal. The calling convention: library_abi.h. */
#include "library_abi.h"

/* ---- fourier: transforms of lines ----------------------------------------------------------------------------------------------------
 * dtypes f32, f64. All tensors dense: x [outer, in, inner], out [outer, count, inner]; complex ones are two tensors, re and im.
 * PAIRS: out[k] = scale * sum_j x[j] e^(-2 pi i j k / n), count n. HALF: of real x, the first n / 2 + 1 of them. LINE: the real line
 * out[j] = scale * sum_k X[k] e^(2 pi i j k / n), count n, where X[k] = x[k] in the first n / 2 + 1 and conj(X[n - k]) behind them. Of x,
 * `in` numbers are given; those behind them are zeros.
 *
 * ptr:  re, with im: im; waves [2, n]: the cosines, then the sines of 2 pi j / n; out's re, not LINE: out's im.
 *
 * size: outer, inner, in, n, along: whether lanes are neighbours in inner. n: prime factors of at most AOTC_FOURIER_PRIME.
 *
 * work: along: outer * ceil(inner / AOTC_FOURIER_LINES), else ceil(outer * inner / AOTC_FOURIER_LINES).
 * scratch: aotc_fourier_scratch_bytes(). isa avx2 and avx512. */
enum { AOTC_FOURIER_PAIRS = 0, AOTC_FOURIER_HALF, AOTC_FOURIER_LINE };
enum { AOTC_FOURIER_LINES = 16, AOTC_FOURIER_PRIME = 61 };
typedef struct aotc_fourier_config {
  int32_t kind;    /* AOTC_FOURIER_* */
  int32_t im;      /* PAIRS: x has an imaginary part; LINE: 1 */
  int32_t inverse; /* PAIRS: e^(2 pi i j k / n) */
  double scale;
} aotc_fourier_config;
static inline int64_t aotc_fourier_scratch_bytes(int64_t n) { return 4 * 64 * (n + 9); }

#endif
