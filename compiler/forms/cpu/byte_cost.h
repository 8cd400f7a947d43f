#pragma once
// What products of bytes cost on a CPU (kernels/cpu/bytes.h).
#include <algorithm>

#include "forms/cpu/cost.h"

namespace aotc::forms::cpu {

/// Measured: multiply-adds a cycle, rows of a register tile.
struct ByteSpeed {
  double macs;
  int64_t rows;
};
inline ByteSpeed byte_speed(const Machine& m) {
  if (m.has(Isa::avx512_bf16)) return {58, 14};
  return m.has(Isa::avx512) ? ByteSpeed{24, 8} : ByteSpeed{19, 3};
}
inline constexpr double kByteCopyCycles = 0.04;  ///< a byte of a copied row
inline constexpr double kByteTileCycles = 60;    ///< entering and leaving a register tile
inline constexpr double kByteMemory = 6;         ///< bytes of weights that memory gives a cycle
inline constexpr double kByteShared = 16;        ///< that the last cache does

/// `rows` rows of k times panels of columns. again: the weights were read before, for other rows.
inline double byte_product_cycles(int64_t rows, int64_t panels, int64_t k, bool again, const Machine& m) {
  const ByteSpeed speed = byte_speed(m);
  const int64_t depth = ceil_div(k, 4) * 4;
  const double weights = static_cast<double>(panels * AOTC_PANEL_N * depth), tiles = static_cast<double>(ceil_div(rows, speed.rows));
  // Two sums a row hide the latency of adding to them from about four rows on.
  const double least = 4, busy = std::max(static_cast<double>(rows), least * tiles);
  const double arithmetic = weights * busy / speed.macs + tiles * static_cast<double>(panels) * kByteTileCycles;
  const double memory = weights / (weights <= static_cast<double>(m.l2_bytes) / 2 ? 32 : again ? kByteShared : kByteMemory);
  double cycles = std::max(arithmetic, memory) + 0.2 * std::min(arithmetic, memory);
  if (rows * k > m.l2_bytes / 2) cycles *= 1.1;
  return cycles;
}

}  // namespace aotc::forms::cpu
