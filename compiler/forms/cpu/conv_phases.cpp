// AOTC_CONV_PHASES: transposed convolutions as a product for each phase of the stride, without inserted zeros (kernels/cpu/conv_phases.h).
#include <numeric>
#include "forms/cpu/conv.h"
#include "forms/cpu/forms.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

/// The taps of a kernel by phase, as offsets into the kernel.
std::vector<std::vector<int64_t>> taps_by_phase(const ConvKernel& k) {
  std::vector<std::vector<int64_t>> all = {{0}};
  for (size_t d = 0; d < k.kernel.size(); ++d) {
    std::vector<std::vector<int64_t>> next;
    for (const auto& outer : all)
      for (int64_t v = 0; v < k.stride[d]; ++v) {
        std::vector<int64_t> taps;
        for (int64_t o : outer)
          for (int64_t t = k.kernel[d] - 1; t >= 0; --t)
            if (t * k.dilation[d] % k.stride[d] == v) taps.push_back(o * k.kernel[d] + t);
        next.push_back(std::move(taps));
      }
    all = std::move(next);
  }
  return all;
}

class ConvPhases final : public ConvForm {
 public:
  ConvPhases() : ConvForm(AOTC_CONV_PHASES, false) {}
  std::string_view name() const override { return "conv_phases"; }

 protected:
  Fit takes(const ConvKernel& k, const Site&) const override {
    if (const Fit floats = takes_floats(k); !floats) return floats;
    return k.transposed ? Fit::yes() : refuse("only a transposed convolution has phases");
  }

  /// The products of all phases have k values of k together, over a pixel of each.
  std::vector<Candidate> candidates(const ConvKernel& kernel, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(kernel, s.syms);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    const CpuCosts& u = cpu_costs(s.machine);
    const int threads = s.machine.cores;
    const int64_t ab = acc_bytes(c.dtype), cog = c.co / c.groups, k = std::max<int64_t>(c.depth(), 1), sw = c.stride[2];
    int64_t phases = 1, px = c.n, k_unit = c.c / c.groups;
    for (size_t i = 0; i < 3; ++i) {
      phases *= c.stride[i], px *= ceil_div(c.out[i], c.stride[i]);
      k_unit *= ceil_div(c.kernel[i], c.stride[i] / std::gcd(c.stride[i], c.dilation[i]));
    }
    const int64_t reads = std::min<int64_t>(sw, 3);  // phases of width that differ in what they read, for the usual dilation 1
    k_unit *= reads;
    std::vector<Candidate> all;
    for (int mc : channel_blocks(cog))
      for (int nc : {32, 64, 96, 128, 192}) {
        ConvTile t;
        t.mc = mc, t.nc = nc;
        t.kc = balanced_kc(ceil_div(k, phases), 128);
        const int64_t tile_bytes = (2 * sw * nc + 3 * (nc + 64)) * AOTC_PANEL_N * ab;
        const int64_t room = std::max<int64_t>(t.kc, std::min(s.machine.l2_bytes * 5 / 2, u.scratch_most - tile_bytes) / ((nc + 64) * ab));
        const int64_t rows = k_unit + sw;
        t.kp = static_cast<int>(t.kc * std::max<int64_t>(1, rows <= room ? ceil_div(rows, t.kc) : room / t.kc));
        Candidate& r = all.emplace_back(candidate(t, c, s.machine));
        if (!r.fit) continue;
        const int64_t co_blocks = ceil_div(cog, mc), px_blocks = ceil_div(px, nc), row_phases = c.stride[0] * c.stride[1];
        const int64_t units = c.groups * co_blocks * row_phases * px_blocks, co_panels = ceil_div(cog, AOTC_PANEL_N) * c.groups;
        const double lanes_px = static_cast<double>(ceil_div(px, lanes.width) * lanes.width);
        const double lanes_co = static_cast<double>(ceil_div(cog, lanes.width) * lanes.width);
        double cycles = std::min(lanes_px * static_cast<double>(cog), lanes_co * static_cast<double>(px)) *
                        static_cast<double>(k * c.groups) / static_cast<double>(lanes.width) / lanes.macs;
        const double tiles = static_cast<double>(c.groups * ceil_div(cog, lanes.mr) * ceil_div(px, 2 * lanes.width) * phases);
        cycles += tiles * static_cast<double>(ceil_div(ceil_div(k, phases), t.kc)) * (u.tile_call + u.conv_tile_sums);
        const int64_t gathers = k_unit + sw > t.kp ? co_panels / c.groups : co_blocks > 1 && px_blocks * row_phases < threads ? threads : 1;
        cycles += u.gather * static_cast<double>(px * k_unit * row_phases * c.groups * gathers);
        if (!c.w_constant) cycles += u.conv_weight_pack * static_cast<double>(cog * k * c.groups * px_blocks);
        cycles += static_cast<double>(cog * k * c.groups * ab * px_blocks) / u.weight_far_bytes *
                  (mc * k * ab > s.machine.l2_bytes / 2 ? 1.0 : u.conv_weight_shown);
        if ((nc * std::min<int64_t>(k_unit, t.kp) + 2 * sw * nc * AOTC_PANEL_N) * ab > s.machine.l2_bytes * 3 / 4)
          cycles *= u.conv_beyond_l2;
        // Copied, interleaved, and the epilogue entered for each piece of an output row.
        cycles += u.phases_interleave * static_cast<double>(c.pixels() * c.co);
        const double pieces = static_cast<double>(c.pixels()) / static_cast<double>(std::min<int64_t>(c.out[2], nc * sw));
        cycles += pieces * static_cast<double>(co_panels) * u.epilogue_call;
        cycles += static_cast<double>(units) * u.unit;
        r.cost_ns = shared_ns(cycles, units, s.machine);
      }
    return all;
  }

  Work work(const ConvKernel& k, const ConvTile& t, const Site& s) const override {
    Expr pixels = k.x_dims[0], phases = 1;  // of one product
    const int64_t lead = 3 - static_cast<int64_t>(k.stride.size());
    for (size_t i = 0; i < k.stride.size(); ++i) {
      pixels *= ceildiv(k.out_dims[2 + i], k.stride[i]);
      if (lead + static_cast<int64_t>(i) < 2) phases *= k.stride[i];
    }
    const Expr channels = floordiv(k.out_dims[1], k.groups);
    return {ceildiv(channels, t.mc) * k.groups * phases * ceildiv(pixels, t.nc),
            grain_of(cpu_costs(s.machine).grain_macs, min(channels, t.mc) * min(pixels, t.nc) * floordiv(depth_of(k), phases), s.syms)};
  }

  std::vector<Panels::Rows> rows(const ConvKernel& k, int64_t ci, int64_t co, int64_t taps) const override {
    std::vector<Panels::Rows> out;
    for (auto& of : taps_by_phase(k)) {
      const auto n = static_cast<int64_t>(of.size());
      out.push_back({ci * n, std::max<int64_t>(n, 1), co * taps, 0, std::move(of)});
    }
    return out;
  }
};

}  // namespace

const Form& conv_phases() { return instance<ConvPhases>(); }

}  // namespace aotc::forms::cpu
