// aotc_gemm_bytes: products of unsigned bytes with a constant weight of signed ones (kernels/cpu/gemm_bytes.h).
#include <algorithm>
#include <set>

#include "aotc/detail/bytes_abi.h"
#include "emit/cpu/module.h"
#include "forms/cpu/byte_cost.h"
#include "forms/cpu/config.h"
#include "forms/cpu/few_bits.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

/// Blocks of rows and columns, as those of weights of few bits.
aotc_gemm_bytes_config config_of(const FewBitsBlock& b) {
  aotc_gemm_bytes_config g{};
  g.mc = b.mc, g.nc = b.nc;
  return g;
}

Candidate estimate(const Form& form, const ProductSizes& c, const Machine& machine, const FewBitsBlock& b) {
  Candidate r{pack(form, b), Fit::yes(), 0};
  const aotc_gemm_bytes_config cfg = config_of(b);
  r.fit = fits_scratch(aotc_gemm_bytes_scratch_bytes(&cfg, c.k));
  if (!r.fit) return r;
  const int64_t m_blocks = ceil_div(c.m, b.mc), n_blocks = ceil_div(c.n, b.nc) * c.segments, units = c.batch * m_blocks * n_blocks;
  const int64_t rows = ceil_div(c.m, m_blocks), panels = ceil_div(c.n, AOTC_PANEL_N) * c.segments;
  double cycles = static_cast<double>(c.batch * m_blocks) * byte_product_cycles(rows, panels, c.k, m_blocks > 1, machine);
  const double copied = static_cast<double>(c.batch * c.m * c.k);
  cycles += kByteCopyCycles * copied * static_cast<double>(std::min<int64_t>(machine.cores, n_blocks));
  cycles += static_cast<double>(units) * kUnitCycles;
  const int64_t at_once = std::max<int64_t>(1, std::min<int64_t>(b.nc, AOTC_BYTES_SUMS / rows) / AOTC_PANEL_N) * AOTC_PANEL_N;
  cycles += kEpilogueCycles * static_cast<double>(units * ceil_div(std::min<int64_t>(b.nc, c.n), at_once));
  cycles += epilogue_cycles(static_cast<double>(c.m * c.batch), static_cast<double>(c.n * c.segments),
                            {rows, std::min<int64_t>(b.nc, c.n), AOTC_BYTES_SUMS}, 4, 16, machine);
  r.cost_ns = cycles * imbalance(units, machine.cores) * kNsPerCycle;
  return r;
}

class GemmBytes final : public FormOf<MatmulKernel> {
 public:
  std::string_view name() const override { return "gemm_bytes"; }
  std::span<const Field> fields() const override { return fields_of<FewBitsBlock>(); }

 protected:
  Fit fits(const MatmulKernel& k, const Site&) const override {
    if (!loop::multiplies_bytes(k)) return {false, ""};
    if (k.a.prologue) return refuse("its left operand is read from memory");
    if (!k.b_constant || !constants({k.k, k.b.base, k.b.row_stride, k.b.col_stride})) return refuse("its right operand is a constant");
    for (const loop::Segment& s : k.segments) {
      if (loop::loads(s.epilogue, k.b.param)) return refuse("the epilogue reads the weight, too");
      if (!constants({s.n_begin, s.n_end})) return refuse("its columns have no fixed places");
    }
    return Fit::yes();
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
    for (const FewBitsBlock& b : few_bits_blocks(mcs)) all.push_back(estimate(*this, c, s.machine, b));
    return all;
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override { return "bytes " + product_contract(k, s.syms); }

  StepSpec step(const MatmulKernel& k, const Site& site, const Choice& choice) const override {
    const FewBitsBlock b = unpack<FewBitsBlock>(choice);
    const aotc_gemm_bytes_config g = config_of(b);
    StepSpec f = product_units(k, site, "aotc_gemm_bytes_u8", b.mc, b.nc);
    f.scratch_bytes = aotc_gemm_bytes_scratch_bytes(&g, *k.k.as_const());
    return f;
  }

  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const MatmulKernel& k, const Choice&) const override {
    const auto at = *constants({k.k, k.b.base, k.b.row_stride, k.b.col_stride});
    Panels p;
    p.dtype = DType::i8, p.bits = 8;
    p.rows = {{at[0], std::max<int64_t>(at[0], 1), 0, at[2], {}}};
    p.col_stride = at[3];
    for (const loop::Segment& s : k.segments) {
      const int64_t begin = *s.n_begin.as_const(), end = *s.n_end.as_const();
      p.matrices.push_back({at[1] + begin * p.col_stride, end - begin});
    }
    return std::pair(k.b.param, std::move(p));
  }

  std::string config(const loop::Kernel& kernel, const MatmulKernel& k, const Choice& choice, Isa isa,
                     const std::string& name) const override {
    const FewBitsBlock b = unpack<FewBitsBlock>(choice);
    ConfigText c("aotc_gemm_bytes_config", name);
    c.add("a_ptr", loop::argument_index(kernel, k.a.param)).add("b_ptr", loop::argument_index(kernel, k.b.param));
    c.add("mc", b.mc).add("nc", b.nc);
    add_attached(c, kernel, k, isa, name, false);
    return c.str();
  }
};

}  // namespace

const Form& gemm_bytes() {
  static const GemmBytes form;
  return form;
}

}  // namespace aotc::forms::cpu
