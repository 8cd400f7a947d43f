// AOTC_CONV_LAST of bf16 in the tile registers of AMX, all of a pixel's sum at once (kernels/cpu/conv_last_tiles.h).
#include <set>

#include "aotc/detail/conv_tiles_abi.h"
#include "forms/cpu/conv.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/tile_cost.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

/// How the kernel reads windows in place (kernels/cpu/conv_tile_strips.h).
struct Strip {
  int line_steps = 0;                                  ///< of aotc_conv_config, of one group
  int64_t together = 1;                                ///< aotc_conv_lines_together
  int64_t row = 0, reach = 0, regions = 0, pixel = 0;  ///< outputs of a bordered row and behind one; elements of an output in a region
  int64_t steps = 0;                                   ///< of 32 values of k
  bool ring = false;                                   ///< neighbouring planes share all but one of the regions' taps of depth
  bool pairs = false;                                  ///< two outputs are a row of tiles
  explicit operator bool() const { return regions > 0; }

  int64_t outputs(const ConvSizes& c, int64_t pixels) const { return ceil_div(pixels * row, std::max<int64_t>(c.out[2], 1)); }
  int64_t elements(int64_t outputs) const {
    const int64_t behind = line_steps ? line_steps * 32 + AOTC_CONV_MOST_TOGETHER * 32 : 0;
    return ((ceil_div(outputs, 32) * 32 + reach) * pixel + behind) * regions;
  }
};

int64_t phases_met(int64_t kernel, int64_t stride, int64_t dilation) {
  std::set<int64_t> met;
  for (int64_t t = 0; t < std::min<int64_t>(kernel, stride); ++t) met.insert(t * dilation % stride);
  return static_cast<int64_t>(met.size());
}
int64_t pitch_of(int64_t elements) { return (ceil_div(elements, 32) | 1) * 32; }

int64_t lines_together_of(const ConvSizes& c) { return aotc_conv_lines_together(c.c, c.kernel[0], c.kernel[1]); }

/// aotc_conv_config::line_steps: of channels that are no whole steps, 0 where the steps are too many.
int line_steps_of(const ConvSizes& c) {
  const int64_t cg = c.c / c.groups, taps = c.kernel[0] * c.kernel[1] * c.kernel[2],
                most = AOTC_CONV_MOST_LINE_STEPS * ceil_div(c.depth(), 32);
  if (cg % 32 == 0 || c.dilation[2] != 1 || taps == 1) return 0;
  if (c.groups > 1) return cg % 2 == 0 && cg < 32 && taps <= most ? static_cast<int>(c.kernel[2]) : 0;
  const int64_t together = lines_together_of(c), steps = ceil_div(c.kernel[2] * cg * together, 32);
  return c.kernel[0] * c.kernel[1] / together * steps <= most ? static_cast<int>(steps) : 0;
}

Strip strip_of(const ConvSizes& c, bool packed) {
  Strip s;
  const int64_t cg = c.c / c.groups;
  if (c.depth() == cg) return s;
  const int line_steps = packed ? line_steps_of(c) : 0;
  if (!line_steps && (c.groups > 1 || cg % 32)) return s;
  if (c.groups == 1) s.line_steps = line_steps;
  if (s.line_steps) s.together = lines_together_of(c);
  const int64_t beyond = (c.kernel[2] - 1) * c.dilation[2] / c.stride[2];
  const int64_t below = s.together > 1 ? 0 : (c.kernel[1] - 1) * c.dilation[1] / c.stride[1];
  s.row = c.out[2] + beyond, s.reach = below * s.row + beyond;
  s.regions = s.together > 1 ? c.kernel[0] * c.kernel[1] / s.together : c.kernel[0] * phases_met(c.kernel[1], c.stride[1], c.dilation[1]);
  if (!s.line_steps) s.regions *= phases_met(c.kernel[2], c.stride[2], c.dilation[2]);
  s.ring = c.groups == 1 && c.kernel[0] > 1 && s.regions >= c.kernel[0] && c.stride[0] == 1 && c.dilation[0] == 1;
  s.pixel = s.line_steps ? c.stride[2] * c.c * s.together : pitch_of(cg);
  s.steps = c.kernel[0] * c.kernel[1] / s.together * (s.line_steps ? s.line_steps : c.kernel[2] * ceil_div(cg, 32));
  s.pairs = s.line_steps && c.co <= 16 && c.kernel[2] * c.c * s.together + s.pixel <= s.line_steps * 32;
  return s;
}

