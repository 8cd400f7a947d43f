#pragma once
// Matrix products of bf16 by tile registers: aotc_gemm_tiles_bf16 of aotc/detail/library_abi.h.
//
// A is read in place or from copied rows, a run-time B from panels made here; both are kept over the units that share them.
#include "finish.h"
#include "gemm_units.h"
#include "panels.h"
#include "tile_blocks.h"

namespace {

class GemmTiles {
  static constexpr int64_t kMadeRows = AOTC_GEMM_TILES_MADE_ROWS;  // of B at once by a prologue

 public:
  using Unit = GemmUnits::Unit;

 private:
  const aotc_kargs* args_;
  const aotc_gemm_config* cfg_;
  const int64_t* size_;
  GemmUnits units_;
  int64_t k_, steps_, pitch_;
  bool a_in_place_;
  bf16 *b_made_, *a_copy_, *b_copy_;  // b_copy_: panels, or of a weight the last step
  int64_t a_key_ = -1, b_key_ = -1;   // what the copies hold
  Finish finish_;                     // of finish_segment_; without steps where there is the epilogue alone
  int64_t finish_segment_ = -1;
  TileBlocks<GemmTiles> blocks_;

 public:
  explicit GemmTiles(const aotc_kargs* args)
      : args_(args),
        cfg_(static_cast<const aotc_gemm_config*>(args->config)),
        size_(args->size),
        units_(args),
        blocks_(this, static_cast<float*>(args->scratch)) {
    k_ = size_[AOTC_GEMM_K], steps_ = tile_steps(k_), pitch_ = tile_pitch(k_);
    a_in_place_ = !cfg_->a_prologue && !cfg_->pack_a && size_[AOTC_GEMM_A_CS] == 1 && k_ % kTileK == 0;
    b_made_ = reinterpret_cast<bf16*>(static_cast<float*>(args->scratch) + 2 * kTileSums);
    a_copy_ = b_made_ + kMadeRows * AOTC_PANEL_N;
    b_copy_ = a_copy_ + ceil_div(cfg_->mc, kTileRows) * kTileRows * pitch_;
  }

  void run(int64_t begin, int64_t end) {
    a_key_ = held_key(args_, 0), b_key_ = held_key(args_, 1);
    for (int64_t i = begin; i < end; ++i) run_unit(units_.at(i));
    blocks_.finish();
    hold_key(args_, a_key_, 0), hold_key(args_, b_key_, 1);
  }

  int64_t slice() const { return finish_.n ? kSliceOfFinish : kSliceOfCalls; }
  void consume(const Unit& u, int64_t row, int64_t rows, int64_t col, int64_t cols, const float* sums, int64_t ld) {
    if (finish_segment_ != u.segment) {
      finish_segment_ = u.segment;
      finish_ = cfg_->finishes ? Finish(args_, cfg_->finishes + u.segment) : Finish();
    }
    if (finish_.n) return finish_sums(finish_, sums, ld, u.m0 + row, rows, u.n0 + col, cols);
    cfg_->epilogues[u.segment](args_, sums, ld, u.batch, u.m0 + row, rows, u.n0 + col, cols);
  }

 private:
  /// A's rows [row, row + rows) of the unit to the start of the copy.
  void copy_a(const Unit& u, const bf16* src, int64_t row, int64_t rows) {
    if (!cfg_->a_prologue) {
      const int64_t rs = size_[AOTC_GEMM_A_RS];
      return copy_tile_rows(src + row * rs, rs, size_[AOTC_GEMM_A_CS], rows, k_, a_copy_, pitch_);
    }
    if (k_ > 0) cfg_->a_prologue(args_, u.batch, u.m0 + row, rows, 0, k_, a_copy_, pitch_);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = k_; j < steps_ * kTileK; ++j) a_copy_[i * pitch_ + j].bits = 0;
  }

