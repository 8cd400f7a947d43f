#pragma once
// Products of float32 with a weight by tile registers, each number as three of bf16 (parts.h): aotc_gemm_parts_f32, and by weights of few
// bits or bf16 aotc_gemm_unpack_parts_f32 and aotc_gemm_bf16w_parts_f32 of aotc/detail/parts_abi.h: 32 of k of a panel at a time are made
// float32 before they are split; a number of bf16 is its first part alone, so that three of the six products are left.
//
// Panels outermost: a unit's rows are split once, a panel of the weight while its first block of rows is multiplied: a step ahead, so that
// vectors work beside tiles; asking for it ahead of that only takes their place in the queues. Where k is longer than a chunk, sums of the
// unit wait in memory, and those of each chunk are added to them. Rows outermost, where the parts of the whole weight stay near: it is
// split once for all units, and the next block's rows while this one is multiplied. Tiles are as high as a unit's rows ask for: 49 are four
// of 13. What becomes of a finished block's sums happens between the steps of the next.
//
// Sums that are no numbers are made again from the numbers themselves: what is infinite has no parts. So are those that are next to
// nothing, below 2^-72: of factors below 2^-111 the first part alone is left, of denormal ones nothing.
// Zeros are made again where their rows have numbers below 2^-64.
#include "aotc/detail/parts_abi.h"
#include "finish.h"
#include "gemm_units.h"
#include "gemm_unpack.h"
#include "parts.h"
#include "tiny_rows.h"

