// conv_few: channels-last convolutions of few channels a group, whose windows are read in place from copied lines (kernels/cpu/conv_few.h).
#include "aotc/detail/conv_few_abi.h"
#include "forms/cpu/conv.h"
#include "forms/cpu/forms.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

constexpr int64_t kMostChannels = 256;

class ConvFew final : public ConvForm {
 public:
  ConvFew() : ConvForm(AOTC_CONV_LAST, true) {}
  std::string_view name() const override { return "conv_few"; }
  bool by_rows() const override { return true; }
  Fit legal(const Choice& c) const override {
    if (!unpack<ConvTile>(c).pack_w) return refuse("its weights are in panels");
    return ConvForm::legal(c);
  }

 protected:
  std::string_view entry() const override { return "conv_few"; }

  Fit takes(const ConvKernel& k, const Site& s) const override {
    if (k.in != DType::f32 && k.in != DType::bf16) return refuse("it is for float32 and bfloat16, not {}", dtype_name(k.in));
    if (!k.w_constant || k.x == k.w || loop::loads(k.epilogue, k.w)) return refuse("the weight is read in another form too");
    const auto channels = constants({k.x_dims[1], k.out_dims[1]});
    const int64_t of_group = channels ? (*channels)[0] / k.groups : 0;
    if (of_group < 1 || of_group > kMostChannels) return refuse("more than {} channels a group", kMostChannels);
    const ConvSizes c = conv_sizes_at_least_one(k, s.syms);
    const bool apart = c.dilation[2] != 1;
    if (apart && dtype_bytes(k.in) == 2 && of_group % 2) return refuse("pairs of 16-bit values that lie apart");
    if (c.kernel[0] * c.kernel[1] * (apart ? c.kernel[2] : 1) > AOTC_CONV_FEW_LINES)
      return refuse("more than {} runs of taps", +AOTC_CONV_FEW_LINES);
    if (c.kernel[0] * c.kernel[1] * c.kernel[2] == 1) return refuse("a product");
    return fits_scratch(scratch_of(k, tile(c, 1)), s.machine);
  }

  std::vector<Candidate> candidates(const ConvKernel& k, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(k, s.syms);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    const CpuCosts& u = cpu_costs(s.machine);
    const int64_t cg = c.c / c.groups, cog = c.co / c.groups;
    const int64_t lines = c.kernel[0] * c.kernel[1], values = c.kernel[2] * cg, rows = c.n * c.out[0] * c.out[1];
    const double inside = taps_inside(c, 0) * taps_inside(c, 1), vecs = static_cast<double>(ceil_div(cog, lanes.width));
    const int64_t steps = lanes.macs > 1 ? ceil_div(values, 2) : values;
    std::vector<Candidate> all;
    for (int64_t of_unit : {2, 4, 8, 16, 32}) {
      Candidate r = candidate(tile(c, std::min(of_unit, rows)));
      const int64_t units = c.groups * ceil_div(rows, of_unit), tiles = ceil_div(c.out[2], lanes.mr);
      const double all_rows = static_cast<double>(rows * c.groups), all_lines = all_rows * static_cast<double>(lines) * inside;
      double cycles = static_cast<double>(c.out[2] * steps) * all_lines * vecs;
      const double columns = static_cast<double>(c.out[2] * c.stride[2]);
      cycles += all_lines * (u.few_line + u.conv_copy * columns *
                                              (c.groups == 1 ? static_cast<double>(c.c) / static_cast<double>(lanes.width)
                                                             : static_cast<double>(ceil_div(cg, lanes.width))));
      cycles += all_rows * static_cast<double>(tiles) * vecs / 2 * (u.tile_call + u.few_tile_sums) + all_rows * u.few_row;
      // Weights, whole vectors of channels, come from L2 for every run of an output row.
      const double weights = vecs * static_cast<double>(lanes.width * c.depth() * dtype_bytes(c.dtype));
      cycles += weights * all_rows * static_cast<double>(ceil_div(c.out[2], AOTC_CONV_FEW_RUN)) / u.weight_far_bytes *
                (weights > static_cast<double>(s.machine.l2_bytes) / 2 ? 1.0 : u.conv_weight_shown);
      cycles += static_cast<double>(units) * u.unit + u.epilogue_call * all_rows;
      cycles += epilogue_cycles(static_cast<double>(c.pixels()), static_cast<double>(c.co),
                                {std::min<int64_t>(c.out[2], AOTC_CONV_FEW_RUN), cog, INT32_MAX}, 4, lanes.width, s.machine);
      r.cost_ns = shared_ns(cycles, units, s.machine);
      all.push_back(r);
    }
    return all;
  }

  StepSpec step(const ConvKernel& k, const Site& site, const Choice& choice) const override {
    StepSpec f = ConvForm::step(k, site, choice);
    f.scratch_bytes = scratch_of(k, unpack<ConvTile>(choice));
    return f;
  }

  /// A line of taps is a matrix.
  std::vector<Panels::Rows> rows(const ConvKernel& k, int64_t ci, int64_t, int64_t taps) const override {
    const int64_t width = k.kernel.back();
    std::vector<Panels::Rows> all;
    for (int64_t line = 0; line < taps / width; ++line) {
      Panels::Rows r{width * ci, width * ci, 0, 0, {}};
      for (int64_t i = 0; i < width * ci; ++i) r.taps.push_back(i % ci * taps + line * width + i / ci);
      all.push_back(std::move(r));
    }
    return all;
  }

 private:
  /// All channels of a group, so many rows a unit.
  static ConvTile tile(const ConvSizes& c, int64_t rows) {
    ConvTile t;
    t.mc = static_cast<int>(ceil_div(c.co / c.groups, AOTC_PANEL_N) * AOTC_PANEL_N);
    t.nc = static_cast<int>(std::min<int64_t>(rows * c.out[2], INT32_MAX));
    t.kc = t.kp = static_cast<int>(even_up(c.depth()));
    return t;
  }
  static int64_t scratch_of(const ConvKernel& k, const ConvTile& t) {
    aotc_conv_config g{};
    g.mc = t.mc, g.stride[2] = static_cast<int32_t>(k.stride.back()), g.dilation[2] = static_cast<int32_t>(k.dilation.back());
    const size_t dims = k.kernel.size();
    for (size_t i = 0; i < 3; ++i) g.kernel[i] = i < 3 - dims ? 1 : static_cast<int32_t>(k.kernel[i + dims - 3]);
    return aotc_conv_few_scratch_bytes(&g, *k.x_dims[1].as_const() / k.groups);
  }
};

}  // namespace

const Form& conv_few() { return instance<ConvFew>(); }

}  // namespace aotc::forms::cpu
