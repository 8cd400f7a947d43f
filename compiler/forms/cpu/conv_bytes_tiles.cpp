// aotc_conv_bytes_tiles: channels-last convolutions of unsigned bytes by signed ones in the tile registers of AMX
// (kernels/cpu/conv_bytes_tiles.h).
#include <algorithm>
#include <set>

#include "forms/cpu/byte_convs.h"
#include "forms/cpu/byte_tile_cost.h"
#include "forms/cpu/forms.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

namespace {

bool all_are(const Ints& v, int64_t x) {
  return std::all_of(v.begin(), v.end(), [&](int64_t y) { return y == x; });
}

/// Whether windows are those of a strip: images, one group, taps of width side by side.
bool has_strips(const ConvKernel& k) {
  const size_t dims = k.kernel.size();
  if (k.groups != 1 || k.dilation.back() != 1 || dims > 3) return false;
  return dims < 3 || (k.kernel[0] == 1 && k.padding[0] == 0 && k.x_dims[2].is(1) && k.out_dims[2].is(1));
}

/// Pixels that tiles compute for each output pixel of a row of `columns`.
double strip_waste(const ConvKernel& k, int64_t columns) {
  const bool along = k.stride.back() == 1 && (k.stride.size() < 2 || k.stride[k.stride.size() - 2] == 1);
  const int64_t computed = along ? columns + k.kernel.back() - 1 : ceil_div(columns, 16) * 16;
  return static_cast<double>(computed) / static_cast<double>(columns);
}

class ConvBytesTiles final : public ByteConv {
 public:
  ConvBytesTiles() : ByteConv(AOTC_CONV_LAST) {}
  std::string_view name() const override { return "conv_bytes_tiles"; }

 protected:
  std::string_view entry() const override { return "conv_bytes_tiles"; }
  Fit serves(const ConvKernel&, const Site& s) const override {
    return s.machine.has(Feature::AMX_TILES) ? Fit::yes() : refuse("{} has no amx", s.machine.name());
  }
  /// conv_bytes stands in for a process that may not use the tiles.
  int64_t scratch_bytes(const ConvKernel& k, const ConvTile& t) const override {
    const aotc_conv_bytes_config g = blocks_of(t);
    return std::max(aotc_conv_bytes_scratch_bytes(&g, depth(k)), aotc_bytes_tiles_scratch_bytes(t.nc, depth(k)));
  }

  /// By what a pixel costs either way; rows whose length is not known count as long ones.
  ByteReads reads(const ConvKernel& k) const override {
    if (all_are(k.kernel, 1) && all_are(k.stride, 1) && all_are(k.padding, 0) && all_are(k.padding_hi, 0)) return {AOTC_BYTES_PIXELS, 0};
    if (!has_strips(k)) return {};
    const int64_t c = *k.x_dims[1].as_const(), lines = taps_of(k) / k.kernel.back(), line = aotc_bytes_depth(c * k.kernel.back());
    const double tiles = static_cast<double>(ceil_div(*k.out_dims[1].as_const(), 16));
    const int64_t columns = std::max<int64_t>(1, k.out_dims.back().as_const().value_or(64));
    const CpuCosts& u = uarch_of(Isa::amx).cpu;  // the stored weight, which goes by it, is of all machines with tiles
    const double taken = static_cast<double>(product_of(k.stride) * c) * u.byte_copy;
    const double strip = tiles * static_cast<double>(lines * line / 64) * strip_waste(k, columns) + taken;
    const double copies = tiles * static_cast<double>(ceil_div(c * taps_of(k), 64)) + static_cast<double>(c * taps_of(k)) * u.byte_copy +
                          static_cast<double>(lines) * u.byte_line;
    return strip <= copies ? ByteReads{AOTC_BYTES_STRIP, line} : ByteReads{};
  }

