#pragma once
// Rows times panels in tile registers, all of k at once: what the kernels of amx have in common.
//
// A unit goes panel of columns after panel of columns, in blocks of 32 rows: 2 x 2 tiles of sums; of narrow panels 4 x 1. Panels
// (aotc/detail/library_abi.h) are read as they are: pairs of k lie beside each other as a tile wants them, the second tile of columns
// begins 64 bytes after the first. The next panel is prefetched into L2 meanwhile (into L1 it would drive out what the tiles read) where
// several blocks of rows leave time for that; of two the first asks for what lies a little ahead of it. What becomes of a finished block's
// sums happens row by row between the tile instructions of the next, which hide it. Panels that all stay near may instead be gone through
// for every block of rows, so that the sums of several are consumed together.
#include "simd.h"
#include "tiles.h"

namespace {

constexpr int64_t kPairBytes = AOTC_PANEL_N * 4;                          // a pair of k of a panel
constexpr int64_t kStepBytes = kPairBytes * kTileK / 2;                   // kTileK values of k of a panel
constexpr int64_t kTileSums = AOTC_GEMM_TILES_SUMS;                       // floats of a finished block
constexpr int64_t kBlockRows = 2 * kTileRows, kHighRows = 4 * kTileRows;  // kHighRows: of panels of one tile of columns
constexpr int64_t kNearBlocks = 2,
                  kAskedBytes = 12 << 10;  // so many blocks of rows ask for panels so much ahead instead of for the next one
constexpr int64_t tile_steps(int64_t k) { return ceil_div(k, kTileK); }
/// Elements from row to row of a copy of A: an odd number of cache lines, for rows a multiple of 512 bytes apart share cache sets.
constexpr int64_t tile_pitch(int64_t k) { return (tile_steps(k) | 1) * kTileK; }

/// rows x k elements at src[i*rs + j*cs] to rows `pitch` elements apart, each followed by zeros up to a multiple of kTileK.
inline void copy_tile_rows(const bf16* src, int64_t rs, int64_t cs, int64_t rows, int64_t k, bf16* dst, int64_t pitch) {
  const int64_t whole = k / kTileK * kTileK, padded = ceil_div(k, kTileK) * kTileK;
  if (cs == 1 || k == 1) {
    const __mmask32 last = static_cast<__mmask32>((uint64_t{1} << (k - whole)) - 1);
    for (int64_t i = 0; i < rows; ++i) {
      const bf16* in = src + i * rs;
      bf16* out = dst + i * pitch;
      for (int64_t j = 0; j < whole; j += kTileK) _mm512_store_si512(out + j, _mm512_loadu_si512(in + j));
      if (whole < k) _mm512_store_si512(out + whole, _mm512_maskz_loadu_epi16(last, in + whole));
    }
    return;
  }
  int64_t j0 = 0;
  if (rs == 1) {  // columns are contiguous: 8 rows of 16 at a time
    for (; j0 + 16 <= k; j0 += 16) {
      int64_t i0 = 0;
      for (; i0 + 8 <= rows; i0 += 8) {
        __m256 r[8];
        for (int j = 0; j < 8; ++j) {
          const bf16* in = src + i0 + (j0 + 2 * j) * cs;
          const __m128i even = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
          const __m128i odd = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + cs));
          r[j] = _mm256_castsi256_ps(_mm256_set_m128i(_mm_unpackhi_epi16(even, odd), _mm_unpacklo_epi16(even, odd)));
        }
        transpose8(r);
        for (int i = 0; i < 8; ++i) _mm256_storeu_ps(reinterpret_cast<float*>(dst + (i0 + i) * pitch + j0), r[i]);
      }
      for (; i0 < rows; ++i0)
        for (int64_t j = j0; j < j0 + 16; ++j) dst[i0 * pitch + j] = src[i0 + j * cs];
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = j0; j < k; ++j) dst[i * pitch + j] = src[i * rs + j * cs];
    for (int64_t j = k; j < padded; ++j) dst[i * pitch + j].bits = 0;
  }
}

