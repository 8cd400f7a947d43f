#pragma once
// Strips: the pixels that some output pixels of a channels-last convolution read, copied once with their borders, so that tiles read
// windows in place.
//
// Outputs are counted along bordered rows, plane after plane. What they read is split by the taps of depth and the phases of the stride, a
// region each, in which what one tap reads for neighbouring outputs lies side by side: every tap is a constant distance from the first.
// What falls on borders is computed and left out. Channels that are whole steps are copied pixel by pixel and multiplied tap by tap. With
// aotc_conv_config::line_steps the columns of a line stay together (one phase of width): a line of taps is a run of memory, multiplied in
// whole steps; the last one reads other pixels' values too, times zeros, so these must be finite.
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

class ConvStrips {
  static constexpr int64_t kMostRegions = 36;

  /// What one tap of depth reads, rows and columns by their phases.
  struct Region {
    int64_t d, h, w;
  };

  const ConvShape& s_;
  const int64_t line_steps_, columns_;  // columns_: phases of width
  int64_t row_, rows_;                  // outputs of a bordered row, bordered rows of a plane
  int64_t reach_, pixel_;               // outputs behind one that its window reads; elements from one to the next
  int64_t runs_ = 0;                    // taps, or lines of them; 0: windows cannot be read in place
  int64_t regions_ = 0, region_elems_ = 0;
  Region region_[kMostRegions];
  int64_t jump_[kMostRuns];  // bytes from the end of a run to the next

  static void copy_values(bf16* to, const bf16* from, int64_t n) { ConvLastRows<LastTiles>::copy(to, from, n); }

  /// The number of a region, -1 where there are too many.
  int64_t region_of(Region r) {
    for (int64_t i = 0; i < regions_; ++i)
      if (region_[i].d == r.d && region_[i].h == r.h && region_[i].w == r.w) return i;
    if (regions_ == kMostRegions) return -1;
    region_[regions_] = r;
    return regions_++;
  }

  /// Bordered rows that a strip from output q0 on has.
  int64_t lines(int64_t q0, int64_t count) const { return ceil_div(q0 % row_ + count + reach_, row_); }

  bool possible() const { return s_.groups == 1 && s_.taps > 1 && (line_steps_ > 0 || s_.c % kTileK == 0); }

  /// Counts bordered rows from that of output q on.
  struct Rows {
    const ConvStrips& s;
    int64_t y, plane;  // of all images
    Rows(const ConvStrips& strips, int64_t q) : s(strips), y(q / s.row_ % s.rows_), plane(q / s.row_ / s.rows_) {}
    void next() {
      if (++y == s.rows_) y = 0, ++plane;
    }
    /// The row of x, or null where it lies outside.
    const bf16* in(const bf16* x, Region r) const {
      const ConvShape& c = s.s_;
      const int64_t id = plane % c.out[0] * c.stride[0] + r.d - c.pad[0], ih = y * c.stride[1] + r.h - c.pad[1];
      if (id < 0 || id >= c.in[0] || ih < 0 || ih >= c.in[1]) return nullptr;
      return x + (plane / c.out[0] * c.in_plane + (id * c.in[1] + ih) * c.in[2]) * c.c;
    }
  };

 public:
  /// room: elements that a strip may take.
  ConvStrips(const ConvShape& s, int64_t line_steps, int64_t room)
      : s_(s), line_steps_(line_steps), columns_(line_steps ? 1 : s.stride[2]) {
    const int64_t beyond = (s.kernel[2] - 1) * s.dilation[2] / s.stride[2], below = (s.kernel[1] - 1) * s.dilation[1] / s.stride[1];
    row_ = s.out[2] + beyond, rows_ = s.out[1] + below, reach_ = below * row_ + beyond;
    pixel_ = line_steps ? s.stride[2] * s.c : tile_pitch(s.c);
    const int64_t across = line_steps ? 1 : s.kernel[2], runs = s.kernel[0] * s.kernel[1] * across;
    if (!possible() || runs > kMostRuns) return;
    int64_t region[kMostRuns], place[kMostRuns];
    for (int64_t r = 0; r < runs; ++r) {
      const int64_t line = r / across, h = line % s.kernel[1] * s.dilation[1], w = r % across * s.dilation[2];
      region[r] = region_of({line / s.kernel[1] * s.dilation[0], h % s.stride[1], w % columns_});
      place[r] = (h / s.stride[1] * row_ + w / columns_) * pixel_;
      if (region[r] < 0) return;
    }
    runs_ = runs, region_elems_ = room / regions_ / kTileK * kTileK;
    for (int64_t r = 0; r < runs; ++r) {
      const int64_t n = r + 1 < runs ? r + 1 : r, apart = (region[n] - region[r]) * region_elems_ + place[n] - place[r];
      jump_[r] = (apart - run_steps() * kTileK) * 2;
    }
  }

