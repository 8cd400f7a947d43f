#pragma once
// Products of float32 with a weight by tile registers, each number as three of bf16 (parts.h): aotc_gemm_parts_f32 of
// aotc/detail/parts_abi.h.
//
// A unit's rows are split once, a panel of the weight while its first block of rows is multiplied: a step ahead, so that vectors work
// beside tiles; asking for it ahead of that only takes their place in the queues. Where k is longer than a chunk, sums of the unit wait in
// memory, and those of each chunk are added to them. What becomes of a finished block's sums happens between the steps of the next. Sums
// that are no numbers are made again from the numbers themselves: what is infinite has no parts. So are those that are next to nothing,
// below 2^-80: what is left of factors below 2^-110 is denormal, which tiles take for zeros, and of denormal ones nothing is left.
#include "aotc/detail/parts_abi.h"
#include "finish.h"
#include "gemm_units.h"
#include "parts.h"

namespace {

class GemmParts {
  using Unit = GemmUnits::Unit;
  static constexpr int64_t kPassing = 2, kAll = int64_t{1} << 40;  ///< steps
  static constexpr int64_t kSlice = 8;                             ///< rows that are consumed at once

  const aotc_kargs* args_;
  const aotc_gemm_config* cfg_;
  const int64_t* size_;
  GemmUnits units_;
  int64_t k_, chunk_;
  float *sums_, *added_, *rows_made_;
  char *a_, *b_;
  int64_t a_key_ = -1, height_ = 0;
  Finish finish_;  // of finish_segment_
  int64_t finish_segment_ = -1, turn_ = 0;
  bool a_denormal_ = false;  ///< whether the unit's rows have held such numbers
  Tiles tiles_;
  // Finished sums that have not been consumed.
  struct Ready {
    Unit unit{};
    float* sums = nullptr;
    int64_t ld = 0, row = 0, rows = 0, col = 0, cols = 0;
  } ready_;

 public:
  explicit GemmParts(const aotc_kargs* args)
      : args_(args), cfg_(static_cast<const aotc_gemm_config*>(args->config)), size_(args->size), units_(args) {
    k_ = size_[AOTC_GEMM_K], chunk_ = aotc_gemm_parts_chunk(cfg_, k_);
    const aotc_gemm_parts_rooms r = aotc_gemm_parts_rooms_of(cfg_, k_);
    a_ = static_cast<char*>(args->scratch), b_ = a_ + r.rows;
    sums_ = reinterpret_cast<float*>(b_ + r.panel), added_ = reinterpret_cast<float*>(b_ + r.panel + r.sums);
    rows_made_ = added_ + kTileSums;
  }

  void run(int64_t begin, int64_t end) {
    a_key_ = held_key(args_);
    for (int64_t i = begin; i < end; ++i) run_unit(units_.at(i));
    consume(ready_.rows);
    hold_key(args_, a_denormal_ ? -1 : a_key_);
  }

 private:
  const float* a_at(const Unit& u) const {
    const int64_t b1 = size_[AOTC_GEMM_B1];
    return static_cast<const float*>(args_->ptr[cfg_->a_ptr]) + size_[AOTC_GEMM_A_BASE] + u.batch / b1 * size_[AOTC_GEMM_A_B0] +
           u.batch % b1 * size_[AOTC_GEMM_A_B1] + u.m0 * size_[AOTC_GEMM_A_RS];
  }
  const float* b_at(const Unit& u) const {
    const int64_t b1 = size_[AOTC_GEMM_B1];
    return static_cast<const float*>(args_->ptr[cfg_->b_ptr]) + size_[AOTC_GEMM_B_BASE] + u.batch / b1 * size_[AOTC_GEMM_B_B0] +
           u.batch % b1 * size_[AOTC_GEMM_B_B1] + (units_.panel_columns_before(u.segment) + u.n0) * k_;
  }