/// Rows that are consumed at once: work of the length that hides behind tile instructions, without a call for too few of them.
constexpr int64_t kSliceOfCalls = 8, kSliceOfFinish = 16;

/// 16 rows of A: 64 bytes a row and step.
struct TileRows {
  const char* at;
  int64_t stride_bytes;
};
constexpr int64_t kMostRuns = 128;  // whose jumps a kernel keeps
/// Where the rows' steps lie: `run` of them side by side, then jump[0] bytes further the next run, then jump[1] bytes, and so on.
struct TileWalk {
  int64_t run = INT64_MAX;
  const int64_t* jump = nullptr;
};
/// A panel of columns.
struct TilePanel {
  const char* at;                  // its whole steps
  const char* tail = nullptr;      // the step that follows them, or null
  const char* next = nullptr;      // what follows it, of equal length, to be prefetched, or null
  int64_t second = kTileCols * 4;  // bytes from the first tile of columns of a step to the second
  int64_t tail_second = kTileCols * 4;
  bool narrow = false;  // of at most kTileCols columns, whose tiles of 1 KB follow each other
  int64_t step = 0;     // bytes from step to step where they are not those of whole tiles
};

/// Pairs of bf16: the two tiles of a step of a panel lie in the same rows.
struct TilePairs {
  static constexpr int64_t kPitch = kPairBytes, kStep = kStepBytes;  ///< bytes from row to row of a tile, from step to step
  template <int C, int A, int B>
  static void multiply(Tiles& t) {
    t.template multiply<C, A, B>();
  }
};
/// Signed bytes in fours, sums of int32: each tile is 1 KB, those of the same columns follow each other.
struct TileBytes {
  static constexpr int64_t kPitch = kTileCols * 4, kStep = kTileBytes;
  template <int C, int A, int B>
  static void multiply(Tiles& t) {
    t.template multiply_bytes<C, A, B>();
  }
};
/// Unsigned bytes times signed ones.
struct TileUnsigned : TileBytes {
  template <int C, int A, int B>
  static void multiply(Tiles& t) {
    t.template multiply_unsigned<C, A, B>();
  }
};

/// A panel of k rows as it lies in memory; `room`, of kStepBytes, holds its last step where that is cut short: what follows it in memory is
/// no number of this panel.
inline TilePanel stored_panel(const char* at, int64_t k, char* room) {
  const int64_t bytes = (k + (k & 1)) * AOTC_PANEL_N * 2, rest = bytes % kStepBytes;
  if (rest) {
    __builtin_memcpy(room, at + bytes - rest, static_cast<size_t>(rest));
    __builtin_memset(room + rest, 0, static_cast<size_t>(kStepBytes - rest));
  }
  return {at, rest ? room : nullptr, at + bytes};
}

/// Owner: a copyable Owner::Unit, and consume(unit, row, rows, col, cols, sums, ld): the epilogue of some rows of the unit, slice() rows at
/// once or more. It may overwrite these sums, which are float* whatever their type. kSums: that may be finished and not consumed, a
/// multiple of kTileSums.
template <class Owner, class Kind = TilePairs, int64_t kSums = kTileSums>
class TileBlocks {
  using Unit = typename Owner::Unit;

  /// Blocks of rows from which on there is time to prefetch: as many bytes are multiplied in half of it as bf16.
  static constexpr int64_t kLeastAhead = kSums > kTileSums ? 2 : 1;

  Owner* owner_;
  float* sums_[2];
  int turn_ = 0;
  int64_t height_ = 0, bytes_ = 0;  // of the tiles
  TileWalk walk_;
  Tiles tiles_;
  // Finished sums that have not been consumed.
  Unit unit_{};
  float* ready_ = nullptr;
  int64_t ld_ = 0, row_ = 0, rows_ = 0, col_ = 0, cols_ = 0;

  void consume(int64_t n) {
    if (n <= 0) return;
    owner_->consume(unit_, row_, n, col_, cols_, ready_, ld_);
    row_ += n, rows_ -= n, ready_ += n * ld_;
  }

