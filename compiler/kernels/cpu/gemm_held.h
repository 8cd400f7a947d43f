#pragma once
// Matrix products of many rows of bf16 with a weight in panels by tile registers: aotc_gemm_held_bf16 of aotc/detail/held_abi.h.
//
// What feeds the tiles: a step of 2 x 2 takes 4 KB in 64 cycles, and L2 gives 3 KB in them. So a part of a panel's k that L1 holds is
// multiplied by all blocks of rows of a unit, which pass L1 by; a section of k is as many parts as leave the unit's rows of it in L2. The
// sums of the parts before wait in memory and are added by vectors, while tiles multiply: tiles that begin with sums of memory cost twice
// as much. A step's tiles are loaded while those of the step before are multiplied, from block to block too. The same part of the next
// panel and the lines that sums become or are added to are asked for meanwhile. A's rows are copied tile by tile: 16 rows of a step in
// memory would be as many pages.
#include "aotc/detail/held_abi.h"
#include "gemm_tile_units.h"

namespace {

class GemmHeld {
  using Unit = GemmUnits::Unit;
  static constexpr int64_t kSums = AOTC_GEMM_TILES_SUMS;  // floats of a block
  static constexpr int64_t kSlice = 8;                    // rows consumed at once
  static constexpr int64_t kRowsBytes = 2 * kTileBytes;   // of a step of a block's rows

  /// Steps of one block of rows and one part of a panel. Its first step is in the tiles when it begins, and that of what follows when it
  /// ends.
  struct Pass {
    int64_t steps;
    const char *a, *b, *last_b;   // its first steps, and where its last one of the panel lies
    const char *next_a, *next_b;  // the first steps of what follows
    const char* panel;            // to be asked for: of panels to come
    int64_t panel_lines;          // in a step
    const char* lines[2];         // to be asked for: of the block's rows what its finish reads and writes
    int64_t pitch[2], n_lines;    // bytes from row to row; of each, 0: none
    float* out;
  };
  /// Sums that have not been consumed: of rows that follow each other, each of AOTC_PANEL_N.
  struct Ready {
    Unit unit;
    float* sums;
    const float* others[2];  // to be added to them: of the parts and of the sections before; the first null where there is neither
    float* wait;             // where they wait for what follows, which asks for others; null: these are all
    int64_t row, col, cols;  // of the first
    int64_t at, rows;        // consumed, left
  };

  GemmTileUnits of_;
  int64_t k_, steps_, parts_, section_, pitch_;  // section_: parts
  float *sums_, *waiting_, *before_;
  char* tail_;
  bf16 *made_, *rows_;  // 16 rows before they are tiles; of 32 rows step after step two tiles
  int64_t key_ = -1;    // of what rows_ hold
  int turn_ = 0;
  Ready ready_{};
  Tiles tiles_;

 public:
  explicit GemmHeld(const aotc_kargs* args) : of_(args) {
    k_ = of_.size[AOTC_GEMM_K], steps_ = tile_steps(k_), parts_ = aotc_gemm_held_parts(k_);
    section_ = aotc_gemm_held_section(of_.cfg, k_), pitch_ = aotc_gemm_held_pitch(k_);
    const aotc_gemm_held_rooms room = aotc_gemm_held_rooms_of(of_.cfg, k_);
    char* at = static_cast<char*>(args->scratch);
    sums_ = reinterpret_cast<float*>(at), at += room.sums;
    waiting_ = reinterpret_cast<float*>(at), at += room.parts;
    before_ = reinterpret_cast<float*>(at), at += room.before;
    tail_ = at, at += room.tail;
    made_ = reinterpret_cast<bf16*>(at), at += room.made;
    rows_ = reinterpret_cast<bf16*>(at);
  }

  void run(int64_t begin, int64_t end) {
    key_ = held_key(of_.args, 0);
    tiles_.shape(kTileRows);
    for (int64_t i = begin; i < end; ++i) run_unit(of_.units.at(i));
    consume(ready_.rows);
    hold_key(of_.args, key_, 0);
  }

 private:
  int64_t first_step(int64_t part) const { return part * steps_ / parts_; }

