#pragma once
// Channels-last convolutions of unsigned bytes by signed ones in tile registers: aotc_conv_bytes_tiles_u8 of aotc/detail/bytes_abi.h.
//
// Pixels are the rows of a product. Those of 1 x 1 windows are read where they lie. Of other windows the pixels that a unit of whole output
// rows reads are copied once, with their borders, as a strip in the order of memory, in which lines of taps are whole steps in place: where
// windows are one pixel apart, output pixels counted along bordered rows have every tap at the same distance, and what falls on borders is
// computed and left out; else every output row has tiles of its own. What a strip does not serve has its rows copied, (tap, channel).
// Copies are kept over the units of the same pixels.
#include "byte_tiles.h"

namespace {

class ConvBytesTiles : ByteConvShape {
  /// Of strips. Bytes from pixel to pixel, from bordered row to bordered row; pixels of one, and how many of them an image has.
  struct Strip {
    bool taken;
    bool along;  // output pixels are counted along bordered rows
    int64_t pixel, row, columns, lines;
    int64_t tiled;  // numbers that an output row takes
  };

 public:
  struct Unit {
    int64_t g, p0, p1, c0, c1;  // pixels, images merged; channels of the group
    int64_t r0, rows;           // of a strip: its first output row, numbers of pixels from its begin on; else rows: pixels
    int64_t key;                // equal for units with the same pixels of the same group
  };

 private:
  int64_t pixels_, co_blocks_, px_blocks_, pitch_, room_;
  Strip strip_;
  uint8_t* rows_;
  int64_t held_ = -1;        // whose pixels are in rows_
  int64_t jump_[kMostRuns];  // bytes from the end of a run of a strip to the next
  ByteTiles<ConvBytesTiles> tiles_;

 public:
  explicit ConvBytesTiles(const aotc_kargs* a) : ByteConvShape(a), tiles_(this, static_cast<float*>(a->scratch)) {
    pixels_ = n * out_plane, co_blocks_ = ceil_div(cog, int64_t{cfg->mc}), px_blocks_ = ceil_div(pixels_, int64_t{cfg->nc});
    pitch_ = byte_pitch(k);
    rows_ = byte_tile_rows(a->scratch);
    room_ = ceil_div(int64_t{cfg->nc}, kTileRows) * kTileRows * pitch_;
    strip_ = strip();
    if (strip_.taken) measure_jumps();
  }

  void run(int64_t begin, int64_t end) {
    held_ = held_key(args);
    for (int64_t i = begin; i < end; ++i)
      if (const Unit u = at(i); u.c0 < u.c1 && u.p0 < u.p1) run_unit(u);
    tiles_.finish();
    hold_key(args, held_);
  }

  int64_t slice() const { return kSliceOfBytes; }
  void consume(const Unit& u, int64_t row, int64_t rows, int64_t col, int64_t cols, const float* sums, int64_t ld) const {
    const auto* from = reinterpret_cast<const int32_t*>(sums);
    const int64_t channel = u.g * cog + u.c0 + col;
    if (!strip_.taken) return finish(from, ld, channel, cols, u.p0 + row, u.p0 + row + rows);
    // Numbers along bordered rows also count those that are no output rows, between images.
    const int64_t lines = strip_.along ? strip_.lines : out[1], first = strip_.along ? bordered(u.r0) : u.r0;
    int64_t x = row % strip_.tiled, line = first + row / strip_.tiled;
    for (int64_t run; rows > 0; rows -= run, from += run * ld) {
      const bool inside = x < out[2];
      run = min_of(rows, (inside ? out[2] : strip_.tiled) - x);
      if (const int64_t y = line % lines; inside && y < out[1]) {
        const int64_t pixel = line / lines * out_plane + y * out[2] + x;
        finish(from, ld, channel, cols, pixel, pixel + run);
      }
      x += run;
      if (x == strip_.tiled) x = 0, ++line;
    }
  }

 private:
  /// The bordered row at which an output row begins.
  int64_t bordered(int64_t r) const { return r / out[1] * strip_.lines + r % out[1] * cfg->stride[1]; }

  Strip strip() const {
    Strip s{};
    if (cfg->way != AOTC_BYTES_STRIP || pixels_ == 0) return s;
    s.pixel = aotc_bytes_strip_pixel(c);
    s.along = aotc_bytes_strip_along(cfg);
    const int64_t reach = (cfg->kernel[1] - 1) * cfg->dilation[1] + 1;  // of a window
    s.columns = aotc_bytes_strip_columns(cfg, out[2]), s.lines = (out[1] - 1) * cfg->stride[1] + reach;
    s.row = s.columns * s.pixel;
    s.tiled = s.along ? s.columns : ceil_div(out[2], kTileRows) * kTileRows;
    const int64_t rows = ceil_div(n * out[1], px_blocks_);         // of a unit, at most
    const int64_t ends = n == 1 ? 0 : ceil_div(rows - 1, out[1]);  // of images within it
    const int64_t lines = (rows - 1) * cfg->stride[1] + reach + ends * max_of<int64_t>(0, reach - cfg->stride[1]);
    const int64_t behind = kTileRows * cfg->stride[2] * s.pixel + cfg->line;  // that the last tiles read
    s.taken = lines * s.row + behind <= room_ && cfg->kernel[1] * taps_apart(s) <= kMostRuns;
    return s;
  }
  /// Runs of a line of taps: one where its pixels follow each other.
  int64_t taps_apart(const Strip& s) const { return s.pixel == c ? 1 : cfg->kernel[2]; }

