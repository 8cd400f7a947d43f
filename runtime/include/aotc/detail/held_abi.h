/* Products of many rows of bf16 in tile registers, part after part of k (compiler/kernels/cpu/gemm_held.h). C11 and C++17. */
#ifndef AOTC_DETAIL_HELD_ABI_H_
#define AOTC_DETAIL_HELD_ABI_H_
#include "aotc/detail/library_abi.h"

/* ---- gemm_held_bf16: gemm's products, units and config (library_abi.h); isa amx, b_packed always, K at least AOTC_GEMM_HELD_LEAST_K. mr,
 * nv, kc, kp and pack_a mean nothing to it and are there for gemm, which stands in with the same weights where a process may not use the
 * tiles. k goes in parts of as many steps of 32, AOTC_GEMM_HELD_STEPS or fewer. As many of them as leave a unit's rows within
 * AOTC_GEMM_HELD_ROWS bytes, two at least, are a section, of which all panels of a unit are multiplied before the next.
 * scratch: the larger of gemm's (with what a prologue needs) and aotc_gemm_held_scratch_bytes(). */
enum { AOTC_GEMM_HELD_LEAST_K = 64, AOTC_GEMM_HELD_STEPS = 20, AOTC_GEMM_HELD_ROWS = 768 << 10 };
typedef struct aotc_gemm_held_rooms { /* in scratch, one after another, in bytes */
  int64_t sums;                       /* of two blocks of 32 x 32 */
  int64_t parts;                      /* of the parts of a section so far: a panel's */
  int64_t before;                     /* of the sections before: the unit's */
  int64_t tail;                       /* the last step of a panel where that is cut short */
  int64_t made;                       /* 16 rows of A as they are made */
  int64_t rows;                       /* A's, in tiles */
} aotc_gemm_held_rooms;
static inline int64_t aotc_gemm_held_parts(int64_t k) {
  int64_t steps = (k + 31) / 32, parts = (steps + AOTC_GEMM_HELD_STEPS - 1) / AOTC_GEMM_HELD_STEPS;
  return parts < 1 ? 1 : parts;
}
/* Parts of a section. */
static inline int64_t aotc_gemm_held_section(const aotc_gemm_config* c, int64_t k) {
  int64_t parts = aotc_gemm_held_parts(k), steps = ((k + 31) / 32 + parts - 1) / parts;
  int64_t section = AOTC_GEMM_HELD_ROWS / ((c->mc + 31) / 32 * 32 * 64 * (steps < 1 ? 1 : steps));
  return section < 2 ? 2 : section;
}
/* Elements from row to row of those that are made: an odd number of cache lines, for rows a multiple of 512 bytes apart share cache sets.
 */
static inline int64_t aotc_gemm_held_pitch(int64_t k) { return ((k + 31) / 32 | 1) * 32; }
static inline aotc_gemm_held_rooms aotc_gemm_held_rooms_of(const aotc_gemm_config* c, int64_t k) {
  aotc_gemm_held_rooms r;
  int64_t blocks = (c->mc + 31) / 32, parts = aotc_gemm_held_parts(k), block = (int64_t)AOTC_GEMM_TILES_SUMS * 4;
  r.sums = 2 * block;
  r.parts = parts > 1 ? blocks * block : 0;
  r.before = parts > aotc_gemm_held_section(c, k) ? c->nc / AOTC_PANEL_N * blocks * block : 0;
  r.tail = AOTC_PANEL_N * 32 * 2;
  r.made = 16 * aotc_gemm_held_pitch(k) * 2;
  r.rows = blocks * 32 * ((k + 31) / 32) * 64;
  return r;
}
/* k is the largest K that occurs. Bytes per thread. */
static inline int64_t aotc_gemm_held_scratch_bytes(const aotc_gemm_config* c, int64_t k) {
  const aotc_gemm_held_rooms r = aotc_gemm_held_rooms_of(c, k);
  return r.sums + r.parts + r.before + r.tail + r.made + r.rows;
}

#endif /* AOTC_DETAIL_HELD_ABI_H_ */