  /// to = x + y + z, of whole rows; z may be null.
  static void add_up(int64_t rows, const float* x, const float* y, const float* z, float* to) {
    for (int64_t i = 0; i < rows * AOTC_PANEL_N; i += 16) {
      __m512 sum = _mm512_add_ps(_mm512_load_ps(x + i), _mm512_load_ps(y + i));
      if (z) sum = _mm512_add_ps(sum, _mm512_load_ps(z + i));
      _mm512_store_ps(to + i, sum);
    }
  }
  /// The next n rows that are ready.
  void consume(int64_t n) {
    if (n <= 0) return;
    const Ready& r = ready_;
    const int64_t at = r.at * AOTC_PANEL_N;
    float* sums = r.sums + at;
    const float* others = r.others[0] ? r.others[0] + at : nullptr;
    if (r.wait) {
      add_up(n, sums, others, r.others[1] ? r.others[1] + at : nullptr, r.wait + at);
    } else {
      if (r.others[1]) add_up(n, sums, r.others[1] + at, nullptr, sums);
      const Finish& f = of_.finish_of(r.unit);
      if (others && f.line.flags) {
        finish_lines_of_sums<true>(f, sums, others, AOTC_PANEL_N, r.unit.m0 + r.row + r.at, n, r.unit.n0 + r.col, r.cols);
      } else {
        if (others) add_up(n, sums, others, nullptr, sums);
        of_.consume(r.unit, r.row + r.at, n, r.col, r.cols, sums, AOTC_PANEL_N);
      }
    }
    ready_.at += n, ready_.rows -= n;
  }

  void copy_rows(const Unit& u) {
    const bf16* const a = of_.rows_of(u);
    const bool in_place = a && of_.size[AOTC_GEMM_A_CS] == 1 && k_ % kTileK == 0;
    const int64_t stride = in_place ? of_.size[AOTC_GEMM_A_RS] : pitch_;
    for (int64_t row = 0; row < u.rows(); row += kTileRows) {
      const int64_t n = min_of(u.rows() - row, kTileRows);
      if (!in_place) of_.copy_rows(u, a, row, n, made_, pitch_);
      const bf16* from = in_place ? a + row * stride : made_;
      bf16* to = rows_ + row / kBlockRows * kBlockRows * steps_ * kTileK + row % kBlockRows * kTileK;
      for (int64_t s = 0; s < steps_; ++s, from += kTileK, to += kBlockRows * kTileK)
        for (int64_t i = 0; i < n; ++i) _mm512_store_si512(to + i * kTileK, _mm512_loadu_si512(from + i * stride));
    }
  }

  void load_step(const char* a, const char* b) {
    tiles_.template load_past<4>(a, kTileK * 2), tiles_.template load<6>(b, kPairBytes);
    tiles_.template load<7>(b + kTileCols * 4, kPairBytes), tiles_.template load_past<5>(a + kTileBytes, kTileK * 2);
  }
  /// Multiplies the step in the tiles and loads another.
  void step(const char* a, const char* b) {
    tiles_.template multiply<0, 4, 6>();
    tiles_.template multiply<1, 4, 7>();
    tiles_.template load_past<4>(a, kTileK * 2);
    tiles_.template multiply<2, 5, 6>();
    tiles_.template load<6>(b, kPairBytes);
    tiles_.template multiply<3, 5, 7>();
    tiles_.template load<7>(b + kTileCols * 4, kPairBytes);
    tiles_.template load_past<5>(a + kTileBytes, kTileK * 2);
  }

  void block(const Pass& p) {
    const int64_t every = max_of<int64_t>(1, p.steps * kSlice / max_of<int64_t>(1, ready_.rows)), panel_lines = p.panel_lines;
    const int64_t steps = p.steps, each = ceil_div(p.n_lines, steps);  // asked for in a step
    const char *a = p.a, *b = p.b, *panel = p.panel, *line0 = p.lines[0], *line1 = p.lines[1];
    int64_t left = every;
    tiles_.template zero<0>();
    tiles_.template zero<1>();
    tiles_.template zero<2>();
    tiles_.template zero<3>();
    for (int64_t s = 1; s < steps; ++s) {
      a += kRowsBytes, b += kStepBytes;
      step(a, s + 1 < steps ? b : p.last_b);
      for (int64_t i = 0; i < panel_lines; ++i, panel += 64) _mm_prefetch(panel, _MM_HINT_T1);
      for (int64_t i = 0; i < each; ++i, line0 += p.pitch[0], line1 += p.pitch[1])
        _mm_prefetch(line0, _MM_HINT_T1), _mm_prefetch(line1, _MM_HINT_T1);
      if (--left == 0) {
        left = every;
        consume(min_of(kSlice, ready_.rows));
      }
    }
    step(p.next_a, p.next_b);
    consume(ready_.rows);
    tiles_.template store<0>(p.out, kPairBytes);
    tiles_.template store<1>(p.out + kTileCols, kPairBytes);
    tiles_.template store<2>(p.out + kTileRows * AOTC_PANEL_N, kPairBytes);
    tiles_.template store<3>(p.out + kTileRows * AOTC_PANEL_N + kTileCols, kPairBytes);
  }

