#pragma once
// Recurrent layers whose state's weight is of bf16 and lies in panels, with sums in tile registers: aotc_recurrence_tiles_* of
// aotc/detail/team_abi.h. All but the sums is recurrence_panels.h.
//
// A panel's pairs of k lie as tiles want them. Two tiles of columns and one or two of rows are multiplied at a time; the last step of k,
// where it is a part of one, from copies that end in zeros.
#include <stddef.h>

#include "recurrence_panels.h"
#include "tiles.h"

namespace {

class TileMul {
 public:
  typedef f32v V;
  typedef bf16 State;
  static constexpr int kGroup = 2;
  static constexpr bool kWhole = true;

  /// sums [rows, G, NV vectors] = rows of h, `pitch` elements apart, times NV vectors of columns of the panel at w of every gate, `gate`
  /// elements apart. rows: at most AOTC_RECURRENCE_GROUP.
  template <int G, int NV>
  void sums(const bf16* h, int64_t pitch, int64_t rows, const bf16* w, int64_t gate, int64_t k, float* sums) {
    static_assert(AOTC_RECURRENCE_GROUP <= 2 * kTileRows && AOTC_L == kTileCols);
    // Of two tiles of rows the second ends with the last row; what the first has, too, is the same.
    const bool two = rows > kTileRows;
    const int64_t height = two ? (rows + 1) / 2 : rows, second = rows - height;
    tiles_.shape(height);
    Rows a = {h, h + second * pitch, pitch * 2, k / kTileK, k % kTileK, second};
    if (a.left) copy_last(h + a.steps * kTileK, pitch, rows, a.left);
    constexpr int kColumns = G * NV;
    float* const out[2] = {sums, sums + second * kColumns * kTileCols};
    const auto columns = [&](int c) { return w + c / NV * gate + c % NV * kTileCols * kGroup; };
    int c = 0;
    for (; c + 2 <= kColumns; c += 2) {
      const bf16* const b[2] = {columns(c), columns(c + 1)};
      two ? product<2, 2>(a, b) : product<1, 2>(a, b);
      store<kColumns>(out, c, two, true);
    }
    if (c < kColumns) {
      const bf16* const b[2] = {columns(c), nullptr};
      two ? product<2, 1>(a, b) : product<1, 1>(a, b);
      store<kColumns>(out, c, two, false);
    }
  }

 private:
  static constexpr int64_t kPairBytes = AOTC_PANEL_N * 4, kStep = kTileK * AOTC_PANEL_N;  ///< kStep: elements of a panel

  struct Rows {
    const bf16 *first, *second;  ///< of the tiles of rows
    int64_t stride_bytes, steps, left, apart;
  };

  /// What is left of rows of h behind the last whole step.
  void copy_last(const bf16* h, int64_t pitch, int64_t rows, int64_t left) {
    __builtin_memset(last_h_, 0, sizeof last_h_);
    for (int64_t r = 0; r < rows; ++r) __builtin_memcpy(last_h_[r], h + r * pitch, static_cast<size_t>(left) * 2);
  }

  /// Tiles 0 to 3: of each of R tiles of rows C tiles of columns.
  template <int R, int C>
  void product(const Rows& a, const bf16* const (&b)[2]) {
    tiles_.zero<0>(), tiles_.zero<1>(), tiles_.zero<2>(), tiles_.zero<3>();
    for (int64_t s = 0; s < a.steps; ++s)
      step<R, C>(a.first + s * kTileK, a.second + s * kTileK, a.stride_bytes, b[0] + s * kStep, C > 1 ? b[1] + s * kStep : nullptr,
                 kPairBytes);
    if (!a.left) return;
    __builtin_memset(last_w_, 0, sizeof last_w_);
    for (int c = 0; c < C; ++c)
      for (int64_t i = 0; i < (a.left + 1) / 2; ++i) __builtin_memcpy(last_w_[c][i], b[c] + a.steps * kStep + i * AOTC_PANEL_N * 2, 64);
    step<R, C>(last_h_[0], last_h_[a.apart], 64, last_w_[0], last_w_[1], 64);
  }
  template <int R, int C, class A, class B>
  void step(const A* a0, const A* a1, int64_t a_stride, const B* b0, const B* b1, int64_t b_stride) {
    tiles_.load<4>(a0, a_stride);
    tiles_.load<6>(b0, b_stride);
    tiles_.multiply<0, 4, 6>();
    if constexpr (C > 1) tiles_.load<7>(b1, b_stride), tiles_.multiply<1, 4, 7>();
    if constexpr (R > 1) tiles_.load<5>(a1, a_stride), tiles_.multiply<2, 5, 6>();
    if constexpr (R > 1 && C > 1) tiles_.multiply<3, 5, 7>();
  }
  template <int Columns>
  void store(float* const (&out)[2], int c, bool rows, bool columns) {
    constexpr int64_t stride = Columns * kTileCols * 4;
    tiles_.store<0>(out[0] + c * kTileCols, stride);
    if (columns) tiles_.store<1>(out[0] + (c + 1) * kTileCols, stride);
    if (rows) tiles_.store<2>(out[1] + c * kTileCols, stride);
    if (rows && columns) tiles_.store<3>(out[1] + (c + 1) * kTileCols, stride);
  }

  Tiles tiles_;
  alignas(64) bf16 last_h_[2 * kTileRows][kTileK];
  alignas(64) uint16_t last_w_[2][kTileRows][kTileK];
};

}  // namespace
