#pragma once
// Products with a weight by Strassen's seven products of halves instead of eight: aotc_gemm_strassen_f32 of aotc/detail/library_abi.h.
//
// A unit's rows go in pairs of register tiles, its columns in pairs of panels, k in blocks of two halves. Of each block of A the seven left
// sides lie packed, kept over the units that follow with the same rows; the right sides are B's panels and what is made of them once for
// all rows of a unit. Each product of a tile is added where it belongs in the unit's sums. Block by block so that sums stay short: the
// rounding of the sides and of the parts that cancel grows with them.
#include "aotc/detail/strassen_abi.h"
#include "gemm_units.h"
#include "panels.h"

namespace {

/// The four quarters of a block: of A (row half, k half), of B (k half, panel), of the sums (row half, panel).
enum Quarter { k11, k12, k21, k22, kNoQuarter };

/// (x + sign * y), or x alone.
struct Side {
  Quarter x, y;
  int sign;
};
/// left * right, added to `to`, and added to or subtracted from `also`.
struct PartProduct {
  Side left, right;
  Quarter to, also;
  int sign;
};
constexpr int kParts = AOTC_STRASSEN_PRODUCTS;
constexpr int64_t kLd = 2 * AOTC_PANEL_N;  ///< of the sums of a pair of panels
constexpr PartProduct kPart[kParts] = {
    {{k11, k22, 1}, {k11, k22, 1}, k11, k22, 1},         {{k21, k22, 1}, {k11, kNoQuarter, 0}, k21, k22, -1},
    {{k11, kNoQuarter, 0}, {k12, k22, -1}, k12, k22, 1}, {{k22, kNoQuarter, 0}, {k21, k11, -1}, k11, k21, 1},
    {{k11, k12, 1}, {k22, kNoQuarter, 0}, k12, k11, -1}, {{k21, k11, -1}, {k11, k12, 1}, k22, kNoQuarter, 0},
    {{k12, k22, -1}, {k21, k22, 1}, k11, kNoQuarter, 0},
};

/// The sums of a tile of MR rows and two vectors over `steps` of k, a packed [steps][MR], b AOTC_PANEL_N elements a step: added to c, and
/// to `also` where that is not null, times `sign`, rows kLd apart. pf: prefetched, pf_step bytes a step.
struct PartTile {
  int64_t steps;
  const float *a, *b;
  const float* b2;  ///< the right side is b + b2, or b - b2, made here and left in `made`
  float* made;
  float *c, *also;
  float sign;
  const char* pf;
  int64_t pf_step;
};

/// kMake: 0: b is the right side; 1, -1: it is made of b and b2.
template <int MR, int kMake>
__attribute__((noinline)) void part_tile(const PartTile& t) {
  using V = Vec<float>::V;
  constexpr int W = Vec<float>::kLanes;
  V acc[MR][2];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) acc[i][0] = acc[i][1] = Vec<float>::zero();
  const float *a = t.a, *b = t.b, *b2 = t.b2;
  float* made = t.made;
  const char* pf = t.pf;
  auto step = [&]() __attribute__((always_inline)) {
    V b0 = Vec<float>::load(b), b1 = Vec<float>::load(b + W);
    if constexpr (kMake != 0) {
      const V y0 = Vec<float>::load(b2), y1 = Vec<float>::load(b2 + W);
      b0 = kMake > 0 ? b0 + y0 : b0 - y0, b1 = kMake > 0 ? b1 + y1 : b1 - y1;
      Vec<float>::store(made, b0), Vec<float>::store(made + W, b1);
      b2 += AOTC_PANEL_N, made += AOTC_PANEL_N;
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const V x = Vec<float>::set1(a[i]);
      acc[i][0] = Vec<float>::fma(x, b0, acc[i][0]);
      acc[i][1] = Vec<float>::fma(x, b1, acc[i][1]);
    }
    a += MR, b += AOTC_PANEL_N;
  };
  int64_t s = 0;
  for (; s + 2 <= t.steps; s += 2) {
#pragma GCC unroll 2
    for (int u = 0; u < 2; ++u) {
      _mm_prefetch(pf, _MM_HINT_T1);
      _mm_prefetch(pf + 64, _MM_HINT_T1);
      step();
      pf += t.pf_step;
    }
  }
  for (; s < t.steps; ++s) step();
    // Values of their own from here on: what follows must not take registers from the loop before.
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) asm("" : "+v"(acc[i][j]));
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      float* at = t.c + i * kLd + j * W;
      Vec<float>::store(at, Vec<float>::load(at) + acc[i][j]);
    }
  if (!t.also) return;
  const V sign = Vec<float>::set1(t.sign);
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      float* at = t.also + i * kLd + j * W;
      Vec<float>::store(at, Vec<float>::fma(acc[i][j], sign, Vec<float>::load(at)));
    }
}

