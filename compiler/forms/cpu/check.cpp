// aotc_check: one condition (kernels/cpu/check.h).
#include "forms/cpu/library.h"

namespace aotc::forms::cpu {
namespace {

class Check final : public LibraryForm {
 public:
  Check() : LibraryForm("check") {}

 protected:
  StepSpec step(const loop::LibraryKernel& k, const Site&, const Choice&) const override {
    StepSpec f = named_step(k);
    f.work = 1;
    f.sizes = {Expr(static_cast<int64_t>(k.params.size()) - 1)};
    return f;
  }
};

}  // namespace

const Form& check() { return instance<Check>(); }

}  // namespace aotc::forms::cpu
