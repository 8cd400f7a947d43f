// aotc_exclude: a matrix a work unit (kernels/cpu/exclude.h).
#include "forms/cpu/library.h"

namespace aotc::forms::cpu {
namespace {

class Exclude final : public LibraryForm {
 public:
  Exclude() : LibraryForm("exclude") {}

 protected:
  StepSpec step(const loop::LibraryKernel& k, const Site& s, const Choice&) const override {
    StepSpec f = named_step(k);
    f.work = k.sizes[0];
    f.grain = grain_of(cpu_costs(s.machine).grain_macs, k.sizes[1] * k.sizes[1], s.syms);
    return f;
  }
};

}  // namespace

const Form& exclude() { return instance<Exclude>(); }

}  // namespace aotc::forms::cpu
