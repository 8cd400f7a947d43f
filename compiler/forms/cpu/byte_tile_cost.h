#pragma once
// What products of bytes cost in tile registers (kernels/cpu/byte_tiles.h).
#include "aotc/detail/bytes_abi.h"
#include "forms/cpu/byte_cost.h"
#include "forms/cpu/tile_cost.h"

namespace aotc::forms::cpu {

/// One unit's rows x cols sums over k, with their epilogue beside its arithmetic.
inline double byte_tile_cycles(int64_t rows, int64_t cols, int64_t k, const Machine& m) {
  const int64_t steps = ceil_div(k, 64), block = std::min<int64_t>(rows, 32);
  const bool by_rows = steps * 64 * cols <= AOTC_BYTES_NEAR;
  const int64_t at_once = rows > 16 && !by_rows ? +AOTC_PANEL_N : +AOTC_BYTES_TILE_SUMS;
  const double slices = static_cast<double>(ceil_div(rows, std::max(kTileRows, ceil_div(block, steps))) * ceil_div(cols, 64));
  return tile_cycles(rows, cols, steps, m) + slices * cpu_costs(m).byte_slice +
         epilogue_cycles(static_cast<double>(rows), static_cast<double>(cols), {block, cols, at_once}, 4, 16, m);
}
/// The panels of `columns` columns from beyond the caches, for each block of rows again where they do not stay.
inline double byte_panel_cycles(int64_t columns, int64_t k, int64_t row_blocks, const Machine& m) {
  return panel_cycles(static_cast<double>(columns * aotc_bytes_depth(k)), row_blocks, m);
}

}  // namespace aotc::forms::cpu