  /// A step of kRows tiles of rows, 1, 2 or 4, at `a`; kWide: by two of columns.
  template <int kRows, bool kWide>
  void step(const TileRows* a, int64_t at, const char* b, int64_t pitch, int64_t second) {
    static_assert(kRows <= 2 || !kWide);
    tiles_.template load<6>(b, pitch);
    tiles_.template load<4>(a[0].at + at, a[0].stride_bytes);
    Kind::template multiply<0, 4, 6>(tiles_);
    if constexpr (kWide) {
      tiles_.template load<7>(b + second, pitch);
      Kind::template multiply<1, 4, 7>(tiles_);
    }
    if constexpr (kRows > 1) {
      tiles_.template load<5>(a[1].at + at, a[1].stride_bytes);
      Kind::template multiply<2, 5, 6>(tiles_);
      if constexpr (kWide) Kind::template multiply<3, 5, 7>(tiles_);
    }
    if constexpr (kRows > 2) {
      tiles_.template load<7>(a[2].at + at, a[2].stride_bytes);
      Kind::template multiply<1, 7, 6>(tiles_);
      tiles_.template load<4>(a[3].at + at, a[3].stride_bytes);
      Kind::template multiply<3, 4, 6>(tiles_);
    }
  }

  /// Sums of a block over all of k to out: kRows tiles of rows at a, 32 or 16 columns. pf: prefetched, pf_lines a step. due: rows to be
  /// consumed meanwhile.
  template <int kRows, bool kWide>
  void block(int64_t steps, const TileRows* a, TilePanel b, const char* pf, int64_t pf_lines, float* out, int64_t ld, int64_t due) {
    constexpr bool kTwo = kRows > 1, kFour = kRows > 2;
    const int64_t whole = b.tail ? steps - 1 : steps;
    const int64_t slice = max_of(owner_->slice(), ceil_div(due, max_of<int64_t>(1, steps)));
    const int64_t every = max_of<int64_t>(1, steps * slice / max_of<int64_t>(1, due));
    tiles_.template zero<0>();
    if constexpr (kWide || kFour) tiles_.template zero<1>();
    if constexpr (kTwo) tiles_.template zero<2>();
    if constexpr ((kTwo && kWide) || kFour) tiles_.template zero<3>();
    int64_t left = every, in_run = walk_.run, at = 0;
    const int64_t* jump = walk_.jump;
    const char* pb = b.at;
    const bool narrow = !kWide && b.narrow;
    const int64_t pitch = narrow ? kTileCols * 4 : Kind::kPitch, each = b.step ? b.step : narrow ? kTileBytes : Kind::kStep;
    for (int64_t s = 0; s < whole; ++s, at += 64, pb += each) {
      step<kRows, kWide>(a, at, pb, pitch, b.second);
      for (int64_t i = 0; i < pf_lines; ++i, pf += 64) _mm_prefetch(pf, _MM_HINT_T1);
      if (--in_run == 0) {
        in_run = walk_.run;
        at += *jump++;
      }
      if (--left == 0) {
        left = every;
        consume(min_of(slice, due)), due -= slice;
      }
    }
    if (b.tail) step<kRows, kWide>(a, at, b.tail, pitch, b.tail_second);
    consume(due);
    tiles_.template store<0>(out, ld * 4);
    if constexpr (kWide) tiles_.template store<1>(out + kTileCols, ld * 4);
    if constexpr (kTwo) tiles_.template store<2>(out + kTileRows * ld, ld * 4);
    if constexpr (kTwo && kWide) tiles_.template store<3>(out + kTileRows * ld + kTileCols, ld * 4);
    if constexpr (kFour) {
      tiles_.template store<1>(out + 2 * kTileRows * ld, ld * 4);
      tiles_.template store<3>(out + 3 * kTileRows * ld, ld * 4);
    }
  }

