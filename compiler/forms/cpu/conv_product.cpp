// AOTC_CONV_GEMM: an implicit matrix product, images merged: weights in panels by output channel, pixels gathered (kernels/cpu/conv.h).
#include "forms/cpu/conv.h"
#include "forms/cpu/forms.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

/// Cycles for an element of im2col, measured: rows are copied as vectors, of every second element too; others are picked one by one, and
/// so are all of a kernel of more rows than a plan is made for (kernels/cpu/gather.h).
double gather_cycles(const ConvSizes& c, const Machine& m) {
  constexpr int64_t kPlannedRows = 64;
  if (c.kernel[0] * c.kernel[1] > kPlannedRows) return cpu_costs(m).gather_unplanned;
  return c.stride[2] <= 2 ? cpu_costs(m).gather : cpu_costs(m).gather_strided;
}

class ConvProduct final : public ConvForm {
 public:
  ConvProduct() : ConvForm(AOTC_CONV_GEMM, false) {}
  std::string_view name() const override { return "conv_product"; }

 protected:
  Fit takes(const ConvKernel& k, const Site&) const override { return takes_floats(k); }
  std::vector<Candidate> candidates(const ConvKernel& kernel, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(kernel, s.syms);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    const CpuCosts& u = cpu_costs(s.machine);
    const int threads = s.machine.cores;
    const int64_t ab = acc_bytes(c.dtype), cog = c.co / c.groups, k = std::max<int64_t>(c.depth(), 1),
                  px = std::max<int64_t>(c.pixels(), 1);
    std::vector<Candidate> all;
    for (int mc : channel_blocks(cog))
      for (int nc : {32, 64, 96, 128, 192, 256}) {
        ConvTile t;
        t.mc = mc, t.nc = nc;
        t.kc = balanced_kc(k, 128);
        const int64_t room = s.machine.l2_bytes * 5 / 2 / ((nc + 64) * ab);
        t.kp = static_cast<int>(t.kc * std::max<int64_t>(1, k <= room ? ceil_div(k, t.kc) : room / t.kc));
        Candidate& r = all.emplace_back(candidate(t, c, s.machine));
        if (!r.fit) continue;
        const int64_t co_blocks = ceil_div(cog, mc), px_blocks = ceil_div(px, nc), units = c.groups * co_blocks * px_blocks;
        const double lanes_px = static_cast<double>(ceil_div(px, lanes.width) * lanes.width);
        const double lanes_co = static_cast<double>(ceil_div(cog, lanes.width) * lanes.width);
        const double macs =
            std::min(lanes_px * static_cast<double>(cog), lanes_co * static_cast<double>(px)) * static_cast<double>(k * c.groups);
        double cycles = macs / static_cast<double>(lanes.width) / lanes.macs;
        const double tiles = static_cast<double>(c.groups * ceil_div(cog, lanes.mr) * ceil_div(px, 2 * lanes.width));
        cycles += tiles * static_cast<double>(ceil_div(k, t.kc)) * (u.tile_call + u.conv_tile_sums);
        // Gathered once a run of channel blocks of one thread, when all of k is kept.
        const double gathers = copies_of_pixels(k <= t.kp, co_blocks, px_blocks, threads);
        cycles += gather_cycles(c, s.machine) * static_cast<double>(px * k * c.groups) * gathers;
        if (!c.w_constant) cycles += u.conv_weight_pack * static_cast<double>(cog * k * c.groups) * static_cast<double>(px_blocks);
        // Weights stream once a pixel block.
        cycles += static_cast<double>(cog * k * c.groups * ab) * static_cast<double>(px_blocks) / u.weight_far_bytes *
                  (mc * k * ab > s.machine.l2_bytes / 2 ? 1.0 : u.conv_weight_shown);
        if ((nc * std::min<int64_t>(k, t.kp)) * ab > s.machine.l2_bytes * 3 / 4) cycles *= u.conv_beyond_l2;
        cycles += static_cast<double>(units) * u.unit;
        cycles += u.epilogue_call * static_cast<double>(c.groups) * static_cast<double>(ceil_div(px * cog, 8192) + co_blocks * px_blocks);
        cycles *= u.conv_product;
        cycles += epilogue_cycles(static_cast<double>(c.co), static_cast<double>(px),
                                  {std::min<int64_t>(mc, cog), std::min<int64_t>(nc, px), 8192}, ab, lanes.width, s.machine);
        r.cost_ns = shared_ns(cycles, units, s.machine);
      }
    return all;
  }

  std::vector<Panels::Rows> rows(const ConvKernel& k, int64_t ci, int64_t co, int64_t taps) const override {
    return {{ci * taps, k.transposed ? taps : ci * taps, k.transposed ? co * taps : 0, 1, {}}};
  }
};

}  // namespace

const Form& conv_product() { return instance<ConvProduct>(); }

}  // namespace aotc::forms::cpu
