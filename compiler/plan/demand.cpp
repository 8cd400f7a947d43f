#include "plan/demand.h"

namespace aotc::plan {

loop::Demand demand_of(const loop::Module& module, const PlanSet& plans, const Plan& plan, const Step& step) {
  if (step.kind == StepKind::copy || step.kind == StepKind::zero) {  // of the buffer that is written
    loop::Demand d;
    d.written_bytes = plan.buffers[step.args.at(0)].bytes;
    if (step.kind == StepKind::copy) d.read_bytes = d.written_bytes;
    return d;
  }
  if (step.config >= 0) {
    const KernelConfig& own = plans.configs.at(static_cast<size_t>(step.config));
    if (own.joined) {
      loop::Demand d;
      for (const forms::JoinedCall& c : own.joined->calls)
        d = d + loop::demand_of(module.kernels[own.joined->parts.at(static_cast<size_t>(c.part)).kernel]);
      return d;
    }
    if (own.strips) {
      loop::Demand d;
      for (const forms::StripStage& s : own.strips->stages)
        d = d + loop::demand_of(module.kernels[plans.configs.at(static_cast<size_t>(s.config)).kernel]);
      return d;
    }
  }
  return loop::demand_of(module.kernels[step.kernel]);
}

}  // namespace aotc::plan
