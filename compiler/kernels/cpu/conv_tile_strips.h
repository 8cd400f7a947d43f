#pragma once
// Strips: the pixels that some output pixels of a channels-last convolution read, copied once with their borders, so that tiles read
// windows in place.
//
// Outputs are counted along bordered rows, plane after plane. What they read is split by the taps of depth and the phases of the stride, a
// region each, in which what one tap reads for neighbouring outputs lies side by side: every tap is a constant distance from the first.
// What falls on borders is computed and left out. Channels that are whole steps are copied pixel by pixel and multiplied tap by tap; so are
// those of a group, in steps as long as that. With aotc_conv_config::line_steps and one group the columns of a line stay together (one
// phase of width): a line of taps is a run of memory, multiplied in whole steps; the last one reads other pixels' values too, times zeros,
// so these must be finite. The values of lines together (conv_tiles_abi.h) lie beside each other for each column: these lines are one run,
// of every output row apart. Where units are parts of planes, what the next plane reads, too, stays where it is: regions of a ring.
#include "aotc/detail/conv_tiles_abi.h"
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
  static constexpr int64_t kBeyond = AOTC_CONV_MOST_TOGETHER * 32;  // elements behind a region's rows that copies may write

  /// What one tap of depth reads, rows and columns by their phases.
  struct Region {
    int64_t d, h, w;
  };

  const ConvShape& s_;
  const bool short_steps_;  // a tap's channels of a group are a step
  const int64_t line_steps_, together_,
      columns_;            // line_steps_: 0 where taps are apart; together_: lines of a run; columns_: phases of width
  int64_t row_, rows_;     // outputs of a bordered row, bordered rows of a plane
  int64_t reach_, pixel_;  // outputs behind one that its window reads; elements from one to the next
  int64_t runs_ = 0;       // taps, or lines of them; 0: windows cannot be read in place
  int64_t regions_ = 0, region_elems_ = 0, phases_ = 0;  // phases_: regions of a tap of depth
  int64_t turned_ = -1;                                  // what jump_ is for
  Region region_[kMostRegions];
  int64_t region_of_run_[kMostRuns], place_[kMostRuns];
  int64_t jump_[kMostRuns];  // bytes from the end of a run to the next

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

  bool possible() const {
    if (s_.groups > 1 && !short_steps_) return false;
    return s_.taps > 1 && (line_steps_ > 0 || short_steps_ || s_.c % kTileK == 0);
  }
  /// Whether output planes side by side read planes of which all but one are the same.
  bool is_ring() const { return s_.kernel[0] > 1 && s_.stride[0] == 1 && s_.dilation[0] == 1 && regions_ == s_.kernel[0] * phases_; }
  /// Where a region lies for outputs of `plane`.
  int64_t slot(int64_t region, int64_t plane) const {
    return is_ring() ? (region / phases_ + plane) % s_.kernel[0] * phases_ + region % phases_ : region;
  }

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
  /// together: aotc_conv_lines_together. room: elements that a strip may take.
  ConvStrips(const ConvShape& s, int64_t line_steps, int64_t together, int64_t room)
      : s_(s),
        short_steps_(s.groups > 1 && line_steps > 0),
        line_steps_(short_steps_ ? 0 : line_steps),
        together_(together),
        columns_(line_steps_ ? 1 : s.stride[2]) {
    const bool apart = together > 1;  // output rows share nothing
    const int64_t beyond = (s.kernel[2] - 1) * s.dilation[2] / s.stride[2];
    const int64_t below = apart ? 0 : (s.kernel[1] - 1) * s.dilation[1] / s.stride[1];
    row_ = s.out[2] + beyond, rows_ = s.out[1] + below, reach_ = below * row_ + beyond;
    pixel_ = line_steps_ ? s.stride[2] * s.c * together : tile_pitch(s.cg);
    const int64_t across = line_steps_ ? 1 : s.kernel[2], runs = s.kernel[0] * s.kernel[1] / together * across;
    if (!possible() || runs > kMostRuns) return;
    for (int64_t r = 0; r < runs; ++r) {
      const int64_t line = r / across * together, h = line % s.kernel[1] * s.dilation[1], w = r % across * s.dilation[2];
      region_of_run_[r] = region_of({line / s.kernel[1] * s.dilation[0], h % s.stride[1], w % columns_});
      place_[r] = (h / s.stride[1] * row_ + w / columns_) * pixel_;
      if (region_of_run_[r] < 0) return;
      if (line < s.kernel[1]) phases_ = regions_;
    }
    runs_ = runs, region_elems_ = room / regions_ / kTileK * kTileK;
  }

  bool by_lines() const { return line_steps_ > 0; }
  int64_t pitch() const { return pixel_; }
  int64_t run_steps() const { return line_steps_ ? line_steps_ : tile_steps(s_.cg); }
  /// Of a row that a step reads.
  int64_t bytes() const { return short_steps_ ? s_.cg * 2 : 64; }
  int64_t steps() const { return runs_ * run_steps(); }
  /// Of outputs of `plane`; valid until the next call.
  TileWalk walk(int64_t plane) {
    const int64_t turn = is_ring() ? plane % s_.kernel[0] : 0;
    for (int64_t r = 0; turned_ != turn && r < runs_; ++r) {
      const int64_t n = r + 1 < runs_ ? r + 1 : r;
      const int64_t apart = (slot(region_of_run_[n], turn) - slot(region_of_run_[r], turn)) * region_elems_ + place_[n] - place_[r];
      jump_[r] = (apart - run_steps() * kTileK) * 2;
    }
    turned_ = turn;
    return {run_steps(), jump_};
  }

  /// The number of output pixel p (images merged) along bordered rows.
  int64_t bordered(int64_t p) const {
    const int64_t row = p / s_.out[2];
    return (row / s_.out[1] * rows_ + row % s_.out[1]) * row_ + p % s_.out[2];
  }

  /// Whether there is a strip for `count` outputs along bordered rows from q0 on, `pixels` of which are wanted, that wastes little.
  bool holds(int64_t q0, int64_t count, int64_t pixels) const {
    if (runs_ == 0 || 3 * count > 4 * pixels + 3 * kTileRows) return false;
    const int64_t read = ceil_div(count, 2 * kTileRows) * 2 * kTileRows;  // by tiles of outputs or of pairs of them
    if (!line_steps_) return (read + reach_) * pixel_ <= region_elems_;
    return lines(q0, read) * row_ * pixel_ + line_steps_ * kTileK + kBeyond <= region_elems_;
  }
  /// Elements from the begin of a strip to what output q0, its first, of `plane`, reads.
  int64_t first(int64_t q0, int64_t plane) const { return slot(0, plane) * region_elems_ + (line_steps_ ? q0 % row_ * pixel_ : 0); }

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

  /// Copies what outputs [q0, q0 + count) of `plane` of x, from the group's first channel on, read, but for what outputs at the same place
  /// of the plane `held` of the same image did: -1 where that is not there. False where some of it is not finite although it must be.
  bool copy(const bf16* x, int64_t q0, int64_t count, int64_t plane, int64_t held, bf16* to) const {
    bool fine = true;
    for (int64_t r = 0; r < regions_; ++r) {
      if (const int64_t at = plane + r / max_of<int64_t>(phases_, 1); held >= 0 && is_ring() && held <= at && at < held + s_.kernel[0])
        continue;
      bf16* region = to + slot(r, plane) * region_elems_;
      if (together_ > 1)
        fine = copy_together(x, region_[r], q0, count, region) && fine;
      else if (line_steps_)
        fine = copy_lines(x, region_[r], q0, count, region) && fine;
      else
        copy_pixels(x, region_[r], q0, count, region);
    }
    return fine;
  }

 private:
  /// Lanes of 32 values that are infinite or no numbers.
  static __mmask32 odd(__m512i v) {
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    return _mm512_cmpeq_epi16_mask(_mm512_and_si512(v, exponent), exponent);
  }
  static __mmask32 first_of(int64_t n) { return n >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((uint32_t{1} << n) - 1); }

  static void put_zeros(bf16* to, int64_t n) {
    for (int64_t i = 0; i < n; i += 32) _mm512_mask_storeu_epi16(to + i, first_of(n - i), _mm512_setzero_si512());
  }
  static __mmask32 put_values(bf16* to, const bf16* from, int64_t n) {
    __mmask32 any = 0;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
      const __m512i v = _mm512_loadu_si512(from + i);
      _mm512_storeu_si512(to + i, v);
      any |= odd(v);
    }
    if (i < n) {
      const __m512i v = _mm512_maskz_loadu_epi16(first_of(n - i), from + i);
      _mm512_mask_storeu_epi16(to + i, first_of(n - i), v);
      any |= odd(v);
    }
    return any;
  }

  /// A row's columns [col, col + n) of a phase, channels of a group each, filled up to whole steps.
  void copy_row(const bf16* from, int64_t w, int64_t col, int64_t n, bf16* to) const {
    const int64_t stride = s_.stride[2], at = w - s_.pad[2];  // of column 0
    const int64_t lo = !from ? n : min_of(n, max_of<int64_t>(0, ceil_div(max_of<int64_t>(-at, 0), stride) - col));
    const int64_t hi = !from ? n : max_of(lo, min_of(n, (s_.in[2] - at + stride - 1) / stride - col));
    const auto zeros = [&](int64_t i, int64_t end) {
      for (; i < end; ++i)
        for (int64_t c = 0; c < s_.cg; c += kTileK) _mm512_storeu_si512(to + i * pixel_ + c, _mm512_setzero_si512());
    };
    zeros(0, lo), zeros(hi, n);
    const bf16* in = from + (at + (col + lo) * stride) * s_.c;
    for (int64_t i = lo; i < hi; ++i, in += stride * s_.c)
      for (int64_t c = 0; c < s_.cg; c += kTileK)
        _mm512_storeu_si512(to + i * pixel_ + c, _mm512_maskz_loadu_epi16(first_of(s_.cg - c), in + c));
  }

  void copy_pixels(const bf16* x, Region r, int64_t q0, int64_t count, bf16* to) const {
    int64_t col = q0 % row_;
    Rows row(*this, q0);
    for (int64_t left = count + reach_, n; left > 0; left -= n, to += n * pixel_, col = 0, row.next()) {
      n = min_of(left, row_ - col);
      copy_row(row.in(x, r), r.w, col, n, to);
    }
  }

  bool copy_lines(const bf16* x, Region r, int64_t q0, int64_t count, bf16* to) const {
    const int64_t n = lines(q0, count), width = row_ * pixel_, pad = min_of(s_.pad[2] * s_.c, width);
    const int64_t inside = min_of(s_.in[2] * s_.c, width - pad);
    __mmask32 any = 0;
    Rows row(*this, q0);
    for (int64_t i = 0; i < n; ++i, to += width, row.next()) {
      const bf16* from = row.in(x, r);
      put_zeros(to, from ? pad : width);
      if (!from) continue;
      any |= put_values(to + pad, from, inside);
      put_zeros(to + pad + inside, width - pad - inside);
    }
    put_zeros(to, line_steps_ * kTileK);
    return any == 0;
  }

  static constexpr int64_t kMostTogether = AOTC_CONV_MOST_TOGETHER;
  static_assert(kMostTogether == 16);

  /// For each of 16 columns the values of 16 lines.
  static void interleave(const __m256i* line, int64_t n, bf16* to) {
    __m512i q[8];  // pairs of lines, a column a lane
    for (int i = 0; i < 8; ++i)
      q[i] = 2 * i >= n
                 ? _mm512_setzero_si512()
                 : _mm512_or_si512(_mm512_cvtepu16_epi32(line[2 * i]), _mm512_slli_epi32(_mm512_cvtepu16_epi32(line[2 * i + 1]), 16));
    __m512i four[2][4];  // [half of the lines][i]: columns i, i + 4, i + 8, i + 12
    for (int h = 0; h < 2; ++h) {
      const __m512i a = _mm512_unpacklo_epi32(q[4 * h], q[4 * h + 1]), b = _mm512_unpackhi_epi32(q[4 * h], q[4 * h + 1]);
      const __m512i c = _mm512_unpacklo_epi32(q[4 * h + 2], q[4 * h + 3]), d = _mm512_unpackhi_epi32(q[4 * h + 2], q[4 * h + 3]);
      four[h][0] = _mm512_unpacklo_epi64(a, c), four[h][1] = _mm512_unpackhi_epi64(a, c);
      four[h][2] = _mm512_unpacklo_epi64(b, d), four[h][3] = _mm512_unpackhi_epi64(b, d);
    }
    // A column's store may reach into the next one's place, which is written after it.
    const auto store = [&](auto lane) __attribute__((always_inline)) {
      for (int i = 0; i < 4; ++i, to += n) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_extracti32x4_epi32(four[0][i], lane.value));
        if (n > 8) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8), _mm512_extracti32x4_epi32(four[1][i], lane.value));
      }
    };
    store(Lane<0>{}), store(Lane<1>{}), store(Lane<2>{}), store(Lane<3>{});
  }
  template <int kLane>
  struct Lane {
    static constexpr int value = kLane;
  };

  bool copy_together(const bf16* x, Region r, int64_t q0, int64_t count, bf16* to) const {
    const int64_t n = lines(q0, count), columns = row_ * s_.stride[2], width = row_ * pixel_;
    const __m256i exponent = _mm256_set1_epi16(0x7f80);
    __mmask16 any = 0;
    Rows row(*this, q0);
    __m256i line[kMostTogether] = {};
    for (int64_t i = 0; i < n; ++i, to += width, row.next()) {
      const bf16* from[kMostTogether];
      for (int64_t j = 0; j < together_; ++j)
        from[j] = row.in(x, {r.d + j / s_.kernel[1] * s_.dilation[0], r.h + j % s_.kernel[1] * s_.dilation[1], 0});
      for (int64_t c = 0; c < columns; c += 16) {
        const int64_t at = c - s_.pad[2], before = min_of<int64_t>(16, max_of<int64_t>(0, -at));
        const int64_t end = max_of(before, min_of<int64_t>(16, s_.in[2] - at));
        const auto inside = static_cast<__mmask16>(((uint32_t{1} << end) - 1) & ~((uint32_t{1} << before) - 1));
        for (int64_t j = 0; j < together_; ++j) {
          line[j] = from[j] ? _mm256_maskz_loadu_epi16(inside, from[j] + at) : _mm256_setzero_si256();
          any |= _mm256_cmpeq_epi16_mask(_mm256_and_si256(line[j], exponent), exponent);
        }
        interleave(line, together_, to + c * together_);
      }
    }
    put_zeros(to, line_steps_ * kTileK);
    return any == 0;
  }
};

}  // namespace
