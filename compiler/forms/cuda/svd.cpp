// Singular values and vectors (kernels/cuda/svd.cuh).
#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/simt_tile.h"

namespace aotc::forms::cuda {

using emit::cuda::pointer;
using loop::LibraryKernel;

namespace {

constexpr int kBlockThreads = 256, kWarps = kBlockThreads / 32;

class SingularVectors final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_svd"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != "svd") return {false, ""};
    const DType t = k.params.begin()->dtype;
    return t == DType::f64 ? Fit::yes() : refuse("{}: singular values are of float64", dtype_name(t));
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    return library_step(k, kBlockThreads, min(ceildiv(k.sizes[0], kWarps / warps_of(k, s)), kMaxGrid));
  }
  std::string source(const LibraryKernel& k, const Site& s, const Choice&, const std::string& symbol) const override {
    return emit::cuda::kernel(
        "svd.cuh", symbol, 4, 3, 1, kBlockThreads,
        fmt::format("  svd<{}, {}>({}, {}, {}, {}, a.size[0], a.size[1], a.size[2]);\n", warps_of(k, s), kBlockThreads,
                    pointer(DType::f64, 0), pointer(DType::f64, 1, true), pointer(DType::f64, 2, true), pointer(DType::f64, 3, true)));
  }

 private:
  /// Of more columns all warps of a block have a matrix, each some of its pairs.
  static int warps_of(const LibraryKernel& k, const Site& s) {
    return at_least_one(k.sizes[2], s) <= gpu_costs(s.machine).svd_columns ? 1 : kWarps;
  }
};

}  // namespace

const Form& svd() { return instance<SingularVectors>(); }

}  // namespace aotc::forms::cuda