struct PartTable {
  void (*fn[kMaxMr][3])(const PartTile&);  // as b is; a sum; a difference
  template <int MR>
  constexpr void fill() {
    fn[MR - 1][0] = part_tile<MR, 0>, fn[MR - 1][1] = part_tile<MR, 1>, fn[MR - 1][2] = part_tile<MR, -1>;
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr PartTable() : fn{} { fill<kMaxMr>(); }
};
inline constexpr PartTable kPartTile{};

/// dst[i] = x[i] + sign * y[i] of n elements, a multiple of 16.
inline void combine(const float* x, const float* y, int sign, int64_t n, float* dst) {
  constexpr int W = Vec<float>::kLanes;
  if (sign > 0)
    for (int64_t i = 0; i < n; i += W) Vec<float>::store(dst + i, Vec<float>::load(x + i) + Vec<float>::load(y + i));
  else
    for (int64_t i = 0; i < n; i += W) Vec<float>::store(dst + i, Vec<float>::load(x + i) - Vec<float>::load(y + i));
}

struct StrassenRun {
  using Unit = GemmUnits::Unit;
  static constexpr int W = Vec<float>::kLanes;

  const aotc_kargs* args;
  const aotc_gemm_config* cfg;
  const int64_t* size;
  GemmUnits units;
  int64_t m, k, mr, k_blocks;
  const float *a, *b;
  int64_t a_rs, a_cs;
  float *left, *quarters, *right, *sums, *a_rows;
  int64_t a_key = -1;

  explicit StrassenRun(const aotc_kargs* x) : args(x), cfg(static_cast<const aotc_gemm_config*>(x->config)), size(x->size), units(x) {
    m = size[AOTC_GEMM_M];
    k = size[AOTC_GEMM_K];
    mr = min_of<int64_t>(cfg->mr, kMaxMr);
    k_blocks = ceil_div(k, cfg->kc);
    a = cfg->a_prologue ? nullptr : static_cast<const float*>(x->ptr[cfg->a_ptr]) + size[AOTC_GEMM_A_BASE];
    b = static_cast<const float*>(x->ptr[cfg->b_ptr]) + size[AOTC_GEMM_B_BASE];
    a_rs = cfg->a_prologue ? k + 16 : size[AOTC_GEMM_A_RS];
    a_cs = cfg->a_prologue ? 1 : size[AOTC_GEMM_A_CS];
    const aotc_gemm_strassen_rooms rooms = aotc_gemm_strassen_rooms_of(cfg, k);
    left = static_cast<float*>(x->scratch);
    quarters = left + rooms.left;
    right = quarters + rooms.quarters;
    sums = right + rooms.right;
    a_rows = sums + rooms.sums;
  }

  /// Where block i of k begins; each has an even length of at most kc.
  int64_t k_at(int64_t i) const { return i * (k / 2) / k_blocks * 2; }
  int64_t pairs_of(int64_t rows) const { return ceil_div(rows, 2 * mr); }
  /// Where row pair t begins: all but the last have as many rows above as below.
  int64_t row_at(int64_t t, int64_t rows) const {
    const int64_t pairs = pairs_of(rows);
    return t == pairs ? rows : t * ((rows + 1) / 2) / pairs * 2;
  }

  /// The left sides of part p of block i, of the row pair that begins at r0.
  float* left_at(int64_t i, int p, int64_t r0, int64_t even) const {
    const int64_t k0 = k_at(i), half = (k_at(i + 1) - k0) / 2;
    return left + kParts * (k0 / 2 * (even / 2)) + (p * (even / 2) + r0 / 2) * half;
  }

