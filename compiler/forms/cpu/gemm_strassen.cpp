// aotc_gemm_strassen: float32 products with a weight in panels by seven multiplications for eight (kernels/cpu/gemm_strassen.h).
//
// Error against fp64 beside eager's, random data: 1.6 to 1.7 times in blocks of 256 values of k (plain sums of 256: 1.15; blocks of
// 512: 2.1 to 2.3). It is that of the larger of two rows, of two columns and of two halves of k that go together.
#include <algorithm>
#include <set>

#include "aotc/detail/strassen_abi.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/gemm_call.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

struct Blocks {
  int mr = 14, mc = 112, nc = 256, kc = AOTC_STRASSEN_BLOCK;
  static std::span<const Member<Blocks>> members() {
    static constexpr Member<Blocks> kRows[] = {
        {{"mr", 1, 64}, &Blocks::mr},
        {{"mc", 1}, &Blocks::mc},
        {{"nc", 2 * AOTC_PANEL_N, INT32_MAX, 2 * AOTC_PANEL_N}, &Blocks::nc},
        {{"kc", 2, INT32_MAX, 2}, &Blocks::kc},
    };
    return kRows;
  }
};

aotc_gemm_config config_of(const Choice& c) {
  const Blocks b = unpack<Blocks>(c);
  aotc_gemm_config g{};
  g.mr = b.mr, g.nv = 2, g.mc = b.mc, g.nc = b.nc, g.kc = g.kp = b.kc;
  g.b_packed = g.pack_a = 1;
  return g;
}

/// Bytes a thread; `makes`: A is computed by a prologue.
int64_t scratch_of(const aotc_gemm_config& g, int64_t k, bool makes) {
  return aotc_gemm_strassen_scratch_bytes(&g, k) + (makes ? aotc_gemm_strassen_prologue_bytes(&g, k) : 0);
}

/// Panels of a segment that have no partner in their unit.
int64_t lone_panels(int64_t n, int64_t nc) {
  const int64_t panels = ceil_div(n, AOTC_PANEL_N), blocks = ceil_div(n, nc);
  int64_t lone = 0;
  for (int64_t i = 0; i < blocks; ++i) lone += ((i + 1) * panels / blocks - i * panels / blocks) % 2;
  return lone;
}

