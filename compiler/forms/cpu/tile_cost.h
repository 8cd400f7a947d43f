#pragma once
// What the estimates of the forms by tile registers have in common.
#include <algorithm>

#include "forms/cpu/cost.h"

namespace aotc::forms::cpu {

inline constexpr int64_t kTileRows = 16;  ///< of a tile register

/// One unit's rows x cols sums over `steps` steps of 32. feed: share of its speed that the tile unit has beside what the caches cost.
/// row_bytes: that a row takes in memory, where rows do not share any (0: all of its steps).
inline double tile_cycles(int64_t rows, int64_t cols, int64_t steps, const Machine& machine, double feed = 1, int64_t row_bytes = 0) {
  const CpuCosts& u = cpu_costs(machine);
  const double tile = rows < kTileRows ? std::max(u.amx_least, static_cast<double>(rows)) : u.amx_tile;
  const int64_t block_bytes = steps * 2048;  // of 32 rows, and of 32 columns
  feed *= 2 * block_bytes <= machine.l1_bytes ? u.amx_near : block_bytes <= machine.l1_bytes / 2 ? u.amx_half_near : u.amx_far;
  // Rows that do not stay in L2 from panel to panel.
  if (rows > 32 && rows * (row_bytes ? row_bytes : steps * 64) + 2 * block_bytes > machine.l2_bytes / 4 * 3) feed /= u.amx_rows_beyond_l2;
  return static_cast<double>(ceil_div(rows, kTileRows) * ceil_div(cols, 16) * steps) * tile / feed +
         static_cast<double>(ceil_div(rows, 32) * ceil_div(cols, 32)) * u.amx_block;
}
inline bool panels_stay(double weight_bytes, const Machine& machine) { return weight_bytes <= static_cast<double>(machine.l2_bytes) / 2; }
/// Panels of a weight come from beyond L2, for each block of rows again where they are too many to stay.
inline double panel_cycles(double weight_bytes, int64_t row_blocks, const Machine& machine) {
  return weight_bytes * (panels_stay(weight_bytes, machine) ? 1.0 : static_cast<double>(row_blocks)) / cpu_costs(machine).amx_l3_bytes;
}
/// Products in tiles and the panels that they read. The kernels ask for the next panel while a unit of more than 32 rows is multiplied by
/// this one; panels that do not stay take all that L3 gives.
inline double fed_cycles(double tiles, double weight_bytes, int64_t row_blocks, int64_t rows, const Machine& machine) {
  const double panels = panel_cycles(weight_bytes, row_blocks, machine);
  return tiles + panels - (rows > 32 && panels_stay(weight_bytes, machine) ? cpu_costs(machine).amx_hidden * std::min(tiles, panels) : 0);
}

}  // namespace aotc::forms::cpu