  /// The left sides of all blocks of k: [block][part][pair][step][rows of a half], in the order in which they are multiplied.
  void pack_left(const float* src, const Unit& u) {
    const int64_t rows = u.rows(), pairs = pairs_of(rows), even = rows + (rows & 1);
    for (int64_t t = 0; t < pairs; ++t) {
      const int64_t r0 = row_at(t, rows), r1 = row_at(t + 1, rows), h = (r1 - r0 + 1) / 2, low = r1 - r0 - h;
      if (cfg->a_prologue) cfg->a_prologue(args, u.batch, u.m0 + r0, r1 - r0, 0, k, a_rows, a_rs);
      const float* from = cfg->a_prologue ? a_rows : src + r0 * a_rs;
      for (int64_t i = 0; i < k_blocks; ++i) {
        const int64_t k0 = k_at(i), half = (k_at(i + 1) - k0) / 2, n = half * h, pitch = (n + 31) / 16 * 16;
        for (int q = k11; q <= k22; ++q) {
          const float* at = from + (q >= k21 ? h * a_rs : 0) + (k0 + (q & 1) * half) * a_cs;
          float* dst = quarters + q * pitch;
          if (q < k21 || low == h) {
            pack_rows(at, a_rs, a_cs, h, half, dst);
          } else {  // a row less
            for (int64_t kk = 0; kk < half; ++kk) {
              for (int64_t r = 0; r < low; ++r) dst[kk * h + r] = at[r * a_rs + kk * a_cs];
              dst[kk * h + low] = 0;
            }
          }
        }
        for (int p = 0; p < kParts; ++p) {
          const Side& s = kPart[p].left;
          float* dst = left_at(i, p, r0, even);
          const float *x = quarters + s.x * pitch, *y = quarters + s.y * pitch;
          int64_t j = 0;
          if (s.y == kNoQuarter) {
            for (; j < n; ++j) dst[j] = x[j];
          } else {
            j = n / 16 * 16;
            combine(x, y, s.sign, j, dst);
            for (; j < n; ++j) dst[j] = x[j] + static_cast<float>(s.sign) * y[j];
          }
        }
      }
    }
  }

  /// Two panels of B, or the last one alone, from row k0 of B on: a block of k.
  struct Block {
    int64_t i, k0, half;
    const float* quarter[4];  ///< null where the second panel is none
    Block(const StrassenRun& run, int64_t number, const float* panels, bool two)
        : i(number), k0(run.k_at(i)), half((run.k_at(i + 1) - k0) / 2) {
      quarter[k11] = panels + k0 * AOTC_PANEL_N;
      quarter[k21] = quarter[k11] + half * AOTC_PANEL_N;
      quarter[k12] = two ? quarter[k11] + run.k * AOTC_PANEL_N : nullptr;
      quarter[k22] = two ? quarter[k21] + run.k * AOTC_PANEL_N : nullptr;
    }
    bool two() const { return quarter[k12]; }
  };

  /// The products of a block with all rows of the unit, added to the sums; `vecs` of a panel. The block at `next` is brought to L2
  /// meanwhile.
  void multiply(const Block& block, int64_t rows, int64_t vecs, const float* next) {
    const int64_t pairs = pairs_of(rows), even = rows + (rows & 1), half = block.half;
    constexpr int64_t kRowBytes = AOTC_PANEL_N * sizeof(float);
    for (int p = 0; p < kParts; ++p) {
      const PartProduct& part = kPart[p];
      if (!block.two() && part.to & 1) continue;
      const float *x = block.quarter[part.right.x], *y = part.right.y == kNoQuarter ? nullptr : block.quarter[part.right.y];
      const bool has_also = part.also != kNoQuarter && (block.two() || !(part.also & 1));
      const int64_t step = p < 4 ? kRowBytes / pairs : 0;
      const char* ahead = reinterpret_cast<const char*>(p < 4 ? next + ((p & 1) * half + (p & 2 ? k : 0)) * AOTC_PANEL_N : x);
      for (int64_t v = 0; v < vecs; v += 2)
        for (int64_t t = 0; t < pairs; ++t) {
          const int64_t r0 = row_at(t, rows), h = (row_at(t + 1, rows) - r0 + 1) / 2;
          float* at = sums + r0 * kLd + v * W;
          const auto of = [&](Quarter q) { return at + (q >= k21 ? h * kLd : 0) + (q & 1 ? AOTC_PANEL_N : 0); };
          const bool makes = y && t == 0;
          PartTile tile;
          tile.steps = half;
          tile.a = left_at(block.i, p, r0, even);
          tile.b = (makes || !y ? x : right) + v * W, tile.b2 = makes ? y + v * W : nullptr, tile.made = right + v * W;
          tile.c = of(part.to), tile.also = has_also ? of(part.also) : nullptr;
          tile.sign = static_cast<float>(part.sign);
          tile.pf = ahead + t * step * half, tile.pf_step = step;
          kPartTile.fn[h - 1][!makes ? 0 : part.right.sign > 0 ? 1 : 2](tile);
        }
    }
  }