  /// Some rows of A as numbers, `*pitch` apart: where they lie, or made in rows_made_. At most 16.
  const float* numbers(const Unit& u, int64_t row, int64_t rows, int64_t k0, int64_t kn, int64_t* pitch) {
    if (!cfg_->a_prologue && (size_[AOTC_GEMM_A_CS] == 1 || kn == 1)) {
      *pitch = size_[AOTC_GEMM_A_RS];
      return a_at(u) + row * *pitch + k0 * size_[AOTC_GEMM_A_CS];
    }
    *pitch = chunk_ + kTileCols;
    if (cfg_->a_prologue) {
      if (kn > 0) cfg_->a_prologue(args_, u.batch, u.m0 + row, rows, k0, kn, rows_made_, *pitch);
      return rows_made_;
    }
    const int64_t rs = size_[AOTC_GEMM_A_RS], cs = size_[AOTC_GEMM_A_CS];
    const float* src = a_at(u) + row * rs + k0 * cs;
    for (int64_t j = 0; j < kn; ++j)
      for (int64_t i = 0; i < rows; ++i) rows_made_[i * *pitch + j] = src[i * rs + j * cs];
    return rows_made_;
  }

  void split_rows(const Unit& u, int64_t k0, int64_t kn) {
    const int64_t steps = tile_steps(kn);
    for (int64_t row = 0; row < u.rows(); row += kTileRows) {
      int64_t pitch = 0;
      const int64_t rows = min_of(kTileRows, u.rows() - row);
      const float* src = numbers(u, row, rows, k0, kn, &pitch);
      char* dst = a_ + row / kTileRows * steps * kRowStepBytes;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t s = 0; s < steps; ++s) {
          const int64_t left = kn - s * kTileK;
          const uint64_t mask = left >= kTileK ? 0xffffffff : (uint64_t{1} << left) - 1;
          a_denormal_ |= split_row(src + i * pitch + s * kTileK, static_cast<__mmask16>(mask), static_cast<__mmask16>(mask >> 16),
                                   dst + s * kRowStepBytes + i * 64);
        }
    }
  }

