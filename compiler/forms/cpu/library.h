#pragma once
// What the forms of whole-tensor algorithms share.
#include "aotc/detail/library_abi.h"
#include "forms/cpu/config.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/forms.h"
#include "forms/library_attrs.h"

namespace aotc::forms::cpu {

/// A form of one algorithm: its library entries are named after it.
class LibraryForm : public FormOf<loop::LibraryKernel> {
 public:
  explicit LibraryForm(std::string_view algorithm) : algorithm_(algorithm) {}
  std::string_view name() const override { return algorithm_; }

 protected:
  Fit fits(const loop::LibraryKernel& k, const Site&) const override { return {k.algorithm == algorithm_, ""}; }
  /// Symbol and sizes; work, grain and scratch are the subclass's.
  StepSpec named_step(const loop::LibraryKernel& k) const {
    const DType t = k.params.begin()->dtype;
    // Rows of 8-bit floats are written as bytes.
    return named_step(k, entry_of(algorithm_, is_float8(t) && algorithm_ == "index_put" ? DType::u8 : t));
  }
  static StepSpec named_step(const loop::LibraryKernel& k, std::string symbol) {
    StepSpec f;
    f.library = true;
    f.symbol = std::move(symbol);
    f.sizes = k.sizes;
    return f;
  }
  /// That of one with a matrix a work unit, of so many multiply-adds each; a thread takes `least` matrices.
  StepSpec step_of_matrices(const loop::LibraryKernel& k, const Site& s, const Expr& macs, const Expr& scratch_bytes, int least = 1) const {
    StepSpec f = named_step(k);
    f.work = k.sizes[0];
    f.grain = grain_of(cpu_costs(s.machine).grain_macs / 4, macs, s.syms);
    if (least > 1) f.grain = max(f.grain, least);
    f.scratch_bytes = scratch_bytes;
    return f;
  }

 private:
  std::string_view algorithm_;
};

}  // namespace aotc::forms::cpu
