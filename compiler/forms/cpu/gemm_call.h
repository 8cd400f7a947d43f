#pragma once
// What the forms of matrix products have in common: sizes, weights in panels, the call and the config of library_abi.h.
#include "aotc/detail/library_abi.h"
#include "forms/cpu/config.h"
#include "forms/cpu/cost.h"
#include "forms/form.h"

namespace aotc::forms::cpu {

/// A product at the sizes worth tuning for, none of them zero.
struct ProductSizes {
  DType dtype = DType::f32;
  int64_t batch = 1, m = 1, n = 1, k = 1;  ///< n: of the widest segment
  int64_t segments = 1;
  bool b_constant = false;
  bool b_made = false;  ///< a weight of few bits, made of them in every run
  bool a_rows_contiguous = true, b_rows_contiguous = true;
  bool finishes = false;  ///< register tiles carry out the epilogues (forms/cpu/finish.h)
};
ProductSizes product_sizes(const loop::MatmulKernel& k, const SymTable& syms);
/// Units of mc rows and nc columns; rows: of one, where they are alike.
struct ProductUnits {
  int64_t m_blocks, n_blocks, units, rows;
};
inline ProductUnits units_of(const ProductSizes& c, int64_t mc, int64_t nc) {
  const int64_t m_blocks = ceil_div(c.m, mc), n_blocks = ceil_div(c.n, nc) * c.segments;
  return {m_blocks, n_blocks, c.batch * m_blocks * n_blocks, ceil_div(c.m, m_blocks)};
}
inline constexpr int kStandInKc = 256;  ///< of gemm where it stands in for tile registers
std::string product_contract(const loop::MatmulKernel& k, const SymTable& syms);

/// The panel form of operand b where it can be stored so and either is `wanted` so or already read so by other code.
std::optional<Panels> product_panels(const loop::MatmulKernel& k, bool wanted);

/// Of a weight of few bits (MatmulKernel::b_quantised): whether it can be stored for its products alone, and in which form it is then.
Fit fits_few_bits(const loop::MatmulKernel& k);
Panels few_bits_panels(const loop::MatmulKernel& k);
/// Its scales, offsets, bits and group: members of the configs of all kernels that read it.
void add_few_bits(ConfigText& c, const loop::Kernel& kernel, const loop::MatmulKernel& k);
/// The definition of its aotc_gemm_quant_config.
std::string few_bits_config(const loop::Kernel& kernel, const loop::MatmulKernel& k, int mc, int nc, Isa isa, const std::string& name);

/// The call of the library's `symbol`, whose work units are blocks of mc rows and nc columns: all but its scratch and what it knows of b.
StepSpec product_units(const loop::MatmulKernel& k, const Site& site, std::string symbol, int mc, int nc);
/// The same of a product with a config, b included.
StepSpec product_step(const loop::MatmulKernel& k, const Site& site, std::string symbol, const aotc_gemm_config& g,
                      const std::optional<Panels>& panels);
/// The config: the numbers are those of `g`, the rest is the kernel's. With g.b_packed a weight of few bits is read as it is stored.
ConfigText product_members(const loop::Kernel& kernel, const loop::MatmulKernel& k, const aotc_gemm_config& g, Isa isa,
                           const std::string& name);

/// The last members of a product's config: segments, their epilogues, the prologues that the kernel has; that of b only where the library's
/// kernel `makes_b` of it and does not read what b is made of.
void add_attached(ConfigText& c, const loop::Kernel& kernel, const loop::MatmulKernel& k, Isa isa, const std::string& name, bool makes_b);

/// A form of a kernel of the library, of the same name if symbol() does not say otherwise, whose config is an aotc_gemm_config.
class ProductForm : public FormOf<loop::MatmulKernel> {
 protected:
  virtual aotc_gemm_config gemm_config(const loop::MatmulKernel& k, const Choice& c) const = 0;
  /// Bytes a thread.
  virtual Expr scratch(const loop::MatmulKernel& k, const aotc_gemm_config& g) const = 0;
  virtual std::optional<Panels> panels(const loop::MatmulKernel& k, const Choice&) const { return product_panels(k, true); }
  virtual std::string symbol(const loop::MatmulKernel& k) const;

  std::string contract(const loop::MatmulKernel& k, const Site& s) const override { return product_contract(k, s.syms); }
  StepSpec step(const loop::MatmulKernel& k, const Site& site, const Choice& c) const override;
  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const loop::MatmulKernel& k, const Choice& c) const override;
  std::string config(const loop::Kernel& kernel, const loop::MatmulKernel& k, const Choice& c, Isa isa,
                     const std::string& name) const override {
    return product_members(kernel, k, gemm_config(k, c), isa, name).str();
  }
};

/// Of a kernel by tile registers: the config of gemm, which stands in for it in a process that may not use them (aotc_gemm_config).
inline aotc_gemm_config tiles_config(int mc, int nc, int kp) {
  aotc_gemm_config g{};
  g.mr = 14, g.nv = 2, g.kc = kStandInKc, g.kp = kp;
  g.mc = mc, g.nc = nc, g.b_packed = g.pack_a = 1;
  return g;
}
/// Whether it is a product of bf16 for tile registers, and the machine has them.
Fit takes_tiles(const loop::MatmulKernel& k, const Machine& machine);
bool stores_halves(const loop::MatmulKernel& k);

}  // namespace aotc::forms::cpu