extern "C" void aotc_gemm_f32_avx512(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_gemm_unpack_f32_avx512(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_gemm_bf16w_f32_avx512(const aotc_kargs*, int64_t, int64_t);

namespace {

// The weights. kCount: parts of a number. few(): the product of few rows. panel(): of AOTC_PANEL_N columns from column `column` of all
// panels on, which is column `n` of the product, and of the batch element `offset` elements from the first. Panel::rows(k0, kn, room): kn
// values of k from k0 on, at most a step's, as float32 [kn][AOTC_PANEL_N]; room: of a step.

struct PlainWeight {
  static constexpr int64_t kCount = kParts;
  static constexpr auto few = aotc_gemm_f32_avx512;
  struct Panel {
    const float* at;
    const float* rows(int64_t k0, int64_t, float*) const { return at + k0 * AOTC_PANEL_N; }
  };
  const float* b;
  int64_t k;
  explicit PlainWeight(const aotc_kargs* x)
      : b(static_cast<const float*>(x->ptr[static_cast<const aotc_gemm_config*>(x->config)->b_ptr])), k(x->size[AOTC_GEMM_K]) {}
  Panel panel(int64_t offset, int64_t column, int64_t) const { return {b + offset + column * k}; }
};

/// Pairs of k are interleaved.
struct HalfWeight {
  static constexpr int64_t kCount = 1;
  static constexpr auto few = aotc_gemm_bf16w_f32_avx512;
  struct Panel {
    const char* at;
    const float* rows(int64_t k0, int64_t kn, float* room) const {
      const __m512i upper = _mm512_set1_epi32(static_cast<int>(kUpper));
      for (int64_t i = 0; i < kn; i += 2)
        for (int64_t v = 0; v < AOTC_PANEL_N; v += kTileCols) {
          const __m512i pair = _mm512_loadu_si512(at + ((k0 + i) * AOTC_PANEL_N + 2 * v) * 2);
          _mm512_storeu_si512(room + i * AOTC_PANEL_N + v, _mm512_slli_epi32(pair, 16));
          _mm512_storeu_si512(room + (i + 1) * AOTC_PANEL_N + v, _mm512_and_si512(pair, upper));
        }
      return room;
    }
  };
  const char* b;
  int64_t depth;
  explicit HalfWeight(const aotc_kargs* x)
      : b(static_cast<const char*>(x->ptr[static_cast<const aotc_gemm_config*>(x->config)->b_ptr])),
        depth((x->size[AOTC_GEMM_K] + 1) / 2 * 2) {}
  Panel panel(int64_t offset, int64_t column, int64_t) const { return {b + (offset + column * depth) * 2}; }
};

/// One matrix of 8 or 4 bits (aotc_gemm_unpack_config).
template <int kBits>
struct UnpackedWeight {
  static constexpr int64_t kCount = kParts;
  static constexpr auto few = aotc_gemm_unpack_f32_avx512;
  struct Panel {
    UnpackPanel<kBits> of;
    const float* rows(int64_t k0, int64_t kn, float* room) const {
      of.unpack(k0, kn, 0, AOTC_PANEL_N / kLanes, room);
      return room;
    }
  };
  UnpackSource<kBits> source;
  explicit UnpackedWeight(const aotc_kargs* x) : source(x) {}
  Panel panel(int64_t, int64_t column, int64_t n) const { return {source.panel(column, n, 0)}; }
};
static_assert(kTileK == kBlock && AOTC_PANEL_N == 2 * kLanes);

template <class Weight>
class GemmParts {
  using Unit = GemmUnits::Unit;
  using Panel = typename Weight::Panel;
  static constexpr int64_t kCount = Weight::kCount;
  static constexpr int64_t kPassing = 2, kAll = int64_t{1} << 40;  ///< steps
  static constexpr int64_t kSlice = 8;                             ///< rows that are consumed at once

  const aotc_kargs* args_;
  const aotc_gemm_config* cfg_;
  const int64_t* size_;
  GemmUnits units_;
  int64_t k_, chunk_;
  Weight weight_;
  float *sums_, *added_, *rows_made_, *room_;  ///< room_: of a step of a panel
  char *a_, *b_;
  int64_t a_key_ = -1, height_ = 0;  ///< rows of a tile
  Finish finish_;                    // of finish_segment_
  int64_t finish_segment_ = -1, turn_ = 0;
  Tiles tiles_;
  // Finished sums that have not been consumed.
  struct Ready {
    Unit unit{};
    float* sums = nullptr;
    int64_t ld = 0, row = 0, rows = 0, col = 0, cols = 0;
  } ready_;
  // Rows outermost: the block whose rows are split beside the tiles of the one before.
  struct Ahead {
    int64_t unit = 0;  ///< its number
    Unit of{};
    int64_t row = 0, rows = 0, height = 1;
    const float* src = nullptr;
    int64_t pitch = 0, step = 0, done = 0;  ///< done: rows of the step
    char* to = nullptr;
  } ahead_;

 public:
  explicit GemmParts(const aotc_kargs* args)
      : args_(args), cfg_(static_cast<const aotc_gemm_config*>(args->config)), size_(args->size), units_(args), weight_(args) {
    k_ = size_[AOTC_GEMM_K], chunk_ = aotc_gemm_parts_chunk(cfg_, k_);
    const aotc_gemm_parts_rooms r = aotc_gemm_parts_rooms_of(cfg_, k_);
    a_ = static_cast<char*>(args->scratch), b_ = a_ + r.rows;
    sums_ = reinterpret_cast<float*>(b_ + r.panel), added_ = reinterpret_cast<float*>(b_ + r.panel + r.sums);
    rows_made_ = added_ + kTileSums, room_ = rows_made_ + kTileRows * (chunk_ + kTileCols);
  }

  void run(int64_t begin, int64_t end) {
    if (begin < end && rows_outermost()) return run_rows(begin, end);
    a_key_ = held_key(args_);
    for (int64_t i = begin; i < end; ++i) run_unit(units_.at(i));
    consume(ready_.rows);
    hold_key(args_, a_key_);
  }

 private:
  bool rows_outermost() const {
    return units_.n_blocks == 1 && size_[AOTC_GEMM_M] >= AOTC_GEMM_PARTS_KEPT_ROWS && aotc_gemm_parts_can_keep(cfg_, k_);
  }
  static int64_t height_of(const Unit& u) { return ceil_div(u.rows(), ceil_div(u.rows(), kTileRows)); }
  void shape(int64_t height) {
    if (height != height_) tiles_.shape(height_ = height);
  }
  const float* a_at(const Unit& u) const {
    const int64_t b1 = size_[AOTC_GEMM_B1];
    return static_cast<const float*>(args_->ptr[cfg_->a_ptr]) + size_[AOTC_GEMM_A_BASE] + u.batch / b1 * size_[AOTC_GEMM_A_B0] +
           u.batch % b1 * size_[AOTC_GEMM_A_B1] + u.m0 * size_[AOTC_GEMM_A_RS];
  }
  int64_t b_offset(const Unit& u) const {
    const int64_t b1 = size_[AOTC_GEMM_B1];
    return size_[AOTC_GEMM_B_BASE] + u.batch / b1 * size_[AOTC_GEMM_B_B0] + u.batch % b1 * size_[AOTC_GEMM_B_B1];
  }
  /// From column `col` of the unit on.
  Panel panel_at(const Unit& u, int64_t col) const {
    const int64_t column = u.n0 + col;
    return weight_.panel(b_offset(u), units_.panel_columns_before(u.segment) + column, units_.segment_begin(u.segment) + column);
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

  /// Rows of a tile, `pitch` apart, of kn numbers.
  template <Pairs kPairs>
  static void split_tile(const float* src, int64_t pitch, int64_t rows, int64_t kn, char* dst) {
    for (int64_t k = 0; k < kn; k += kTileK, dst += kRowStepBytes) split_step<kPairs>(src + k, pitch, 0, rows, kn - k, dst);
  }
  /// Of a step, of which `left` numbers and those of the steps that follow are there.
  template <Pairs kPairs>
  __attribute__((always_inline)) static void split_step(const float* src, int64_t pitch, int64_t begin, int64_t end, int64_t left,
                                                        char* dst) {
    const uint64_t mask = left >= kTileK ? 0xffffffff : (uint64_t{1} << left) - 1;
    const auto low = static_cast<__mmask16>(mask), high = static_cast<__mmask16>(mask >> 16);
    for (int64_t i = begin; i < end; ++i) split_row<kPairs>(src + i * pitch, low, high, dst + i * 64);
  }
  void split_rows(const Unit& u, int64_t k0, int64_t kn) {
    const int64_t band = tile_steps(kn) * kRowStepBytes;
    for (int64_t row = 0; row < u.rows(); row += height_) {
      int64_t pitch = 0;
      const int64_t rows = min_of(height_, u.rows() - row);
      const float* src = numbers(u, row, rows, k0, kn, &pitch);
      split_tile<Pairs::neighbours>(src, pitch, rows, kn, a_ + row / height_ * band);
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

  /// Whether none of the sums is to be made again. zeros: whether these stand.
  static bool stand(const float* sums, int64_t ld, int64_t rows, int64_t cols, bool zeros) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), one = _mm512_set1_epi32(zeros ? 1 : 0);  // a zero less one is the largest
    const __m512i tiny = _mm512_sub_epi32(_mm512_set1_epi32((127 - 72) << 23), one);
    __m512i least = _mm512_set1_epi32(-1), most = _mm512_setzero_si512();
    for (int64_t j = 0; j < cols; j += 16) {
      const __mmask16 mask = static_cast<__mmask16>(cols - j >= 16 ? 0xffff : (1u << (cols - j)) - 1);
      for (int64_t i = 0; i < rows; ++i) {
        const __m512i bits = _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(sums + i * ld + j)), magnitude);
        most = _mm512_mask_max_epu32(most, mask, most, bits);
        least = _mm512_mask_min_epu32(least, mask, least, _mm512_sub_epi32(bits, one));
      }
    }
    const __m512i infinite = _mm512_set1_epi32(0x7f800000);
    return (_mm512_cmp_epu32_mask(least, tiny, _MM_CMPINT_LT) | _mm512_cmp_epu32_mask(most, infinite, _MM_CMPINT_NLE)) == 0;
  }
  /// Whether a row of A has such small numbers, zeros aside, that a sum of zero may be none: products that tiles take for zeros.
  bool small(const Unit& u, int64_t row) {
    const __m512i one = _mm512_set1_epi32(1), magnitude = _mm512_set1_epi32(0x7fffffff), least = _mm512_set1_epi32((127 - 64) << 23);
    __mmask16 any = 0;
    for (int64_t k0 = 0; k0 < k_; k0 += chunk_) {
      int64_t pitch = 0;
      const int64_t kn = min_of(chunk_, k_ - k0);
      const float* a = numbers(u, row, 1, k0, kn, &pitch);
      for (int64_t k = 0; k < kn; k += 16) {
        const auto mask = static_cast<__mmask16>(kn - k >= 16 ? 0xffff : (1u << (kn - k)) - 1);
        const __m512i bits = _mm512_and_si512(_mm512_castps_si512(_mm512_maskz_loadu_ps(mask, a + k)), magnitude);
        any |= _mm512_cmp_epu32_mask(_mm512_sub_epi32(bits, one), least, _MM_CMPINT_LT);
      }
    }
    return any != 0;
  }
  /// Makes sums of rows that are ready again where that is called for.
  void mend(const Ready& r, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) {
      float* sums = r.sums + i * r.ld;
      if (stand(sums, r.ld, 1, r.cols, false) || (stand(sums, r.ld, 1, r.cols, true) && !small(r.unit, r.row + i))) continue;
      sum_numbers(r.unit, r.row + i, 1, r.col, sums, r.ld);
    }
  }
  /// Of rows that are ready: sums of one panel.
  void sum_numbers(const Unit& u, int64_t row, int64_t rows, int64_t col, float* sums, int64_t ld) {
    const Panel panel = panel_at(u, col);
    for (int64_t i = 0; i < rows; ++i) {
      __m512 even = _mm512_setzero_ps(), odd = even, tiny_even = even, tiny_odd = even;
      for (int64_t k0 = 0; k0 < k_; k0 += chunk_) {
        int64_t pitch = 0;
        const int64_t kn = min_of(chunk_, k_ - k0);
        const float *a = numbers(u, row + i, 1, k0, kn, &pitch), *b = nullptr;
        for (int64_t k = 0; k < kn; ++k, b += AOTC_PANEL_N) {
          if (k % kTileK == 0) b = panel.rows(k0 + k, min_of(kTileK, kn - k), room_);
          u32 bits;
          __builtin_memcpy(&bits, a + k, 4);
          if ((bits & 0x7fffffff) - 1 < kTinyBits - 1) {
            const __m512 x = _mm512_set1_ps(scaled_tiny(bits));
            tiny_even = _mm512_fmadd_ps(x, _mm512_loadu_ps(b), tiny_even);
            tiny_odd = _mm512_fmadd_ps(x, _mm512_loadu_ps(b + 16), tiny_odd);
          } else {
            const __m512 x = _mm512_set1_ps(a[k]);
            even = _mm512_fmadd_ps(x, _mm512_loadu_ps(b), even);
            odd = _mm512_fmadd_ps(x, _mm512_loadu_ps(b + 16), odd);
          }
        }
      }
      const __m512 scale = _mm512_set1_ps(kTinyScale);
      _mm512_storeu_ps(sums + i * ld, _mm512_fmadd_ps(tiny_even, scale, even));
      _mm512_storeu_ps(sums + i * ld + 16, _mm512_fmadd_ps(tiny_odd, scale, odd));
    }
  }

  void consume(int64_t n) {
    if (n <= 0) return;
    Ready& r = ready_;
    if (!stand(r.sums, r.ld, n, r.cols, false)) mend(r, n);
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

  /// A block over kn of k from k0 on. panel: what is to be split, or null where b_ has it. kept: steps of the panel that stay in b_, a
  /// power of two or all.
  template <bool kTwo, bool kWide>
  void block(const char* a0, const char* a1, const Panel* panel, int64_t k0, int64_t kn, int64_t kept, float* sums, int64_t ld) {
    const int64_t steps = tile_steps(kn), due = ready_.rows;
    const int64_t slice = max_of(kSlice, ceil_div(due, max_of<int64_t>(1, steps)));
    const int64_t every = max_of<int64_t>(1, steps * slice / max_of<int64_t>(1, due));
    PartTiles<kTwo, kWide, kCount> t{tiles_};
    t.begin();
    const auto from = [&](int64_t s) { return panel->rows(k0 + s * kTileK, min_of(kTileK, kn - s * kTileK), room_); };
    if (panel && steps) split_panel_step<Pairs::neighbours, kCount>(from(0), min_of(kTileK, kn), b_);
    int64_t left = every;
    for (int64_t s = 0; s < steps; ++s, a0 += kRowStepBytes, a1 += kRowStepBytes) {
      const char* at = b_ + (s & (kept - 1)) * kPanelStepBytes;
      char* next = b_ + ((s + 1) & (kept - 1)) * kPanelStepBytes;
      if (panel && (s + 2) * kTileK <= kn) {
        const float* src = from(s + 1);
        t.step(
            a0, a1, at, [&](auto which) __attribute__((always_inline)) { split_sixth<kCount>(which, src, next); });
      } else {
        t.step(a0, a1, at, [](auto) {});
        if (panel && s + 1 < steps) split_panel_step<Pairs::neighbours, kCount>(from(s + 1), kn - (s + 1) * kTileK, next);
      }
      if (--left == 0) left = every, consume(min_of(slice, ready_.rows));
    }
    consume(ready_.rows);
    t.end(sums, ld, height_);
  }

  void run_unit(const Unit& u) {
    const int64_t rows = u.rows(), cols = u.cols(), wide = cfg_->nc;
    shape(height_of(u));
    const int64_t block_rows = 2 * height_;
    const bool one = k_ <= chunk_;  // chunk
    if (!one) consume(ready_.rows);
    for (int64_t k0 = 0; k0 == 0 || k0 < k_; k0 += chunk_) {
      const int64_t kn = min_of(chunk_, k_ - k0);
      if (!one || a_key_ != units_.a_key(u)) split_rows(u, k0, kn);
      a_key_ = one ? units_.a_key(u) : -1;
      const int64_t band = tile_steps(kn) * kRowStepBytes;
      for (int64_t col = 0; col < cols; col += AOTC_PANEL_N) {
        const Panel panel = panel_at(u, col);
        for (int64_t row = 0; row < rows; row += block_rows) {
          const bool two = rows - row > height_, both = cols - col > kTileCols;
          const int64_t ld = one ? int64_t{AOTC_PANEL_N} : wide;
          float* sums = one ? sums_ + turn_ * kTileSums : sums_ + row * wide + col;
          const char* at = a_ + row / height_ * band;
          const auto run = two    ? both ? &GemmParts::block<true, true> : &GemmParts::block<true, false>
                              : both ? &GemmParts::block<false, true>
                                  : &GemmParts::block<false, false>;
          float* to = k0 == 0 ? sums : added_;
          (this->*run)(at, two ? at + band : at, row == 0 ? &panel : nullptr, k0, kn, rows > block_rows ? kAll : kPassing, to,
                       k0 == 0 ? ld : int64_t{AOTC_PANEL_N});
          if (k0 > 0) add(min_of(rows - row, block_rows), both ? 2 : 1, sums, ld);
          if (k0 + kn < k_) continue;
          ready_ = {u, sums, ld, row, min_of(rows - row, block_rows), col, min_of<int64_t>(cols - col, AOTC_PANEL_N)};
          turn_ ^= 1;
        }
      }
    }
  }

  // ---- rows outermost

  /// ahead_ becomes the block of `unit` from `row` on, or the first one after it; false: there is none before unit `end`.
  bool begin_ahead(int64_t unit, int64_t row, int64_t end, char* to) {
    for (; unit < end; ++unit, row = 0) {
      const Unit u = units_.at(unit);
      if (row >= u.rows()) continue;
      const int64_t height = height_of(u), rows = min_of(2 * height, u.rows() - row);
      ahead_ = {unit, u, row, rows, height, nullptr, 0, 0, 0, to};
      if (!cfg_->a_prologue && (size_[AOTC_GEMM_A_CS] == 1 || k_ == 1)) {
        ahead_.src = numbers(u, row, rows, 0, k_, &ahead_.pitch);
        return true;
      }
      for (int64_t i = 0; i < rows; i += height) {
        int64_t pitch = 0;
        const int64_t some = min_of(height, rows - i);
        const float* src = numbers(u, row + i, some, 0, k_, &pitch);
        split_tile<Pairs::halves>(src, pitch, some, k_, to + i / height * tile_steps(k_) * kRowStepBytes);
      }
      ahead_.step = tile_steps(k_);
      return true;
    }
    return false;
  }
  /// At least `rows` more rows of a step, unless there are fewer left.
  void split_ahead(int64_t rows) {
    Ahead& a = ahead_;
    for (const int64_t steps = tile_steps(k_); rows > 0 && a.step < steps;) {
      const bool second = a.done >= a.height;
      const int64_t first = second ? a.height : 0, end = min_of(a.done + rows, second ? a.rows : min_of(a.rows, a.height));
      char* dst = a.to + (second ? steps * kRowStepBytes : 0) + a.step * kRowStepBytes - first * 64;
      split_step<Pairs::halves>(a.src + a.step * kTileK, a.pitch, a.done, end, k_ - a.step * kTileK, dst);
      rows -= end - a.done, a.done = end;
      if (end == a.rows) a.done = 0, ++a.step;
    }
  }

  template <bool kTwo, bool kWide>
  void kept_block(const char* a0, const char* a1, const char* b, int64_t ahead, float* sums) {
    constexpr int64_t kPlaces = 6;
    const int64_t steps = tile_steps(k_), every = max_of<int64_t>(1, steps * kPlaces * kSlice / max_of<int64_t>(1, ready_.rows));
    PartTiles<kTwo, kWide, kCount> t{tiles_};
    t.begin();
    int64_t left = every;
    for (int64_t s = 0; s < steps; ++s, a0 += kRowStepBytes, a1 += kRowStepBytes, b += kPanelStepBytes)
      t.step(
          a0, a1, b, [&](auto) __attribute__((always_inline)) {
            split_ahead(ahead);
            if (--left == 0) left = every, consume(min_of(kSlice, ready_.rows));
          });
    consume(ready_.rows);
    t.end(sums, AOTC_PANEL_N, height_);
  }

  void split_weight(const Unit& u) {
    const int64_t steps = tile_steps(k_);
    char* dst = b_;
    for (int64_t col = 0; col < u.cols(); col += AOTC_PANEL_N) {
      const Panel panel = panel_at(u, col);
      for (int64_t s = 0; s < steps; ++s, dst += kPanelStepBytes) {
        const int64_t kn = min_of(kTileK, k_ - s * kTileK);
        split_panel_step<Pairs::halves, kCount>(panel.rows(s * kTileK, kn, room_), kn, dst);
      }
    }
  }

  void run_rows(int64_t begin, int64_t end) {
    constexpr int64_t kLeastRows = 4;  // that are split at once
    const int64_t band = tile_steps(k_) * kRowStepBytes, columns = units_.at(begin).cols();
    const int64_t panels = ceil_div(columns, AOTC_PANEL_N), places = 6 * panels;
    int64_t b_key = held_key(args_, 1);
    char* a = a_;
    bool some = begin_ahead(begin, 0, end, a);
    while (some) {
      split_ahead(kAll);
      const Ahead block = ahead_;
      const int64_t batch = b_offset(block.of);
      if (batch != b_key) split_weight(block.of);
      b_key = batch;
      shape(block.height);
      char* const next = a == a_ ? a_ + 2 * band : a_;
      some = begin_ahead(block.unit, block.row + block.rows, end, next);
      if (!some) ahead_.step = tile_steps(k_);
      const int64_t share = max_of(kLeastRows, ceil_div(some ? ahead_.rows : 0, places));
      for (int64_t p = 0; p < panels; ++p) {
        const int64_t col = p * AOTC_PANEL_N;
        const bool two = block.rows > block.height, both = columns - col > kTileCols;
        const auto run = two    ? both ? &GemmParts::kept_block<true, true> : &GemmParts::kept_block<true, false>
                            : both ? &GemmParts::kept_block<false, true>
                                : &GemmParts::kept_block<false, false>;
        float* sums = sums_ + turn_ * kTileSums;
        (this->*run)(a, two ? a + band : a, b_ + p * tile_steps(k_) * kPanelStepBytes, share, sums);
        ready_ = {block.of, sums, AOTC_PANEL_N, block.row, block.rows, col, min_of<int64_t>(columns - col, AOTC_PANEL_N)};
        turn_ ^= 1;
      }
      a = next;
    }
    consume(ready_.rows);
    hold_key(args_, b_key, 1);
  }
};

// A panel is split for the rows that it meets: of few rows plain float32, which reads the same panels, has the result before that is done.
// A plan is for every size of its range, so that this is known in a run alone.
template <class Weight>
void gemm_parts(const aotc_kargs* args, int64_t begin, int64_t end) {
  if (args->size[AOTC_GEMM_M] <= AOTC_GEMM_PARTS_FEW_ROWS)
    Weight::few(args, begin, end);
  else
    GemmParts<Weight>(args).run(begin, end);
}
inline void gemm_unpack_parts(const aotc_kargs* args, int64_t begin, int64_t end) {
  if ((static_cast<const aotc_gemm_unpack_config*>(args->config)->bits & ~AOTC_QUANT_WIDE_SCALES) == 8)
    gemm_parts<UnpackedWeight<8>>(args, begin, end);
  else
    gemm_parts<UnpackedWeight<4>>(args, begin, end);
}

}  // namespace
