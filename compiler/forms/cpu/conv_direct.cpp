// AOTC_CONV_DIRECT: few channels in a group (depthwise), and integers: one output plane a work unit, rows in a copied strip
// (kernels/cpu/conv_direct.h).
#include "forms/cpu/conv.h"
#include "forms/cpu/forms.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

class ConvDirect final : public ConvForm {
 public:
  ConvDirect() : ConvForm(AOTC_CONV_DIRECT, false) {}
  std::string_view name() const override { return "conv_direct"; }

 protected:
  Fit takes(const ConvKernel& k, const Site&) const override {
    if (loop::multiplies_bytes(k)) return refuse("its operands are of one type");
    return k.groups > 1 || !is_float(k.in) ? Fit::yes() : refuse("one group: its channels are a product");
  }

  std::vector<Candidate> candidates(const ConvKernel& k, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(k, s.syms);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    const CpuCosts& u = cpu_costs(s.machine);
    ConvTile t;
    t.mc = 1, t.nc = 4096, t.kc = 2;
    // A strip of at least one row of 64 columns.
    const int64_t strip =
        ((c.kernel[1] - 1) * c.dilation[1] + 1 + c.stride[1]) * (63 * c.stride[2] + (c.kernel[2] - 1) * c.dilation[2] + 1 + c.stride[2]) +
        lanes.width * c.stride[1] * c.stride[2];
    t.kp = static_cast<int>(std::clamp<int64_t>(even_up(strip), 6144, 1 << 17));
    Candidate r = candidate(t);
    const int64_t px = std::max<int64_t>(c.pixels(), 1), depth = std::max<int64_t>(c.depth(), 1), cog = c.group_channels();
    // Strips are copied and entered plane by plane.
    const double copied = static_cast<double>(c.n * c.co * c.in[0] * c.in[1] * c.in[2]) * u.direct_copy;
    const double sums = static_cast<double>(px * c.co * depth) / static_cast<double>(lanes.width) * u.direct_mac;
    r.cost_ns = shared_ns(sums + copied + u.direct_plane * static_cast<double>(c.n * c.co), c.n * c.co, s.machine);
    if (c.transposed) r.cost_ns *= u.direct_transposed;
    if (cog > 4 && is_float(c.dtype)) r.fit = refuse("{} output channels a group read each input {} times", cog, cog);
    return {r};
  }

  Work work(const ConvKernel& k, const ConvTile&, const Site& s) const override {
    const Expr pixels = product(Exprs(k.out_dims.begin() + 2, k.out_dims.end()));
    return {k.x_dims[0] * k.out_dims[1], grain_of(cpu_costs(s.machine).grain_macs / 4, pixels * depth_of(k), s.syms)};
  }
};

}  // namespace

const Form& conv_direct() { return instance<ConvDirect>(); }

}  // namespace aotc::forms::cpu
