#pragma once
// What the estimates of the CPU forms have in common. Costs are in cycles of a core until the end. What cycles things take is the
// microarchitecture's (base/uarch_cpu.def); any constant turns them into nanoseconds, since they are compared with each other only.
#include <algorithm>
#include <cstdint>

#include "aotc/detail/library_abi.h"
#include "forms/form.h"
#include "forms/roofline.h"

namespace aotc::forms::cpu {

/// Units of `cost` each such that one share is worth `enough`.
inline Expr grain_of(int64_t enough, const Expr& cost, const SymTable& syms) {
  return syms.simplify(max(1, floordiv(enough, max(1, cost))));
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t even_up(int64_t x) { return x + (x & 1); }
inline int64_t acc_bytes(DType t) { return t == DType::f64 || t == DType::i64 ? 8 : 4; }

/// The blocks of finished sums that epilogues read: `rows` of them, so many of the `cols` in whole panels as make `most` sums, at least
/// one.
struct SumBlock {
  int64_t rows, cols, most;
};
/// What the epilogues of rows x cols sums cost beside their arithmetic.
inline double epilogue_cycles(double rows, double cols, const SumBlock& b, int64_t sum_bytes, int64_t lanes, const Machine& m) {
  constexpr int64_t kPanel = AOTC_PANEL_N;
  const CpuCosts& u = cpu_costs(m);
  const int64_t panels = std::max<int64_t>(1, std::min(ceil_div(b.cols, kPanel), b.most / (std::max<int64_t>(b.rows, 1) * kPanel)));
  const bool spills = b.rows * panels * kPanel * sum_bytes > m.l1_bytes / 2;
  return rows * cols *
         (u.epilogue_row / static_cast<double>(std::min(panels * kPanel, b.cols)) +
          (spills ? u.epilogue_spill / static_cast<double>(lanes) : 0));
}

/// Lanes of the accumulation type in a vector, multiply-adds a lane does at once, rows of a register tile.
struct Lanes {
  int64_t width;
  double macs;
  int64_t mr;
};
inline Lanes lanes_of(DType t, const Machine& m) {
  const bool wide = m.has(Feature::AVX512F);
  const bool dot = t == DType::bf16 && m.has(Feature::AVX512_BF16);
  const int64_t f32 = wide ? 16 : 8;
  return {t == DType::f64 ? f32 / 2 : f32, dot ? cpu_costs(m).bf16_macs : 1.0, wide ? 14 : 6};
}

/// Vectors of columns that register tiles multiply for n of them, of `rows` rows. Of a last vector of which half is wanted they take that
/// half (kernels/cpu/micro.h), which saves its time where instructions of 512 bits go in two halves.
inline double column_vectors(int64_t n, int64_t rows, const Lanes& lanes, const Machine& m) {
  const int64_t last = n % lanes.width;
  const bool half = cpu_costs(m).halves_vectors && lanes.width == 16 && rows >= lanes.mr / 2 && last > 0 && last <= 8;
  return static_cast<double>(ceil_div(n, lanes.width)) - (half ? 0.5 : 0.0);
}

/// k a pass: chunks of about `about`, of equal length.
inline int balanced_kc(int64_t k, int64_t about) {
  return static_cast<int>(std::max<int64_t>(2, even_up(ceil_div(k, ceil_div(std::max<int64_t>(k, 1), about)))));
}

/// What the units of forms by tile registers cost beside their work: each, and the shape of the tiles once a thread.
inline double tile_unit_cycles(int64_t units, const Machine& m) {
  return static_cast<double>(units) * cpu_costs(m).unit + static_cast<double>(std::min<int64_t>(units, m.cores)) * cpu_costs(m).amx_shape;
}
/// A weight of `bytes` that is read `again` times after the first: much of that hides behind the arithmetic where L2 holds it, some else.
inline double again_cycles(int64_t bytes, int64_t batch, int64_t again, const Machine& m) {
  return static_cast<double>(bytes * batch) * static_cast<double>(again) /
         (bytes <= m.l2_bytes / 2 ? cpu_costs(m).weight_l2_bytes : cpu_costs(m).weight_far_bytes);
}

/// Refused where a thread would need too much scratch.
inline Fit fits_scratch(int64_t bytes, const Machine& m) {
  const int64_t most = cpu_costs(m).scratch_most;
  if (bytes > most) return refuse("needs {} bytes of scratch a thread, {} is allowed", bytes, most);
  return Fit::yes();
}

/// k goes in pieces of kc, kp at once.
inline Fit fits_pieces(int kc, int kp) { return kp % kc == 0 ? Fit::yes() : refuse("kp: {} is not a multiple of kc, {}", kp, kc); }

/// All xs as constants, or nullopt.
std::optional<std::vector<int64_t>> constants(const Exprs& xs);

}  // namespace aotc::forms::cpu
