// aotc_svd (kernels/cpu/svd.h): a matrix a work unit.
#include "aotc/detail/svd_abi.h"
#include "forms/cpu/library.h"

namespace aotc::forms::cpu {

using loop::LibraryKernel;

namespace {

class SingularVectors final : public LibraryForm {
 public:
  SingularVectors() : LibraryForm("svd") {}

 protected:
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    const Expr &m = k.sizes.at(1), &n = k.sizes.at(2);
    constexpr int64_t kKept = AOTC_SVD_SWEEPS_KEPT;
    // aotc_svd_scratch_bytes: where it is not known whether m is small, of both kinds
    const Expr large = (n + 2) * (m + 16) + n * (n + 16) + n * 6 + (n + 2 * kKept) * (4 * kKept), few = min(n, AOTC_SVD_SMALL);
    const Expr small = few * (min(m, AOTC_SVD_SMALL) + few) * AOTC_SVD_LANES;
    const Expr scratch = m.is_const() && n.is_const() ? Expr(aotc_svd_scratch_bytes(*m.as_const(), *n.as_const())) : max(large, small) * 8;
    return step_of_matrices(k, s, m * n * n * cpu_costs(s.machine).svd_row_macs, scratch, AOTC_SVD_LANES);
  }
  std::string config(const loop::Kernel&, const LibraryKernel& k, const Choice&, Isa, const std::string& name) const override {
    return ConfigText("aotc_svd_config", name).add("vectors", flag(k, Attr::vectors, true)).str();
  }
};

}  // namespace

const Form& svd() { return instance<SingularVectors>(); }

}  // namespace aotc::forms::cpu
