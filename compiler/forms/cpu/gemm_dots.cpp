// aotc_gemm_dots: products of few rows or few columns whose operands both lie along k (kernels/cpu/gemm_dots.h).
#include <algorithm>
#include <set>

#include "aotc/detail/dots_abi.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/gemm_call.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

struct Blocks {
  int mc = 16, nc = 32;
  static std::span<const Member<Blocks>> members() {
    static constexpr Member<Blocks> kRows[] = {{{"mc", 1}, &Blocks::mc}, {{"nc", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &Blocks::nc}};
    return kRows;
  }
};

aotc_gemm_config config_of(const Choice& c) {
  const Blocks b = unpack<Blocks>(c);
  aotc_gemm_config g{};
  g.mc = b.mc, g.nc = b.nc, g.kc = g.kp = 2;
  return g;
}

/// Every few rows read a block's columns again, which L1 may not hold.
double reread_cycles(const ProductSizes& p, const Blocks& t, const Machine& m) {
  const int64_t eb = acc_bytes(p.dtype), columns = std::min<int64_t>(p.n, t.nc) * p.k * eb;
  if (columns <= m.l1_bytes * 3 / 4) return 0;
  const double again =
      static_cast<double>(p.n * p.k * eb * p.segments * p.batch) * static_cast<double>(ceil_div(p.m, int64_t{AOTC_DOTS_ROWS}) - 1);
  return again / (columns > m.l2_bytes / 2 ? cpu_costs(m).dots_far_bytes : cpu_costs(m).dots_l2_bytes);
}

class GemmDots final : public ProductForm {
 public:
  std::string_view name() const override { return "gemm_dots"; }
  std::span<const Field> fields() const override { return fields_of<Blocks>(); }

 protected:
  Fit fits(const MatmulKernel& k, const Site&) const override {
    if (k.ordered) return refuse("its sums are not in the order of k");
    if (k.in != DType::f32 && k.in != DType::f64) return refuse("{}: dot products are of float32 and float64", dtype_name(k.in));
    if (k.a.prologue || k.b.prologue) return refuse("an operand is computed");
    if (!k.a.col_stride.is(1) || !k.b.row_stride.is(1)) return refuse("an operand does not lie along k");
    if (k.b_panels_read) return refuse("the weight is stored in panels");
    return Fit::yes();
  }

  std::vector<Candidate> candidates(const MatmulKernel& k, const Site& s) const override {
    const ProductSizes p = product_sizes(k, s.syms);
    const Lanes lanes = lanes_of(p.dtype, s.machine);
    const CpuCosts& u = cpu_costs(s.machine);
    std::vector<Candidate> all;
    std::set<int> rows;
    for (int mc : {4, 16, 64}) rows.insert(static_cast<int>(std::min<int64_t>(p.m, mc)));
    for (int mc : rows)
      for (int nc : {32, 128}) {
        const Blocks t{mc, nc};
        const int64_t units = p.batch * p.segments * ceil_div(p.m, t.mc) * ceil_div(p.n, t.nc);
        // A block of 4 x 4 loads half a vector a multiply-add, a single row or column two; measured, a multiply-add of such a block is less
        // than a cycle.
        const auto blocked = [](int64_t n) { return static_cast<double>(n / 4 * 4) / static_cast<double>(n); };
        const double loads = u.dots_loads - u.dots_loads_saved * blocked(p.m) - u.dots_loads_saved * blocked(p.n);
        const double sums = static_cast<double>(p.batch * p.segments * p.m * p.n);
        const double steps = static_cast<double>(ceil_div(p.k, lanes.width));
        // Four sums' lanes are added up together.
        const double across = u.dots_across - u.dots_across_saved * std::max(blocked(p.m), blocked(p.n));
        double cycles = sums * (steps * std::max(1.0, loads) + across) + static_cast<double>(units) * (u.unit + u.epilogue_call);
        cycles += reread_cycles(p, t, s.machine);
        all.push_back({pack(*this, t), Fit::yes(), shared_ns(cycles, units, s.machine)});
      }
    return all;
  }

  aotc_gemm_config gemm_config(const MatmulKernel&, const Choice& c) const override { return config_of(c); }
  Expr scratch(const MatmulKernel& k, const aotc_gemm_config& g) const override { return int64_t{g.mc} * g.nc * acc_bytes(k.in); }
  std::optional<Panels> panels(const MatmulKernel&, const Choice&) const override { return std::nullopt; }
};

}  // namespace

const Form& gemm_dots() { return instance<GemmDots>(); }

}  // namespace aotc::forms::cpu
