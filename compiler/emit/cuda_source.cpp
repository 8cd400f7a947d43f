#include "emit/cuda_source.h"

namespace aotc::emit {

std::string emit_cuda(const loop::Module& module, const plan::PlanSet& plans, const Machine& machine) {
  std::string source = "#include \"gemm.cuh\"\n";
  for (const plan::KernelConfig& c : plans.configs)
    source += c.choice.form->source({module.kernels[c.kernel], module.syms, machine}, c.choice, c.symbol);
  return source;
}

}  // namespace aotc::emit
