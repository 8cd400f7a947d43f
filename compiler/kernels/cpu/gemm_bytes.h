#pragma once
// Products of unsigned bytes with a weight of signed ones: aotc_gemm_bytes_u8 of aotc/detail/bytes_abi.h. A unit's rows are read in place
// where they may be, or copied and kept over the units that follow with the same rows.
#include "bytes.h"

namespace {

struct GemmBytes {
  const aotc_kargs* args;
  const aotc_gemm_bytes_config* cfg;
  const int64_t* size;
  int64_t m, k, m_blocks, n_blocks = 0, rs, cs, pitch;
  const uint8_t* a;
  const char* w;
  int32_t* sums;
  uint8_t* rows;      // copied
  int16_t* widened;   // of those
  int64_t kept = -1;  // which rows were copied

  explicit GemmBytes(const aotc_kargs* x)
      : args(x), cfg(static_cast<const aotc_gemm_bytes_config*>(x->config)), size(x->size), m(size[AOTC_GEMM_M]), k(size[AOTC_GEMM_K]) {
    m_blocks = ceil_div(m, cfg->mc);
    for (int s = 0; s < cfg->n_segments; ++s) n_blocks += ceil_div(segment_len(s), cfg->nc);
    rs = size[AOTC_GEMM_A_RS], cs = size[AOTC_GEMM_A_CS];
    a = static_cast<const uint8_t*>(x->ptr[cfg->a_ptr]) + size[AOTC_GEMM_A_BASE];
    w = static_cast<const char*>(x->ptr[cfg->b_ptr]);
    pitch = byte_pitch(k);
    sums = static_cast<int32_t*>(x->scratch);
    rows = reinterpret_cast<uint8_t*>(sums) + aotc_bytes_sums_bytes(cfg->mc);
    widened = reinterpret_cast<int16_t*>(rows + cfg->mc * pitch);
  }

  int64_t segment_len(int64_t s) const { return size[AOTC_GEMM_SIZES + 2 * s + 1] - size[AOTC_GEMM_SIZES + 2 * s]; }

  /// Quads end with the rows, which do not share cache sets.
  bool in_place(int64_t count) const { return ByteProducts::kInPlace && cs == 1 && k % 4 == 0 && (count <= 4 || rs % 2048 != 0); }

  void copy_rows(const uint8_t* from, int64_t count) const {
    for (int64_t r = 0; r < count; ++r) {
      uint8_t* to = rows + r * pitch;
      if (cs == 1)
        copy_bytes(to, from + r * rs, k);
      else
        for (int64_t i = 0; i < k; ++i) to[i] = from[r * rs + i * cs];
      if constexpr (!ByteProducts::kInPlace) widen_row(widened + r * pitch, to, k);
    }
  }

  void run_unit(int64_t u) {
    int64_t nb = u % n_blocks, segment = 0;
    const int64_t key = u / n_blocks, m_block = key % m_blocks, batch = key / m_blocks;
    const int64_t m0 = m_block * m / m_blocks, count = (m_block + 1) * m / m_blocks - m0;
    const char* panels = w;
    for (; nb >= ceil_div(segment_len(segment), cfg->nc); ++segment) {
      nb -= ceil_div(segment_len(segment), cfg->nc);
      panels += ceil_div(segment_len(segment), int64_t{AOTC_PANEL_N}) * 2 * byte_run(k);
    }
    const int64_t n0 = nb * cfg->nc, n1 = min_of<int64_t>(n0 + cfg->nc, segment_len(segment));
    const int64_t b1 = size[AOTC_GEMM_B1];
    const uint8_t* from = a + batch / b1 * size[AOTC_GEMM_A_B0] + batch % b1 * size[AOTC_GEMM_A_B1] + m0 * rs;
    const bool place = in_place(count);
    if (!place && kept != key) copy_rows(from, count);
    if (!place) kept = key;
    const ByteElem* x = byte_elems(place ? from : rows, widened);
    const int64_t x_pitch = place ? rs : pitch;
    const int64_t step =
        min_of<int64_t>(byte_panels_at_once(count) * AOTC_PANEL_N, ceil_div(n1 - n0, int64_t{AOTC_PANEL_N}) * AOTC_PANEL_N);
    for (int64_t j0 = n0; j0 < n1; j0 += step) {
      const int64_t j1 = min_of(j0 + step, n1);
      for (int64_t j = j0; j < j1; j += AOTC_PANEL_N)
        byte_panel(x, x_pitch, count, k, panels + j / AOTC_PANEL_N * 2 * byte_run(k), min_of<int64_t>(AOTC_PANEL_N, j1 - j),
                   sums + (j - j0), step);
      cfg->epilogues[segment](args, sums, step, batch, m0, count, j0, j1 - j0);
    }
  }

  void run(int64_t begin, int64_t end) {
    kept = held_key(args);
    for (int64_t u = begin; u < end; ++u) run_unit(u);
    hold_key(args, kept);
  }
};

}  // namespace
