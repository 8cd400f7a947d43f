// A whole buffer to another: the runtime does it, on every machine.
#include "forms/instance.h"
#include "forms/list.h"

namespace aotc::forms {
namespace {

class Copy final : public FormOf<loop::LibraryKernel> {
 public:
  std::string_view name() const override { return "copy"; }

 protected:
  Fit fits(const loop::LibraryKernel& k, const Site&) const override { return {k.algorithm == "copy", ""}; }
  StepSpec step(const loop::LibraryKernel&, const Site&, const Choice&) const override {
    StepSpec f;
    f.kind = StepKind::copy;
    return f;
  }
};

}  // namespace

const Form& copy() { return instance<Copy>(); }

}  // namespace aotc::forms