  Unit at(int64_t i) const {
    const int64_t cb = i % co_blocks_, key = i / co_blocks_, pb = key % px_blocks_, panels = ceil_div(cog, int64_t{AOTC_PANEL_N});
    const auto cut = [&](int64_t of, int64_t all) { return of * all / px_blocks_; };
    Unit u{};
    u.g = key / px_blocks_, u.key = key;
    u.c0 = min_of(cb * panels / co_blocks_ * AOTC_PANEL_N, cog), u.c1 = min_of((cb + 1) * panels / co_blocks_ * AOTC_PANEL_N, cog);
    if (!strip_.taken) {
      u.p0 = cut(pb, pixels_), u.p1 = cut(pb + 1, pixels_), u.rows = u.p1 - u.p0;
      return u;
    }
    const int64_t r1 = cut(pb + 1, n * out[1]);
    u.r0 = cut(pb, n * out[1]);
    u.p0 = u.r0 * out[2], u.p1 = r1 * out[2];
    if (u.r0 < r1) u.rows = strip_.along ? (bordered(r1 - 1) - bordered(u.r0)) * strip_.tiled + out[2] : (r1 - u.r0) * strip_.tiled;
    return u;
  }

  /// A row of pixels with its borders; from: the image's row, or null outside.
  void copy_bordered(uint8_t* to, const uint8_t* from) const {
    const int64_t before = min_of<int64_t>(cfg->pad[2], strip_.columns), inside = min_of(in[2], strip_.columns - before);
    if (!from) return fill_bytes(to, cfg->around, strip_.row);
    fill_bytes(to, cfg->around, before * strip_.pixel);
    to += before * strip_.pixel;
    if (strip_.pixel == c)
      copy_bytes(to, from, inside * c);
    else
      for (int64_t i = 0; i < inside; ++i) copy_bytes(to + i * strip_.pixel, from + i * c, c);
    fill_bytes(to + inside * strip_.pixel, cfg->around, (strip_.columns - before - inside) * strip_.pixel);
  }
  void copy_strip(const Unit& u) const {
    const int64_t last = bordered(u.p1 / out[2] - 1) + (cfg->kernel[1] - 1) * cfg->dilation[1];
    uint8_t* to = rows_;
    for (int64_t b = bordered(u.r0); b <= last; ++b, to += strip_.row) {
      const int64_t image = b / strip_.lines, y = b % strip_.lines - cfg->pad[1];
      copy_bordered(to, y >= 0 && y < in[1] ? x + (image * in_plane + y * in[2]) * c : nullptr);
    }
  }

  TileWalk walk() const { return strip_.taken ? TileWalk{(strip_.pixel == c ? int64_t{cfg->line} : c) / kTileByteK, jump_} : TileWalk{}; }
  void measure_jumps() {
    const int64_t across = taps_apart(strip_), run = strip_.pixel == c ? cfg->line : c;
    const int64_t line = strip_.row * cfg->dilation[1];  // from line of taps to line of taps
    for (int64_t i = 0; i < cfg->kernel[1] * across; ++i)
      jump_[i] = (i % across + 1 < across ? strip_.pixel : line - (across - 1) * strip_.pixel) - run;
  }

  void run_unit(const Unit& u) {
    const bool in_place = cfg->way == AOTC_BYTES_PIXELS && !rows_share_sets(c, u.rows, u.c1 - u.c0);
    const int64_t place = in_place ? whole_tiles(pixels_ - u.p0, u.rows, c, k) : 0;
    if (held_ != u.key) strip_.taken ? copy_strip(u) : copy_rows(u.g, u.p0 + place, u.p1, rows_, pitch_);
    held_ = u.key;
    const int64_t panel = byte_panel_bytes(k);
    const char* b = w + (u.g * ceil_div(cog, int64_t{AOTC_PANEL_N}) + u.c0 / AOTC_PANEL_N) * panel;
    const uint8_t* from = x + u.p0 * c + u.g * cg;
    const int64_t begin = strip_.taken ? bordered(u.r0) : 0;
    tiles_.multiply(
        u, u.rows, u.c1 - u.c0, k / kTileByteK + (k % kTileByteK != 0),
        [&](int64_t row) {
          const uint8_t* at = rows_ + (row - place) * pitch_;
          int64_t pitch = pitch_;
          if (row < place)
            at = from + row * c, pitch = c;
          else if (strip_.taken)
            at = strip_pixel(u, row, begin), pitch = strip_.pixel * cfg->stride[2];
          return TileRows{reinterpret_cast<const char*>(at), pitch};
        },
        [&](int64_t p) { return byte_tile_panel(b + p * panel, k); }, walk(), stays_near(u.c1 - u.c0, panel),
        step_bytes(strip_.taken ? cfg->kernel[2] * cg : k));
  }
  /// The first tap of a numbered pixel; begin: the bordered row at which the strip begins.
  const uint8_t* strip_pixel(const Unit& u, int64_t row, int64_t begin) const {
    if (strip_.along) return rows_ + row * strip_.pixel;
    return rows_ + (bordered(u.r0 + row / strip_.tiled) - begin) * strip_.row + row % strip_.tiled * cfg->stride[2] * strip_.pixel;
  }
};

}  // namespace
