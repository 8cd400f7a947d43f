// aotc_svd (kernels/cpu/svd.h): a matrix a work unit.
#include "aotc/detail/svd_abi.h"
#include "forms/cpu/library.h"

namespace aotc::forms::cpu {

using loop::LibraryKernel;

namespace {

class SingularVectors final : public LibraryForm {
 public:
  using LibraryForm::LibraryForm;

 protected:
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    constexpr int64_t kWorkOfARow = 16;  ///< reflections and rotations, a few multiplications and additions each
    StepSpec f = named_step(k);
    const Expr &m = k.sizes.at(1), &n = k.sizes.at(2);
    f.work = k.sizes[0];
    f.grain = max(grain_of(kGrainMacs / 4, m * n * n * kWorkOfARow, s.syms), AOTC_SVD_LANES);
    constexpr int64_t kKept = AOTC_SVD_SWEEPS_KEPT;
    f.scratch_bytes = ((n + 2) * (m + 16) + n * (n + 16) + n * 6 + (n + 2 * kKept) * (4 * kKept)) * 8;  // aotc_svd_scratch_bytes
    return f;
  }
  std::string config(const loop::Kernel&, const LibraryKernel& k, const Choice&, Isa, const std::string& name) const override {
    return ConfigText("aotc_svd_config", name).add("vectors", flag(k, Attr::vectors, true)).str();
  }
};

}  // namespace

const Form& svd() {
  static const SingularVectors form("svd");
  return form;
}

}  // namespace aotc::forms::cpu
