// aotc_gemm_bytes: products of unsigned bytes with a constant weight of signed ones (kernels/cpu/gemm_bytes.h).
#include <algorithm>

#include "forms/cpu/byte_cost.h"
#include "forms/cpu/byte_products.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

class GemmBytes final : public ByteProductForm {
 public:
  std::string_view name() const override { return "gemm_bytes"; }

 protected:
  int64_t scratch_bytes(const FewBitsBlock& b, int64_t k) const override {
    const aotc_gemm_bytes_config g = config_of(b);
    return aotc_gemm_bytes_scratch_bytes(&g, k);
  }

  std::set<int> row_blocks(const ProductSizes& c, const Machine& machine) const override {
    const int64_t tile = byte_speed(machine).rows;
    std::set<int> mcs;
    for (int64_t tiles : {1, 2, 4, 8, 16}) mcs.insert(static_cast<int>(std::min(c.m, tiles * tile)));
    if (c.m <= 256) mcs.insert(static_cast<int>(c.m));
    for (const int64_t parts : {2, 4, 8})
      if (c.m / parts > tile) mcs.insert(static_cast<int>(std::min<int64_t>(ceil_div(c.m, parts), 512)));
    return mcs;
  }
  double cost_ns(const MatmulKernel&, const ProductSizes& c, const FewBitsBlock& b, const Machine& machine) const override {
    const CpuCosts& u = cpu_costs(machine);
    const auto [m_blocks, n_blocks, units, rows] = units_of(c, b.mc, b.nc);
    const int64_t panels = ceil_div(c.n, AOTC_PANEL_N) * c.segments;
    double cycles = static_cast<double>(c.batch * m_blocks) * byte_product_cycles(rows, panels, c.k, m_blocks > 1, machine);
    const double copied = static_cast<double>(c.batch * c.m * c.k);
    cycles += u.byte_copy * copied * static_cast<double>(std::min<int64_t>(machine.cores, n_blocks));
    cycles += static_cast<double>(units) * u.unit;
    const int64_t at_once = std::max<int64_t>(1, std::min<int64_t>(b.nc, AOTC_BYTES_SUMS / rows) / AOTC_PANEL_N) * AOTC_PANEL_N;
    cycles += u.epilogue_call * static_cast<double>(units * ceil_div(std::min<int64_t>(b.nc, c.n), at_once));
    cycles += epilogue_cycles(static_cast<double>(c.m * c.batch), static_cast<double>(c.n * c.segments),
                              {rows, std::min<int64_t>(b.nc, c.n), AOTC_BYTES_SUMS}, 4, 16, machine);
    return shared_ns(cycles, units, machine);
  }
};

}  // namespace

const Form& gemm_bytes() { return instance<GemmBytes>(); }

}  // namespace aotc::forms::cpu
