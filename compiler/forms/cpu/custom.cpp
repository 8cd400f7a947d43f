// A kernel of the user's own, called by a generated function (emit/cpu/custom_call.h) that gives it tensors with their sizes.
#include "emit/cpu/custom_call.h"
#include "forms/cpu/library.h"
#include "graph/custom_op.h"

namespace aotc::forms::cpu {

using loop::LibraryKernel;

namespace {

class Custom final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "own_kernel"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != "custom") return {false, ""};
    if (std::get<std::string>(k.attrs.at(Attr::function)).empty())
      return refuse("kernels.json has no \"cpu\" for {}", std::get<std::string>(k.attrs.at(Attr::op)));
    return Fit::yes();
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice&) const override {
    const Exprs& launch = std::get<Exprs>(k.attrs.at(Attr::launch));
    StepSpec f;
    f.symbol = k.name;
    f.sizes = k.sizes;
    f.work = launch[CustomLaunch::work], f.grain = launch[CustomLaunch::grain];
    f.scratch_bytes = launch[CustomLaunch::scratch];
    return f;
  }
};

}  // namespace

const Form& custom() { return instance<Custom>(); }

}  // namespace aotc::forms::cpu