  std::vector<Candidate> candidates(const ConvKernel& kernel, const Site& s) const override {
    const ConvSizes c = conv_sizes_at_least_one(kernel, s.syms);
    const int threads = s.machine.cores;
    const int64_t cog = c.co / c.groups, px = std::max<int64_t>(c.pixels(), 1), k = depth(kernel);
    const int way = reads(kernel).way;
    std::set<int64_t> ncs;
    for (const int64_t nc : {32, 64, 128, 256, 512}) {
      ncs.insert(std::min(nc, px));
      if (way == AOTC_BYTES_STRIP) ncs.insert(std::min(ceil_div(nc, c.out[2]) * c.out[2], px));  // whole rows
    }
    for (const int64_t parts : {threads, 2 * threads}) ncs.insert(std::min<int64_t>(ceil_div(ceil_div(px, parts), 16) * 16, 1024));
    std::vector<Candidate> all;
    for (int mc : channel_blocks(cog))
      for (const int64_t nc : ncs) {
        ConvTile t;
        t.mc = mc, t.nc = static_cast<int>(std::min(nc, px)), t.kc = 2, t.kp = 2;
        Candidate r = candidate(t);
        r.fit = fits_scratch(scratch_bytes(kernel, t), s.machine);
        if (r.fit) r.cost_ns = cost_ns(kernel, c, t, k, way, s.machine);
        all.push_back(r);
      }
    return all;
  }

 private:
  static int64_t product_of(const Ints& v) {
    int64_t n = 1;
    for (const int64_t x : v) n *= x;
    return n;
  }

  static double cost_ns(const ConvKernel& kernel, const ConvSizes& c, const ConvTile& t, int64_t k, int way, const Machine& machine) {
    const CpuCosts& u = cpu_costs(machine);
    const int64_t cog = c.co / c.groups, px = std::max<int64_t>(c.pixels(), 1), lines = taps_of(kernel) / kernel.kernel.back();
    const int64_t co_blocks = ceil_div(cog, t.mc), px_blocks = ceil_div(px, t.nc), units = c.groups * co_blocks * px_blocks;
    int64_t pixels = ceil_div(px, px_blocks), filled = px_blocks;
    double rows = static_cast<double>(pixels);
    if (way == AOTC_BYTES_STRIP) {  // units of whole rows
      const int64_t output_rows = ceil_div(px, c.out[2]);
      filled = std::min(px_blocks, output_rows);
      pixels = ceil_div(output_rows, px_blocks) * c.out[2];
      rows = static_cast<double>(pixels) * strip_waste(kernel, c.out[2]);
    }
    const double blocks = static_cast<double>(c.groups * filled);
    double all =
        blocks * static_cast<double>(co_blocks) * byte_tile_cycles(static_cast<int64_t>(rows), std::min<int64_t>(t.mc, cog), k, machine);
    all += static_cast<double>(c.groups) * byte_panel_cycles(cog, k, px_blocks, machine);
    const double copied = static_cast<double>(c.c / c.groups), gathers = copies_of_pixels(true, co_blocks, px_blocks, machine.cores);
    if (way == AOTC_BYTES_STRIP) {
      const int64_t bordered = pixels / c.out[2] * c.stride[1] + c.kernel[1] - 1;
      const int64_t bytes = bordered * (c.out[2] * c.stride[2] + c.kernel[2]) * c.c;
      all += blocks * gathers * (static_cast<double>(bytes) * u.byte_copy + static_cast<double>(bordered) * u.byte_strip_row);
    } else if (way == AOTC_BYTES_COPIES) {
      all += blocks * gathers * rows *
             (copied * static_cast<double>(taps_of(kernel)) * u.byte_copy + static_cast<double>(lines) * u.byte_line);
    } else if (c.c % 512 == 0) {
      all += blocks * gathers * rows * copied * u.byte_copy;
    }
    all += tile_unit_cycles(units, machine);
    return shared_ns(all, c.groups * co_blocks * filled, machine);
  }
};

}  // namespace

const Form& conv_bytes_tiles() { return instance<ConvBytesTiles>(); }

}  // namespace aotc::forms::cpu
