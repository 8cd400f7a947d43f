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

aotc_gemm_config config_of(const Blocks& t) { return tiles_config(t.mc, t.nc, 1024); }

bool finishes(const MatmulKernel& k) {
  return std::all_of(k.segments.begin(), k.segments.end(), [&](const loop::Segment& s) { return !finish_steps(k, s).empty(); });
}

int64_t scratch_of(const aotc_gemm_config& g, int64_t k, bool makes) {
  return std::max(aotc_gemm_held_scratch_bytes(&g, k), aotc_gemm_scratch_bytes(&g, k, 4) + widened_bytes(true, DType::bf16) +
                                                           (makes ? aotc_gemm_prologue_bytes(&g, k, 4, true, false) : 0));
}

Candidate estimate(const Form& form, const MatmulKernel& kernel, const ProductSizes& c, const Machine& machine, const Blocks& t) {
  Candidate r{pack(form, t), Fit::yes(), 0};
  r.fit = fits_scratch(scratch_of(config_of(t), c.k, kernel.a.prologue.has_value()), machine);
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

class GemmHeld final : public ProductForm {
 public:
  std::string_view name() const override { return "gemm_held"; }
  bool by_rows() const override { return true; }
  std::span<const Field> fields() const override { return fields_of<Blocks>(); }
  Fit takes_prologue(DType t, uint32_t, const Machine&) const override {
    return t == DType::bf16 ? Fit::yes() : refuse("tiles multiply bf16, not {}", dtype_name(t));
  }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (const Fit tiles = takes_tiles(k, s.machine); !tiles) return tiles;
    if (k.b_quantised || k.b.prologue || !product_panels(k, true)) return refuse("b is no weight that can be stored in panels");
    const auto depth = k.k.as_const();
    if (!depth || *depth < AOTC_GEMM_HELD_LEAST_K) return refuse("k is not known to be {} or more", int{AOTC_GEMM_HELD_LEAST_K});
    const ProductSizes c = product_sizes(k, s.syms);
    if (const int64_t least = cpu_costs(s.machine).held_least_rows; c.m < least) return refuse("{} rows are fewer than {}", c.m, least);
    return fits_scratch(scratch_of(config_of({128, AOTC_PANEL_N}), c.k, k.a.prologue.has_value()), s.machine);
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

  aotc_gemm_config gemm_config(const MatmulKernel&, const Choice& c) const override { return config_of(unpack<Blocks>(c)); }
  Expr scratch(const MatmulKernel& k, const aotc_gemm_config& g) const override {
    return scratch_of(g, *k.k.as_const(), k.a.prologue.has_value());
  }
};

}  // namespace

const Form& gemm_held() { return instance<GemmHeld>(); }

}  // namespace aotc::forms::cpu
