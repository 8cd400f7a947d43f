// aotc_gemm_bytes: products of unsigned bytes with a constant weight of signed ones (kernels/cpu/gemm_bytes.h).
#include <algorithm>

#include "forms/cpu/byte_cost.h"
#include "forms/cpu/byte_products.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

Candidate estimate(const Form& form, const ProductSizes& c, const Machine& machine, const FewBitsBlock& b, int64_t scratch) {
  Candidate r{pack(form, b), Fit::yes(), 0};
  r.fit = fits_scratch(scratch);
  if (!r.fit) return r;
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
  r.cost_ns = shared_ns(cycles, units, machine);
  return r;
}

class GemmBytes final : public ByteProductForm {
 public:
  std::string_view name() const override { return "gemm_bytes"; }

 protected:
  const char* kernel() const override { return "gemm_bytes"; }
  int64_t scratch_bytes(const FewBitsBlock& b, int64_t k) const override {
    const aotc_gemm_bytes_config g = config_of(b);
    return aotc_gemm_bytes_scratch_bytes(&g, k);
  }

  std::vector<Candidate> candidates(const MatmulKernel& kernel, const Site& s) const override {
    const ProductSizes c = product_sizes(kernel, s.syms);
    const int64_t tile = byte_speed(s.machine).rows;
    std::set<int> mcs;
    for (int64_t tiles : {1, 2, 4, 8, 16}) mcs.insert(static_cast<int>(std::min(c.m, tiles * tile)));
    if (c.m <= 256) mcs.insert(static_cast<int>(c.m));
    for (const int64_t parts : {2, 4, 8})
      if (c.m / parts > tile) mcs.insert(static_cast<int>(std::min<int64_t>(ceil_div(c.m, parts), 512)));
    std::vector<Candidate> all;
    for (const FewBitsBlock& b : few_bits_blocks(mcs)) all.push_back(estimate(*this, c, s.machine, b, scratch_bytes(b, c.k)));
    return all;
  }
};

}  // namespace

const Form& gemm_bytes() {
  static const GemmBytes form;
  return form;
}

}  // namespace aotc::forms::cpu
