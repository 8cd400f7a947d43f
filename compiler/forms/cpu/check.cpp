// aotc_check: one condition (kernels/cpu/check.h).
#include "forms/cpu/library.h"

namespace aotc::forms::cpu {
namespace {

class Check final : public LibraryForm {
 public:
  using LibraryForm::LibraryForm;

 protected:
  StepSpec step(const loop::LibraryKernel& k, const Site&, const Choice&) const override {
    StepSpec f = named_step(k);
    f.work = 1;
    f.sizes = {Expr(static_cast<int64_t>(k.params.size()) - 1)};
    return f;
  }
};

}  // namespace

const Form& check() {
  static const Check form("check");
  return form;
}

}  // namespace aotc::forms::cpu
