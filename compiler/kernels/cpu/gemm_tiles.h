#pragma once
// Matrix products of bf16 by tile registers: aotc_gemm_tiles_bf16 of aotc/detail/library_abi.h.
//
// A is read in place or from copied rows, a run-time B from panels made here; both are kept over the units that share them.
#include "gemm_tile_units.h"
#include "panels.h"

namespace {

class GemmTiles {
  static constexpr int64_t kMadeRows = AOTC_GEMM_TILES_MADE_ROWS;  // of B at once by a prologue

 public:
  using Unit = GemmUnits::Unit;

 private:
  GemmTileUnits of_;
  const aotc_kargs* args_;
  const aotc_gemm_config* cfg_;
  const int64_t* size_;
  const GemmUnits& units_;
  int64_t k_, steps_, pitch_;
  bool a_in_place_;
  bf16 *b_made_, *a_copy_, *b_copy_;  // b_copy_: panels, or of a weight the last step
  int64_t a_key_ = -1, b_key_ = -1;   // what the copies hold
  TileBlocks<GemmTiles> blocks_;

 public:
  explicit GemmTiles(const aotc_kargs* args)
      : of_(args), args_(args), cfg_(of_.cfg), size_(of_.size), units_(of_.units), blocks_(this, static_cast<float*>(args->scratch)) {
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

  int64_t slice() const { return of_.finish.n ? kSliceOfFinish : kSliceOfCalls; }
  void consume(const Unit& u, int64_t row, int64_t rows, int64_t col, int64_t cols, const float* sums, int64_t ld) {
    of_.consume(u, row, rows, col, cols, sums, ld);
  }

 private:
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
    const bf16 *a = of_.rows_of(u), *b = nullptr;
    if (cfg_->b_packed)
      b = of_.panels_of(u);
    else if (!cfg_->b_prologue)
      b = static_cast<const bf16*>(args_->ptr[cfg_->b_ptr]) + size_[AOTC_GEMM_B_BASE] + i0 * size_[AOTC_GEMM_B_B0] +
          i1 * size_[AOTC_GEMM_B_B1] + (units_.segment_begin(u.segment) + u.n0) * size_[AOTC_GEMM_B_CS];

    // In place, what no tile of rows is left for is copied.
    const int64_t kept = !a_in_place_ ? 0 : rows < kTileRows ? rows : rows / kTileRows * kTileRows;
    if (a_key_ != units_.a_key(u)) of_.copy_rows(u, a, kept, rows - kept, a_copy_, pitch_);
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
