#include "forms/cpu/conv.h"

#include <fmt/ranges.h>

#include "emit/cpu/loop_call.h"
#include "emit/cpu/module.h"
#include "forms/cpu/config.h"
#include "forms/cpu/finish.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/scratch.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::ConvKernel;

std::span<const Member<ConvTile>> ConvTile::members() {
  static constexpr Member<ConvTile> kRows[] = {
      {{"mc", 1}, &ConvTile::mc},
      {{"nc", 1}, &ConvTile::nc},
      {{"kc", 2, INT32_MAX, 2}, &ConvTile::kc},
      {{"kp", 2, INT32_MAX, 2}, &ConvTile::kp},
      {{"pack_w", 0, 1}, &ConvTile::pack_w},
  };
  return kRows;
}

ConvSizes conv_sizes(const ConvKernel& k, const SymTable& syms) {
  ConvSizes c;
  c.dtype = k.in;
  c.n = syms.hint(k.x_dims[0]), c.c = syms.hint(k.x_dims[1]), c.co = syms.hint(k.out_dims[1]), c.groups = k.groups;
  const size_t dims = k.kernel.size(), lead = 3 - dims;
  for (size_t i = 0; i < dims; ++i) {
    c.in[lead + i] = syms.hint(k.x_dims[2 + i]), c.out[lead + i] = syms.hint(k.out_dims[2 + i]);
    c.kernel[lead + i] = k.kernel[i], c.stride[lead + i] = k.stride[i];
    c.pad[lead + i] = k.padding[i], c.dilation[lead + i] = k.dilation[i];
  }
  c.transposed = k.transposed, c.w_constant = k.w_constant;
  return c;
}

ConvSizes conv_sizes_at_least_one(const ConvKernel& k, const SymTable& syms) {
  ConvSizes c = conv_sizes(k, syms);
  for (int64_t* x : {&c.n, &c.c, &c.co, &c.out[0], &c.out[1], &c.out[2]}) *x = std::max<int64_t>(*x, 1);
  return c;
}

Fit ConvForm::legal(const Choice& c) const {
  const ConvTile t = unpack<ConvTile>(c);
  if (!channels_last_ && t.nc % AOTC_PANEL_N) return refuse("nc: {} is no multiple of {}", t.nc, +AOTC_PANEL_N);
  return fits_pieces(t.kc, t.kp);
}

int64_t taps_of(const ConvKernel& k) {
  int64_t taps = 1;
  for (const int64_t x : k.kernel) taps *= x;
  return taps;
}

Expr depth_of(const ConvKernel& k) { return floordiv(k.x_dims[1], k.groups) * taps_of(k); }

double taps_inside(const ConvSizes& c, size_t dim) {
  int64_t inside = 0;
  for (int64_t t = 0; t < c.kernel[dim]; ++t) {  // output positions o with 0 <= o * stride + at < in
    const int64_t at = t * c.dilation[dim] - c.pad[dim], s = c.stride[dim];
    const int64_t first = at < 0 ? ceil_div(-at, s) : 0, end = at < c.in[dim] ? ceil_div(c.in[dim] - at, s) : 0;
    inside += std::max<int64_t>(0, std::min(end, c.out[dim]) - first);
  }
  return static_cast<double>(std::max<int64_t>(inside, 1)) / static_cast<double>(std::max<int64_t>(1, c.out[dim] * c.kernel[dim]));
}

Fit takes_floats(const ConvKernel& k) {
  return is_float(k.in) ? Fit::yes() : refuse("its register tiles are for floats, not {}", dtype_name(k.in));
}

std::set<int> channel_blocks(int64_t group_channels) {
  std::set<int> blocks;
  for (int64_t mc : {32, 64, 128, 256, 512}) blocks.insert(static_cast<int>(std::min<int64_t>(mc, ceil_div(group_channels, 32) * 32)));
  return blocks;
}

double copies_of_pixels(bool kept, int64_t channel_blocks, int64_t pixel_blocks, int threads) {
  return kept ? 1.0 + static_cast<double>(channel_blocks > 1 && pixel_blocks < threads ? threads - 1 : 0)
              : static_cast<double>(channel_blocks);
}

ConvForm::Work ConvForm::work(const ConvKernel& k, const ConvTile& t, const Site& s) const {
  const Expr depth = depth_of(k);
  const Expr pixels = k.x_dims[0] * product(Exprs(k.out_dims.begin() + 2, k.out_dims.end()));
  const Expr channels = floordiv(k.out_dims[1], k.groups);
  return {ceildiv(channels, t.mc) * k.groups * ceildiv(pixels, t.nc),
          grain_of(cpu_costs(s.machine).grain_macs, min(channels, t.mc) * min(pixels, t.nc) * depth, s.syms)};
}

std::string ConvForm::contract(const ConvKernel& k, const Site& s) const {
  const ConvSizes c = conv_sizes(k, s.syms);
  return fmt::format("conv{} {} n{} c{} co{} g{} in{} k{} s{} p{} d{}{}{}", k.channels_last ? "_last" : "", dtype_name(c.dtype), c.n, c.c,
                     c.co, c.groups, fmt::join(c.in, "x"), fmt::join(c.kernel, "x"), fmt::join(c.stride, "x"), fmt::join(c.pad, "x"),
                     fmt::join(c.dilation, "x"), c.transposed ? " transposed" : "", c.w_constant ? " weight" : "");
}

