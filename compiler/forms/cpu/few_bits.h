#pragma once
// What the forms of products with weights of few bits have in common: blocks, their config, the call.
#include <set>

#include "forms/cpu/config.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/gemm_call.h"

namespace aotc::forms::cpu {

/// See aotc_gemm_quant_config.
struct FewBitsBlock {
  int mc = 24, nc = 128;
  static std::span<const Member<FewBitsBlock>> members() {
    static constexpr Member<FewBitsBlock> kRows[] = {
        {{"mc", 1}, &FewBitsBlock::mc},
        {{"nc", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &FewBitsBlock::nc},
    };
    return kRows;
  }
  aotc_gemm_quant_config config() const {
    aotc_gemm_quant_config g{};
    g.mc = mc, g.nc = nc;
    return g;
  }
};

/// These blocks of rows, each with every block of columns worth trying.
inline std::vector<FewBitsBlock> few_bits_blocks(const std::set<int>& mcs) {
  std::vector<FewBitsBlock> all;
  for (int mc : mcs)
    for (int nc : {128, 64, 32, 256}) all.push_back({mc, nc});
  return all;
}

/// Whether the product may round its rows to 8 bits, and sums of bytes hold it.
Fit fits_int8_rows(const loop::MatmulKernel& k, const Site& s);
std::string int8_contract(const loop::MatmulKernel& k, const Site& s);

class FewBitsForm : public FormOf<loop::MatmulKernel> {
 public:
  std::span<const Field> fields() const override { return fields_of<FewBitsBlock>(); }

 protected:
  virtual const char* kernel() const = 0;  ///< of the library
  virtual int64_t scratch_bytes(const FewBitsBlock& b, int64_t k) const = 0;

  StepSpec step(const loop::MatmulKernel& k, const Site& site, const Choice& choice) const override {
    const FewBitsBlock b = unpack<FewBitsBlock>(choice);
    StepSpec f = product_units(k, site, entry_of(kernel(), DType::f32), b.mc, b.nc);
    f.scratch_bytes = scratch_bytes(b, *k.k.as_const());
    return f;
  }
  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const loop::MatmulKernel& k, const Choice&) const override {
    return std::pair(k.b_quantised->values, few_bits_panels(k));
  }
  std::string config(const loop::Kernel& kernel, const loop::MatmulKernel& k, const Choice& choice, Isa isa,
                     const std::string& name) const override {
    const FewBitsBlock b = unpack<FewBitsBlock>(choice);
    return few_bits_config(kernel, k, b.mc, b.nc, isa, name);
  }
};

}  // namespace aotc::forms::cpu
