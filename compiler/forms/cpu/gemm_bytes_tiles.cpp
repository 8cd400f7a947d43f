// aotc_gemm_bytes_tiles: products of unsigned bytes with a constant weight of signed ones in the tile registers of AMX
// (kernels/cpu/gemm_bytes_tiles.h).
#include <algorithm>

#include "forms/cpu/byte_products.h"
#include "forms/cpu/byte_tile_cost.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

class GemmBytesTiles final : public ByteProductForm {
 public:
  std::string_view name() const override { return "gemm_bytes_tiles"; }

 protected:
  Fit serves(const Site& s) const override {
    return s.machine.has(Feature::AMX_TILES) ? Fit::yes() : refuse("{} has no amx", s.machine.name());
  }
  /// gemm_bytes stands in for a process that may not use the tiles.
  int64_t scratch_bytes(const FewBitsBlock& b, int64_t k) const override {
    const aotc_gemm_bytes_config g = config_of(b);
    return std::max(aotc_bytes_tiles_scratch_bytes(b.mc, k), aotc_gemm_bytes_scratch_bytes(&g, k));
  }

  std::set<int> row_blocks(const ProductSizes& c, const Machine&) const override { return byte_tile_rows(c.m); }
  double cost_ns(const MatmulKernel&, const ProductSizes& c, const FewBitsBlock& b, const Machine& machine) const override {
    const CpuCosts& u = cpu_costs(machine);
    const auto [m_blocks, n_blocks, units, rows] = units_of(c, b.mc, b.nc);
    const int64_t columns = std::min<int64_t>(b.nc, c.n);
    double cycles = static_cast<double>(c.batch * m_blocks * n_blocks) * byte_tile_cycles(rows, columns, c.k, machine);
    cycles += static_cast<double>(c.batch) * byte_panel_cycles(c.n * c.segments, c.k, m_blocks, machine);
    if (rows > 4 && columns > 2 * AOTC_PANEL_N && c.k % 512 == 0)
      cycles += u.byte_copy * static_cast<double>(c.batch * c.m * c.k * std::min<int64_t>(machine.cores, n_blocks));
    cycles += tile_unit_cycles(units, machine);
    return shared_ns(cycles, units, machine);
  }
};

}  // namespace

const Form& gemm_bytes_tiles() { return instance<GemmBytesTiles>(); }

}  // namespace aotc::forms::cpu
