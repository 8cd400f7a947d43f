#pragma once
// Convolutions of channels-last bf16 by tile registers: aotc_conv_last_tiles_bf16 of aotc/detail/library_abi.h.
//
// Where what a unit reads can be copied once as a strip (conv_tile_strips.h), tiles read windows in place. Else the rows of the im2col
// matrix are copied, in runs of whole channels. Both are kept over the units of the same pixels.
#include "conv_tile_strips.h"
#include "finish_narrow.h"

namespace {

class ConvLastTiles : ConvLastRows<LastTiles> {
 public:
  struct Unit : ConvLastRows<LastTiles>::Unit {
    bool strip;
    int64_t q0, rows;  // of a strip: its first output along bordered rows, outputs from there on; else pixels
    int64_t plane;     // of all images, in which it lies if units are parts of planes; else 0
  };

 private:
  const int64_t steps_, pitch_, room_;  // of copied rows; room_: elements of them
  const int64_t together_;              // lines of taps of a run of a strip, where these are in whole steps
  const int64_t line_panel_;            // elements of a panel whose lines of taps are whole steps
  const int64_t planes_, px_blocks_;    // output planes of all images; units of the same channels
  const bool pairs_;                    // in a strip of lines two neighbouring outputs are one row, their channels the tiles' columns
  bf16 *last_, *rows_, *panels_;        // last_: the step that ends a panel; panels_: where the stored ones do not serve
  ConvStrips strips_;
  int64_t held_ = -1, held_panels_ = -1;  // whose pixels are in rows_ and how, whose weights in panels_
  Finish finish_;                         // without steps where there is the epilogue alone
  TileBlocks<ConvLastTiles> blocks_;

 public:
  explicit ConvLastTiles(const aotc_kargs* a)
      : ConvLastRows(a),
        steps_(tile_steps(s.k)),
        pitch_(tile_pitch(s.k)),
        room_(ceil_div(cfg->nc, kTileRows) * kTileRows * pitch_),
        together_(s.groups == 1 && cfg->line_steps ? aotc_conv_lines_together(s.c, s.kernel[0], s.kernel[1]) : 1),
        line_panel_(s.kernel[0] * s.kernel[1] / together_ * cfg->line_steps * (kStepBytes / 2)),
        planes_(s.n * s.out[0]),
        px_blocks_(ceil_div(s.n * s.out_plane, int64_t{cfg->nc})),
        pairs_(s.groups == 1 && s.cog <= kTileCols &&
               s.kernel[2] * s.c * together_ + s.stride[2] * s.c * together_ <= cfg->line_steps * kTileK),
        last_(reinterpret_cast<bf16*>(static_cast<float*>(a->scratch) + 2 * kTileSums)),
        rows_(last_ + kStepBytes / 2),
        panels_(rows_ + room_),
        strips_(s, cfg->line_steps, together_, cfg->line_steps ? room_ : room_ - steps_ * (kTileBytes / 2)),
        finish_(a, cfg->finish),
        blocks_(this, static_cast<float*>(a->scratch)) {}

  void run(int64_t begin, int64_t end) {
    held_ = held_key(args, 0), held_panels_ = held_key(args, 1);
    for (int64_t i = begin; i < end; ++i)
      if (const auto u = at(plane_after_plane(i)); !u.empty()) run_unit(along_borders(u));
    blocks_.finish();
    hold_key(args, held_, 0), hold_key(args, held_panels_, 1);
  }

  int64_t slice() const { return finish_.n ? kSliceOfFinish : kSliceOfCalls; }
  void consume(const Unit& u, int64_t row, int64_t rows, int64_t col, int64_t cols, const float* sums, int64_t ld) const {
    if (!u.strip) return finish_pixels(sums, ld, u, u.p0 + row, rows, col, cols);
    if (pairs_) row *= 2, rows = min_of(rows * 2, u.rows - row), cols = s.cog, ld = kTileCols;
    strips_.each_run(u.q0 + row, rows, [&](int64_t pixel, int64_t first, int64_t count) {
      finish_pixels(sums + first * ld, ld, u, pixel, count, col, cols);
    });
  }

