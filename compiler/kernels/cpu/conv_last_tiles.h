#pragma once
// Convolutions of channels-last bf16 by tile registers: aotc_conv_last_tiles_bf16 of aotc/detail/library_abi.h. The pixels' rows of the
// im2col matrix are copied once, in runs of whole channels, and kept over the units of the same pixels.
#include "conv_last_rows.h"
#include "tile_blocks.h"

namespace {

/// What is copied stays bf16; panels hold pairs.
struct LastTiles {
  using E = bf16;
  using Acc = float;
  using Row = bf16;
  using Packed = MulBf16;
  static constexpr bool kTightRows = true;  // one after the other where their tiles are an odd number
  static void widen(bf16 v, bf16* to) { *to = v; }
};

class ConvLastTiles : ConvLastRows<LastTiles> {
 public:
  using Unit = ConvLastRows<LastTiles>::Unit;

 private:
  int64_t steps_, pitch_;
  bf16 *rows_, *last_, *panels_;  // last_: the step that ends a panel
  int64_t held_ = -1;             // whose pixels are in rows_
  TileBlocks<ConvLastTiles> blocks_;

 public:
  explicit ConvLastTiles(const aotc_kargs* a) : ConvLastRows(a), blocks_(this, static_cast<float*>(a->scratch)) {
    steps_ = tile_steps(s.k), pitch_ = tile_pitch(s.k);
    last_ = reinterpret_cast<bf16*>(static_cast<float*>(a->scratch) + 2 * kTileSums);
    rows_ = last_ + kStepBytes / 2;
    panels_ = rows_ + ceil_div(cfg->nc, kTileRows) * kTileRows * pitch_;
  }

  void run(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (const Unit u = at(i); !u.empty()) run_unit(u);
    blocks_.finish();
  }

  void consume(const Unit& u, int64_t row, int64_t rows, int64_t col, int64_t cols, const float* sums, int64_t ld) const {
    finish(sums, ld, u.g, u.p0 + row, u.p0 + row + rows, u.c0 + col, cols);
  }

 private:
  void run_unit(const Unit& u) {
    if (held_ != u.key) {
      gather_rows(u.g, u.p0, u.p1, 0, s.k, rows_, pitch_);
      for (int64_t p = 0; p < u.p1 - u.p0; ++p)
        for (int64_t k = s.k; k < steps_ * kTileK; ++k) rows_[p * pitch_ + k].bits = 0;
    }
    held_ = u.key;
    const bf16* panels = cfg->w_packed ? stored_panels(u.g) + u.c0 * stored_rows(s.k) : panels_;
    if (!cfg->w_packed) pack_weights(u.g, u.c0, u.c1, 0, s.k, panels_);
    blocks_.multiply(
        u, u.p1 - u.p0, u.c1 - u.c0, steps_,
        [&](int64_t row) {
          return TileRows{reinterpret_cast<const char*>(rows_ + row * pitch_), pitch_ * 2};
        },
        [&](int64_t p) {
          return stored_panel(reinterpret_cast<const char*>(panels + p * kPanel * stored_rows(s.k)), s.k, reinterpret_cast<char*>(last_));
        });
  }
};

}  // namespace