  /// A panel of `width` columns of B from column j0 of the unit as whole steps.
  void copy_b(const Unit& u, const bf16* src, int64_t j0, int64_t width, bf16* dst) {
    const int64_t rs = size_[AOTC_GEMM_B_RS], cs = size_[AOTC_GEMM_B_CS];
    if (!cfg_->b_prologue) {
      pack_col_pairs(src + j0 * cs, rs, cs, k_, width, AOTC_PANEL_N, reinterpret_cast<u32*>(dst), AOTC_PANEL_N);
    } else {
      for (int64_t k0 = 0; k0 < k_; k0 += kMadeRows) {
        const int64_t kn = min_of(kMadeRows, k_ - k0);
        cfg_->b_prologue(args_, u.batch, k0, kn, units_.segment_begin(u.segment) + u.n0 + j0, width, b_made_, AOTC_PANEL_N);
        pack_col_pairs(b_made_, AOTC_PANEL_N, 1, kn, width, AOTC_PANEL_N, reinterpret_cast<u32*>(dst + k0 * AOTC_PANEL_N), AOTC_PANEL_N);
      }
    }
    const int64_t bytes = (k_ + (k_ & 1)) * AOTC_PANEL_N * 2;
    __builtin_memset(reinterpret_cast<char*>(dst) + bytes, 0, static_cast<size_t>(steps_ * kStepBytes - bytes));
  }

  void run_unit(const Unit& u) {
    const int64_t rows = u.rows(), cols = u.cols();
    const int64_t b1 = size_[AOTC_GEMM_B1], i0 = u.batch / b1, i1 = u.batch % b1, a_rs = size_[AOTC_GEMM_A_RS];
    const bf16 *a = nullptr, *b = nullptr;
    if (!cfg_->a_prologue)
      a = static_cast<const bf16*>(args_->ptr[cfg_->a_ptr]) + size_[AOTC_GEMM_A_BASE] + i0 * size_[AOTC_GEMM_A_B0] +
          i1 * size_[AOTC_GEMM_A_B1] + u.m0 * a_rs;
    if (!cfg_->b_prologue)
      b = static_cast<const bf16*>(args_->ptr[cfg_->b_ptr]) + size_[AOTC_GEMM_B_BASE] + i0 * size_[AOTC_GEMM_B_B0] +
          i1 * size_[AOTC_GEMM_B_B1];
    if (cfg_->b_packed)
      b += (units_.panel_columns_before(u.segment) + u.n0) * (k_ + (k_ & 1));
    else if (!cfg_->b_prologue)
      b += (units_.segment_begin(u.segment) + u.n0) * size_[AOTC_GEMM_B_CS];

    // In place, what no tile of rows is left for is copied.
    const int64_t kept = !a_in_place_ ? 0 : rows < kTileRows ? rows : rows / kTileRows * kTileRows;
    if (a_key_ != units_.a_key(u)) copy_a(u, a, kept, rows - kept);
    a_key_ = units_.a_key(u);
    auto rows_at = [&](int64_t row) {
      if (row < kept) return TileRows{reinterpret_cast<const char*>(a + row * a_rs), a_rs * 2};
      return TileRows{reinterpret_cast<const char*>(a_copy_ + (row - kept) * pitch_), pitch_ * 2};
    };
    const bool fresh_b = b_key_ != units_.b_key(u);
    b_key_ = units_.b_key(u);

    blocks_.multiply(u, rows, cols, steps_, rows_at, [&](int64_t p) -> TilePanel {
      const int64_t j0 = p * AOTC_PANEL_N;
      if (cfg_->b_packed)
        return stored_panel(reinterpret_cast<const char*>(b + j0 * (k_ + (k_ & 1))), k_, reinterpret_cast<char*>(b_copy_));
      bf16* panel = b_copy_ + p * steps_ * (kStepBytes / 2);
      if (fresh_b) copy_b(u, b, j0, min_of<int64_t>(AOTC_PANEL_N, cols - j0), panel);
      return {reinterpret_cast<const char*>(panel)};
    });
  }
};

}  // namespace
