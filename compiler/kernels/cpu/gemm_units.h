#pragma once
// The work units of a matrix product (aotc_gemm_* of aotc/detail/library_abi.h): which block of which batch element a number stands for.
#include "simd.h"

namespace {

struct GemmUnits {
  const aotc_gemm_config* cfg;
  const int64_t* size;
  int64_t m, m_blocks;
  int64_t n_blocks = 0;               // of all segments
  const int64_t* run_ends = nullptr;  // of rows in runs
  bool columns_fastest;               // the units that follow have the same rows (A's copy is kept), else the same columns

  /// One work unit in coordinates.
  struct Unit {
    int64_t batch, segment, m0, m1, n0, n1, m_block, n_block;  // n from the segment's begin
    int64_t matrix;                                            // of B, of rows in runs; they may be none
    int64_t rows() const { return m1 - m0; }
    int64_t cols() const { return n1 - n0; }
  };

  explicit GemmUnits(const aotc_kargs* args) : cfg(static_cast<const aotc_gemm_config*>(args->config)), size(args->size) {
    m = size[AOTC_GEMM_M];
    m_blocks = ceil_div(m, cfg->mc);
    if (cfg->in_runs) {
      run_ends = static_cast<const int64_t*>(args->ptr[cfg->ends_ptr]);
      m_blocks = m / cfg->mc + min_of(m, size[AOTC_GEMM_RUNS]);
    }
    columns_fastest = cfg->b_packed || (cfg->a_prologue && !cfg->b_prologue);
    for (int s = 0; s < cfg->n_segments; ++s) n_blocks += ceil_div(segment_len(s), cfg->nc);
  }

  int64_t segment_begin(int64_t s) const { return size[AOTC_GEMM_SIZES + 2 * s]; }
  int64_t segment_len(int64_t s) const { return size[AOTC_GEMM_SIZES + 2 * s + 1] - size[AOTC_GEMM_SIZES + 2 * s]; }
  /// Columns in panel form before those of a segment.
  int64_t panel_columns_before(int64_t segment) const {
    int64_t n = 0;
    for (int64_t s = 0; s < segment; ++s) n += ceil_div(segment_len(s), AOTC_PANEL_N) * AOTC_PANEL_N;
    return n;
  }

  Unit at(int64_t number) const {
    Unit u;
    int64_t nb, left = number;
    if (columns_fastest) {
      nb = left % n_blocks, left /= n_blocks;
      u.m_block = left % m_blocks, left /= m_blocks;
    } else {
      u.m_block = left % m_blocks, left /= m_blocks;
      nb = left % n_blocks, left /= n_blocks;
    }
    u.batch = left;
    u.n_block = nb;
    u.matrix = 0;
    u.m0 = u.m_block * m / m_blocks;
    u.m1 = (u.m_block + 1) * m / m_blocks;
    if (run_ends) place_in_run(u);
    int64_t s = 0, blocks;
    for (;; ++s) {
      blocks = ceil_div(segment_len(s), cfg->nc);
      if (nb < blocks) break;
      nb -= blocks;
    }
    const int64_t len = segment_len(s), panels = ceil_div(len, AOTC_PANEL_N);
    u.segment = s;
    u.n0 = nb * panels / blocks * AOTC_PANEL_N;
    u.n1 = min_of<int64_t>((nb + 1) * panels / blocks * AOTC_PANEL_N, len);
    return u;
  }
  /// Blocks of rows are those of the first run, then those of the next; what is left of the number of blocks has no rows.
  void place_in_run(Unit& u) const {
    int64_t begin = 0, left = u.m_block;
    for (int64_t run = 0; run < size[AOTC_GEMM_RUNS]; ++run) {
      const int64_t end = run + 1 == size[AOTC_GEMM_RUNS] ? m : min_of(max_of(run_ends[run], begin), m);
      const int64_t len = end - begin, blocks = ceil_div(len, cfg->mc);
      if (left < blocks) {
        u.matrix = run, u.m0 = begin + left * len / blocks, u.m1 = begin + (left + 1) * len / blocks;
        return;
      }
      left -= blocks, begin = end;
    }
    u.m0 = u.m1 = m;
  }
  /// Equal for units with the same rows of A, the same columns of B.
  int64_t a_key(const Unit& u) const { return u.batch * m_blocks + u.m_block; }
  int64_t b_key(const Unit& u) const { return (u.batch + u.matrix) * n_blocks + u.n_block; }
};

}  // namespace