 private:
  void finish_pixels(const float* sums, int64_t ld, const Unit& u, int64_t pixel, int64_t count, int64_t col, int64_t cols) const {
    if (cols == kTileCols && finish_narrow(finish_, sums, ld, pixel, count, u.g * s.cog + u.c0 + col)) return;
    if (finish_.n) return finish_sums(finish_, sums, ld, pixel, count, u.g * s.cog + u.c0 + col, cols);
    finish(sums, ld, u.g, pixel, pixel + count, u.c0 + col, cols);
  }

  /// Units of a plane, where all planes are cut alike; else 0.
  int64_t plane_units() const { return s.groups == 1 && planes_ > 0 && px_blocks_ % planes_ == 0 ? px_blocks_ / planes_ : 0; }
  /// The unit that is the i-th in an order in which those of the same place of planes follow each other.
  int64_t plane_after_plane(int64_t i) const {
    const int64_t of_plane = plane_units();
    if (of_plane == 0) return i;
    const int64_t co_blocks = ceil_div(s.cog, int64_t{cfg->mc}), b = i / co_blocks;
    return (b % planes_ * of_plane + b / planes_) * co_blocks + i % co_blocks;
  }

  Unit along_borders(const ConvLastRows<LastTiles>::Unit& u) const {
    const int64_t q0 = strips_.bordered(u.p0), rows = strips_.bordered(u.p1 - 1) + 1 - q0;
    const int64_t plane = plane_units() ? u.key / plane_units() : 0;
    if (strips_.holds(q0, rows, u.p1 - u.p0)) return {u, true, q0, rows, plane};
    return {u, false, 0, u.p1 - u.p0, 0};
  }
  /// The plane of which the same place is held as a strip, of the same image; else -1.
  int64_t plane_held(const Unit& u) const {
    const int64_t of_plane = plane_units(), key = held_ / 2;
    if (of_plane == 0 || held_ < 0 || held_ % 2 == 0 || key % of_plane != u.key % of_plane) return -1;
    return key / of_plane / s.out[0] == u.plane / s.out[0] ? key / of_plane : -1;
  }

  void copy_rows(const Unit& u) {
    gather_rows(u.g, u.p0, u.p1, 0, s.k, rows_, pitch_);
    const auto rest = static_cast<__mmask32>((uint64_t{1} << (steps_ * kTileK - s.k)) - 1);  // of the last step
    for (int64_t p = 0; rest && p < u.p1 - u.p0; ++p) _mm512_mask_storeu_epi16(rows_ + p * pitch_ + s.k, rest, _mm512_setzero_si512());
  }

  /// The value of k that is the v-th of a run of lines; -1 where it is filled up.
  int64_t value_of_run(int64_t run, int64_t v) const {
    const int64_t line = s.kernel[2] * s.c;
    if (v < 0 || v >= line * together_) return -1;
    return together_ == 1 ? run * line + v : (run * together_ + v % together_) * line + v / together_;
  }

  /// The v-th and the next value of a run of kTileCols stored columns.
  void copy_values(const u32* from, int64_t run, int64_t v, u32* to) const {
    const int64_t k0 = value_of_run(run, v), k1 = value_of_run(run, v + 1);
    const u32 keep0 = k0 < 0 ? 0 : 0xffff, keep1 = k1 < 0 ? 0 : 0xffff0000;
    const u32 *from0 = from + max_of<int64_t>(k0, 0) / 2 * kPanel, *from1 = from + max_of<int64_t>(k1, 0) / 2 * kPanel;
    const int down = k0 % 2 ? 16 : 0, up = k1 % 2 ? 0 : 16;
    for (int64_t j = 0; j < kTileCols; ++j) to[j] = (from0[j] >> down & keep0) | (from1[j] << up & keep1);
  }

