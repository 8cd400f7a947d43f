// Which of a row stay (kernels/cuda/exclude.cuh).
#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

constexpr int kBlockThreads = 512;

class Exclude final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_exclude"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override { return {k.algorithm == "exclude", ""}; }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice&) const override {
    return library_step(k, kBlockThreads, min(k.sizes[0], kMaxGrid));
  }
  std::string source(const LibraryKernel&, const Site&, const Choice&, const std::string& symbol) const override {
    using emit::cuda::pointer;
    return emit::cuda::kernel("exclude.cuh", symbol, 2, 3, 1, kBlockThreads,
                              fmt::format("  exclude<{}>({}, {}, a.size[0], a.size[1]);\n", kBlockThreads, pointer(DType::boolean, 0),
                                          pointer(DType::boolean, 1, true)));
  }
};

}  // namespace

const Form& exclude() { return instance<Exclude>(); }

}  // namespace aotc::forms::cuda