  /// A block's sums over this chunk to those over the others: so that they are few that are added to large ones.
  void add(int64_t rows, int64_t vectors, float* sums, int64_t ld) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t v = 0; v < vectors; ++v) {
        float* to = sums + i * ld + v * kTileCols;
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), _mm512_loadu_ps(added_ + i * AOTC_PANEL_N + v * kTileCols)));
      }
  }

  /// Whether none of the sums is to be made again.
  bool stand(const float* sums, int64_t ld, int64_t rows, int64_t cols) const {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), one = _mm512_set1_epi32(a_denormal_ ? 0 : 1);  // a zero stands but then
    const __m512i least = _mm512_sub_epi32(_mm512_set1_epi32((127 - 80) << 23), one);
    __mmask16 again = 0;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; j += 16) {
        const __mmask16 mask = static_cast<__mmask16>(cols - j >= 16 ? 0xffff : (1u << (cols - j)) - 1);
        const __m512 x = _mm512_maskz_loadu_ps(mask, sums + i * ld + j);
        const __m512i bits = _mm512_sub_epi32(_mm512_and_si512(_mm512_castps_si512(x), magnitude), one);
        again |= _mm512_mask_cmp_epu32_mask(mask, bits, least, _MM_CMPINT_LT) | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
      }
    return again == 0;
  }
  /// Of rows that are ready: sums of one panel.
  void sum_numbers(const Unit& u, int64_t row, int64_t rows, int64_t col, float* sums, int64_t ld) {
    for (int64_t i = 0; i < rows; ++i) {
      __m512 even = _mm512_setzero_ps(), odd = even;
      for (int64_t k0 = 0; k0 < k_; k0 += chunk_) {
        int64_t pitch = 0;
        const int64_t kn = min_of(chunk_, k_ - k0);
        const float *a = numbers(u, row + i, 1, k0, kn, &pitch), *b = b_at(u) + col * k_ + k0 * AOTC_PANEL_N;
        for (int64_t k = 0; k < kn; ++k, b += AOTC_PANEL_N) {
          even = _mm512_fmadd_ps(_mm512_set1_ps(a[k]), _mm512_loadu_ps(b), even);
          odd = _mm512_fmadd_ps(_mm512_set1_ps(a[k]), _mm512_loadu_ps(b + 16), odd);
        }
      }
      _mm512_storeu_ps(sums + i * ld, even), _mm512_storeu_ps(sums + i * ld + 16, odd);
    }
  }

  void consume(int64_t n) {
    if (n <= 0) return;
    Ready& r = ready_;
    if (!stand(r.sums, r.ld, n, r.cols)) sum_numbers(r.unit, r.row, n, r.col, r.sums, r.ld);
    if (finish_segment_ != r.unit.segment) {
      finish_segment_ = r.unit.segment;
      finish_ = cfg_->finishes ? Finish(args_, cfg_->finishes + r.unit.segment) : Finish();
    }
    const int64_t m = r.unit.m0 + r.row, column = r.unit.n0 + r.col;
    if (finish_.n)
      finish_sums(finish_, r.sums, r.ld, m, n, column, r.cols);
    else
      cfg_->epilogues[r.unit.segment](args_, r.sums, r.ld, r.unit.batch, m, n, column, r.cols);
    r.row += n, r.rows -= n, r.sums += n * r.ld;
  }

  /// A block over kn of k. panel: what is to be split, or null where b_ has it. kept: steps of the panel that stay in b_, a power of two or
  /// all.
  template <bool kTwo, bool kWide>
  void block(const char* a0, const char* a1, const float* panel, int64_t kn, int64_t kept, float* sums, int64_t ld) {
    const int64_t steps = tile_steps(kn), due = ready_.rows;
    const int64_t slice = max_of(kSlice, ceil_div(due, max_of<int64_t>(1, steps)));
    const int64_t every = max_of<int64_t>(1, steps * slice / max_of<int64_t>(1, due));
    PartTiles<kTwo, kWide> t{tiles_};
    t.begin();
    const auto from = [&](int64_t s) { return panel + s * kTileK * AOTC_PANEL_N; };
    if (panel && steps) split_panel_step(panel, min_of(kTileK, kn), b_);
    int64_t left = every;
    for (int64_t s = 0; s < steps; ++s, a0 += kRowStepBytes, a1 += kRowStepBytes) {
      const char* at = b_ + (s & (kept - 1)) * kPanelStepBytes;
      char* next = b_ + ((s + 1) & (kept - 1)) * kPanelStepBytes;
      if (panel && (s + 2) * kTileK <= kn) {
        t.step(a0, a1, at, from(s + 1), next);
      } else {
        t.step(a0, a1, at, nullptr, nullptr);
        if (panel && s + 1 < steps) split_panel_step(from(s + 1), kn - (s + 1) * kTileK, next);
      }
      if (--left == 0) left = every, consume(min_of(slice, ready_.rows));
    }
    consume(ready_.rows);
    t.end(sums, ld);
  }

  void run_unit(const Unit& u) {
    const int64_t rows = u.rows(), cols = u.cols(), wide = cfg_->nc;
    if (const int64_t height = min_of(rows, kTileRows); height != height_) tiles_.shape(height_ = height);
    const bool one = k_ <= chunk_;  // chunk
    if (!one) consume(ready_.rows);
    const float* b = b_at(u);
    for (int64_t k0 = 0; k0 == 0 || k0 < k_; k0 += chunk_) {
      const int64_t kn = min_of(chunk_, k_ - k0);
      if (!one || a_key_ != units_.a_key(u)) split_rows(u, k0, kn);
      a_key_ = one ? units_.a_key(u) : -1;
      const char* a = a_;
      const int64_t band = tile_steps(kn) * kRowStepBytes;
      for (int64_t col = 0; col < cols; col += AOTC_PANEL_N)
        for (int64_t row = 0; row < rows; row += kBlockRows) {
          const bool two = rows - row > kTileRows, both = cols - col > kTileCols;
          const int64_t ld = one ? int64_t{AOTC_PANEL_N} : wide;
          float* sums = one ? sums_ + turn_ * kTileSums : sums_ + row * wide + col;
          const auto at = a + row / kTileRows * band;
          const float* panel = row == 0 ? b + col * k_ + k0 * AOTC_PANEL_N : nullptr;
          const auto run = two    ? both ? &GemmParts::block<true, true> : &GemmParts::block<true, false>
                              : both ? &GemmParts::block<false, true>
                                  : &GemmParts::block<false, false>;
          float* to = k0 == 0 ? sums : added_;
          (this->*run)(at, two ? at + band : at, panel, kn, rows > kBlockRows ? kAll : kPassing, to, k0 == 0 ? ld : int64_t{AOTC_PANEL_N});
          if (k0 > 0) add(min_of(rows - row, kBlockRows), both ? 2 : 1, sums, ld);
          if (k0 + kn < k_) continue;
          ready_ = {u, sums, ld, row, min_of(rows - row, kBlockRows), col, min_of<int64_t>(cols - col, AOTC_PANEL_N)};
          turn_ ^= 1;
        }
    }
  }
};

}  // namespace
