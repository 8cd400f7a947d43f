// AOTC_CONV_LAST of bf16 in the tile registers of AMX, all of a pixel's sum at once (kernels/cpu/conv_last_tiles.h).
#include <set>

#include "forms/cpu/conv.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/tile_cost.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

constexpr double kSpiltCopies = 1.5;  ///< of copied rows that do not stay in L1 until they are multiplied

/// Whether the kernel copies the pixels of a block once, with their borders, and reads windows in place. line: pixels of a bordered row.
bool reads_windows_in_place(const ConvSizes& c, int64_t line) {
  if (c.groups != 1 || c.c % 32 || c.kernel[1] * c.kernel[2] == 1 || c.kernel[0] != 1 || c.in[0] != 1 || c.out[0] != 1) return false;
  for (size_t i = 1; i < 3; ++i)
    if (c.stride[i] != 1 || c.dilation[i] != 1) return false;
  return 3 * line <= 4 * c.out[2];
}

class ConvLastTiles final : public ConvForm {
 public:
  ConvLastTiles() : ConvForm(AOTC_CONV_LAST, true) {}
  std::string_view name() const override { return "conv_last_tiles"; }
  bool by_rows() const override { return true; }

 private:
  Fit fits_tile(const ConvSizes& c, const ConvTile& t) const {
    const aotc_conv_config g = scratch_config(t, c.w_constant, c.stride[2]);
    return fits_scratch(std::max(aotc_conv_scratch_bytes(&g, c.depth(), 4), aotc_conv_last_tiles_scratch_bytes(&g, c.depth())));
  }

 protected:
  Fit takes(const ConvKernel& k, const Site& s) const override {
    if (k.in != DType::bf16) return refuse("tiles multiply bf16, not {}", dtype_name(k.in));
    if (!s.machine.has(Isa::amx)) return refuse("{} has no amx", s.machine.name());
    const ConvSizes c = conv_sizes_at_least_one(k, s.syms);
    return fits_tile(c, {.mc = AOTC_PANEL_N, .nc = static_cast<int>(std::min<int64_t>(c.pixels(), 32))});  // the smallest candidate
  }
  std::string_view entry() const override { return "aotc_conv_last_tiles"; }

  Expr scratch(const aotc_conv_config& g, const Expr& depth, int64_t acc_bytes) const override {
    const int64_t base = aotc_conv_last_tiles_scratch_bytes(&g, 0), slope = aotc_conv_last_tiles_scratch_bytes(&g, 64) - base;
    return max(ConvForm::scratch(g, depth, acc_bytes), base + ceildiv(depth, 64) * slope);
  }

  std::vector<Candidate> candidates(const ConvKernel& kernel, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(kernel, s.syms);
    const int threads = s.machine.cores;
    const int64_t cog = c.group_channels(), k = std::max<int64_t>(c.depth(), 1), px = std::max<int64_t>(c.pixels(), 1),
                  steps = ceil_div(k, 32), line = c.out[2] + c.kernel[2] - 1;
    const bool in_place = reads_windows_in_place(c, line);
    std::set<int> ncs;
    for (int64_t nc : {32, 64, 128, 256, 512}) ncs.insert(static_cast<int>(std::min(nc, px)));
    std::vector<Candidate> all;
    for (int mc : channel_blocks(cog))
      for (int nc : ncs) {
        ConvTile t;
        t.mc = mc, t.nc = nc;
        Candidate r = candidate(t);
        r.fit = fits_tile(c, t);
        const int64_t co_blocks = ceil_div(cog, mc), px_blocks = ceil_div(px, nc), units = c.groups * co_blocks * px_blocks;
        const double weights = static_cast<double>(cog * k), depth = static_cast<double>(k * c.groups);
        const int64_t pixels = ceil_div(px, px_blocks), rows = in_place ? ceil_div(pixels * line, c.out[2]) : pixels;
        double cycles =
            static_cast<double>(c.groups * px_blocks) * tile_cycles(rows, cog, steps, s.machine, 1, in_place ? c.c * 2 : steps * 64);
        if (c.w_constant)
          cycles =
              static_cast<double>(c.groups) * fed_cycles(cycles / static_cast<double>(c.groups), 2 * weights, px_blocks, rows, s.machine);
        else
          cycles += 2.0 * weights * static_cast<double>(c.groups * px_blocks);
        // Rows are copied once a run of channel blocks of one thread; short runs of channels cost more.
        const double gathers = copies_of_pixels(true, co_blocks, px_blocks, threads);
        const int64_t run = c.groups == 1 && c.dilation[2] == 1 ? c.c * c.kernel[2] : c.c / c.groups;
        if (in_place)
          cycles += static_cast<double>(px_blocks * (rows + (c.kernel[1] - 1) * line) * c.c) * gathers * (kCopyCycles + 0.1);
        else
          cycles += static_cast<double>(px) * depth * gathers * (kCopyCycles + 8.0 / static_cast<double>(run)) *
                    ((pixels + AOTC_PANEL_N) * steps * 64 > s.machine.l1_bytes * 3 / 4 ? kSpiltCopies : 1);
        cycles += static_cast<double>(units) * kUnitCycles + static_cast<double>(std::min<int64_t>(units, threads)) * kShapeCycles;
        r.cost_ns = cycles * imbalance(units, threads) * kNsPerCycle;
        all.push_back(r);
      }
    return all;
  }

  std::vector<Panels::Rows> rows(const ConvKernel&, int64_t ci, int64_t, int64_t taps) const override {
    return {{ci * taps, ci, 1, taps, {}}};
  }
};

}  // namespace

const Form& conv_last_tiles() {
  static const ConvLastTiles form;
  return form;
}

}  // namespace aotc::forms::cpu