  /// Stored panels of `cols` channels for strips of lines: each run filled up with zeros to whole steps; narrow ones as tiles, or with the
  /// same columns for the second output of a pair.
  void copy_run_panels(const bf16* stored, int64_t cols) {
    for (int64_t p = 0; p * kPanel < cols; ++p, stored += kPanel * stored_rows(s.k)) {
      const u32* from = reinterpret_cast<const u32*>(stored);
      u32* to = reinterpret_cast<u32*>(panels_ + p * line_panel_);
      const bool narrow = is_narrow(cols, p);
      for (int64_t r = 0; r < s.kernel[0] * s.kernel[1] / together_; ++r)
        for (int64_t v = 0; v < cfg->line_steps * kTileK; v += 2) {
          copy_values(from, r, v, to), to += kTileCols;
          if (!narrow) copy_values(from + kTileCols, r, v, to), to += kTileCols;
          if (pairs_) copy_values(from, r, v - strips_.pitch(), to), to += kTileCols;
        }
    }
  }
  /// A narrow stored panel as tiles, behind a strip of taps.
  bf16* narrow_panel() const { return rows_ + room_ - steps_ * (kTileBytes / 2); }
  void copy_narrow_panel(const bf16* stored) {
    const char* from = reinterpret_cast<const char*>(stored);
    char* to = reinterpret_cast<char*>(narrow_panel());
    for (int64_t pair = 0; pair < steps_ * kTileK / 2; ++pair, from += kPairBytes, to += kTileCols * 4)
      _mm512_storeu_si512(to, 2 * pair < s.k ? _mm512_loadu_si512(from) : _mm512_setzero_si512());
  }
  static bool is_narrow(int64_t cols, int64_t panel) { return cols - panel * kPanel <= kTileCols && cols > panel * kPanel; }

  /// What the unit reads, which decides whether it is a strip.
  void copy_pixels(Unit* u) {
    const int64_t as_rows = 2 * u->key, as_strip = as_rows + 1;
    if (u->strip && held_ != as_strip &&
        (held_ == as_rows || !strips_.copy(x + u->g * s.cg, u->q0, u->rows, u->plane, plane_held(*u), rows_)))
      u->strip = false, u->rows = u->p1 - u->p0;
    if (!u->strip && held_ != as_rows) copy_rows(*u), held_panels_ = cfg->line_steps ? held_panels_ : -1;
    held_ = u->strip ? as_strip : as_rows;
  }

  void run_unit(Unit u) {
    copy_pixels(&u);
    const bf16* stored = cfg->w_packed ? stored_panels(u.g) + u.c0 * stored_rows(s.k) : panels_;
    if (!cfg->w_packed) {
      pack_weights(u.g, u.c0, u.c1, 0, s.k, panels_);
    } else if (u.strip && strips_.by_lines()) {
      if (held_panels_ != u.c0) copy_run_panels(stored, u.c1 - u.c0);
      held_panels_ = u.c0;
      const char* first = reinterpret_cast<const char*>(rows_ + strips_.first(u.q0, u.plane));
      const int64_t together = pairs_ ? 2 : 1, pitch = strips_.pitch() * 2 * together;
      return blocks_.multiply(
          u, ceil_div(u.rows, together), pairs_ ? kPanel : u.c1 - u.c0, strips_.steps(),
          [&](int64_t row) {
            return TileRows{first + row * pitch, pitch};
          },
          [&](int64_t p) {
            TilePanel panel{reinterpret_cast<const char*>(panels_ + p * line_panel_)};
            panel.narrow = !pairs_ && is_narrow(u.c1 - u.c0, p);
            return panel;
          },
          strips_.walk(u.plane));
    }
    const int64_t cols = u.c1 - u.c0, pitch = u.strip ? strips_.pitch() : pitch_;
    const bool narrow = u.strip && cfg->w_packed && s.groups == 1 && is_narrow(cols, cols / kPanel);
    const bool whole_taps = u.strip && strips_.bytes() < 64;
    if (narrow && held_panels_ != u.c0) copy_narrow_panel(stored + cols / kPanel * kPanel * stored_rows(s.k));
    if (narrow) held_panels_ = u.c0;
    const bf16* rows = rows_ + (u.strip ? strips_.first(u.q0, u.plane) : 0);
    blocks_.multiply(
        u, u.rows, cols, steps_of(u),
        [&](int64_t row) {
          return TileRows{reinterpret_cast<const char*>(rows + row * pitch), pitch * 2};
        },
        [&](int64_t p) {
          TilePanel panel{reinterpret_cast<const char*>(narrow_panel())};
          panel.narrow = narrow && is_narrow(cols, p);
          if (panel.narrow) return panel;
          panel.at = reinterpret_cast<const char*>(stored + p * kPanel * stored_rows(s.k));
          if (whole_taps) panel.step = strips_.bytes() / 4 * kPairBytes;
          return whole_taps ? panel : stored_panel(panel.at, s.k, reinterpret_cast<char*>(last_));
        },
        u.strip ? strips_.walk(u.plane) : TileWalk{}, false, u.strip ? strips_.bytes() : 64);
  }

  int64_t steps_of(const Unit& u) const { return u.strip ? strips_.steps() : steps_; }
};

}  // namespace
