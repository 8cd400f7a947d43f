#pragma once
// What the products of bf16 in tiles have in common: a unit's rows of A as copies, and what becomes of its sums.
#include "finish.h"
#include "gemm_units.h"
#include "tile_blocks.h"

namespace {

struct GemmTileUnits {
  using Unit = GemmUnits::Unit;

  const aotc_kargs* args;
  const aotc_gemm_config* cfg;
  const int64_t* size;
  GemmUnits units;
  Finish finish;  // of finish_segment; without steps where there is the epilogue alone
  int64_t finish_segment = -1;

  explicit GemmTileUnits(const aotc_kargs* args)
      : args(args), cfg(static_cast<const aotc_gemm_config*>(args->config)), size(args->size), units(args) {}

  /// A's first row of the unit where A is in memory.
  const bf16* rows_of(const Unit& u) const {
    if (cfg->a_prologue) return nullptr;
    const int64_t b1 = size[AOTC_GEMM_B1], i0 = u.batch / b1, i1 = u.batch % b1;
    return static_cast<const bf16*>(args->ptr[cfg->a_ptr]) + size[AOTC_GEMM_A_BASE] + i0 * size[AOTC_GEMM_A_B0] +
           i1 * size[AOTC_GEMM_A_B1] + u.m0 * size[AOTC_GEMM_A_RS];
  }
  /// A's rows [row, row + rows) of the unit, whose first is at `from`, each followed by zeros up to whole steps.
  void copy_rows(const Unit& u, const bf16* from, int64_t row, int64_t rows, bf16* to, int64_t pitch) const {
    const int64_t k = size[AOTC_GEMM_K];
    if (!cfg->a_prologue) {
      const int64_t rs = size[AOTC_GEMM_A_RS];
      return copy_tile_rows(from + row * rs, rs, size[AOTC_GEMM_A_CS], rows, k, to, pitch);
    }
    if (k > 0) cfg->a_prologue(args, u.batch, u.m0 + row, rows, 0, k, to, pitch);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = k; j < tile_steps(k) * kTileK; ++j) to[i * pitch + j].bits = 0;
  }
  /// The first panel of a unit of a packed B.
  const bf16* panels_of(const Unit& u) const {
    const int64_t b1 = size[AOTC_GEMM_B1], i0 = u.batch / b1, i1 = u.batch % b1, k = size[AOTC_GEMM_K];
    return static_cast<const bf16*>(args->ptr[cfg->b_ptr]) + size[AOTC_GEMM_B_BASE] + i0 * size[AOTC_GEMM_B_B0] +
           i1 * size[AOTC_GEMM_B_B1] + (units.panel_columns_before(u.segment) + u.n0) * (k + (k & 1));
  }
  const Finish& finish_of(const Unit& u) {
    if (finish_segment != u.segment) {
      finish_segment = u.segment;
      finish = cfg->finishes ? Finish(args, cfg->finishes + u.segment) : Finish();
    }
    return finish;
  }
  /// Carries out the epilogue of some of the unit's sums, which it may overwrite.
  void consume(const Unit& u, int64_t row, int64_t rows, int64_t col, int64_t cols, const float* sums, int64_t ld) {
    const Finish& f = finish_of(u);
    if (f.n) return finish_sums(f, sums, ld, u.m0 + row, rows, u.n0 + col, cols);
    cfg->epilogues[u.segment](args, sums, ld, u.batch, u.m0 + row, rows, u.n0 + col, cols);
  }
};

}  // namespace
