#pragma once
// Products of float32 rows with int8 weights, both multiplied as bytes, in tile registers: aotc_gemm_int8_tiles_f32 of
// aotc/detail/library_abi.h. The weights' runs of columns are tiles as they lie in memory. Sums and what becomes of them have the bits of
// gemm_int8.h.
#include "int8_rows.h"
#include "tile_blocks.h"

namespace {

/// Sums of a run's columns over `quads` fours of k.
inline Ints column_sums(const char* run, int64_t quads) {
  constexpr int64_t kPart = 64;  // fours of k that 16 bits hold
  static_assert(kLanes == AOTC_QUANT_LANES);
  Ints all = set_ints(0);
  for (int64_t q = 0; q < quads; q += kPart) {
    Ints part = set_ints(0);
    for (int64_t i = q, end = min_of(q + kPart, quads); i < end; ++i)
      part = _mm512_add_epi16(part, _mm512_maddubs_epi16(set_bytes(1), load_ints(run + i * 4 * AOTC_QUANT_LANES)));
    all = add_ints(all, multiply_pairs(part, set_ints(0x00010001)));
  }
  return all;
}

class GemmInt8Tiles : QuantUnits {
 public:
  struct Unit : QuantUnits::Unit {
    float *scales, *sums;  // of its columns; the sums scaled
  };

 private:
  int64_t blocks_, pitch_;
  char* tail_;      // the last step of a panel whose blocks are odd: 2 tiles
  int8_t* q_;       // rows
  float* row_;      // one
  float* columns_;  // scales and sums of two units
  Int8Row* scaled_;
  int64_t kept_ = -1;  // the rows that q_ has
  int turn_ = 0;
  TileBlocks<GemmInt8Tiles, TileBytes> tiles_;

 public:
  explicit GemmInt8Tiles(const aotc_kargs* x) : QuantUnits(x), tiles_(this, static_cast<float*>(x->scratch)) {
    blocks_ = ceil_div(k, kBlock), pitch_ = int8_pitch<int8_t>(k);
    tail_ = reinterpret_cast<char*>(static_cast<float*>(x->scratch) + 2 * kTileSums);
    q_ = reinterpret_cast<int8_t*>(tail_ + 2 * kTileBytes);
    row_ = reinterpret_cast<float*>(q_ + ceil_div(cfg->mc, kTileRows) * kTileRows * pitch_);
    columns_ = row_ + ceil_div(k, kTileByteK) * kTileByteK;
    scaled_ = reinterpret_cast<Int8Row*>(columns_ + int64_t{4} * cfg->nc);
  }

  void run(int64_t begin, int64_t end) {
    kept_ = held_key(args);
    for (int64_t i = begin; i < end; ++i) run_unit(at(i));
    tiles_.finish();
    hold_key(args, kept_);
  }

  int64_t slice() const { return kSliceOfCalls; }
  void consume(const Unit& u, int64_t row, int64_t rows, int64_t col, int64_t cols, float* sums, int64_t ld) const {
    for (int64_t j = 0; j < cols; j += kLanes) {
      const Floats::V scale = Floats::load(u.scales + col + j), all = Floats::load(u.sums + col + j);
      for (int64_t i = 0; i < rows; ++i) {
        const Int8Row& r = scaled_[row + i];
        float* sum = sums + i * ld + j;
        const Floats::V products = to_floats(load_ints(sum)) * scale;  // before the row's scale: what is large is not made larger
        Floats::store(sum, Floats::fma(products, Floats::set1(r.scale), all * Floats::set1(r.centre)));
      }
    }
    cfg->epilogues[u.segment](args, sums, ld, u.batch, u.m0 + row, rows, u.n0 + col, cols);
  }

 private:
  void round_rows(const Unit& u) {
    tiles_.finish();  // which reads the scales of the rows before
    for (int64_t r = 0; r < u.rows; ++r)
      scaled_[r] = k > 0 ? round_int8_row(float_row(u.batch, u.m0 + r, row_, true), k, q_ + r * pitch_) : Int8Row{};
    kept_ = u.rows_key;
  }

  TilePanel panel(const Unit& u, int64_t p) {
    const int64_t j = p * AOTC_PANEL_N, run_bytes = blocks_ * kRun;
    const int64_t column = size[AOTC_GEMM_SIZES + 2 * u.segment] + u.n0 + j, len = segment_len(u.segment) - u.n0 - j;
    const char* runs = u.panels + (u.n0 + j) / AOTC_QUANT_LANES * run_bytes;
    for (int64_t i = 0; i < AOTC_PANEL_N; i += kLanes) {
      const Floats::V scale = i < len ? scales.from(column + i).load(len - i) : Floats::zero();
      Floats::store(u.scales + j + i, scale);
      Floats::store(u.sums + j + i, to_floats(column_sums(runs + i / AOTC_QUANT_LANES * run_bytes, blocks_ * kQuads)) * scale);
    }
    TilePanel r{runs, nullptr, runs + 2 * run_bytes, run_bytes, kTileBytes};
    if (blocks_ % 2) {
      for (int i = 0; i < 2; ++i) {
        __builtin_memcpy(tail_ + i * kTileBytes, runs + (i + 1) * run_bytes - kRun, kRun);
        __builtin_memset(tail_ + i * kTileBytes + kRun, 0, kTileBytes - kRun);
      }
      r.tail = tail_;
    }
    return r;
  }

  void run_unit(const QuantUnits::Unit& unit) {
    Unit u{unit, columns_ + int64_t{2} * turn_ * cfg->nc, columns_ + (int64_t{2} * turn_ + 1) * cfg->nc};
    turn_ ^= 1;
    if (kept_ != u.rows_key) round_rows(u);
    tiles_.multiply(
        u, u.rows, u.n1 - u.n0, ceil_div(k, kTileByteK),
        [&](int64_t row) {
          return TileRows{reinterpret_cast<const char*>(q_ + row * pitch_), pitch_};
        },
        [&](int64_t p) { return panel(u, p); });
  }
};

}  // namespace
