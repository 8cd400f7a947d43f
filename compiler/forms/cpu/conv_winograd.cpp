// AOTC_CONV_WINOGRAD: 3x3 convolutions of stride 1, and such of volumes whose windows are 3x3 in height and width, by minimal filtering,
// F(2x2) and F(4x4), channels-last (kernels/cpu/conv_winograd.h): float32, and F(2x2) of bf16.
//
// Error against fp64 beside eager's, of a layer of 64 to 512 channels of random data: F(2x2) 1.4 to 3.3 times, F(4x4) 2.5 to 3.2 times in
// parts of about 2 sqrt(C) channels (3.9 to 10 times in one sum).
// F(2x2) of bf16 rounds tiles and filters once more after their transforms: 1.8 times of float32 numbers that are rounded to bf16, 2.4
// times of bf16 ones (random data, 16 to 256 channels; 1.6 and 2.4 times eager's in bf16); ResNet-50 1.03 times, 0.8 of eager's.
#include <cmath>
#include <set>

#include "forms/cpu/conv.h"
#include "forms/cpu/forms.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

/// Input channels that F(4x4) sums at a time. Its output transform subtracts sums larger than the result, so that their rounding counts:
/// it grows with the parts' length and with their number. About 2 sqrt(channels), twice where it is least, saves half of the calls.
int64_t part_of_sum(int64_t channels) { return std::max<int64_t>(16, std::llround(2 * std::sqrt(static_cast<double>(channels)))); }

class ConvWinograd final : public ConvForm {
 public:
  ConvWinograd() : ConvForm(AOTC_CONV_WINOGRAD, true) {}
  std::string_view name() const override { return "conv_winograd"; }
  Fit legal(const Choice& c) const override {
    const int m = unpack<ConvTile>(c).kp;
    return m == 2 || m == 4 ? Fit::yes() : refuse("kp: tiles of {0} x {0} pixels; 2 and 4 are known", m);
  }

 protected:
  Fit takes(const ConvKernel& k, const Site& s) const override {
    if (k.in != DType::f32 && k.in != DType::bf16) return refuse("its transforms are for float32 and bf16, not {}", dtype_name(k.in));
    if (k.in == DType::bf16 && s.numerics.bf16_rounds_once)
      return refuse("its transforms of bf16 are rounded once more, which --precision auto has not measured");
    const auto in_plane = [](const Ints& of, int64_t x) { return of.size() >= 2 && of[of.size() - 2] == x && of.back() == x; };
    if (!in_plane(k.kernel, 3) || !in_plane(k.stride, 1) || !in_plane(k.dilation, 1) || k.groups != 1)
      return refuse("it takes kernels of 3x3 (height, width) of stride and dilation 1 there, in one group");
    if (!k.w_constant || k.x == k.w || loop::loads(k.epilogue, k.w)) return refuse("the weight is not a constant of its own");
    const auto channels = constants({k.x_dims[1], k.out_dims[1]});
    if (!channels || (*channels)[0] % 16 != 0 || (*channels)[0] == 0) return refuse("the input channels are no multiple of 16");
    return Fit::yes();
  }