  void run_unit(const Unit& u) {
    const int64_t rows = u.rows(), cols = u.cols();
    const int64_t b1 = size[AOTC_GEMM_B1], i0 = u.batch / b1, i1 = u.batch % b1;
    if (a_key != units.a_key(u))
      pack_left(cfg->a_prologue ? nullptr : a + i0 * size[AOTC_GEMM_A_B0] + i1 * size[AOTC_GEMM_A_B1] + u.m0 * a_rs, u);
    a_key = units.a_key(u);
    const float* b_src = b + i0 * size[AOTC_GEMM_B_B0] + i1 * size[AOTC_GEMM_B_B1] + (units.panel_columns_before(u.segment) + u.n0) * k;
    const Finish finish = kFinishes<float> && cfg->finishes ? Finish(args, cfg->finishes + u.segment) : Finish();
    for (int64_t j0 = 0; j0 < cols; j0 += kLd) {
      const int64_t width = min_of(kLd, cols - j0), vecs = ceil_div(min_of<int64_t>(width, AOTC_PANEL_N), W);
      const float *panels = b_src + j0 * k, *after = panels + (width > AOTC_PANEL_N ? 2 : 1) * k * AOTC_PANEL_N;
      for (int64_t i = 0; i < (rows + (rows & 1)) * kLd; i += W) Vec<float>::store(sums + i, Vec<float>::zero());
      for (int64_t i = 0; i < k_blocks; ++i)
        multiply(Block(*this, i, panels, width > AOTC_PANEL_N), rows, vecs, i + 1 < k_blocks ? panels + k_at(i + 1) * AOTC_PANEL_N : after);
      if (finish.n)
        finish_rows(finish, u.m0, rows, u.n0 + j0, width);
      else
        cfg->epilogues[u.segment](args, sums, kLd, u.batch, u.m0, rows, u.n0 + j0, width);
    }
  }

  /// Four rows, or one, of two vectors, or one, at a time: they are in L1.
  template <int MR, int NV>
  static void finish_block([[maybe_unused]] const float* at, [[maybe_unused]] const TileFinish& fin) {
    if constexpr (kFinishes<float>) {
      Vec<float>::V v[MR][NV];
#pragma GCC unroll 4
      for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) v[i][j] = Vec<float>::load(at + i * kLd + j * W);
      finish_tile<0>(v, fin);
    }
  }
  void finish_rows(const Finish& finish, int64_t m0, int64_t rows, int64_t n0, int64_t width) {
    const int64_t vecs = ceil_div(width, W);
    for (int64_t v = 0; v < vecs; v += 2) {
      const bool one = v + 1 == vecs;
      const int64_t last = min_of<int64_t>(W, width - (v + 1 - one) * W);
      for (int64_t r = 0; r < rows;) {
        const int64_t step = r + 4 <= rows ? 4 : 1;
        const TileFinish fin = {&finish, m0 + r, n0 + v * W, last};
        (step == 4 ? one ? finish_block<4, 1> : finish_block<4, 2>
         : one ? finish_block<1, 1>
                   : finish_block<1, 2>)(sums + r * kLd + v * W, fin);
        r += step;
      }
    }
  }

  void run(int64_t begin, int64_t end) {
    a_key = held_key(args);
    for (int64_t i = begin; i < end; ++i) run_unit(units.at(i));
    hold_key(args, a_key);
  }
};

}  // namespace
