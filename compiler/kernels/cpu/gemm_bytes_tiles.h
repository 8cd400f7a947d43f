#pragma once
// Products of unsigned bytes with a weight of signed ones in tile registers: aotc_gemm_bytes_tiles_u8 of aotc/detail/bytes_abi.h. The
// weight's runs of columns are tiles as they lie in memory, with zeros behind k, so that rows may have anything there: they are read in
// place where memory goes on behind them.
#include "byte_tiles.h"

namespace {

class GemmBytesTiles : ByteUnits {
 public:
  using Unit = ByteUnits::Unit;

 private:
  int64_t steps_, pitch_;
  uint8_t* rows_;
  int64_t held_ = -1;  // whose rows are in rows_
  ByteTiles<GemmBytesTiles> tiles_;

 public:
  explicit GemmBytesTiles(const aotc_kargs* x) : ByteUnits(x), tiles_(this, static_cast<float*>(x->scratch)) {
    steps_ = ceil_div(k, kTileByteK), pitch_ = byte_pitch(k);
    rows_ = byte_tile_rows(x->scratch);
  }

  void run(int64_t begin, int64_t end) {
    held_ = held_key(args);
    for (int64_t i = begin; i < end; ++i) run_unit(at(i));
    tiles_.finish();
    hold_key(args, held_);
  }

  int64_t slice() const { return kSliceOfBytes; }
  void consume(const Unit& u, int64_t row, int64_t rows, int64_t col, int64_t cols, const float* sums, int64_t ld) const {
    finish(u.segment, reinterpret_cast<const int32_t*>(sums), ld, u.batch, u.m0 + row, rows, u.n0 + col, cols);
  }

 private:
  void run_unit(const Unit& u) {
    // Of rows in place, those of the last tile that would be read past the end of the operand are copied.
    int64_t place = 0;
    if (cs == 1 && !rows_share_sets(rs, u.rows, u.n1 - u.n0)) place = whole_tiles(m - u.m0, u.rows, rs, k);
    if (held_ != u.key) copy_rows(rows_, pitch_, u.from + place * rs, u.rows - place);
    held_ = u.key;
    const int64_t panel = byte_panel_bytes(k);
    const char* b = u.panels + u.n0 / AOTC_PANEL_N * panel;
    tiles_.multiply(
        u, u.rows, u.n1 - u.n0, steps_,
        [&](int64_t row) {
          if (row < place) return TileRows{reinterpret_cast<const char*>(u.from + row * rs), rs};
          return TileRows{reinterpret_cast<const char*>(rows_ + (row - place) * pitch_), pitch_};
        },
        [&](int64_t p) { return byte_tile_panel(b + p * panel, k); }, {}, stays_near(u.n1 - u.n0, panel), step_bytes(k));
  }
};

}  // namespace
