// aotc_gemm_int8_tiles: products of float32 rows with int8 weights, both multiplied as bytes in the tile registers of AMX, where the build
// allows that (kernels/cpu/gemm_int8_tiles.h).
#include <algorithm>
#include <set>

#include "forms/cpu/cost.h"
#include "forms/cpu/few_bits.h"
#include "forms/cpu/tile_cost.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

/// gemm_int8 stands in for a process that may not use the tiles.
int64_t scratch_of(const aotc_gemm_quant_config& g, int64_t k) {
  return std::max(aotc_gemm_int8_tiles_scratch_bytes(&g, k), aotc_gemm_int8_scratch_bytes(&g, k));
}

class GemmInt8Tiles final : public FewBitsForm {
 public:
  std::string_view name() const override { return "gemm_int8_tiles"; }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (const Fit fit = fits_int8_rows(k, s); !fit) return fit;
    if (!s.machine.has(Feature::AMX_TILES)) return refuse("{} has no amx", s.machine.name());
    return fits_scratch(scratch_of(FewBitsBlock{1, AOTC_PANEL_N}.config(), *k.k.as_const()), s.machine);
  }

  std::set<int> row_blocks(const ProductSizes& c, const Machine&) const override { return byte_tile_rows(c.m); }
  double cost_ns(const MatmulKernel&, const ProductSizes& c, const FewBitsBlock& b, const Machine& machine) const override {
    const CpuCosts& u = cpu_costs(machine);
    const int threads = machine.cores;
    const auto [m_blocks, n_blocks, units, rows] = units_of(c, b.mc, b.nc);
    const int64_t steps = ceil_div(c.k, 64);
    const double m = static_cast<double>(c.m), n = static_cast<double>(c.n * c.segments), k = static_cast<double>(c.k);
    const double batch = static_cast<double>(c.batch);
    double cycles = static_cast<double>(c.batch * c.segments * m_blocks) * tile_cycles(rows, c.n, steps, machine);
    cycles += batch * (panel_cycles(n * k, m_blocks, machine) + n * k * static_cast<double>(m_blocks) / u.int8_sum_bytes);
    // Rows are kept over the columns; each thread rounds its own.
    cycles += batch * m * (u.int8_round * k + u.int8_row) * static_cast<double>(std::min<int64_t>(threads, n_blocks));
    cycles += batch * m * n * u.int8_scale;
    cycles += tile_unit_cycles(units, machine);
    return shared_ns(cycles, units, machine);
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override { return int8_contract(k, s); }
  int64_t scratch_bytes(const FewBitsBlock& b, int64_t k) const override { return scratch_of(b.config(), k); }
};

}  // namespace

const Form& gemm_int8_tiles() { return instance<GemmInt8Tiles>(); }

}  // namespace aotc::forms::cpu
