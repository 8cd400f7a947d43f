// aotc_conv_bytes: channels-last convolutions of unsigned bytes by signed ones, as implicit products or channel by channel
// (kernels/cpu/conv_bytes.h, conv_bytes_depthwise.h).
#include <set>

#include "forms/cpu/byte_convs.h"
#include "forms/cpu/byte_cost.h"
#include "forms/cpu/forms.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

class ConvBytes final : public ByteConv {
 public:
  ConvBytes() : ByteConv(AOTC_CONV_LAST) {}
  std::string_view name() const override { return "conv_bytes"; }

 protected:
  std::string_view entry() const override { return "conv_bytes"; }
  int64_t scratch_bytes(const ConvKernel& k, const ConvTile& t) const override {
    const aotc_conv_bytes_config g = blocks_of(t);
    return aotc_conv_bytes_scratch_bytes(&g, depth(k));
  }

  std::vector<Candidate> candidates(const ConvKernel& kernel, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(kernel, s.syms);
    const CpuCosts& u = cpu_costs(s.machine);
    const int threads = s.machine.cores;
    const int64_t cog = c.co / c.groups, k = std::max<int64_t>(c.depth(), 1), px = std::max<int64_t>(c.pixels(), 1);
    const int64_t rows = byte_speed(s.machine).rows;
    const bool beside = c.groups == 1 && c.dilation[2] == 1;
    const double run = static_cast<double>(beside ? c.c * c.kernel[2] : c.c / c.groups);
    std::vector<Candidate> all;
    for (int mc : channel_blocks(cog))
      for (int64_t tiles : {1, 2, 4, 7, 14, 28}) {
        const int64_t nc = std::min(tiles * rows, px);
        ConvTile t;
        t.mc = mc, t.nc = static_cast<int>(nc), t.kc = 2, t.kp = 2;
        Candidate r = candidate(t);
        r.fit = fits_scratch(scratch_bytes(kernel, t), s.machine);
        all.push_back(r);
        if (!r.fit) continue;
        const int64_t co_blocks = ceil_div(cog, mc), px_blocks = ceil_div(px, nc), units = c.groups * co_blocks * px_blocks;
        double cycles = static_cast<double>(c.groups * px_blocks) *
                        byte_product_cycles(ceil_div(px, px_blocks), ceil_div(cog, AOTC_PANEL_N), k, px_blocks > 1, s.machine);
        const double gathers = copies_of_pixels(true, co_blocks, px_blocks, threads);
        cycles += static_cast<double>(px * k * c.groups) * gathers * (u.byte_copy + u.byte_run / run);
        cycles += static_cast<double>(units) * u.unit;
        cycles += u.epilogue_call * static_cast<double>(c.groups * ceil_div(px * cog, AOTC_BYTES_SUMS) + units);
        cycles += epilogue_cycles(static_cast<double>(px), static_cast<double>(c.co),
                                  {ceil_div(px, px_blocks), std::min<int64_t>(mc, cog), AOTC_BYTES_SUMS}, 4, 16, s.machine);
        all.back().cost_ns = shared_ns(cycles, units, s.machine);
      }
    return all;
  }
};

class ConvBytesDepthwise final : public ByteConv {
 public:
  ConvBytesDepthwise() : ByteConv(AOTC_CONV_LAST_DEPTHWISE) {}
  std::string_view name() const override { return "conv_bytes_depthwise"; }

 protected:
  std::string_view entry() const override { return "conv_bytes_depthwise"; }
  int64_t scratch_bytes(const ConvKernel& k, const ConvTile& t) const override {
    const aotc_conv_bytes_config g = blocks_of(t);
    return aotc_conv_bytes_depthwise_scratch_bytes(&g, taps_of(k));
  }
  Fit serves(const ConvKernel& k, const Site&) const override {
    if (!k.x_dims[1].is(k.groups) || !k.out_dims[1].is(k.groups)) return refuse("a group has one channel");
    if (taps_of(k) > AOTC_BYTES_DEPTHWISE_TAPS) return refuse("{} taps; at most {} are taken", taps_of(k), +AOTC_BYTES_DEPTHWISE_TAPS);
    return Fit::yes();
  }

  std::vector<Candidate> candidates(const ConvKernel& k, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(k, s.syms);
    const int64_t lanes = s.machine.has(Feature::AVX512F) ? 16 : 8;
    const CpuCosts& u = cpu_costs(s.machine);
    std::vector<Candidate> all;
    std::set<int> bands;
    for (int64_t parts : {1, s.machine.cores, 2 * s.machine.cores, 4 * s.machine.cores})
      bands.insert(static_cast<int>(even_up(ceil_div(c.out[1], parts))));
    for (int64_t mc : {64, 32, 128, 256})
      for (int band : bands) {
        ConvTile t;
        t.mc = static_cast<int>(std::min<int64_t>(mc, ceil_div(c.co, AOTC_PANEL_N) * AOTC_PANEL_N));
        if (t.mc < mc && mc > 64) continue;
        t.nc = 4096 / t.mc, t.kc = 2, t.kp = band;
        Candidate r = candidate(t);
        const int64_t units = c.n * c.out[0] * ceil_div(c.out[1], band), pieces = ceil_div(c.out[2], t.nc), blocks = ceil_div(c.co, t.mc);
        const double vecs = static_cast<double>(ceil_div(c.co, lanes)), taps = static_cast<double>(c.depth());
        const bool shares = c.dilation[2] == 1 && c.stride[2] <= 2 && (c.kernel[2] == 3 || c.kernel[2] == 5);
        double cycles = static_cast<double>(c.pixels()) * vecs * (taps * (shares ? u.byte_shared_tap : u.byte_tap) + u.depthwise_pixel);
        cycles += static_cast<double>(units * c.co) * taps * u.byte_weight;  // its weights
        cycles += static_cast<double>(c.pixels() * blocks) * (u.epilogue_row + taps) + static_cast<double>(units) * u.unit;
        cycles += u.epilogue_call * static_cast<double>(c.n * c.out[0] * c.out[1] * pieces * blocks);
        r.cost_ns = shared_ns(cycles, units, s.machine);
        all.push_back(r);
      }
    return all;
  }

  Work work(const ConvKernel& k, const ConvTile& t, const Site& s) const override {
    const Expr columns = k.out_dims.back(), rows = k.out_dims.size() > 3 ? k.out_dims[k.out_dims.size() - 2] : Expr(1);
    Expr units = k.x_dims[0] * ceildiv(rows, t.kp);
    if (k.out_dims.size() > 4) units *= k.out_dims[2];
    return {units, grain_of(cpu_costs(s.machine).grain_macs / 4, columns * min(rows, t.kp) * k.out_dims[1] * taps_of(k), s.syms)};
  }
  bool joins_groups() const override { return true; }
};

}  // namespace

const Form& conv_bytes() { return instance<ConvBytes>(); }
const Form& conv_bytes_depthwise() { return instance<ConvBytesDepthwise>(); }

}  // namespace aotc::forms::cpu
