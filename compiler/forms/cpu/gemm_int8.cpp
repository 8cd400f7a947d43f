// aotc_gemm_int8: products of float32 rows with int8 weights, both multiplied as bytes, where the build allows that
// (kernels/cpu/gemm_int8.h).
#include <algorithm>
#include <set>

#include "forms/cpu/cost.h"
#include "forms/cpu/few_bits.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

/// Rows of a register tile; the sums of columns are one more row.
int64_t tile_rows(const Machine& m) { return m.has(Feature::AVX512_VNNI) ? 14 : m.has(Feature::AVX512F) ? 8 : 3; }

class GemmInt8 final : public FewBitsForm {
 public:
  std::string_view name() const override { return "gemm_int8"; }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (const Fit fit = fits_int8_rows(k, s); !fit) return fit;
    const aotc_gemm_quant_config least = FewBitsBlock{1, AOTC_PANEL_N}.config();
    return fits_scratch(aotc_gemm_int8_scratch_bytes(&least, *k.k.as_const()), s.machine);
  }

  std::set<int> row_blocks(const ProductSizes& c, const Machine& machine) const override {
    const int64_t tile = tile_rows(machine);
    std::set<int> mcs;
    for (int64_t tiles : {1, 2, 4, 8, 16}) mcs.insert(static_cast<int>(std::min(c.m, tiles * tile - 1)));
    mcs.insert(1);
    if (c.m <= 256) mcs.insert(static_cast<int>(c.m));
    return mcs;
  }
  double cost_ns(const MatmulKernel&, const ProductSizes& c, const FewBitsBlock& b, const Machine& machine) const override {
    const CpuCosts& u = cpu_costs(machine);
    const auto [m_blocks, n_blocks, units, rows] = units_of(c, b.mc, b.nc);
    const int64_t tiles = ceil_div(rows + 1, tile_rows(machine));
    const int64_t columns = ceil_div(c.n, AOTC_PANEL_N) * AOTC_PANEL_N * c.segments, panels = columns / AOTC_PANEL_N;
    const double batch = static_cast<double>(c.batch), weights = static_cast<double>(columns * c.k);
    const double arithmetic =
        weights * static_cast<double>((rows + 1) * m_blocks) / u.int8_macs + static_cast<double>(tiles * m_blocks * panels) * u.byte_tile;
    const double memory =
        weights / u.byte_memory_bytes + weights * static_cast<double>(m_blocks - 1) / u.byte_l3_bytes;  // for each block of rows again
    double cycles = batch * overlapped(arithmetic, memory, u.shorter_shown);
    // Rows are kept over the columns; each thread rounds its own.
    cycles += batch * static_cast<double>(c.m) * (u.int8_round * static_cast<double>(c.k) + u.int8_row) *
              static_cast<double>(std::min<int64_t>(machine.cores, n_blocks));
    if (rows * c.k * (machine.has(Feature::AVX512_VNNI) ? 1 : 2) > machine.l2_bytes / 2) cycles *= u.rows_beyond_l2;
    cycles += static_cast<double>(units) * u.unit;
    cycles += u.epilogue_call * static_cast<double>(m_blocks * panels * c.batch);
    return shared_ns(cycles, units, machine);
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override { return int8_contract(k, s); }
  int64_t scratch_bytes(const FewBitsBlock& b, int64_t k) const override {
    const aotc_gemm_quant_config g = b.config();
    return aotc_gemm_int8_scratch_bytes(&g, k);
  }
};

}  // namespace

Fit fits_int8_rows(const MatmulKernel& k, const Site& s) {
  if (!k.b_quantised || k.b_quantised->bits != 8) return {false, ""};
  if (!s.numerics.int8_rows) return refuse("it rounds rows to 8 bits; --activations int8 allows it");
  const loop::QuantisedWeight& q = *k.b_quantised;
  const int64_t depth = *k.k.as_const();
  if (q.group < depth || q.offsets != kNone<loop::ParamId>) return refuse("the weight has more than one scale a column");
  if (depth > AOTC_INT8_MAX_K) return refuse("k is {}: 32 bits hold sums of {}", depth, int{AOTC_INT8_MAX_K});
  return fits_few_bits(k);
}

std::string int8_contract(const MatmulKernel& k, const Site& s) {
  const ProductSizes c = product_sizes(k, s.syms);
  return fmt::format("gemm_int8 b{} m{} n{} k{} s{}{}{}", c.batch, c.m, c.n, c.k, c.segments, c.a_rows_contiguous ? "" : " a-strided",
                     k.a.prologue ? " a-made" : "");
}

const Form& gemm_int8() { return instance<GemmInt8>(); }

}  // namespace aotc::forms::cpu
