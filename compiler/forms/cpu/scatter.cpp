// aotc_scatter, aotc_index_put: a place of the dims before the first one written through indices is a work unit, its writes in the order of
// the indices (kernels/cpu/scatter.cpp, index_put.cpp).
#include "forms/cpu/library.h"

namespace aotc::forms::cpu {

using loop::LibraryKernel;

namespace {

/// The first dim of x that is written through indices.
int64_t first_written(const LibraryKernel& k) {
  if (auto dim = k.attrs.find(Attr::dim); dim != k.attrs.end()) return std::get<int64_t>(dim->second);
  return std::get<Ints>(k.attrs.at(Attr::dims)).at(0);
}

class Scatter final : public LibraryForm {
 public:
  using LibraryForm::LibraryForm;

 protected:
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    StepSpec f = named_step(k);
    const int64_t rank = k.sizes.at(0).as_const().value(), first = first_written(k);
    Expr units = 1, block = 1;
    for (int64_t i = 0; i < rank; ++i) (i < first ? units : block) *= k.sizes.at(static_cast<size_t>(1 + i));
    f.work = units;
    f.grain = grain_of(cpu_costs(s.machine).grain_ops, block, s.syms);
    const bool counts = scatter_reduce(k) == AOTC_SCATTER_MEAN || !flag(k, Attr::include_self, true);
    if (counts && name() == "scatter") f.scratch_bytes = block * 8;
    return f;
  }
  std::string config(const loop::Kernel&, const LibraryKernel& k, const Choice&, Isa, const std::string& name) const override {
    auto dim = k.attrs.find(Attr::dim);
    ConfigText c("aotc_scatter_config", name);
    c.add("dim", dim == k.attrs.end() ? 0 : std::get<int64_t>(dim->second)).add("reduce", scatter_reduce(k));
    return c.add("include_self", flag(k, Attr::include_self, true)).add("accumulate", flag(k, Attr::accumulate, false)).str();
  }
};

}  // namespace

const Form& scatter() {
  static const Scatter form("scatter");
  return form;
}
const Form& index_put() {
  static const Scatter form("index_put");
  return form;
}

}  // namespace aotc::forms::cpu
