/* Kernels whose threads work together within a call: what they are given beside aotc_kargs, and their contracts. C11 and C++17. */
#ifndef AOTC_DETAIL_TEAM_ABI_H_
#define AOTC_DETAIL_TEAM_ABI_H_
#include "library_abi.h"

/* What the threads of a call tell each other about one of the ranges that they share the work in (kernels/cpu/team.h): items that are
 * taken, and that are done, of all phases together. A cache line. */
typedef struct aotc_team_range {
  int64_t taken, done, unused[6];
} aotc_team_range;
enum { AOTC_TEAM_RANGES = 16 };

/* Every kernel's arguments are the first member of this. */
typedef struct aotc_team_kargs {
  aotc_kargs args;
  void* shared;          /* the scratch of thread 0, for all threads */
  aotc_team_range* team; /* as many as threads, at most AOTC_TEAM_RANGES; zero before the call. NULL: threads do not know of each other */
} aotc_team_kargs;

/* ---- recurrence_panels: recurrence (library_abi.h) with w in panel form, on which all threads work together step by step ---------------
 * dtypes f32, f64, bf16, f16; not projected. ptr, size and config as recurrence, but w: the panels of every gate, [width, hidden], after
 * each other. Sums and cell in f32 or f64; the state that a step multiplies is of the dtype where that is what the products take (f32, f64,
 * and bf16 on avx512_bf16), else f32.
 * work: ceil(hidden / AOTC_PANEL_N) * ceil(batch / AOTC_RECURRENCE_GROUP) items, which the threads take from each other: a call computes
 * all that no other call of the step does, whatever its units are. scratch: aotc_recurrence_panels_scratch_bytes(), shared.
 * recurrence_panels_bf16w_f32: w of bf16, all else of f32, but for the state that a step multiplies, of bf16 on avx512_bf16; the other uses
 * of the state see it as it is given out. isa avx2, avx512, and where w is bf16 avx512_bf16. recurrence_tiles_bf16,
 * recurrence_tiles_bf16w_f32: the same in tile registers; the state that a step multiplies is of bf16. isa amx. */
enum { AOTC_RECURRENCE_GROUP = 24 };
/* Elements from row to row of the states and the cell in scratch: whole panels, rows not a page apart. */
static inline int64_t aotc_recurrence_row(int64_t hidden) { return (hidden + AOTC_PANEL_N - 1) / AOTC_PANEL_N * AOTC_PANEL_N + 32; }
static inline int64_t aotc_recurrence_panels_scratch_bytes(int64_t batch, int64_t hidden, int64_t acc_bytes) {
  return 3 * batch * aotc_recurrence_row(hidden) * acc_bytes + 256;
}

#endif
