// aotc_gemm_tiles: products of bf16 in the tile registers of AMX, all of k at once (kernels/cpu/gemm_tiles.h).
#include <algorithm>
#include <set>

#include "forms/cpu/forms.h"
#include "forms/cpu/gemm_call.h"
#include "forms/cpu/scratch.h"
#include "forms/cpu/tile_cost.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

struct Blocks {
  int mc = 128, nc = 128;
  int pack_a = 1;
  static std::span<const Member<Blocks>> members() {
    static constexpr Member<Blocks> kRows[] = {
        {{"mc", 1}, &Blocks::mc},
        {{"nc", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &Blocks::nc},
        {{"pack_a", 0, 1}, &Blocks::pack_a},
    };
    return kRows;
  }
};

aotc_gemm_config config_of(const Blocks& t, bool packed) {
  aotc_gemm_config g = tiles_config(t.mc, t.nc, 1024);
  g.b_packed = packed, g.pack_a = t.pack_a;
  return g;
}

bool reads_in_place(const MatmulKernel& k) {
  return !k.a.prologue && k.a.col_stride.is(1) && (!k.k.as_const() || *k.k.as_const() % 32 == 0);
}
/// Rows of A in place share cache sets.
bool shares_sets(const MatmulKernel& k) {
  const auto stride = k.a.row_stride.as_const();
  return stride && *stride % 256 == 0;
}

Fit fits_scratch(const ProductSizes& c, const Blocks& t, const Machine& m) {
  const aotc_gemm_config g = config_of(t, c.b_constant);
  return cpu::fits_scratch(
      std::max(aotc_gemm_tiles_scratch_bytes(&g, c.k), aotc_gemm_scratch_bytes(&g, c.k, 4) + widened_bytes(g.b_packed, DType::bf16)), m);
}

Candidate estimate(const Form& form, const MatmulKernel& kernel, const ProductSizes& c, const Machine& machine, const Blocks& t) {
  Candidate r{pack(form, t), Fit::yes(), 0};
  r.fit = fits_scratch(c, t, machine);
  if (!r.fit) return r;
  const CpuCosts& u = cpu_costs(machine);
  const int threads = machine.cores;
  const auto [m_blocks, n_blocks, units, rows] = units_of(c, t.mc, t.nc);
  const int64_t steps = ceil_div(c.k, 32);
  const double m = static_cast<double>(c.m), n = static_cast<double>(c.n * c.segments), k = static_cast<double>(c.k);
  const double batch = static_cast<double>(c.batch);

  const double feed = !t.pack_a && rows > 4 && shares_sets(kernel) ? u.amx_same_pitch : 1;
  double cycles = static_cast<double>(c.batch * c.segments * m_blocks) * tile_cycles(rows, c.n, steps, machine, feed);
  if (c.b_constant) cycles = fed_cycles(cycles, n * k * 2, m_blocks, rows, machine);
  if (rows > u.amx_near_rows && c.n > AOTC_PANEL_N)
    cycles += (stores_halves(kernel) ? u.amx_apart_half : u.amx_apart) * batch * m * n / double{AOTC_PANEL_N};
  // Copies of A are kept over the columns of a weight, copies of B over the rows.
  if (t.pack_a)
    cycles += (c.a_rows_contiguous ? u.amx_copy : u.amx_transpose) * m * k * batch *
              static_cast<double>(c.b_constant ? std::min<int64_t>(threads, n_blocks) : n_blocks);
  if (!c.b_constant) {
    cycles += (c.b_rows_contiguous ? u.amx_copy : u.amx_transpose) * n * k * batch;
    if (t.nc * steps * 64 > machine.l2_bytes / 2) cycles *= u.amx_panels_beyond_l2;
  }
  cycles += tile_unit_cycles(units, machine);
  r.cost_ns = shared_ns(cycles, units, machine);
  return r;
}

class GemmTiles final : public ProductForm {
 public:
  std::string_view name() const override { return "gemm_tiles"; }
  bool by_rows() const override { return true; }
  std::span<const Field> fields() const override { return fields_of<Blocks>(); }
  Fit takes_prologue(DType t, uint32_t, const Machine&) const override {
    return t == DType::bf16 ? Fit::yes() : refuse("tiles multiply bf16, not {}", dtype_name(t));
  }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (const Fit tiles = takes_tiles(k, s.machine); !tiles) return tiles;
    const ProductSizes c = product_sizes(k, s.syms);
    return fits_scratch(c, {static_cast<int>(std::min<int64_t>(c.m, 32)), AOTC_PANEL_N, 1}, s.machine);  // the smallest candidate
  }

  std::vector<Candidate> candidates(const MatmulKernel& kernel, const Site& s) const override {
    const ProductSizes c = product_sizes(kernel, s.syms);
    std::set<int> mcs;
    for (int64_t mc : {32, 64, 128, 256, 512}) mcs.insert(static_cast<int>(std::min(c.m, mc)));
    std::vector<Candidate> all;
    for (int mc : mcs)
      for (int nc : {32, 64, 128, 256, 512})
        for (int pack_a : {1, 0})
          if (pack_a || reads_in_place(kernel)) all.push_back(estimate(*this, kernel, c, s.machine, {mc, nc, pack_a}));
    return all;
  }

  aotc_gemm_config gemm_config(const MatmulKernel& k, const Choice& c) const override {
    return config_of(unpack<Blocks>(c), panels(k, c).has_value());
  }
  Expr scratch(const MatmulKernel& k, const aotc_gemm_config& g) const override {
    const int64_t base = aotc_gemm_tiles_scratch_bytes(&g, 0), slope = aotc_gemm_tiles_scratch_bytes(&g, 64) - base;
    return max(gemm_scratch(g, k.k, 4, k.a.prologue.has_value(), k.b.prologue.has_value()) + widened_bytes(g.b_packed, DType::bf16),
               base + ceildiv(k.k, 64) * slope);
  }
};

}  // namespace

const Form& gemm_tiles() { return instance<GemmTiles>(); }

}  // namespace aotc::forms::cpu
