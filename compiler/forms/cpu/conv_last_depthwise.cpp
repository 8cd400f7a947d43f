// AOTC_CONV_LAST_DEPTHWISE: few channels a group, channels-last: output channels as lanes, a band of output rows a work unit
// (kernels/cpu/conv_last_depthwise.h).
#include <set>

#include "forms/cpu/conv.h"
#include "forms/cpu/forms.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

class ConvLastDepthwise final : public ConvForm {
 public:
  ConvLastDepthwise() : ConvForm(AOTC_CONV_LAST_DEPTHWISE, true) {}
  std::string_view name() const override { return "conv_last_depthwise"; }
  bool by_rows() const override { return true; }

 protected:
  Fit takes(const ConvKernel& k, const Site&) const override {
    if (!is_float(k.in)) return refuse("its vectors are for floats, not {}", dtype_name(k.in));
    const auto channels = constants({k.x_dims[1], k.out_dims[1]});
    if (!channels || (*channels)[0] != (*channels)[1]) return refuse("a group gives as many channels as it takes");
    const int64_t of_group = (*channels)[0] / k.groups;
    const bool spreads = (of_group == 2 || of_group == 4 || of_group == 8) && k.acc == DType::f32;
    if (of_group != 1 && !spreads) return refuse("{} channels of {} a group", of_group, dtype_name(k.in));
    const int64_t taps = taps_of(k);
    if (taps < 2 || taps * of_group > AOTC_CONV_DEPTHWISE_TAPS)
      return refuse("{} weights a channel; at most {} and more than one tap are taken", taps * of_group, +AOTC_CONV_DEPTHWISE_TAPS);
    return Fit::yes();
  }

  std::vector<Candidate> candidates(const ConvKernel& k, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(k, s.syms);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    const CpuCosts& u = cpu_costs(s.machine);
    std::vector<Candidate> all;
    std::set<int> bands;
    for (int64_t parts : {1, s.machine.cores, 2 * s.machine.cores, 4 * s.machine.cores})
      bands.insert(static_cast<int>(even_up(ceil_div(c.out[1], parts))));
    for (int64_t mc : {64, 32, 128})
      for (int band : bands) {
        ConvTile t;
        t.mc = static_cast<int>(std::min<int64_t>(mc, ceil_div(c.co, AOTC_PANEL_N) * AOTC_PANEL_N));
        if (t.mc < mc && mc > 64) continue;
        t.nc = 8192 / t.mc;
        t.kc = 2, t.kp = band;
        Candidate r = candidate(t);
        const int64_t taps = c.depth(), pieces = ceil_div(c.out[2], t.nc), units = c.n * c.out[0] * ceil_div(c.out[1], band) * pieces;
        const double vecs = static_cast<double>(ceil_div(c.co, lanes.width));
        // A tap takes a load and a multiply-add, or half of that where neighbours share what they load.
        const bool shares = c.dilation[2] == 1 && c.stride[2] <= 2 && c.kernel[2] <= 7 && c.kernel[2] % 2 == 1;
        double cycles = static_cast<double>(c.pixels()) * vecs *
                        (static_cast<double>(taps) * (shares ? u.depthwise_shared_tap : 1.0) * (c.groups < c.c ? u.depthwise_groups : 1.0) +
                         u.depthwise_pixel);
        const double rows = static_cast<double>(c.n * c.out[0] * c.out[1] * pieces);
        cycles += rows * vecs * u.depthwise_row + static_cast<double>(units) * u.unit;
        // Lines that two bands, or two blocks of channels, both meet come from L2 again.
        cycles += static_cast<double>(units * c.kernel[1] * c.in[2]) / static_cast<double>(pieces) * vecs * u.depthwise_line;
        cycles += u.epilogue_call * std::max(static_cast<double>(units), static_cast<double>(c.pixels()) / t.nc) *
                  static_cast<double>(ceil_div(c.co, t.mc));
        r.cost_ns = shared_ns(cycles, units, s.machine);
        all.push_back(r);
      }
    return all;
  }

  Work work(const ConvKernel& k, const ConvTile& t, const Site& s) const override {
    const Expr columns = k.out_dims.back(), rows = k.out_dims.size() > 3 ? k.out_dims[k.out_dims.size() - 2] : Expr(1);
    Expr units = k.x_dims[0] * ceildiv(columns, t.nc) * ceildiv(rows, t.kp);
    if (k.out_dims.size() > 4) units *= k.out_dims[2];
    return {units,
            grain_of(cpu_costs(s.machine).grain_macs / 4, min(columns, t.nc) * min(rows, t.kp) * k.out_dims[1] * depth_of(k), s.syms)};
  }

  std::vector<Panels::Rows> rows(const ConvKernel&, int64_t ci, int64_t, int64_t taps) const override {
    return {{ci * taps, ci, 1, taps, {}}};
  }
  bool joins_groups() const override { return true; }
};

}  // namespace

const Form& conv_last_depthwise() { return instance<ConvLastDepthwise>(); }

}  // namespace aotc::forms::cpu