aotc_conv_config ConvForm::scratch_config(const ConvTile& t, bool packed, int64_t stride_w) const {
  aotc_conv_config g{};
  g.algo = algo_, g.mc = t.mc, g.nc = t.nc, g.kc = t.kc, g.kp = t.kp, g.w_packed = packed;
  g.stride[2] = static_cast<int32_t>(stride_w);
  return g;
}

Candidate ConvForm::candidate(const ConvTile& t, const ConvSizes& c, const Machine& m) const {
  Candidate r = candidate(t);
  const aotc_conv_config g = scratch_config(t, c.w_constant, c.stride[2]);
  r.fit = fits_scratch(aotc_conv_scratch_bytes(&g, std::max<int64_t>(c.depth(), 1), acc_bytes(c.dtype)), m);
  return r;
}

namespace {

/// The dim d of three spatial dims where the kernel has fewer: missing leading ones are 1.
Expr spatial(const Exprs& dims, int d) {
  const int have = static_cast<int>(dims.size()) - 2, i = d - (3 - have);
  return i < 0 ? Expr(1) : dims[static_cast<size_t>(2 + i)];
}

}  // namespace

Expr ConvForm::scratch(const aotc_conv_config& g, const Expr& depth, int64_t acc_bytes) const { return conv_scratch(g, depth, acc_bytes); }

StepSpec ConvForm::step(const ConvKernel& k, const Site& site, const Choice& choice) const {
  const ConvTile t = unpack<ConvTile>(choice);
  StepSpec f;
  f.library = true;
  f.symbol = entry_of(entry(), k.in);
  auto& s = f.sizes;
  s = {k.x_dims[0], k.x_dims[1]};
  for (int d = 0; d < 3; ++d) s.push_back(spatial(k.x_dims, d));
  s.push_back(k.out_dims[1]);
  for (int d = 0; d < 3; ++d) s.push_back(spatial(k.out_dims, d));
  AOTC_CHECK(s.size() == AOTC_CONV_SIZES);
  for (SymId sym : emit::cpu::attached_symbols(site.kernel)) s.push_back(Expr::symbol(sym));
  const Work w = work(k, t, site);
  f.work = w.units, f.grain = w.grain;
  aotc_conv_config g = scratch_config(t, panels_of(k, t).has_value(), k.stride.back());
  g.line_steps = line_steps(k, t);
  for (size_t d = 0; d < 3; ++d) g.kernel[d] = static_cast<int32_t>(d + k.kernel.size() < 3 ? 1 : k.kernel[d + k.kernel.size() - 3]);
  f.scratch_bytes = scratch(g, depth_of(k), std::max<int64_t>(4, dtype_bytes(k.acc)));
  return f;
}

std::optional<Panels> ConvForm::panels_of(const ConvKernel& k, const ConvTile& t) const {
  if (!k.w_constant || !t.pack_w || !has_panel_form(k.in)) return std::nullopt;
  if (k.x == k.w || loop::loads(k.epilogue, k.w)) return std::nullopt;  // the buffer is read dense too
  const auto channels = constants({k.x_dims.at(1), k.out_dims.at(1)});
  if (!channels) return std::nullopt;
  const int64_t ci = (*channels)[0] / k.groups, co = (*channels)[1] / k.groups;
  const int64_t taps = taps_of(k);
  if (ci * taps == 0) return std::nullopt;
  Panels p;
  p.dtype = k.in;
  p.col_stride = k.transposed ? taps : ci * taps;
  p.rows = rows(k, ci, co, taps);
  p.winograd = winograd(t);
  if (p.rows.empty()) return std::nullopt;
  if (joins_groups())
    p.matrices.push_back({0, (*channels)[1], 0});
  else
    for (int64_t g = 0; g < k.groups; ++g)
      for (size_t r = 0; r < p.rows.size(); ++r) p.matrices.push_back({g * ci * co * taps, co, r});
  return p;
}

std::optional<std::pair<loop::ParamId, WeightForm>> ConvForm::weight(const ConvKernel& k, const Choice& c) const {
  auto panels = panels_of(k, unpack<ConvTile>(c));
  if (!panels) return std::nullopt;
  return std::pair(k.w, std::move(*panels));
}

std::string ConvForm::config(const loop::Kernel& kernel, const ConvKernel& k, const Choice& choice, Isa isa,
                             const std::string& name) const {
  const ConvTile t = unpack<ConvTile>(choice);
  ConfigText c("aotc_conv_config", name);
  c.add("x_ptr", loop::argument_index(kernel, k.x)).add("w_ptr", loop::argument_index(kernel, k.w));
  c.spatial("kernel", k.kernel, 1).spatial("stride", k.stride, 1).spatial("pad", k.padding, 0).spatial("dilation", k.dilation, 1);
  c.add("groups", k.groups).add("transposed", k.transposed).add("algo", algo_);
  c.add("mc", t.mc).add("nc", t.nc).add("kc", t.kc).add("kp", t.kp).add("w_packed", panels_of(k, t).has_value());
  c.epilogue("epilogue", emit::cpu::attached_function(k.name, loop::attached(kernel).at(0), isa));
  if (const auto steps = finish_steps(k, algo_ == AOTC_CONV_LAST_DEPTHWISE); !steps.empty()) {
    c.declarations_ += fmt::format("static const aotc_finish {}_finish = {};\n", name, finish_text(kernel, steps));
    c.text("finish", fmt::format("&{}_finish", name));
  }
  if (const int steps = line_steps(k, t)) c.add("line_steps", steps);
  if (k.ordered) c.add("ordered", 1);
  return c.str();
}

}  // namespace aotc::forms::cpu