/// Pixels of a unit, at most `most`, such that all units are equal parts of planes; 0 where there are none.
int64_t part_of_plane(const ConvSizes& c, int64_t most) {
  const int64_t planes = c.n * c.out[0], plane = c.out[1] * c.out[2];
  for (int64_t parts = ceil_div(plane, most); parts <= 2 * ceil_div(plane, most); ++parts)
    if (ceil_div(planes * plane, ceil_div(plane, parts)) == planes * parts) return ceil_div(plane, parts);
  return 0;
}
bool are_parts_of_planes(const ConvSizes& c, int64_t units) { return units % (c.n * c.out[0]) == 0; }

/// The tile instructions of a unit of so many outputs of a strip, and what its tiles' rows cost that lie in two cache lines.
double strip_cycles(const Strip& s, int64_t outputs, int64_t cols, const Machine& machine) {
  const int64_t rows = s.pairs ? ceil_div(outputs, 2) : outputs, width = s.pairs ? int64_t{AOTC_PANEL_N} : cols;
  const int64_t pitch = s.pixel * (s.pairs ? 4 : 2);
  double split = 0;  // of a tile's rows
  for (int64_t i = 0; i < 16; ++i) split += i * pitch % 64 ? 1.0 / 16 : 0;
  const double loads = static_cast<double>(ceil_div(rows, 16) * ceil_div(width, AOTC_PANEL_N) * s.steps);
  return tile_cycles(rows, width, s.steps, machine, 1, s.regions * s.pixel * 2) +
         loads * split * (width > 16 ? cpu_costs(machine).amx_split_rows / 4 : cpu_costs(machine).amx_split_rows);
}

/// Whether a unit of nc pixels is one.
bool is_strip(const Strip& s, const ConvSizes& c, int64_t nc, int64_t pixels) {
  if (!s) return false;
  const int64_t outputs = s.outputs(c, pixels);
  return 3 * outputs <= 4 * pixels + 48 &&
         s.elements(outputs + (s.line_steps ? s.row : 0)) <=
             ceil_div(nc, 16) * 16 * pitch_of(c.depth()) - (s.line_steps ? 0 : 512 * ceil_div(c.depth(), 32));
}

class ConvLastTiles final : public ConvForm {
 public:
  ConvLastTiles() : ConvForm(AOTC_CONV_LAST, true) {}
  std::string_view name() const override { return "conv_last_tiles"; }
  bool by_rows() const override { return true; }

 private:
  Fit fits_tile(const ConvSizes& c, const ConvTile& t, const Machine& m) const {
    aotc_conv_config g = scratch_config(t, c.w_constant, c.stride[2]);
    g.line_steps = c.w_constant ? line_steps_of(c) : 0;
    for (size_t d = 0; d < 3; ++d) g.kernel[d] = static_cast<int32_t>(c.kernel[d]);
    return fits_scratch(std::max(aotc_conv_scratch_bytes(&g, c.depth(), 4), aotc_conv_last_tiles_scratch_bytes(&g, c.depth())), m);
  }

 protected:
  Fit takes(const ConvKernel& k, const Site& s) const override {
    if (k.in != DType::bf16) return refuse("tiles multiply bf16, not {}", dtype_name(k.in));
    if (!s.machine.has(Feature::AMX_TILES)) return refuse("{} has no amx", s.machine.name());
    const ConvSizes c = conv_sizes_at_least_one(k, s.syms);
    return fits_tile(c, {.mc = AOTC_PANEL_N, .nc = static_cast<int>(std::min<int64_t>(c.pixels(), 32))},
                     s.machine);  // the smallest candidate
  }
  std::string_view entry() const override { return "conv_last_tiles"; }

  Expr scratch(const aotc_conv_config& g, const Expr& depth, int64_t acc_bytes) const override {
    const int64_t base = aotc_conv_last_tiles_scratch_bytes(&g, 0), slope = aotc_conv_last_tiles_scratch_bytes(&g, 64) - base;
    return max(ConvForm::scratch(g, depth, acc_bytes), base + ceildiv(depth, 64) * slope);
  }