  /// What the finish of n rows from (row, column) of the product on stores and adds is to be asked for: of a row of bf16 its line, of one
  /// of float32 the first of two, which processors fetch together.
  static void ask_for(const Finish& f, int64_t row, int64_t n, int64_t column, Pass& p) {
    for (int i = 0; i < f.n; ++i) {
      const Finish::Step& s = f.step[i];
      const bool half = s.kind == AOTC_FINISH_ADD_BF16 || s.kind == AOTC_FINISH_STORE_BF16;
      if (!half && s.kind != AOTC_FINISH_ADD_F32) continue;
      const int which = p.n_lines == 0 ? 0 : 1;
      p.lines[which] = s.at + row * s.pitch + column * (half ? 2 : 4), p.pitch[which] = s.pitch;
      if (which == 0) p.lines[1] = p.lines[0], p.pitch[1] = s.pitch;
      p.n_lines = n;
    }
  }

  void run_unit(const Unit& u) {
    const int64_t rows = u.rows(), cols = u.cols(), blocks = ceil_div(rows, kBlockRows), panels = ceil_div(cols, AOTC_PANEL_N);
    if (key_ != of_.units.a_key(u)) copy_rows(u);
    key_ = of_.units.a_key(u);
    const int64_t panel_bytes = (k_ + (k_ & 1)) * AOTC_PANEL_N * 2, block_bytes = steps_ * kRowsBytes;
    const char *b0 = reinterpret_cast<const char*>(of_.panels_of(u)), *a0 = reinterpret_cast<const char*>(rows_);
    load_step(a0, b0);
    for (int64_t begin = 0; begin < parts_; begin += section_) {
      const int64_t end = min_of(begin + section_, parts_);
      for (int64_t p = 0; p < panels; ++p) {
        const char* b = b0 + p * panel_bytes;
        const TilePanel panel = end == parts_ ? stored_panel(b, k_, tail_) : TilePanel{b};
        const bool last_panel = p + 1 == panels;
        const int64_t after = !last_panel ? begin : end < parts_ ? end : 0;  // the part that the next panel begins with
        const char* next = last_panel && end < parts_ ? b0 : b + panel_bytes;
        const bool last_of_unit = last_panel && end == parts_;
        for (int64_t part = begin; part < end; ++part) {
          const int64_t s0 = first_step(part), s1 = first_step(part + 1), steps = s1 - s0;
          const bool last_part = part + 1 == end, all = part + 1 == parts_;
          const char* from = b + s0 * kStepBytes;
          const char* coming = next + (s0 - first_step(begin) + first_step(after)) * kStepBytes;
          const int64_t lines = ceil_div(kStepBytes / 64, blocks);
          for (int64_t i = 0; i < blocks; ++i) {
            const char* a = a0 + i * block_bytes + s0 * kRowsBytes;
            Pass pass = {};
            pass.steps = steps, pass.a = a, pass.b = from;
            pass.last_b = all && panel.tail ? panel.tail : from + (steps - 1) * kStepBytes;
            if (i + 1 < blocks)
              pass.next_a = a + block_bytes, pass.next_b = from;
            else if (!last_part)
              pass.next_a = a0 + s1 * kRowsBytes, pass.next_b = b + s1 * kStepBytes;
            else if (!last_of_unit)
              pass.next_a = a0 + first_step(after) * kRowsBytes, pass.next_b = next + first_step(after) * kStepBytes;
            else
              pass.next_a = a, pass.next_b = from;  // that no one multiplies
            pass.panel = coming + i * lines * 64 * steps, pass.panel_lines = blocks > 1 ? lines : 0;
            const int64_t row = i * kBlockRows, col = p * AOTC_PANEL_N, n = min_of(rows - row, kBlockRows);
            if (all) ask_for(of_.finish_of(u), u.m0 + row, n, u.n0 + col, pass);
            float *waiting = waiting_ + i * kSums, *before = before_ + (p * blocks + i) * kSums;
            pass.out = part == begin && !last_part ? waiting : sums_ + turn_ * kSums;
            block(pass);
            if (pass.out == waiting) continue;
            ready_ = {u,
                      pass.out,
                      {part > begin ? waiting : nullptr, last_part && begin > 0 ? before : nullptr},
                      all         ? nullptr
                      : last_part ? before
                                  : waiting,
                      row,
                      col,
                      min_of<int64_t>(cols - col, AOTC_PANEL_N),
                      0,
                      n};
            if (!ready_.others[0]) ready_.others[0] = ready_.others[1], ready_.others[1] = nullptr;
            turn_ ^= 1;
          }
        }
      }
    }
  }
};

}  // namespace
