// aotc_gemm_held: products of many rows of bf16 with a weight in panels by the tile registers of AMX, part after part of k, of which L1
// holds the panel's (kernels/cpu/gemm_held.h).
#include <algorithm>
#include <set>

#include "aotc/detail/held_abi.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/finish.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/gemm_call.h"
#include "forms/cpu/scratch.h"
#include "forms/cpu/tile_cost.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

constexpr int64_t kLeastRows = 64;

/// Of gemm, which stands in for a process that may not use the tiles: see aotc_gemm_config.
constexpr int kStandInMr = 14, kStandInNv = 2, kStandInKc = 256, kStandInKp = 1024;

struct Blocks {
  int mc = 256, nc = 512;
  static std::span<const Member<Blocks>> members() {
    static constexpr Member<Blocks> kRows[] = {
        {{"mc", 32}, &Blocks::mc},
        {{"nc", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &Blocks::nc},
    };
    return kRows;
  }
};

aotc_gemm_config config_of(const Blocks& t) {
  aotc_gemm_config g{};
  g.mr = kStandInMr, g.nv = kStandInNv, g.kc = kStandInKc, g.kp = kStandInKp;
  g.mc = t.mc, g.nc = t.nc, g.b_packed = g.pack_a = 1;
  return g;
}

bool finishes(const MatmulKernel& k) {
  return std::all_of(k.segments.begin(), k.segments.end(), [&](const loop::Segment& s) { return !finish_steps(k, s).empty(); });
}
bool stores_halves(const MatmulKernel& k) {
  return std::all_of(k.params.begin(), k.params.end(),
                     [](const loop::Param& p) { return p.role != loop::ParamRole::output || dtype_bytes(p.dtype) <= 2; });
}

int64_t scratch_of(const Blocks& t, int64_t k, bool makes) {
  const aotc_gemm_config g = config_of(t);
  return std::max(aotc_gemm_held_scratch_bytes(&g, k), aotc_gemm_scratch_bytes(&g, k, 4) + widened_bytes(true, DType::bf16) +
                                                           (makes ? aotc_gemm_prologue_bytes(&g, k, 4, true, false) : 0));
}

Candidate estimate(const Form& form, const MatmulKernel& kernel, const ProductSizes& c, const Machine& machine, const Blocks& t) {
  Candidate r{pack(form, t), Fit::yes(), 0};
  r.fit = fits_scratch(scratch_of(t, c.k, kernel.a.prologue.has_value()));
  if (!r.fit) return r;
  const CpuCosts& u = cpu_costs(machine);
  const aotc_gemm_config config = config_of(t);
  const auto [m_blocks, n_blocks, units, rows] = units_of(c, t.mc, t.nc);
  const int64_t steps = ceil_div(c.k, 32), blocks = ceil_div(rows, 32);
  const int64_t parts = aotc_gemm_held_parts(c.k), panels = ceil_div(c.n, int64_t{AOTC_PANEL_N}) * c.segments;
  const double passes = static_cast<double>(c.batch * m_blocks * blocks * panels * parts);
  const double each = static_cast<double>(steps) / static_cast<double>(parts);
  double cycles = passes * (each * 4 * u.amx_tile / u.held_near + u.held_pass +
                            u.held_panel_shown * each * 2048 / static_cast<double>(blocks) / u.amx_l3_bytes);
  if (parts > aotc_gemm_held_section(&config, c.k)) cycles += passes * u.held_before;
  if (!finishes(kernel)) cycles *= u.held_calls;
  if (!stores_halves(kernel)) cycles *= parts > 2 ? u.held_whole_of_parts : u.held_whole_results;
  if (c.m < u.held_many_rows) cycles *= u.held_few_rows;
  cycles *= u.held_scale;
  // Copies of A are kept over the columns.
  cycles += (c.a_rows_contiguous ? u.amx_copy : u.amx_transpose) * static_cast<double>(c.m * c.k * c.batch) *
            static_cast<double>(std::min<int64_t>(machine.cores, n_blocks));
  cycles += tile_unit_cycles(units, machine);
  r.cost_ns = shared_ns(cycles, units, machine);
  return r;
}

class GemmHeld final : public FormOf<MatmulKernel> {
 public:
  std::string_view name() const override { return "gemm_held"; }
  bool by_rows() const override { return true; }
  std::span<const Field> fields() const override { return fields_of<Blocks>(); }
  Fit takes_prologue(DType t, uint32_t, const Machine&) const override {
    return t == DType::bf16 ? Fit::yes() : refuse("tiles multiply bf16, not {}", dtype_name(t));
  }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (k.ordered) return refuse("its sums are not in the order of k");
    if (k.in != DType::bf16) return refuse("tiles multiply bf16, not {}", dtype_name(k.in));
    if (!s.machine.has(Feature::AMX_TILES)) return refuse("{} has no amx", s.machine.name());
    if (k.b_quantised || k.b.prologue || !product_panels(k, true)) return refuse("b is no weight that can be stored in panels");
    const auto depth = k.k.as_const();
    if (!depth || *depth < AOTC_GEMM_HELD_LEAST_K) return refuse("k is not known to be {} or more", int{AOTC_GEMM_HELD_LEAST_K});
    const ProductSizes c = product_sizes(k, s.syms);
    if (c.m < kLeastRows) return refuse("{} rows are fewer than {}", c.m, kLeastRows);
    return fits_scratch(scratch_of({128, AOTC_PANEL_N}, c.k, k.a.prologue.has_value()));
  }

  std::vector<Candidate> candidates(const MatmulKernel& kernel, const Site& s) const override {
    const ProductSizes c = product_sizes(kernel, s.syms);
    std::set<int> mcs;
    for (int64_t mc : {128, 192, 256, 320}) mcs.insert(static_cast<int>(std::min(mc, ceil_div(c.m, 32) * 32)));
    std::vector<Candidate> all;
    for (int mc : mcs)
      for (int nc : {64, 128, 256, 512, 1024}) all.push_back(estimate(*this, kernel, c, s.machine, {mc, nc}));
    return all;
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override { return product_contract(k, s.syms); }

  StepSpec step(const MatmulKernel& k, const Site& site, const Choice& choice) const override {
    const Blocks t = unpack<Blocks>(choice);
    StepSpec f = product_step(k, site, entry_of("gemm_held", DType::bf16), config_of(t), product_panels(k, true));
    f.scratch_bytes = scratch_of(t, *k.k.as_const(), k.a.prologue.has_value());
    return f;
  }

  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const MatmulKernel& k, const Choice&) const override {
    return product_weight(k, true);
  }

  std::string config(const loop::Kernel& kernel, const MatmulKernel& k, const Choice& choice, Isa isa,
                     const std::string& name) const override {
    return product_config(kernel, k, config_of(unpack<Blocks>(choice)), isa, name);
  }
};

}  // namespace

const Form& gemm_held() {
  static const GemmHeld form;
  return form;
}

}  // namespace aotc::forms::cpu
