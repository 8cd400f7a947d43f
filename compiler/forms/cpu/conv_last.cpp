// AOTC_CONV_LAST: an implicit matrix product over channels-last tensors, channels as lanes; the pixels' rows are copied in runs of whole
// channels (kernels/cpu/conv_last.h).
#include "forms/cpu/conv.h"
#include "forms/cpu/forms.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

class ConvLast final : public ConvForm {
 public:
  ConvLast() : ConvForm(AOTC_CONV_LAST, true) {}
  std::string_view name() const override { return "conv_last"; }
  bool by_rows() const override { return true; }

 protected:
  Fit takes(const ConvKernel& k, const Site&) const override { return takes_floats(k); }

  std::vector<Candidate> candidates(const ConvKernel& kernel, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(kernel, s.syms);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    const CpuCosts& u = cpu_costs(s.machine);
    const int threads = s.machine.cores;
    const int64_t ab = acc_bytes(c.dtype), cog = c.co / c.groups, k = std::max<int64_t>(c.depth(), 1),
                  px = std::max<int64_t>(c.pixels(), 1);
    const double inside = taps_inside(c, 0) * (c.out[2] >= lanes.mr ? taps_inside(c, 1) : 1);
    std::vector<Candidate> all;
    for (int mc : channel_blocks(cog))
      for (int64_t tiles : {2, 4, 7, 14, 28}) {
        const int64_t nc = std::min(tiles * lanes.mr, px);
        ConvTile t;
        t.mc = mc, t.nc = static_cast<int>(nc);
        t.kc = balanced_kc(k, 256);
        const int64_t room = s.machine.l2_bytes * 3 / 4 / ((nc + 1) * ab);
        t.kp = static_cast<int>(t.kc * std::max<int64_t>(1, k <= room ? ceil_div(k, t.kc) : room / t.kc));
        Candidate& r = all.emplace_back(candidate(t, c, s.machine));
        if (!r.fit) continue;
        const int64_t co_blocks = ceil_div(cog, mc), px_blocks = ceil_div(px, nc), units = c.groups * co_blocks * px_blocks;
        const double depth = static_cast<double>(k * c.groups), pixels = static_cast<double>(px);
        double cycles = pixels * inside * column_vectors(cog, nc, lanes, s.machine) * depth / lanes.macs;
        const double calls = static_cast<double>(c.groups * ceil_div(cog, 2 * lanes.width) * px_blocks * ceil_div(nc, lanes.mr));
        cycles += calls * static_cast<double>(ceil_div(k, t.kc)) * (u.tile_call + u.conv_tile_sums);
        // Copied once a run of channel blocks of one thread, when all of k is kept; short runs of channels cost more.
        const double gathers = copies_of_pixels(k <= t.kp, co_blocks, px_blocks, threads);
        const bool runs_of_taps = c.groups == 1 && c.dilation[2] == 1;
        const double run = static_cast<double>(runs_of_taps ? c.c * c.kernel[2] : c.c / c.groups);
        cycles += pixels * depth * gathers *
                  (u.conv_copy / static_cast<double>(lanes.width) + (runs_of_taps ? u.conv_run_of_taps : u.conv_run) / run);
        if (!c.w_constant) cycles += u.conv_weight_pack * static_cast<double>(cog) * depth * static_cast<double>(px_blocks);
        // Weights stream once a pixel block.
        cycles += static_cast<double>(cog * ab) * depth * static_cast<double>(px_blocks) / u.weight_far_bytes *
                  (cog * k * ab > s.machine.l2_bytes / 2 ? 1.0 : u.conv_weight_shown);
        if (nc * std::min<int64_t>(k, t.kp) * ab > s.machine.l2_bytes / 2) cycles *= u.conv_beyond_l2;
        cycles += static_cast<double>(units) * u.unit;
        cycles += u.epilogue_call * static_cast<double>(c.groups * ceil_div(px * cog, 4096) + units);
        cycles += epilogue_cycles(pixels, static_cast<double>(c.co), {ceil_div(px, px_blocks), std::min<int64_t>(mc, cog), 4096}, ab,
                                  lanes.width, s.machine);
        r.cost_ns = shared_ns(cycles, units, s.machine);
      }
    return all;
  }

  std::vector<Panels::Rows> rows(const ConvKernel&, int64_t ci, int64_t, int64_t taps) const override {
    return {{ci * taps, ci, 1, taps, {}}};
  }
};

}  // namespace

const Form& conv_last() { return instance<ConvLast>(); }

}  // namespace aotc::forms::cpu
