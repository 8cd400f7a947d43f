#pragma once
// What products of bytes cost on a CPU (kernels/cpu/bytes.h).
#include <algorithm>

#include "forms/cpu/cost.h"

namespace aotc::forms::cpu {

/// Multiply-adds a cycle, rows of a register tile.
struct ByteSpeed {
  double macs;
  int64_t rows;
};
inline ByteSpeed byte_speed(const Machine& m) {
  return {cpu_costs(m).byte_macs, m.has(Feature::AVX512_VNNI) ? 14 : m.has(Feature::AVX512F) ? 8 : 3};
}

/// `rows` rows of k times panels of columns. again: the weights were read before, for other rows.
inline double byte_product_cycles(int64_t rows, int64_t panels, int64_t k, bool again, const Machine& m) {
  const CpuCosts& u = cpu_costs(m);
  const ByteSpeed speed = byte_speed(m);
  const int64_t depth = ceil_div(k, 4) * 4;
  const double weights = static_cast<double>(panels * AOTC_PANEL_N * depth), tiles = static_cast<double>(ceil_div(rows, speed.rows));
  const double busy = std::max(static_cast<double>(rows), u.byte_least_rows * tiles);
  const double arithmetic = weights * busy / speed.macs + tiles * static_cast<double>(panels) * u.byte_tile;
  const double memory = weights / (weights <= static_cast<double>(m.l2_bytes) / 2 ? u.byte_l2_bytes
                                   : again                                        ? u.byte_l3_bytes
                                                                                  : u.byte_memory_bytes);
  double cycles = overlapped(arithmetic, memory, u.shorter_shown);
  if (rows * k > m.l2_bytes / 2) cycles *= u.rows_beyond_l2;
  return cycles;
}

}  // namespace aotc::forms::cpu
