// A condition of the program (kernels/cuda/check.cuh): one thread.
#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

constexpr int kBlockThreads = 32;

class Check final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_check"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    return {k.algorithm == "check" && k.params.begin()->dtype == DType::boolean, ""};
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice&) const override { return library_step(k, kBlockThreads, 1); }
  std::string source(const LibraryKernel& k, const Site&, const Choice&, const std::string& symbol) const override {
    using emit::cuda::pointer;
    const size_t n = k.params.size();
    return emit::cuda::kernel(
        "check.cuh", symbol, n, 1, 1, kBlockThreads,
        fmt::format("  check({}, {}, {}, a.fault);\n", pointer(DType::boolean, 0), n == 3 ? pointer(DType::i64, 1) : "nullptr",
                    pointer(DType::boolean, static_cast<int>(n) - 1, true)));
  }
};

}  // namespace

const Form& check() { return instance<Check>(); }

}  // namespace aotc::forms::cuda
