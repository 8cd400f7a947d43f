#pragma once
// What the forms of products with weights of few bits have in common: blocks, their config, the call.
#include <algorithm>
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

/// "int4 g32 " or "bf16w ": what the contract of a form that makes its weight float32 itself begins with.
std::string few_bits_text(const loop::QuantisedWeight& q);
/// Bytes a thread of gemm_unpack, or of gemm_bf16w.
Expr few_bits_scratch(const loop::MatmulKernel& k, const aotc_gemm_config& g);
/// The definition of an aotc_gemm_unpack_config.
std::string unpack_config(const loop::Kernel& kernel, const loop::MatmulKernel& k, const aotc_gemm_config& g, int register_rows, Isa isa,
                          const std::string& name);

/// A form of float32 rows and a weight of few bits, or with kHalves of bf16, that is made float32 where it is read: in panels of its own.
/// Base: a ProductForm.
template <class Base, bool kHalves>
class OfFewBits : public Base {
 protected:
  Fit fits_weight(const loop::MatmulKernel& k) const {
    return k.b_quantised && (k.b_quantised->bits == 16) == kHalves ? fits_few_bits(k) : Fit{false, ""};
  }
  virtual int register_rows(const Choice&) const { return 0; }

  std::string symbol(const loop::MatmulKernel&) const override { return entry_of(this->name(), DType::f32); }
  std::string contract(const loop::MatmulKernel& k, const Site& s) const override {
    return few_bits_text(*k.b_quantised) + Base::contract(k, s);
  }
  Expr scratch(const loop::MatmulKernel& k, const aotc_gemm_config& g) const override { return few_bits_scratch(k, g); }
  std::optional<Panels> panels(const loop::MatmulKernel& k, const Choice&) const override { return few_bits_panels(k); }
  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const loop::MatmulKernel& k, const Choice&) const override {
    return std::pair(k.b_quantised->values, few_bits_panels(k));
  }
  std::string config(const loop::Kernel& kernel, const loop::MatmulKernel& k, const Choice& c, Isa isa,
                     const std::string& name) const override {
    return kHalves ? Base::config(kernel, k, c, isa, name) : unpack_config(kernel, k, this->gemm_config(k, c), register_rows(c), isa, name);
  }
};

/// Whether the product may round its rows to 8 bits, and sums of bytes hold it.
Fit fits_int8_rows(const loop::MatmulKernel& k, const Site& s);
std::string int8_contract(const loop::MatmulKernel& k, const Site& s);

/// Blocks of rows for tile registers that take as many bytes of k.
inline std::set<int> byte_tile_rows(int64_t m) {
  std::set<int> mcs{1};
  for (int64_t mc : {16, 32, 64, 128, 256, 512}) mcs.insert(static_cast<int>(std::min(m, mc)));
  return mcs;
}

/// A form of the library's kernel of the same name, of rows of `rows`: blocks of rows, each with every block of columns worth trying.
class BlocksForm : public FormOf<loop::MatmulKernel> {
 public:
  explicit BlocksForm(DType rows) : rows_(rows) {}
  std::span<const Field> fields() const override { return fields_of<FewBitsBlock>(); }

 protected:
  virtual int64_t scratch_bytes(const FewBitsBlock& b, int64_t k) const = 0;
  virtual std::set<int> row_blocks(const ProductSizes& c, const Machine& machine) const = 0;
  virtual double cost_ns(const loop::MatmulKernel& k, const ProductSizes& c, const FewBitsBlock& b, const Machine& machine) const = 0;

  std::vector<Candidate> candidates(const loop::MatmulKernel& k, const Site& s) const override {
    const ProductSizes c = product_sizes(k, s.syms);
    std::vector<Candidate> all;
    for (int mc : row_blocks(c, s.machine))
      for (int nc : {128, 64, 32, 256}) {
        const FewBitsBlock b{mc, nc};
        const Fit fit = fits_scratch(scratch_bytes(b, c.k), s.machine);
        all.push_back({pack(*this, b), fit, fit ? cost_ns(k, c, b, s.machine) : 0});
      }
    return all;
  }
  StepSpec step(const loop::MatmulKernel& k, const Site& site, const Choice& choice) const override {
    const FewBitsBlock b = unpack<FewBitsBlock>(choice);
    StepSpec f = product_units(k, site, entry_of(name(), rows_), b.mc, b.nc);
    f.scratch_bytes = scratch_bytes(b, *k.k.as_const());
    return f;
  }

 private:
  DType rows_;
};

class FewBitsForm : public BlocksForm {
 public:
  FewBitsForm() : BlocksForm(DType::f32) {}

 protected:
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