 public:
  /// sums: 2 * kSums, 64-byte aligned.
  TileBlocks(Owner* owner, float* sums) : owner_(owner), sums_{sums, sums + kSums} {}

  /// A unit of rows x cols sums. rows_at(row): the TileRows from that row on; tiles read 16 of them, or all where there are fewer.
  /// panel_at(p): the TilePanel of columns from p * AOTC_PANEL_N on, asked for in their order; by_rows: for every block of rows again.
  /// bytes: of a row that a step reads, a multiple of 4.
  template <class RowsAt, class PanelAt>
  void multiply(const Unit& unit, int64_t rows, int64_t cols, int64_t steps, RowsAt rows_at, PanelAt panel_at, TileWalk walk = {},
                bool by_rows = false, int64_t bytes = 64) {
    walk_ = walk;
    if (const int64_t height = min_of(rows, kTileRows); height != height_ || bytes != bytes_)
      tiles_.shape(height_ = height, bytes_ = bytes);
    const int64_t panels = ceil_div(cols, AOTC_PANEL_N), blocks = ceil_div(rows, kBlockRows);
    // Panels consumed together.
    const int64_t group = rows > kTileRows && !by_rows ? 1 : min_of(panels, kSums / (min_of(rows, kBlockRows) * AOTC_PANEL_N));
    const int64_t ld = group * AOTC_PANEL_N;
    const bool near = kLeastAhead < kNearBlocks && blocks == kNearBlocks;
    const int64_t pf_lines = by_rows || blocks <= kLeastAhead ? 0 : near ? kStepBytes / 64 : ceil_div(kStepBytes / 64, blocks);
    // `height` rows of sums.
    const auto one = [&](int64_t i, int64_t p, const TilePanel& b, int64_t height) {
      const int64_t row = i * height, at = p % group, tiles = min_of(ceil_div(rows - row, kTileRows), height / kTileRows);
      const bool wide = cols - p * AOTC_PANEL_N > kTileCols;
      TileRows a[kHighRows / kTileRows];
      for (int64_t t = 0; t < tiles; ++t) a[t] = rows_at(row + t * kTileRows);
      if (tiles == 3) a[3] = a[2];  // whose sums no one reads
      constexpr auto block_of = [](int64_t tiles, bool wide) {
        if (tiles > 2) return &TileBlocks::block<4, false>;
        if (tiles > 1) return wide ? &TileBlocks::block<2, true> : &TileBlocks::block<2, false>;
        return wide ? &TileBlocks::block<1, true> : &TileBlocks::block<1, false>;
      };
      const int64_t due = ceil_div(rows_, min_of(group - at, panels - p));  // a part in each block of a group
      const char* pf = !b.next ? nullptr : !near ? b.next + i * pf_lines * 64 * steps : i == 0 ? b.at + kAskedBytes : nullptr;
      const int64_t pitch = height > kBlockRows ? kTileCols : ld;
      (this->*block_of(tiles, wide))(steps, a, b, pf, pf ? pf_lines : 0, sums_[turn_] + at * AOTC_PANEL_N, pitch, due);
      if (at + 1 < group && p + 1 < panels) return;
      unit_ = unit, ready_ = sums_[turn_], ld_ = pitch;
      row_ = row, rows_ = min_of(rows - row, height), col_ = (p - at) * AOTC_PANEL_N, cols_ = min_of(cols - col_, ld);
      turn_ ^= 1;
    };
    if (by_rows) {
      for (int64_t i = 0; i < blocks; ++i)
        for (int64_t p = 0; p < panels; ++p) one(i, p, panel_at(p), kBlockRows);
    } else {
      for (int64_t p = 0; p < panels; ++p) {
        const TilePanel b = panel_at(p);
        const int64_t height = b.narrow && group == 1 ? kHighRows : kBlockRows;
        for (int64_t i = 0; i < ceil_div(rows, height); ++i) one(i, p, b, height);
      }
    }
  }

  /// Consumes what is left. To be called after the last unit.
  void finish() { consume(rows_); }
};

}  // namespace
