#pragma once
// Products of unsigned bytes with a weight of signed ones: aotc_gemm_bytes_u8 of aotc/detail/bytes_abi.h. A unit's rows are read in place
// where they may be, or copied and kept over the units that follow with the same rows.
#include "bytes.h"

namespace {

struct GemmBytes : ByteUnits {
  int64_t pitch;
  int32_t* sums;
  uint8_t* rows;      // copied
  int16_t* widened;   // of those
  int64_t kept = -1;  // which rows were copied

  explicit GemmBytes(const aotc_kargs* x) : ByteUnits(x) {
    pitch = byte_pitch(k);
    sums = static_cast<int32_t*>(x->scratch);
    rows = reinterpret_cast<uint8_t*>(sums) + aotc_bytes_sums_bytes(cfg->mc);
    widened = reinterpret_cast<int16_t*>(rows + cfg->mc * pitch);
  }

  /// Quads end with the rows, which do not share cache sets.
  bool in_place(int64_t count) const { return ByteProducts::kInPlace && cs == 1 && k % 4 == 0 && (count <= 4 || rs % 2048 != 0); }

  void copy(const Unit& u) {
    copy_rows(rows, pitch, u.from, u.rows);
    if constexpr (!ByteProducts::kInPlace)
      for (int64_t r = 0; r < u.rows; ++r) widen_row(widened + r * pitch, rows + r * pitch, k);
    kept = u.key;
  }

  void run_unit(const Unit& u) {
    const bool place = in_place(u.rows);
    if (!place && kept != u.key) copy(u);
    const ByteElem* x = byte_elems(place ? u.from : rows, widened);
    const int64_t x_pitch = place ? rs : pitch;
    const int64_t step =
        min_of<int64_t>(byte_panels_at_once(u.rows) * AOTC_PANEL_N, ceil_div(u.n1 - u.n0, int64_t{AOTC_PANEL_N}) * AOTC_PANEL_N);
    for (int64_t j0 = u.n0; j0 < u.n1; j0 += step) {
      const int64_t j1 = min_of(j0 + step, u.n1);
      for (int64_t j = j0; j < j1; j += AOTC_PANEL_N)
        byte_panel(x, x_pitch, u.rows, k, u.panels + j / AOTC_PANEL_N * byte_panel_bytes(k), min_of<int64_t>(AOTC_PANEL_N, j1 - j),
                   sums + (j - j0), step);
      finish(u.segment, sums, step, u.batch, u.m0, u.rows, j0, j1 - j0);
    }
  }

  void run(int64_t begin, int64_t end) {
    kept = held_key(args);
    for (int64_t u = begin; u < end; ++u) run_unit(at(u));
    hold_key(args, kept);
  }
};

}  // namespace
