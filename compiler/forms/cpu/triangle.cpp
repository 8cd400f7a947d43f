// aotc_cholesky, aotc_lu, aotc_qr (kernels/cpu/cholesky.h, lu.h, qr.h): a matrix a work unit; aotc_solve_triangular: some columns of one
// (kernels/cpu/triangle.h).
#include "aotc/detail/lu_abi.h"
#include "aotc/detail/qr_abi.h"
#include "forms/cpu/library.h"

namespace aotc::forms::cpu {

using loop::LibraryKernel;

namespace {

class Cholesky final : public LibraryForm {
 public:
  Cholesky() : LibraryForm("cholesky") {}

 protected:
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    const Expr& n = k.sizes.at(1);
    return step_of_matrices(k, s, n * n * n, n * (AOTC_CHOLESKY_COLUMNS * 8));
  }
};

class LuFactors final : public LibraryForm {
 public:
  LuFactors() : LibraryForm("lu") {}

 protected:
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    const Expr &m = k.sizes.at(1), &n = k.sizes.at(2);
    return step_of_matrices(k, s, m * n * min(m, n), AOTC_LU_SCRATCH_BYTES, AOTC_LU_LANES);
  }
};

class QrFactors final : public LibraryForm {
 public:
  QrFactors() : LibraryForm("qr") {}

 protected:
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    const Expr &m = k.sizes.at(1), &n = k.sizes.at(2);
    return step_of_matrices(k, s, m * n * min(m, n) * 2, (m + 2 * AOTC_QR_PANEL) * (AOTC_QR_PANEL * 8));
  }
};

class SolveTriangular final : public LibraryForm {
 public:
  SolveTriangular() : LibraryForm("solve_triangular") {}

 protected:
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    StepSpec f = named_step(k);
    const Expr n = k.sizes.at(1), columns = min(k.sizes.at(2), AOTC_TRIANGLE_COLUMNS);
    f.work = k.sizes[0] * ceildiv(k.sizes[2], AOTC_TRIANGLE_COLUMNS);
    f.grain = grain_of(cpu_costs(s.machine).grain_macs / 4, n * n * columns, s.syms);
    f.scratch_bytes = n * columns * 8;
    return f;
  }
  std::string config(const loop::Kernel&, const LibraryKernel& k, const Choice&, Isa, const std::string& name) const override {
    ConfigText c("aotc_solve_triangular_config", name);
    return c.add("upper", flag(k, Attr::upper, false))
        .add("unit", flag(k, Attr::unit, false))
        .add("below", flag(k, Attr::below, false))
        .str();
  }
};

}  // namespace

const Form& cholesky() { return instance<Cholesky>(); }
const Form& lu() { return instance<LuFactors>(); }
const Form& qr() { return instance<QrFactors>(); }
const Form& solve_triangular() { return instance<SolveTriangular>(); }

}  // namespace aotc::forms::cpu
