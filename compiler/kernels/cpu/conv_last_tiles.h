#pragma once
// Convolutions of channels-last bf16 by tile registers: aotc_conv_last_tiles_bf16 of aotc/detail/library_abi.h.
//
// Where windows of one pixel's distance overlap and channels are whole steps, the pixels that a unit reads are copied once, with their
// borders, as a strip of pixels in the order of memory. Output pixels counted along bordered rows have every tap at the same distance in
// it, so that tiles read it in place; what falls on borders is computed and left out. Else the rows of the im2col matrix are copied, in
// runs of whole channels. Both are kept over the units of the same pixels.
#include "conv_last_rows.h"
#include "tile_blocks.h"

namespace {

/// What is copied stays bf16; panels hold pairs.
struct LastTiles {
  using E = bf16;
  using Acc = float;
  using Row = bf16;
  using Packed = MulBf16;
  static void widen(bf16 v, bf16* to) { *to = v; }
};

class ConvLastTiles : ConvLastRows<LastTiles> {
 public:
  struct Unit : ConvLastRows<LastTiles>::Unit {
    bool strip;
    int64_t q0, rows;  // of a strip: its first pixel along bordered rows, output pixels from there on; else pixels
  };

 private:
  int64_t steps_, pitch_;
  int64_t line_, lines_;          // of a strip: pixels of a bordered row, rows of an image
  int64_t pixel_;                 // of a strip: elements from pixel to pixel
  int64_t room_;                  // elements of rows_
  bf16 *rows_, *last_, *panels_;  // last_: the step that ends a panel
  int64_t held_ = -1;             // whose pixels are in rows_
  TileBlocks<ConvLastTiles> blocks_;

 public:
  explicit ConvLastTiles(const aotc_kargs* a) : ConvLastRows(a), blocks_(this, static_cast<float*>(a->scratch)) {
    steps_ = tile_steps(s.k), pitch_ = tile_pitch(s.k);
    line_ = s.out[2] + s.kernel[2] - 1, lines_ = s.out[1] + s.kernel[1] - 1;
    pixel_ = tile_pitch(s.c);
    room_ = ceil_div(cfg->nc, kTileRows) * kTileRows * pitch_;
    last_ = reinterpret_cast<bf16*>(static_cast<float*>(a->scratch) + 2 * kTileSums);
    rows_ = last_ + kStepBytes / 2;
    panels_ = rows_ + room_;
  }

  void run(int64_t begin, int64_t end) {
    held_ = held_key(args);
    for (int64_t i = begin; i < end; ++i)
      if (const auto u = at(i); !u.empty()) run_unit(along_borders(u));
    blocks_.finish();
    hold_key(args, held_);
  }

  void consume(const Unit& u, int64_t row, int64_t rows, int64_t col, int64_t cols, const float* sums, int64_t ld) const {
    if (!u.strip) return finish(sums, ld, u.g, u.p0 + row, u.p0 + row + rows, u.c0 + col, cols);
    int64_t x = (u.q0 + row) % line_, y = (u.q0 + row) / line_ % lines_, image = (u.q0 + row) / line_ / lines_;
    for (int64_t run; rows > 0; rows -= run, sums += run * ld) {
      const bool inside = x < s.out[2];
      run = min_of(rows, (inside ? s.out[2] : line_) - x);
      if (inside && y < s.out[1]) {
        const int64_t pixel = image * s.out_plane + y * s.out[2] + x;
        finish(sums, ld, u.g, pixel, pixel + run, u.c0 + col, cols);
      }
      x += run;
      if (x < line_) continue;
      x = 0;
      if (++y == lines_) y = 0, ++image;
    }
  }

 private:
  /// The number of an output pixel along bordered rows.
  int64_t bordered(int64_t p) const { return (p / s.out_plane * lines_ + p % s.out_plane / s.out[2]) * line_ + p % s.out[2]; }

  Unit along_borders(const ConvLastRows<LastTiles>::Unit& u) const {
    Unit r{u, false, 0, u.p1 - u.p0};
    if (s.groups != 1 || s.c % kTileK || s.taps == 1 || s.kernel[0] != 1 || s.in[0] != 1 || s.out[0] != 1) return r;
    for (int i = 1; i < 3; ++i)
      if (s.stride[i] != 1 || s.dilation[i] != 1) return r;
    const int64_t q0 = bordered(u.p0), rows = bordered(u.p1 - 1) + 1 - q0;
    const int64_t whole = ceil_div(rows, kTileRows) * kTileRows + reach();  // that tiles read
    if (3 * rows > 4 * r.rows + 3 * kTileRows || whole * pixel_ > room_) return r;
    return {u, true, q0, rows};
  }
  /// Pixels of a strip behind one, that its window reads.
  int64_t reach() const { return (s.kernel[1] - 1) * line_ + s.kernel[2] - 1; }

  void copy_strip(const Unit& u) {
    int64_t col = u.q0 % line_, y = u.q0 / line_ % lines_, image = u.q0 / line_ / lines_;
    bf16* dst = rows_;
    for (int64_t left = u.rows + reach(); left > 0; --left, dst += pixel_) {
      const int64_t ih = y - s.pad[1], iw = col - s.pad[2];
      const bool inside = ih >= 0 && ih < s.in[1] && iw >= 0 && iw < s.in[2];
      copy(dst, inside ? x + (image * s.in_plane + ih * s.in[2] + iw) * s.c : nullptr, s.c);
      if (++col < line_) continue;
      col = 0;
      if (++y == lines_) y = 0, ++image;
    }
  }

  void copy_rows(const Unit& u) {
    gather_rows(u.g, u.p0, u.p1, 0, s.k, rows_, pitch_);
    const auto rest = static_cast<__mmask32>((uint64_t{1} << (steps_ * kTileK - s.k)) - 1);  // of the last step
    for (int64_t p = 0; rest && p < u.p1 - u.p0; ++p) _mm512_mask_storeu_epi16(rows_ + p * pitch_ + s.k, rest, _mm512_setzero_si512());
  }

  void run_unit(const Unit& u) {
    if (held_ != u.key) u.strip ? copy_strip(u) : copy_rows(u);
    held_ = u.key;
    const bf16* panels = cfg->w_packed ? stored_panels(u.g) + u.c0 * stored_rows(s.k) : panels_;
    if (!cfg->w_packed) pack_weights(u.g, u.c0, u.c1, 0, s.k, panels_);
    const int64_t pitch = u.strip ? pixel_ : pitch_;
    const int64_t jump = (pixel_ - s.c) * 2;  // from the end of a pixel to the next
    blocks_.multiply(
        u, u.rows, u.c1 - u.c0, steps_,
        [&](int64_t row) {
          return TileRows{reinterpret_cast<const char*>(rows_ + row * pitch), pitch * 2};
        },
        [&](int64_t p) {
          return stored_panel(reinterpret_cast<const char*>(panels + p * kPanel * stored_rows(s.k)), s.k, reinterpret_cast<char*>(last_));
        },
        u.strip ? TileWalk{s.c / kTileK, s.kernel[2], jump, jump + (line_ - s.kernel[2]) * pixel_ * 2} : TileWalk{});
  }
};

}  // namespace
