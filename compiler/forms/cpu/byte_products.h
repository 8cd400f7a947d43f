#pragma once
// What the forms of products of bytes with constant bytes have in common: which they take, the call, the weight, the config.
#include <algorithm>

#include "aotc/detail/bytes_abi.h"
#include "emit/cpu/module.h"
#include "forms/cpu/byte_finish.h"
#include "forms/cpu/config.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/few_bits.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

class ByteProductForm : public BlocksForm {
 public:
  ByteProductForm() : BlocksForm(DType::u8) {}

 protected:
  virtual Fit serves(const Site&) const { return Fit::yes(); }

  static aotc_gemm_bytes_config config_of(const FewBitsBlock& b) {
    aotc_gemm_bytes_config g{};
    g.mc = b.mc, g.nc = b.nc;
    return g;
  }

  Fit fits(const loop::MatmulKernel& k, const Site& s) const override {
    if (!loop::multiplies_bytes(k)) return {false, ""};
    if (k.a.prologue) return refuse("its left operand is read from memory");
    if (!k.b_constant || !constants({k.k, k.b.base, k.b.row_stride, k.b.col_stride})) return refuse("its right operand is a constant");
    if (std::any_of(k.b.batch_strides.begin(), k.b.batch_strides.end(), [](const Expr& e) { return !e.is(0); }))
      return refuse("its right operand is one matrix");
    for (const loop::Segment& s : k.segments) {
      if (loop::loads(s.epilogue, k.b.param)) return refuse("the epilogue reads the weight, too");
      if (!constants({s.n_begin, s.n_end})) return refuse("its columns have no fixed places");
    }
    return serves(s);
  }

  std::string contract(const loop::MatmulKernel& k, const Site& s) const override { return "bytes " + product_contract(k, s.syms); }

  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const loop::MatmulKernel& k, const Choice&) const override {
    const auto at = *constants({k.k, k.b.base, k.b.row_stride, k.b.col_stride});
    Panels p;
    p.dtype = DType::i8, p.bits = 8, p.step = aotc_bytes_depth(1);
    p.rows = {{at[0], std::max<int64_t>(at[0], 1), 0, at[2], {}}};
    p.col_stride = at[3];
    for (const loop::Segment& s : k.segments) {
      const int64_t begin = *s.n_begin.as_const(), end = *s.n_end.as_const();
      p.matrices.push_back({at[1] + begin * p.col_stride, end - begin});
    }
    return std::pair(k.b.param, std::move(p));
  }

  std::string config(const loop::Kernel& kernel, const loop::MatmulKernel& k, const Choice& choice, Isa isa,
                     const std::string& name) const override {
    const FewBitsBlock b = unpack<FewBitsBlock>(choice);
    ConfigText c("aotc_gemm_bytes_config", name);
    c.add("a_ptr", loop::argument_index(kernel, k.a.param)).add("b_ptr", loop::argument_index(kernel, k.b.param));
    c.add("mc", b.mc).add("nc", b.nc);
    add_attached(c, kernel, k, isa, name, false);
    std::string finishes;
    for (const loop::Segment& s : k.segments) finishes += (finishes.empty() ? "" : ", ") + byte_finish_text(kernel, byte_finish(k, s));
    c.declarations_ += fmt::format("static const aotc_byte_finish {}_finishes[] = {{{}}};\n", name, finishes);
    c.text("finish", name + "_finishes");
    return c.str();
  }
};

}  // namespace aotc::forms::cpu