  std::vector<Candidate> candidates(const ConvKernel& kernel, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(kernel, s.syms);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    const CpuCosts& u = cpu_costs(s.machine);
    const int64_t deep = c.c * c.kernel[0];
    const double inside = taps_inside(c, 0);
    std::vector<Candidate> all;
    std::set<int> mcs;
    for (int64_t mc : {64, 128, 512}) mcs.insert(static_cast<int>(std::min<int64_t>(mc, ceil_div(c.co, 32) * 32)));
    for (int m : {4, 2})
      for (int mc : mcs)
        for (int64_t rows : {1, 2, 4, 8}) {
          const int64_t tiles = c.n * c.out[0] * ceil_div(c.out[1], m) * ceil_div(c.out[2], m), points = (m + 2) * (m + 2);
          ConvTile t;
          t.mc = mc, t.nc = static_cast<int>(std::min(rows * lanes.mr, tiles)), t.kp = m;
          t.kc = balanced_kc(deep, m == 4 ? part_of_sum(deep) : 512);
          if (!all.empty() && all.back().choice == candidate(t).choice) continue;
          Candidate r = candidate(t);
          const aotc_conv_config cfg = scratch_config(t, true, 1);
          const int64_t scratch = aotc_conv_scratch_bytes(&cfg, c.depth(), 4);
          r.fit = m == 4 && c.dtype != DType::f32   ? refuse("F(4x4) of {} is not accurate enough", dtype_name(c.dtype))
                  : m == 4 && !s.numerics.winograd4 ? refuse("F(4x4) has 3 times the error of a direct sum; --winograd4 allows it")
                                                    : fits_scratch(scratch, s.machine);
          all.push_back(r);
          if (!r.fit) continue;
          const int64_t blocks = ceil_div(tiles, t.nc), co_blocks = ceil_div(c.co, mc), units = blocks * co_blocks;
          const double n = static_cast<double>(tiles), vec = static_cast<double>(lanes.width);
          const double co = static_cast<double>(ceil_div(c.co, lanes.width) * lanes.width), ci = static_cast<double>(deep);
          double cycles = n * static_cast<double>(points) * ci * co * inside / vec / lanes.macs;
          const double calls = static_cast<double>(points * blocks * ceil_div(t.nc, lanes.mr)) * co / (2 * vec);
          cycles += calls * static_cast<double>(ceil_div(deep, t.kc)) * (u.tile_call + u.conv_tile_sums);
          // The transforms: loads, about as many operations, stores.
          const double transforms = 1.0 + static_cast<double>(co_blocks > 1 && blocks < s.machine.cores ? s.machine.cores - 1 : 0);
          cycles += n * static_cast<double>(points) * (ci * transforms * u.winograd_in + co * u.winograd_out) / vec;
          // The transformed weights stream once a block of tiles.
          const double weights = static_cast<double>(points * dtype_bytes(c.dtype)) * ci * co;
          cycles += weights * static_cast<double>(blocks) / u.weight_far_bytes *
                    (weights > static_cast<double>(s.machine.l2_bytes) / 2 ? 1.0 : u.winograd_weight_shown);
          if (scratch > s.machine.l2_bytes * 3 / 4) cycles *= u.winograd_beyond_l2;
          cycles += static_cast<double>(units) * u.unit + u.epilogue_call * n * co / double{AOTC_PANEL_N} * m / double{AOTC_WINOGRAD_RUN};
          cycles += epilogue_cycles(n * m * m, co, {1, AOTC_PANEL_N, 4096}, 4, lanes.width, s.machine);
          all.back().cost_ns = shared_ns(cycles, units, s.machine);
        }
    return all;
  }

  Work work(const ConvKernel& k, const ConvTile& t, const Site& s) const override {
    const size_t dims = k.out_dims.size();
    const Expr planes = dims == 5 ? k.x_dims[0] * k.out_dims[2] : k.x_dims[0];
    const Expr tiles = planes * ceildiv(k.out_dims[dims - 2], t.kp) * ceildiv(k.out_dims[dims - 1], t.kp);
    const int64_t points = (t.kp + 2) * (t.kp + 2) * (dims == 5 ? k.kernel[0] : 1);
    return {ceildiv(tiles, t.nc) * ceildiv(k.out_dims[1], t.mc),
            grain_of(cpu_costs(s.machine).grain_macs, min(tiles, t.nc) * min(k.out_dims[1], t.mc) * k.x_dims[1] * points, s.syms)};
  }

  std::vector<Panels::Rows> rows(const ConvKernel&, int64_t ci, int64_t, int64_t taps) const override {
    return {{ci * (taps / 9), ci, 9, taps, {}}};
  }
  int winograd(const ConvTile& t) const override { return t.kp; }
};

}  // namespace

const Form& conv_winograd() { return instance<ConvWinograd>(); }

}  // namespace aotc::forms::cpu