  std::vector<Candidate> candidates(const ConvKernel& kernel, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(kernel, s.syms);
    const CpuCosts& u = cpu_costs(s.machine);
    const int threads = s.machine.cores;
    const int64_t cog = c.group_channels(), k = std::max<int64_t>(c.depth(), 1), px = std::max<int64_t>(c.pixels(), 1),
                  steps = ceil_div(k, 32);
    const Strip strip = strip_of(c, c.w_constant);
    std::set<int> ncs;
    for (int64_t nc : {32, 64, 128, 256, 512}) {
      ncs.insert(static_cast<int>(std::min(nc, px)));
      if (const int64_t part = strip.ring ? part_of_plane(c, nc) : 0; part >= 32) ncs.insert(static_cast<int>(part));
    }
    std::vector<Candidate> all;
    for (int mc : channel_blocks(cog))
      for (int nc : ncs) {
        ConvTile t;
        t.mc = mc, t.nc = nc;
        Candidate r = candidate(t);
        r.fit = fits_tile(c, t, s.machine);
        const int64_t co_blocks = ceil_div(cog, mc), px_blocks = ceil_div(px, nc), units = c.groups * co_blocks * px_blocks;
        const double weights = static_cast<double>(cog * k), depth = static_cast<double>(k * c.groups);
        const int64_t pixels = ceil_div(px, px_blocks);
        const bool in_place = is_strip(strip, c, nc, pixels);
        const int64_t rows = in_place ? strip.outputs(c, pixels) : pixels;
        double cycles = static_cast<double>(c.groups * px_blocks) *
                        (in_place ? strip_cycles(strip, rows, cog, s.machine) : tile_cycles(rows, cog, steps, s.machine, 1, steps * 64));
        if (c.w_constant)
          cycles =
              static_cast<double>(c.groups) * fed_cycles(cycles / static_cast<double>(c.groups), 2 * weights, px_blocks, rows, s.machine);
        else
          cycles += u.conv_weight_pack * weights * static_cast<double>(c.groups * px_blocks);
        // Rows are copied once a run of channel blocks of one thread; short runs of channels cost more.
        const double gathers = copies_of_pixels(true, co_blocks, px_blocks, threads);
        const int64_t run = c.groups == 1 && c.dilation[2] == 1 ? c.c * c.kernel[2] : c.c / c.groups;
        if (in_place)
          cycles += static_cast<double>(c.groups * px_blocks * strip.elements(rows)) * gathers *
                    (strip.together > 1 ? u.amx_together : u.amx_copy + u.amx_in_place) /
                    (strip.ring && are_parts_of_planes(c, px_blocks) ? static_cast<double>(c.kernel[0]) : 1.0);
        else
          cycles += static_cast<double>(px) * depth * gathers * (u.amx_copy + u.conv_run / static_cast<double>(run)) *
                    ((pixels + AOTC_PANEL_N) * steps * 64 > s.machine.l1_bytes * 3 / 4 ? u.amx_spilt_copies : 1);
        cycles += tile_unit_cycles(units, s.machine);
        r.cost_ns = shared_ns(cycles, units, s.machine);
        all.push_back(r);
      }
    return all;
  }

  int line_steps(const ConvKernel& k, const ConvTile& t) const override {
    if (!k.w_constant || !t.pack_w || !weight(k, candidate(t).choice)) return 0;
    const auto channels = k.x_dims[1].as_const();
    if (!channels || *channels < 1) return 0;
    ConvSizes c;
    c.c = *channels, c.groups = k.groups, c.dilation[2] = k.dilation.back();
    std::copy(k.kernel.begin(), k.kernel.end(), c.kernel.end() - static_cast<std::ptrdiff_t>(k.kernel.size()));
    return line_steps_of(c);
  }

  std::vector<Panels::Rows> rows(const ConvKernel&, int64_t ci, int64_t, int64_t taps) const override {
    return {{ci * taps, ci, 1, taps, {}}};
  }
};

}  // namespace

const Form& conv_last_tiles() { return instance<ConvLastTiles>(); }

}  // namespace aotc::forms::cpu
