#pragma once
// The work units, rows and weights of products with weights of few bits (aotc_gemm_quant_config of aotc/detail/library_abi.h).
#include "aotc/detail/quant_abi.h"
#include "ints.h"

namespace {

constexpr int64_t kBlock = AOTC_QUANT_BLOCK;
constexpr int kQuads = AOTC_QUANT_BLOCK / 4;         // four values of k of a column lie side by side
constexpr int64_t kRun = AOTC_QUANT_LANES * kBlock;  // weights of a block of one run of columns

/// Scales or offsets of columns, bf16 or float32; none where `at` is null.
struct ColumnNumbers {
  const char* at;
  bool wide;  ///< float32
  ColumnNumbers from(int64_t column) const { return {at + column * (wide ? 4 : 2), wide}; }
  /// Of so many columns at least, from the first on.
  Floats::V load(int64_t columns) const {
    if (wide) {
      const auto* p = reinterpret_cast<const float*>(at);
      if (columns >= kLanes) return Floats::load(p);
      float some[kLanes] = {};
      for (int64_t i = 0; i < columns; ++i) some[i] = p[i];
      return Floats::load(some);
    }
    const auto* p = reinterpret_cast<const bf16*>(at);
    if (columns >= kLanes) return load_half(p);
    bf16 some[kLanes] = {};
    for (int64_t i = 0; i < columns; ++i) some[i] = p[i];
    return load_half(some);
  }
};

struct QuantUnits {
  const aotc_kargs* args;
  const aotc_gemm_quant_config* cfg;
  const int64_t* size;
  int64_t m, k, m_blocks, n_blocks = 0;
  const float* a;
  const char* w;
  ColumnNumbers scales, offsets;
  int bits;  // of a value

  /// One work unit in coordinates: columns from the segment's begin.
  struct Unit {
    int64_t batch, segment, m0, rows, n0, n1;
    int64_t rows_key;    // equal for units with the same rows
    const char* panels;  // of the segment
  };

  explicit QuantUnits(const aotc_kargs* x) : args(x), cfg(static_cast<const aotc_gemm_quant_config*>(x->config)), size(x->size) {
    m = size[AOTC_GEMM_M];
    k = size[AOTC_GEMM_K];
    m_blocks = ceil_div(m, cfg->mc);
    for (int s = 0; s < cfg->n_segments; ++s) n_blocks += ceil_div(segment_len(s), cfg->nc);
    a = cfg->a_prologue ? nullptr : static_cast<const float*>(x->ptr[cfg->a_ptr]) + size[AOTC_GEMM_A_BASE];
    w = static_cast<const char*>(x->ptr[cfg->values_ptr]);
    const bool wide = cfg->bits & AOTC_QUANT_WIDE_SCALES;
    bits = cfg->bits & ~AOTC_QUANT_WIDE_SCALES;
    scales = {static_cast<const char*>(x->ptr[cfg->scales_ptr]), wide};
    offsets = {cfg->offsets_ptr < 0 ? nullptr : static_cast<const char*>(x->ptr[cfg->offsets_ptr]), wide};
  }

  int64_t segment_len(int64_t s) const { return size[AOTC_GEMM_SIZES + 2 * s + 1] - size[AOTC_GEMM_SIZES + 2 * s]; }
  int64_t columns_bytes(int64_t columns) const {
    return ceil_div(columns, AOTC_PANEL_N) * AOTC_PANEL_N * ceil_div(k, kBlock) * kBlock * bits / 8;
  }
  /// Columns that are computed before their epilogue: so many that the sums stay in L1.
  int64_t epilogue_columns(int64_t rows) const {
    return min_of<int64_t>(cfg->nc, max_of<int64_t>(1, 4096 / (rows * AOTC_PANEL_N)) * AOTC_PANEL_N);
  }

  Unit at(int64_t u) const {
    Unit r;
    int64_t nb = u % n_blocks;
    const int64_t m_block = u / n_blocks % m_blocks;
    r.rows_key = u / n_blocks;
    r.batch = r.rows_key / m_blocks;
    r.m0 = m_block * m / m_blocks;
    r.rows = (m_block + 1) * m / m_blocks - r.m0;
    r.panels = w;
    for (r.segment = 0; nb >= ceil_div(segment_len(r.segment), cfg->nc); ++r.segment) {
      nb -= ceil_div(segment_len(r.segment), cfg->nc);
      r.panels += columns_bytes(segment_len(r.segment));
    }
    r.n0 = nb * cfg->nc;
    r.n1 = min_of<int64_t>(r.n0 + cfg->nc, segment_len(r.segment));
    return r;
  }

  /// Row `i`: where it lies, if it may be read `in_place`, or made in `room`, of whole blocks, what is behind k as it was.
  const float* float_row(int64_t batch, int64_t i, float* room, bool in_place) const {
    if (cfg->a_prologue) {
      cfg->a_prologue(args, batch, i, 1, 0, k, room, ceil_div(k, kBlock) * kBlock);
      return room;
    }
    const int64_t b1 = size[AOTC_GEMM_B1], cs = size[AOTC_GEMM_A_CS];
    const float* src = a + batch / b1 * size[AOTC_GEMM_A_B0] + batch % b1 * size[AOTC_GEMM_A_B1] + i * size[AOTC_GEMM_A_RS];
    if (cs == 1 && in_place) return src;
    for (int64_t j = 0; j < k; ++j) room[j] = src[j * cs];
    return room;
  }
};

}  // namespace
