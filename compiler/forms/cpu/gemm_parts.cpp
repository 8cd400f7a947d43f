// aotc_gemm_parts: float32 products with a weight in panels by the tile registers of AMX, each number as three of bf16
// (kernels/cpu/gemm_parts.h); aotc_gemm_unpack_parts and aotc_gemm_bf16w_parts: the same with weights of few bits and bf16.
//
// Error against fp64 beside gemm's, random data: 0.6 with 512 of k whose parts are kept at once, 0.75 to 0.9 with 1024.
#include <algorithm>
#include <set>

#include "aotc/detail/parts_abi.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/few_bits.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/gemm_call.h"
#include "forms/cpu/scratch.h"
#include "forms/cpu/tile_cost.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

struct Blocks {
  int mc = 128, nc = 128, kp = 1024;
  static std::span<const Member<Blocks>> members() {
    static constexpr Member<Blocks> kRows[] = {
        {{"mc", 1}, &Blocks::mc},
        {{"nc", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &Blocks::nc},
        {{"kp", kStandInKc, INT32_MAX, kStandInKc}, &Blocks::kp},
    };
    return kRows;
  }
};

aotc_gemm_config config_of(const Blocks& t) { return tiles_config(t.mc, t.nc, t.kp); }

int64_t scratch_of(const aotc_gemm_config& g, int64_t k, bool makes) {
  return std::max(aotc_gemm_parts_scratch_bytes(&g, k),
                  aotc_gemm_scratch_bytes(&g, k, 4) + (makes ? aotc_gemm_prologue_bytes(&g, k, 4, true, false) : 0));
}

/// Whether the whole weight is split once for all units.
bool keeps(const Blocks& t, const ProductSizes& c) {
  const aotc_gemm_config config = config_of(t);
  return c.segments == 1 && c.n <= t.nc && c.m >= AOTC_GEMM_PARTS_KEPT_ROWS && aotc_gemm_parts_can_keep(&config, c.k);
}

/// Bytes of a number of the weight, cycles that make it float32, of the time of all products those that are left.
struct WeightCost {
  double bytes = 4, made = 0, products = 1;
};

Candidate estimate(const Form& form, const MatmulKernel& kernel, const ProductSizes& c, const Machine& machine, const Blocks& t,
                   const WeightCost& weight) {
  Candidate r{pack(form, t), Fit::yes(), 0};
  r.fit = fits_scratch(scratch_of(config_of(t), c.k, kernel.a.prologue.has_value()), machine);
  if (!r.fit) return r;
  const CpuCosts& u = cpu_costs(machine);
  const auto [m_blocks, n_blocks, units, rows] = units_of(c, t.mc, t.nc);
  const int64_t depth = ceil_div(c.k, 32) * 32, chunk = std::min<int64_t>(depth, t.kp);
  const int64_t chunks = ceil_div(depth, chunk), tiles = ceil_div(rows, 16),
                tile_rows = std::max<int64_t>(8, ceil_div(rows, tiles)) * tiles;
  const double blocks = static_cast<double>(c.batch * m_blocks), cols = static_cast<double>(ceil_div(c.n, 16) * 16 * c.segments);
  const double weights = cols * static_cast<double>(depth), products = weight.products * blocks * static_cast<double>(tile_rows) * weights;
  double cycles = 0;
  if (keeps(t, c)) {
    cycles = products * u.parts_kept_mac + static_cast<double>(c.batch * c.m * depth) * u.parts_kept_row_split;
    cycles += weights * (u.parts_lone_split + weight.made) * static_cast<double>(std::min<int64_t>(machine.cores, m_blocks));
    cycles += blocks * static_cast<double>(ceil_div(rows, 32) * ceil_div(c.n, int64_t{AOTC_PANEL_N})) * u.parts_sums;
  } else {
    cycles = products * u.parts_mac;
    if (static_cast<double>(chunk * (rows + AOTC_PANEL_N) * 6) > u.parts_l2_share * static_cast<double>(machine.l2_bytes))
      cycles *= u.parts_beyond_l2;
    cycles += blocks * weights * ((rows > 16 ? u.parts_split : u.parts_lone_split) + weight.made);
    if (ceil_div(rows, 32) == 2) cycles *= u.parts_two_blocks;
    // Rows stay split for the units that follow where one chunk is all of k.
    const int64_t makers = chunks > 1 ? n_blocks : std::min<int64_t>(machine.cores, n_blocks);
    cycles += blocks * static_cast<double>(rows * depth * makers) * u.parts_row_split;
    cycles += blocks * static_cast<double>(rows * (chunks - 1)) * cols * u.parts_add;
  }
  cycles += static_cast<double>(std::min<int64_t>(units, machine.cores)) * u.amx_shape;
  cycles += static_cast<double>(units) * u.unit +
            u.epilogue_call * blocks * cols / double{AOTC_PANEL_N} * static_cast<double>(ceil_div(rows, 32));
  cycles +=
      epilogue_cycles(static_cast<double>(c.m * c.batch), cols, {32, AOTC_PANEL_N, 1024}, 4, lanes_of(c.dtype, machine).width, machine);
  cycles += again_cycles(static_cast<int64_t>(static_cast<double>(c.n * c.k * c.segments) * weight.bytes), c.batch, m_blocks - 1, machine);
  r.cost_ns = shared_ns(cycles, units, machine);
  return r;
}

class GemmParts : public ProductForm {
 public:
  std::string_view name() const override { return "gemm_parts"; }
  bool by_rows() const override { return true; }
  std::span<const Field> fields() const override { return fields_of<Blocks>(); }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (k.ordered) return refuse("its sums are not in the order of k");
    if (k.in != DType::f32) return refuse("{}: numbers in three parts are float32", dtype_name(k.in));
    if (!s.machine.has(Feature::AMX_TILES)) return refuse("{} has no amx", s.machine.name());
    if (const Fit b = takes_weight(k); !b) return b;
    if (k.b_quantised && s.syms.interval(k.m).max <= AOTC_GEMM_PARTS_FEW_ROWS)
      return refuse("more than {} rows", int{AOTC_GEMM_PARTS_FEW_ROWS});
    const auto depth = k.k.as_const();
    if (!depth || *depth == 0) return refuse("k has no fixed size");
    const ProductSizes c = product_sizes(k, s.syms);
    return fits_scratch(
        scratch_of(config_of({static_cast<int>(std::min<int64_t>(c.m, 32)), AOTC_PANEL_N, 512}), c.k, k.a.prologue.has_value()), s.machine);
  }

