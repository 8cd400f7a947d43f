// aotc_fourier: Fourier transforms, some lines a work unit, one in each lane (kernels/cpu/fourier.h).
#include "aotc/detail/fourier_abi.h"
#include "forms/cpu/library.h"

namespace aotc::forms::cpu {

using loop::LibraryKernel;

namespace {

class Fourier final : public LibraryForm {
 public:
  Fourier() : LibraryForm("fourier") {}

 protected:
  Fit fits(const LibraryKernel& k, const Site& s) const override {
    const DType t = k.params.begin()->dtype;
    if (t != DType::f32 && t != DType::f64) return {false, ""};
    return LibraryForm::fits(k, s);
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    StepSpec f = named_step(k);
    AOTC_CHECK(k.sizes.size() == 4, "{} takes outer, inner, in, n", k.name);
    const Expr &outer = k.sizes[0], &inner = k.sizes[1];
    const int64_t n = k.sizes[3].as_const().value();
    // Lanes are neighbours where that fills at least half of them.
    const bool along = s.syms.hint(inner) >= AOTC_FOURIER_LINES / 2;
    f.sizes.push_back(int64_t{along});
    f.work = along ? outer * ceildiv(inner, AOTC_FOURIER_LINES) : ceildiv(outer * inner, AOTC_FOURIER_LINES);
    f.grain = grain_of(cpu_costs(s.machine).grain_macs, n * AOTC_FOURIER_LINES * cpu_costs(s.machine).fourier_point_macs, s.syms);
    f.scratch_bytes = aotc_fourier_scratch_bytes(n);
    return f;
  }
  std::string config(const loop::Kernel&, const LibraryKernel& k, const Choice&, Isa, const std::string& name) const override {
    const std::string& kind = std::get<std::string>(k.attrs.at(Attr::kind));
    const bool pairs = kind == "pairs", half = kind == "half";
    const size_t operands = k.params.size() - (pairs || half ? 2 : 1);
    ConfigText c("aotc_fourier_config", name);
    c.add("kind", pairs ? AOTC_FOURIER_PAIRS : half ? AOTC_FOURIER_HALF : AOTC_FOURIER_LINE).add("im", operands == 3);
    c.add("inverse", flag(k, Attr::reverse, false)).text("scale", fmt::format("{:a}", std::get<double>(k.attrs.at(Attr::scale))));
    return c.str();
  }
};

}  // namespace

const Form& fourier() { return instance<Fourier>(); }

}  // namespace aotc::forms::cpu
