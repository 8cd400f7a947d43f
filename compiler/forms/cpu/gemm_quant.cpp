// aotc_gemm_quant: products of float32 rows with weights of few bits, by integer dot products (kernels/cpu/gemm_quant.h).
#include <algorithm>
#include <set>

#include "forms/cpu/cost.h"
#include "forms/cpu/few_bits.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

/// Rows of a register tile.
int64_t tile_rows(const Machine& m) { return m.has(Feature::AVX512_VNNI) ? 6 : m.has(Feature::AVX512F) ? 4 : 2; }

class GemmQuant final : public FewBitsForm {
 public:
  std::string_view name() const override { return "gemm_quant"; }

 protected:
  Fit fits(const MatmulKernel& k, const Site&) const override {
    if (!k.b_quantised || k.b_quantised->bits == 16) return {false, ""};
    if (k.ordered) return refuse("its sums are not in the order of k");
    return fits_few_bits(k);
  }

  std::set<int> row_blocks(const ProductSizes& c, const Machine&) const override {
    std::set<int> mcs;
    for (int64_t rows : {1, 2, 4, 6, 12, 24, 48, 96}) mcs.insert(static_cast<int>(std::min(c.m, rows)));
    return mcs;
  }
  double cost_ns(const MatmulKernel& kernel, const ProductSizes& c, const FewBitsBlock& b, const Machine& machine) const override {
    const CpuCosts& u = cpu_costs(machine);
    const auto [m_blocks, n_blocks, units, rows] = units_of(c, b.mc, b.nc);
    const int64_t tiles = ceil_div(rows, tile_rows(machine)) * m_blocks;
    const double weights = static_cast<double>(ceil_div(c.n, AOTC_PANEL_N) * AOTC_PANEL_N * c.segments) * static_cast<double>(c.k);
    const double batch = static_cast<double>(c.batch);
    // A tile of few rows waits for its weights, and does not hide them behind arithmetic.
    const double arithmetic = weights * static_cast<double>(c.m) / u.quant_macs,
                 unpacking = weights * static_cast<double>(tiles) / u.quant_unpacked;
    const double memory = weights * kernel.b_quantised->bits / 8 * static_cast<double>(m_blocks) / u.low_bit_bytes;
    double cycles = batch * (std::max(arithmetic + unpacking, memory) + u.shorter_shown * std::min(arithmetic, memory));
    const double cut = static_cast<double>(c.m * c.k) * batch;
    cycles += u.quant_cut * cut * static_cast<double>(std::min<int64_t>(machine.cores, n_blocks));
    if (rows * ceil_div(c.k, AOTC_QUANT_BLOCK) * AOTC_QUANT_BLOCK_BYTES > machine.l2_bytes / 2) cycles *= u.rows_beyond_l2;
    cycles += static_cast<double>(units) * u.unit;
    cycles += u.epilogue_call * static_cast<double>(m_blocks * ceil_div(c.n, AOTC_PANEL_N) * c.segments * c.batch);
    return shared_ns(cycles, units, machine);
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override {
    const ProductSizes c = product_sizes(k, s.syms);
    return fmt::format("gemm_quant int{} b{} m{} n{} k{} s{} g{}{}", k.b_quantised->bits, c.batch, c.m, c.n, c.k, c.segments,
                       k.b_quantised->group, k.a.prologue ? " a-made" : "");
  }

  int64_t scratch_bytes(const FewBitsBlock& b, int64_t k) const override {
    const aotc_gemm_quant_config g = b.config();
    return aotc_gemm_quant_scratch_bytes(&g, k);
  }
};

}  // namespace

const Form& gemm_quant() { return instance<GemmQuant>(); }

}  // namespace aotc::forms::cpu