  std::vector<Candidate> candidates(const MatmulKernel& kernel, const Site& s) const override {
    const ProductSizes c = product_sizes(kernel, s.syms);
    std::set<int> mcs;
    for (int64_t mc : {32, 64, 128, 256}) mcs.insert(static_cast<int>(std::min(c.m, mc)));
    std::set<int> ncs = {32, 64, 128, 256, 512};
    // Of more columns than there are bytes for their parts nothing is kept.
    if (const Blocks whole{32, static_cast<int>(ceil_div(std::min<int64_t>(c.n, AOTC_GEMM_PARTS_KEPT), AOTC_PANEL_N) * AOTC_PANEL_N), 1024};
        keeps(whole, c))
      ncs.insert(whole.nc);
    // Where rows vary, few of them make one block: then only columns are left for the threads to share.
    const bool varies = !kernel.m.as_const() && s.machine.cores > 1;
    std::vector<Candidate> all;
    for (int mc : mcs)
      for (int nc : ncs)
        for (int kp : {1024, 512})
          if ((kp == 1024 || c.k > kp) && (nc == 32 || !varies || ceil_div(c.n, nc) >= 2 * s.machine.cores))
            all.push_back(estimate(*this, kernel, c, s.machine, {mc, nc, kp}, cost_of(kernel, cpu_costs(s.machine))));
    return all;
  }

  aotc_gemm_config gemm_config(const MatmulKernel&, const Choice& c) const override { return config_of(unpack<Blocks>(c)); }
  Expr scratch(const MatmulKernel& k, const aotc_gemm_config& g) const override {
    return scratch_of(g, *k.k.as_const(), k.a.prologue.has_value());
  }
  virtual Fit takes_weight(const MatmulKernel& k) const {
    return !k.b_quantised && product_panels(k, true) ? Fit::yes() : refuse("b is no float32 weight that can be stored in panels");
  }
  virtual WeightCost cost_of(const MatmulKernel&, const CpuCosts&) const { return {}; }
};

/// A weight of few bits, whose panels are unpacked while they are split; or one of bf16, whose numbers are one part each.
template <bool kHalves>
class GemmPartsOf final : public OfFewBits<GemmParts, kHalves> {
 public:
  std::string_view name() const override { return kHalves ? "gemm_bf16w_parts" : "gemm_unpack_parts"; }

 protected:
  Fit takes_weight(const MatmulKernel& k) const override { return this->fits_weight(k); }
  WeightCost cost_of(const MatmulKernel& k, const CpuCosts& u) const override {
    if (kHalves) return {2, u.parts_widen, u.parts_of_halves};
    return {static_cast<double>(k.b_quantised->bits) / 8, u.parts_unpack, 1};
  }
  Expr scratch(const MatmulKernel& k, const aotc_gemm_config& g) const override {
    return max(few_bits_scratch(k, g), this->GemmParts::scratch(k, g) + AOTC_GEMM_PARTS_ROOM);
  }
};

}  // namespace

const Form& gemm_parts() { return instance<GemmParts>(); }

const Form& gemm_unpack_parts() { return instance<GemmPartsOf<false>>(); }

const Form& gemm_bf16w_parts() { return instance<GemmPartsOf<true>>(); }

}  // namespace aotc::forms::cpu
