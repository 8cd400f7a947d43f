#pragma once
// Convolutions of channels-last bf16 by tile registers: aotc_conv_last_tiles_bf16 of aotc/detail/library_abi.h.
//
// Where what a unit reads can be copied once as a strip (conv_tile_strips.h), tiles read windows in place. Else the rows of the im2col
// matrix are copied, in runs of whole channels. Both are kept over the units of the same pixels.
#include "conv_tile_strips.h"
#include "finish.h"

namespace {

class ConvLastTiles : ConvLastRows<LastTiles> {
 public:
  struct Unit : ConvLastRows<LastTiles>::Unit {
    bool strip;
    int64_t q0, rows;  // of a strip: its first output along bordered rows, outputs from there on; else pixels
  };

 private:
  const int64_t steps_, pitch_, room_;  // of copied rows; room_: elements of them
  const int64_t line_panel_;            // elements of a panel whose lines of taps are whole steps
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
        line_panel_(s.kernel[0] * s.kernel[1] * cfg->line_steps * (kStepBytes / 2)),
        last_(reinterpret_cast<bf16*>(static_cast<float*>(a->scratch) + 2 * kTileSums)),
        rows_(last_ + kStepBytes / 2),
        panels_(rows_ + room_),
        strips_(s, cfg->line_steps, room_),
        finish_(a, cfg->finish),
        blocks_(this, static_cast<float*>(a->scratch)) {}

  void run(int64_t begin, int64_t end) {
    held_ = held_key(args, 0), held_panels_ = held_key(args, 1);
    for (int64_t i = begin; i < end; ++i)
      if (const auto u = at(i); !u.empty()) run_unit(along_borders(u));
    blocks_.finish();
    hold_key(args, held_, 0), hold_key(args, held_panels_, 1);
  }

  int64_t slice() const { return finish_.n ? kSliceOfFinish : kSliceOfCalls; }
  void consume(const Unit& u, int64_t row, int64_t rows, int64_t col, int64_t cols, const float* sums, int64_t ld) const {
    if (!u.strip) return finish_pixels(sums, ld, u, u.p0 + row, rows, col, cols);
    strips_.each_run(u.q0 + row, rows, [&](int64_t pixel, int64_t first, int64_t count) {
      finish_pixels(sums + first * ld, ld, u, pixel, count, col, cols);
    });
  }

 private:
  void finish_pixels(const float* sums, int64_t ld, const Unit& u, int64_t pixel, int64_t count, int64_t col, int64_t cols) const {
    if (finish_.n) return finish_sums(finish_, sums, ld, pixel, count, u.g * s.cog + u.c0 + col, cols);
    finish(sums, ld, u.g, pixel, pixel + count, u.c0 + col, cols);
  }

  Unit along_borders(const ConvLastRows<LastTiles>::Unit& u) const {
    const int64_t q0 = strips_.bordered(u.p0), rows = strips_.bordered(u.p1 - 1) + 1 - q0;
    if (strips_.holds(q0, rows, u.p1 - u.p0)) return {u, true, q0, rows};
    return {u, false, 0, u.p1 - u.p0};
  }

  void copy_rows(const Unit& u) {
    gather_rows(u.g, u.p0, u.p1, 0, s.k, rows_, pitch_);
    const auto rest = static_cast<__mmask32>((uint64_t{1} << (steps_ * kTileK - s.k)) - 1);  // of the last step
    for (int64_t p = 0; rest && p < u.p1 - u.p0; ++p) _mm512_mask_storeu_epi16(rows_ + p * pitch_ + s.k, rest, _mm512_setzero_si512());
  }

  /// Stored panels of the unit's channels, each line of taps filled up with zeros to whole steps.
  void copy_line_panels(const bf16* stored, int64_t count) {
    const int64_t line = s.kernel[2] * s.c, pairs = stored_rows(s.k) / 2;
    u32* to = reinterpret_cast<u32*>(panels_);
    for (int64_t p = 0; p < count; ++p, stored += kPanel * stored_rows(s.k)) {
      const u32* from = reinterpret_cast<const u32*>(stored);
      for (int64_t l = 0; l < s.kernel[0] * s.kernel[1]; ++l)
        for (int64_t v = 0; v < cfg->line_steps * kTileK; v += 2, to += kPanel) {
          const int64_t k = l * line + v, pair = k / 2;
          const u32 keep = v + 1 < line ? ~u32{0} : v < line ? 0xffff : 0;
          for (int64_t j = 0; j < kPanel; ++j) {
            const u32 first = keep ? from[pair * kPanel + j] : 0, next = keep && pair + 1 < pairs ? from[(pair + 1) * kPanel + j] : 0;
            to[j] = (k % 2 ? first >> 16 | next << 16 : first) & keep;
          }
        }
    }
  }

  /// What the unit reads, which decides whether it is a strip.
  void copy_pixels(Unit* u) {
    const int64_t as_rows = 2 * u->key, as_strip = as_rows + 1;
    if (u->strip && held_ != as_strip && (held_ == as_rows || !strips_.copy(x, u->q0, u->rows, rows_)))
      u->strip = false, u->rows = u->p1 - u->p0;
    if (!u->strip && held_ != as_rows) copy_rows(*u);
    held_ = u->strip ? as_strip : as_rows;
  }

  void run_unit(Unit u) {
    copy_pixels(&u);
    const int64_t panels = ceil_div(u.c1 - u.c0, kPanel);
    const bf16* stored = cfg->w_packed ? stored_panels(u.g) + u.c0 * stored_rows(s.k) : panels_;
    if (!cfg->w_packed) {
      pack_weights(u.g, u.c0, u.c1, 0, s.k, panels_);
    } else if (u.strip && strips_.by_lines()) {
      if (held_panels_ != u.c0) copy_line_panels(stored, panels);
      held_panels_ = u.c0;
      const char* first = reinterpret_cast<const char*>(rows_ + strips_.first(u.q0));
      const int64_t pitch = strips_.pitch() * 2;
      return blocks_.multiply(
          u, u.rows, u.c1 - u.c0, strips_.steps(),
          [&](int64_t row) {
            return TileRows{first + row * pitch, pitch};
          },
          [&](int64_t p) { return TilePanel{reinterpret_cast<const char*>(panels_ + p * line_panel_)}; }, strips_.walk());
    }
    const int64_t pitch = u.strip ? strips_.pitch() : pitch_;
    blocks_.multiply(
        u, u.rows, u.c1 - u.c0, steps_,
        [&](int64_t row) {
          return TileRows{reinterpret_cast<const char*>(rows_ + row * pitch), pitch * 2};
        },
        [&](int64_t p) {
          return stored_panel(reinterpret_cast<const char*>(stored + p * kPanel * stored_rows(s.k)), s.k, reinterpret_cast<char*>(last_));
        },
        u.strip ? strips_.walk() : TileWalk{});
  }
};

}  // namespace