  bool by_lines() const { return line_steps_ > 0; }
  int64_t pitch() const { return pixel_; }
  int64_t run_steps() const { return line_steps_ ? line_steps_ : s_.c / kTileK; }
  int64_t steps() const { return runs_ * run_steps(); }
  TileWalk walk() const { return {run_steps(), jump_}; }

  /// The number of output pixel p (images merged) along bordered rows.
  int64_t bordered(int64_t p) const {
    const int64_t row = p / s_.out[2];
    return (row / s_.out[1] * rows_ + row % s_.out[1]) * row_ + p % s_.out[2];
  }

  /// Whether there is a strip for `count` outputs along bordered rows from q0 on, `pixels` of which are wanted, that wastes little.
  bool holds(int64_t q0, int64_t count, int64_t pixels) const {
    if (runs_ == 0 || 3 * count > 4 * pixels + 3 * kTileRows) return false;
    const int64_t read = ceil_div(count, kTileRows) * kTileRows;  // by tiles
    if (!line_steps_) return (read + reach_) * pixel_ <= region_elems_;
    return lines(q0, read) * row_ * pixel_ + line_steps_ * kTileK <= region_elems_;
  }
  /// Elements from the begin of a strip to what output q0, its first, reads.
  int64_t first(int64_t q0) const { return line_steps_ ? q0 % row_ * pixel_ : 0; }

  /// f(pixel, i, n): outputs [q + i, q + i + n) along bordered rows are the output pixels from `pixel` on; for all of [q, q + count).
  template <class F>
  void each_run(int64_t q, int64_t count, F f) const {
    int64_t x = q % row_;
    Rows row(*this, q);
    for (int64_t i = 0, n; i < count; i += n) {
      const bool inside = x < s_.out[2];
      n = min_of(count - i, (inside ? s_.out[2] : row_) - x);
      if (inside && row.y < s_.out[1]) f((row.plane * s_.out[1] + row.y) * s_.out[2] + x, i, n);
      x += n;
      if (x < row_) continue;
      x = 0;
      row.next();
    }
  }

  /// Copies what outputs [q0, q0 + count) of x read. False where some of it is not finite although it must be.
  bool copy(const bf16* x, int64_t q0, int64_t count, bf16* to) const {
    bool fine = true;
    for (int64_t r = 0; r < regions_; ++r, to += region_elems_) {
      if (line_steps_)
        fine = copy_lines(x, region_[r], q0, count, to) && fine;
      else
        copy_pixels(x, region_[r], q0, count, to);
    }
    return fine;
  }

 private:
  void copy_pixels(const bf16* x, Region r, int64_t q0, int64_t count, bf16* to) const {
    int64_t col = q0 % row_;
    Rows row(*this, q0);
    const bf16* from = row.in(x, r);
    for (int64_t left = count + reach_; left > 0; --left, to += pixel_) {
      const int64_t iw = col * s_.stride[2] + r.w - s_.pad[2];
      copy_values(to, from && iw >= 0 && iw < s_.in[2] ? from + iw * s_.c : nullptr, s_.c);
      if (++col < row_) continue;
      col = 0;
      row.next();
      from = row.in(x, r);
    }
  }

  bool copy_lines(const bf16* x, Region r, int64_t q0, int64_t count, bf16* to) const {
    const int64_t n = lines(q0, count), width = row_ * pixel_, pad = min_of(s_.pad[2] * s_.c, width);
    const int64_t inside = min_of(s_.in[2] * s_.c, width - pad);
    bf16* line = to;
    Rows row(*this, q0);
    for (int64_t i = 0; i < n; ++i, line += width, row.next()) {
      const bf16* from = row.in(x, r);
      copy_values(line, nullptr, from ? pad : width);
      if (!from) continue;
      copy_values(line + pad, from, inside);
      copy_values(line + pad + inside, nullptr, width - pad - inside);
    }
    copy_values(line, nullptr, line_steps_ * kTileK);
    __mmask32 odd = 0;  // infinite or no numbers
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    for (const bf16* at = to; at < line; at += 32)
      odd |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(_mm512_loadu_si512(at), exponent), exponent);
    return odd == 0;
  }
};

}  // namespace
