/* Float32 products in tile registers, each number as three of bf16 (compiler/kernels/cpu/gemm_parts.h). C11 and C++17. */
#ifndef AOTC_DETAIL_PARTS_ABI_H_
#define AOTC_DETAIL_PARTS_ABI_H_
#include "aotc/detail/quant_abi.h"

/* ---- gemm_parts_f32: gemm's products, units and config (library_abi.h); isa amx, b_packed always. kp: k whose parts are kept at once, a
 * multiple of 32. mr, nv, kc and pack_a mean nothing to it and are there for gemm, which stands in with the same weights where a process
 * may not use the tiles. Sums that are no numbers are made again without parts. Where a unit has all columns, of at most
 * AOTC_GEMM_PARTS_KEPT bytes of parts, and there are AOTC_GEMM_PARTS_KEPT_ROWS rows or more, the weight is split once for all units.
 * scratch: the larger of gemm's (with what a prologue needs) and aotc_gemm_parts_scratch_bytes(). */
enum { AOTC_GEMM_PARTS_KEPT = 768 << 10, AOTC_GEMM_PARTS_KEPT_ROWS = 96 };
enum { AOTC_GEMM_PARTS_FEW_ROWS = 20 }; /* so many and fewer are gemm's, whatever the plan says */
typedef struct aotc_gemm_parts_rooms {  /* in scratch, one after another, in bytes */
  int64_t rows, panel, sums;            /* parts of A, of a panel or where they are kept of all; sums of a block or of the unit */
  int64_t made;                         /* sums of a chunk, and numbers of A */
} aotc_gemm_parts_rooms;
static inline int64_t aotc_gemm_parts_chunk(const aotc_gemm_config* c, int64_t k) {
  int64_t whole = (k + 31) / 32 * 32;
  return whole == 0 ? 32 : whole < c->kp ? whole : c->kp;
}
/* Bytes of the parts of `cols` columns of the weight. */
static inline int64_t aotc_gemm_parts_bytes(int64_t k, int64_t cols) {
  return (k + 31) / 32 * 32 * ((cols + AOTC_PANEL_N - 1) / AOTC_PANEL_N * AOTC_PANEL_N) * 6;
}
static inline int32_t aotc_gemm_parts_can_keep(const aotc_gemm_config* c, int64_t k) {
  return k > 0 && k <= aotc_gemm_parts_chunk(c, k) && aotc_gemm_parts_bytes(k, c->nc) <= AOTC_GEMM_PARTS_KEPT;
}
static inline aotc_gemm_parts_rooms aotc_gemm_parts_rooms_of(const aotc_gemm_config* c, int64_t k) {
  aotc_gemm_parts_rooms r;
  int64_t chunk = aotc_gemm_parts_chunk(c, k), rows = (c->mc + 31) / 32 * 32;
  r.rows = (rows < 64 ? 64 : rows) * chunk * 6;
  r.panel = aotc_gemm_parts_can_keep(c, k) ? aotc_gemm_parts_bytes(k, c->nc) : chunk * AOTC_PANEL_N * 6;
  r.sums = k <= chunk ? 2 * (int64_t)AOTC_GEMM_TILES_SUMS * 4 : rows * c->nc * 4;
  r.made = 16 * (chunk + 16) * 4 + (int64_t)AOTC_GEMM_TILES_SUMS * 4;
  return r;
}
/* k is the largest K that occurs. Bytes per thread. */
static inline int64_t aotc_gemm_parts_scratch_bytes(const aotc_gemm_config* c, int64_t k) {
  const aotc_gemm_parts_rooms r = aotc_gemm_parts_rooms_of(c, k);
  return r.rows + r.panel + r.sums + r.made;
}

/* ---- gemm_unpack_parts_f32, gemm_bf16w_parts_f32: the same with the weight and the config of gemm_unpack_f32 (quant_abi.h) and of
 * gemm_bf16w_f32, which stand in for them. scratch: the larger of that kernel's and aotc_gemm_parts_scratch_bytes() with
 * AOTC_GEMM_PARTS_ROOM. */
enum { AOTC_GEMM_PARTS_ROOM = 32 * AOTC_PANEL_N * 4 }; /* 32 of k of a panel as float32 */

#endif /* AOTC_DETAIL_PARTS_ABI_H_ */
