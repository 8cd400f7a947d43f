#pragma once
// What the forms of convolutions of bytes have in common.
#include "aotc/detail/bytes_abi.h"
#include "emit/cpu/module.h"
#include "forms/cpu/byte_finish.h"
#include "forms/cpu/config.h"
#include "forms/cpu/conv.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

inline aotc_conv_bytes_config blocks_of(const ConvTile& t) {
  aotc_conv_bytes_config g{};
  g.mc = t.mc, g.nc = t.nc, g.kp = t.kp;
  return g;
}

/// How x is read, and the weight's lines of taps.
struct ByteReads {
  int way = AOTC_BYTES_COPIES;
  int64_t line = 0;  ///< aotc_conv_bytes_config::line; 0: as long as it is
};

/// What the forms have in common: the config, the weight.
class ByteConv : public ConvForm {
 public:
  explicit ByteConv(int algo) : ConvForm(algo, true) {}

 protected:
  virtual int64_t scratch_bytes(const loop::ConvKernel& k, const ConvTile& t) const = 0;
  virtual ByteReads reads(const loop::ConvKernel&) const { return {}; }
  virtual Fit serves(const loop::ConvKernel&, const Site&) const { return Fit::yes(); }

  Fit takes(const loop::ConvKernel& k, const Site& s) const override {
    if (!loop::multiplies_bytes(k)) return {false, ""};
    if (!k.w_constant || k.x == k.w || loop::loads(k.epilogue, k.w)) return refuse("its weight is a constant of its own");
    if (!constants({k.x_dims[1], k.out_dims[1]})) return refuse("its channels are not fixed");
    return serves(k, s);
  }

  StepSpec step(const loop::ConvKernel& k, const Site& site, const Choice& choice) const override {
    StepSpec f = ConvForm::step(k, site, choice);
    f.scratch_bytes = scratch_bytes(k, unpack<ConvTile>(choice));
    return f;
  }
  /// Bytes of a line of taps, and of all of them, as they are stored.
  int64_t line(const loop::ConvKernel& k) const {
    const ByteReads r = reads(k);
    return r.line ? r.line : *k.x_dims[1].as_const() / k.groups * k.kernel.back();
  }
  int64_t depth(const loop::ConvKernel& k) const { return line(k) * (taps_of(k) / k.kernel.back()); }

  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const loop::ConvKernel& k, const Choice&) const override {
    const int64_t ci = *k.x_dims[1].as_const() / k.groups, co = *k.out_dims[1].as_const() / k.groups, taps = taps_of(k);
    Panels p;
    p.dtype = DType::i8, p.bits = 8, p.step = aotc_bytes_depth(1);
    p.col_stride = ci * taps;
    if (const int64_t of_width = ci * k.kernel.back(); line(k) != of_width) p.line = of_width;
    p.rows = rows(k, ci, co, taps);
    if (joins_groups()) {
      p.matrices.push_back({0, co * k.groups});
    } else {
      for (int64_t g = 0; g < k.groups; ++g) p.matrices.push_back({g * ci * co * taps, co});
    }
    return std::pair(k.w, std::move(p));
  }
  std::vector<Panels::Rows> rows(const loop::ConvKernel&, int64_t ci, int64_t, int64_t taps) const override {
    return {{ci * taps, ci, 1, taps, {}}};
  }

  std::string config(const loop::Kernel& kernel, const loop::ConvKernel& k, const Choice& choice, Isa isa,
                     const std::string& name) const override {
    const ConvTile t = unpack<ConvTile>(choice);
    ConfigText c("aotc_conv_bytes_config", name);
    c.add("x_ptr", loop::argument_index(kernel, k.x)).add("w_ptr", loop::argument_index(kernel, k.w));
    c.spatial("kernel", k.kernel, 1).spatial("stride", k.stride, 1).spatial("pad", k.padding, 0).spatial("dilation", k.dilation, 1);
    c.add("groups", k.groups)
        .add("around", k.around)
        .add("line", line(k))
        .add("way", reads(k).way)
        .add("mc", t.mc)
        .add("nc", t.nc)
        .add("kp", t.kp);
    c.epilogue("epilogue", emit::cpu::attached_function(k.name, loop::attached(kernel).at(0), isa));
    if (const auto finish = byte_finish(k)) {
      c.declarations_ += fmt::format("static const aotc_byte_finish {}_finish = {};\n", name, byte_finish_text(kernel, finish));
      c.text("finish", fmt::format("&{}_finish", name));
    }
    return c.str();
  }
};

}  // namespace aotc::forms::cpu