class GemmStrassen final : public ProductForm {
 public:
  std::string_view name() const override { return "gemm_strassen"; }
  std::span<const Field> fields() const override { return fields_of<Blocks>(); }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (k.ordered) return refuse("its sums are not in the order of k");
    if (k.in != DType::f32) return refuse("{}: seven products for eight are of float32", dtype_name(k.in));
    if (k.b_quantised || !product_panels(k, true)) return refuse("b is no float32 weight that can be stored in panels");
    const auto depth = k.k.as_const();
    const int64_t least = cpu_costs(s.machine).strassen_least_depth;
    if (!depth || *depth % 2 != 0 || *depth < least) return refuse("k is not an even number of {} or more", least);
    return Fit::yes();
  }

  std::vector<Candidate> candidates(const MatmulKernel& kernel, const Site& s) const override {
    const ProductSizes c = product_sizes(kernel, s.syms);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    std::vector<Candidate> all;
    std::set<int> mcs;
    for (int64_t pairs : {2, 4, 8, 18, 36}) mcs.insert(static_cast<int>(std::min(c.m, pairs * 2 * lanes.mr)));
    if (c.m <= 512) mcs.insert(static_cast<int>(c.m));
    for (int mc : mcs)
      for (int nc : {64, 128, 256, 512})
        for (int64_t block : {AOTC_STRASSEN_BLOCK, AOTC_STRASSEN_LONG_BLOCK}) {
          if (block == AOTC_STRASSEN_LONG_BLOCK && c.k <= AOTC_STRASSEN_BLOCK) continue;
          Blocks t;
          t.mr = static_cast<int>(lanes.mr), t.mc = mc, t.nc = nc, t.kc = balanced_kc(c.k, block);
          all.push_back(estimate(kernel, c, s, t));
        }
    return all;
  }

  aotc_gemm_config gemm_config(const MatmulKernel&, const Choice& c) const override { return config_of(c); }
  Expr scratch(const MatmulKernel& k, const aotc_gemm_config& g) const override {
    return scratch_of(g, *k.k.as_const(), k.a.prologue.has_value());
  }

 private:
  Candidate estimate(const MatmulKernel& kernel, const ProductSizes& c, const Site& s, const Blocks& t) const {
    const Machine& machine = s.machine;
    Candidate r{pack(*this, t), Fit::yes(), 0};
    const CpuCosts& u = cpu_costs(s.machine);
    const aotc_gemm_config g = config_of(r.choice);
    const int64_t scratch = scratch_of(g, c.k, kernel.a.prologue.has_value());
    r.fit = c.m < u.strassen_least_rows ? refuse("{} rows are too few", c.m)
            : !s.numerics.strassen      ? refuse("seven products for eight have more than the error of plain sums; --strassen allows them")
            : t.kc > AOTC_STRASSEN_BLOCK && s.numerics.f32_matmul == F32Matmul::highest
                ? refuse("blocks of {} of k have more error than those of {}; max-autotune judges them", t.kc, int{AOTC_STRASSEN_BLOCK})
                : fits_scratch(scratch, machine);
    if (!r.fit) return r;
    const auto [m_blocks, n_blocks, units, rows] = units_of(c, t.mc, t.nc);
    const int64_t pairs = ceil_div(rows, 2 * lanes_of(c.dtype, machine).mr), even = even_up(rows);
    const int64_t panels = ceil_div(c.n, AOTC_PANEL_N), lone = lone_panels(c.n, t.nc), k_blocks = ceil_div(c.k, t.kc);
    const double width = static_cast<double>(lanes_of(c.dtype, machine).width), blocks = static_cast<double>(c.batch * m_blocks);
    const double vecs = static_cast<double>(AOTC_PANEL_N) / width;  // of a panel
    // Multiply-adds of row pairs with a panel: 7 of 8 halves, all 8 of those that are alone.
    const double parts = static_cast<double>(((panels - lone) * AOTC_STRASSEN_PRODUCTS + lone * 8) * c.segments) / 2;
    double cycles = blocks * parts * vecs * static_cast<double>(even) / 2 * static_cast<double>(c.k) / 2;
    // Entering a tile, and its sums to memory once or twice (twelve times for seven tiles).
    cycles += blocks * parts * vecs / 2 * static_cast<double>(k_blocks * pairs) *
              (u.tile_call +
               double{AOTC_STRASSEN_SUMS} / double{AOTC_STRASSEN_PRODUCTS} * u.tile_row * static_cast<double>(ceil_div(even, 2 * pairs)));
    // The sides: left ones made by every thread that has units of these rows, right ones while a row pair is multiplied.
    const int64_t makers = std::min(n_blocks, ceil_div(machine.cores, m_blocks * c.batch));
    cycles += u.strassen_side * static_cast<double>(c.m * c.k * c.batch * makers);
    if (scratch > machine.l2_bytes) cycles *= u.strassen_beyond_l2;
    cycles += static_cast<double>(units) * u.unit + u.epilogue_call * blocks * static_cast<double>(c.segments * panels) / 2;
    cycles += epilogue_cycles(static_cast<double>(c.m * c.batch), static_cast<double>(c.n * c.segments), {rows, 2 * AOTC_PANEL_N, 4096}, 4,
                              lanes_of(c.dtype, machine).width, machine);
    cycles += again_cycles(c.n * c.k * c.segments * 4, c.batch, m_blocks - 1, machine);
    r.cost_ns = shared_ns(cycles, units, machine);
    return r;
  }
};

}  // namespace

const Form& gemm_strassen() { return instance<GemmStrassen>(); }

}  // namespace aotc::forms::cpu
