// aotc_sort, aotc_topk: one line along the sorted dim a work unit (kernels/cpu/sort.cpp, topk.cpp).
#include "forms/cpu/library.h"

namespace aotc::forms::cpu {

using loop::LibraryKernel;

namespace {

class Sort final : public LibraryForm {
 public:
  using LibraryForm::LibraryForm;

 protected:
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    StepSpec f = named_step(k);
    AOTC_CHECK(k.sizes.size() >= 3, "{} takes outer, n, inner", k.name);
    const int64_t bytes = dtype_bytes(k.params.begin()->dtype);
    f.work = k.sizes[0] * k.sizes[2];
    f.grain = grain_of(cpu_costs(s.machine).grain_compares, k.sizes[1] * cpu_costs(s.machine).sort_compares, s.syms);
    f.scratch_bytes = k.sizes[1] * (2 * (bytes + 8)) + aotc_sort_scratch_bytes(0, bytes);
    return f;
  }
  std::string config(const loop::Kernel&, const LibraryKernel& k, const Choice&, Isa, const std::string& name) const override {
    ConfigText c("aotc_sort_config", name);
    c.add("descending", flag(k, Attr::descending, false)).add("sorted", flag(k, Attr::sorted, true));
    return c.add("largest", flag(k, Attr::largest, true)).str();
  }
};

}  // namespace

const Form& sort() {
  static const Sort form("sort");
  return form;
}
const Form& topk() {
  static const Sort form("topk");
  return form;
}

}  // namespace aotc::forms::cpu
